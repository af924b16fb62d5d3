//! The front, which carries out a plain `run` before the C library has begun: what it does is what the main program does, and what
//! it leaves is finished there.
//!
//! An option in front of the verb is not plain: with it the same command line goes the old way. Where the program is not linked
//! statically there is no front, and these tests see the main program twice.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Command, Stdio};
use std::thread::JoinHandle;

use ringback_host::wire::{
    Answer, ByteBuf, Call, Command as Asked, Fault, PROTOCOL, Reply, Request, Spoken, TaskObject, VERSION, decode,
    encode, refusal,
};
use serde_json::Value;

use crate::support::{Said, World, finish, id_of, machine, wire};

/// What a command sees of its surroundings, as text.
const SURROUNDINGS: &str =
    "env | grep -v ^RINGBACK_ID= | sort; pwd; umask; ulimit -S -a; nice; for w; do echo \"$w\" | od -c; done";

/// What is changed of a client before it starts.
type Change<'a> = &'a dyn Fn(&mut Command);

/// What the two ways have in common of a text with an id in it.
fn without(id: &str, text: &[u8]) -> String {
    String::from_utf8_lossy(text).replace(id, "ID")
}

/// Runs `run` with these words as it is, and with an option in front: `-q` and `--json` are its own, so those are given to both.
fn both_ways(world: &World, global: &str, words: &[&[u8]], change: impl Fn(&mut Command)) -> [Said; 2] {
    let said = |args: [&str; 2]| {
        let mut client = world.client(&args);
        client.args(words.iter().map(|word| OsStr::from_bytes(word)));
        change(&mut client);
        finish(client.spawn().unwrap())
    };
    [said(["run", global]), said([global, "run"])]
}

/// What was said, and what the task of it saw.
fn told(world: &World, said: &Said) -> (Option<i32>, String, String, String) {
    let id = id_of(said);
    let output = if world.end(&id)["state"] == "exited" { world.output(&id) } else { Vec::new() };
    (
        said.code,
        without(&id, &said.out),
        without(&id, said.err.as_bytes()),
        String::from_utf8_lossy(&output).into_owned(),
    )
}

#[test]
fn the_front_and_the_main_program_start_the_same_and_say_the_same() {
    let world = World::new();
    let script = SURROUNDINGS.as_bytes();
    let words: [&[u8]; 9] = [b"--", b"sh", b"-c", script, b"sh", b"\xff\xfe", b"", b"two\nlines", b"--json"];
    let long = "x".repeat(100 << 10);
    let changes: [(&str, Change<'_>); 8] = [
        ("as it is", &|_| {}),
        ("an empty environment but for the home", &|client| {
            client.env_clear().env("RINGBACK_HOME", world.home());
        }),
        ("a session of an agent", &|client| {
            client.env_remove("RINGBACK_SESSION").env("CODEX_THREAD_ID", "thread").env("GEMINI_CLI", "1");
        }),
        ("odd variables", &|client| {
            client.env("ODD", OsStr::from_bytes(b"\xff=\n")).env("CLAUDE_CODE_MESSAGING_TOKEN", "secret");
        }),
        ("more than goes into one read of the daemon", &|client| {
            client.env("LONG", &long[..40 << 10]);
        }),
        ("more than goes into one request of the front", &|client| {
            client.env("LONG", &long);
        }),
        ("the home by another variable", &|client| {
            std::fs::create_dir_all(world.work("state")).unwrap();
            let link = world.work("state/ringback");
            let _there = std::os::unix::fs::symlink(world.home(), link);
            client.env_remove("RINGBACK_HOME").env("XDG_STATE_HOME", world.work("state"));
        }),
        ("a relative one that is ignored", &|client| {
            client.env("XDG_STATE_HOME", "state");
        }),
    ];
    for (name, change) in changes {
        let [front, main] = both_ways(&world, "-q", &words, change);
        let (front, main) = (told(&world, &front), told(&world, &main));
        assert!(front.3.contains("377 376"), "{name}: {front:?}");
        assert_eq!(front, main, "{name}");
    }
    let limited = |client: &mut Command| {
        let program = client.get_program().to_owned();
        let args: Vec<_> = client.get_args().map(ToOwned::to_owned).collect();
        *client = world.command(&["sh", "-c", "umask 027; ulimit -S -n 77; exec nice -n 5 \"$0\" \"$@\""]);
        client.arg(program).args(args);
    };
    let [front, main] = both_ways(&world, "-q", &words, limited);
    let (front, main) = (told(&world, &front), told(&world, &main));
    assert!(front.3.contains("\n0027\n") && front.3.contains("\n5\n"), "{front:?}");
    assert_eq!(front, main);
}

#[test]
fn the_front_and_the_main_program_say_the_same_in_every_form() {
    let world = World::new();
    world.run(&["-n", "one\u{e9}", "sleep", "9601"]);
    for words in [
        &[&b"true"[..]][..],
        &[b"-c", b"exit 3"],
        &[b"--session", b"it's mine", b"--timeout", b"1h", b"true"],
        // There is another of this name, of which is warned.
        &[b"-n", b"one\xc3\xa9", b"true"],
        &[b"surely-not-a-program"],
        &[b"./surely-not-a-program"],
        &[b"/"],
        &[b"--timeout", b"never", b"true"],
        &[b"-s", b"two\nlines", b"true"],
        &[b"-n", b"two\nlines", b"true"],
        &[b"-n", b"-s", b"true"],
        &[b"--"],
        &[b""],
    ] {
        let form = |said: &Said| {
            let id = said.text().trim_end().to_owned();
            let id = if id.len() == 12 { id } else { "no id".to_owned() };
            // The first may still be live, and newer than the other of its name.
            let text = without(&id, said.err.as_bytes());
            let text = text.split(" is live: ").next().unwrap().to_owned();
            (said.code, without(&id, &said.out), text)
        };
        let said = |args: &[&str]| {
            let mut client = world.client(args);
            client.args(words.iter().map(|word| OsStr::from_bytes(word)));
            finish(client.spawn().unwrap())
        };
        // `--lease awaited` is what holds anyway, and not plain.
        assert_eq!(form(&said(&["run"])), form(&said(&["run", "--lease", "awaited"])), "{words:?}");
        let [front, main] = both_ways(&world, "--json", words, |_| {});
        assert_eq!((front.code, shape(&front)), (main.code, shape(&main)), "{words:?}");
    }
}

/// A document without what differs from task to task.
fn shape(said: &Said) -> Value {
    const OWN: [&str; 8] =
        ["id", "created_at", "started_at", "duration_ms", "silence_ms", "pid", "process_group_id", "message"];
    fn strip(value: &mut Value) {
        let Value::Object(fields) = value else { return };
        for (name, value) in fields {
            if OWN.contains(&name.as_str()) || value.as_str().is_some_and(|text| text.contains("/t/")) {
                *value = Value::Null;
            }
            strip(value);
        }
    }
    let mut value = said.json();
    strip(&mut value);
    value
}

#[test]
fn what_is_closed_or_full_is_told_as_the_main_program_tells_it() {
    let world = World::new();
    world.run(&["true"]);
    let in_shell = |redirection: &str, words: &str| {
        let line = format!("\"$0\" {words} {redirection}");
        let said = finish(world.command(&["sh", "-c", &line, env!("CARGO_BIN_EXE_ringback")]).spawn().unwrap());
        let id = said.err.split("ringback kill ").nth(1).map_or("none", |rest| &rest[..12]).to_owned();
        (said.code, without(&id, said.err.as_bytes()), without(said.text().trim_end(), &said.out).len())
    };
    for redirection in ["<&-", ">&-", "2>&-", "> /dev/full", "2> /dev/full", "<&- >&- 2>&-"] {
        let [front, main] = ["run -q true", "-q run true"].map(|words| in_shell(redirection, words));
        assert_eq!(front, main, "{redirection}");
        let [front, main] = ["--version", "--version --quiet"].map(|words| in_shell(redirection, words));
        assert_eq!(front, main, "{redirection}");
    }
}

/// What a stand-in for a daemon was asked on one connection, and what it answered.
fn listen(world: &World, answers: Vec<Option<Answer>>) -> JoinHandle<Vec<Call>> {
    std::fs::create_dir_all(world.home()).unwrap();
    let listener = UnixListener::bind(world.home().join("daemon.sock")).unwrap();
    std::thread::spawn(move || {
        let one = |answer: Option<Answer>| {
            let (mut stream, _) = listener.accept().unwrap();
            let call = hear_call(&mut stream);
            if let Some(answer) = answer {
                wire::say(&mut stream, &answer);
            }
            call
        };
        answers.into_iter().map(one).collect()
    })
}

fn hear_call(stream: &mut UnixStream) -> Call {
    let mut prefix = [0; 4];
    stream.read_exact(&mut prefix).unwrap();
    let mut body = vec![0; u32::from_le_bytes(prefix) as usize];
    stream.read_exact(&mut body).unwrap();
    decode(&body).unwrap()
}

fn answer(version: &str, reply: Reply) -> Answer {
    Answer { proto: PROTOCOL, version: version.to_owned(), reply }
}

fn said(id: &str) -> Reply {
    Reply::Said { id: id.to_owned(), stdout: ByteBuf::from(format!("{id}\n")), stderr: ByteBuf::from("a note\n") }
}

/// Whether the program under test has a front.
fn has_front() -> bool {
    let world = World::new();
    let served = listen(&world, vec![Some(answer(VERSION, said("k3")))]);
    let said = world.rb(&["run", "true"]);
    let calls = served.join().unwrap();
    let has = matches!(calls[0].request, Request::Spoken(_));
    assert!(!has || (said.code == Some(0) && said.out == b"k3\n" && said.err == "a note\n"), "{said:?}");
    if !has {
        eprintln!("not tried: this program is not linked statically");
    }
    has
}

#[test]
fn the_front_hands_over_a_command_line_as_it_is() {
    if !has_front() {
        return;
    }
    let world = World::new();
    let served = listen(&world, vec![Some(answer(VERSION, said("k3")))]);
    let mut client = world.client(&["run", "--", "sh", "two words"]);
    client.env_clear().env("RINGBACK_HOME", world.home()).env("PATH", "/usr/bin:/bin");
    finish(client.spawn().unwrap()).ok();
    let call = served.join().unwrap().remove(0);
    assert_eq!((call.proto, call.version.as_str()), (PROTOCOL, VERSION));
    let Request::Spoken(spoken) = call.request else { panic!("{call:?}") };
    let Spoken { words, env, cwd, umask, nice, limits } = *spoken;
    let words = words.iter().map(|byte| if *byte == 0 { b'|' } else { *byte }).collect::<Vec<_>>();
    assert!(words.ends_with(b"ringback|run|--|sh|two words"), "{words:?}");
    let home = world.home().as_os_str().as_bytes();
    assert!(env.split(|byte| *byte == 0).any(|entry| entry.strip_prefix(b"RINGBACK_HOME=") == Some(home)));
    assert_eq!(cwd.to_vec(), world.work("").canonicalize().unwrap().as_os_str().as_bytes());
    assert_eq!(nice, ringback_sys::process::nice());
    assert_eq!(limits, ringback_sys::process::soft_limits());
    assert!(umask <= 0o777);
}

#[test]
fn what_was_not_done_is_asked_for_the_old_way() {
    if !has_front() {
        return;
    }
    let task = || Reply::Task {
        task: Box::new(TaskObject { id: "k4".to_owned(), ..TaskObject::default() }),
        existing: false,
        inbox_empty: false,
        unheard: None,
    };
    let fault = |code: &str| Reply::Fault(Fault { code: code.to_owned(), ..Fault::default() });
    for first in [
        answer(VERSION, Reply::OldWay),
        answer("0.0.1", Reply::OldWay),
        answer("0.0.1", fault(refusal::BAD_FRAME)),
        answer(VERSION, fault(refusal::DAEMON_OLDER)),
        answer(VERSION, fault(refusal::TOO_MANY_CLIENTS)),
    ] {
        let world = World::new();
        let name = format!("{first:?}");
        let served = listen(&world, vec![Some(first), Some(answer(VERSION, task()))]);
        let said = world.rb(&["run", "-q", "--", "sh", "-c", "exit 7"]);
        assert_eq!((said.code, said.text().as_str()), (Some(0), "k4\n"), "{name}: {said:?}");
        let calls = served.join().unwrap();
        let Request::Run(run) = &calls[1].request else { panic!("{name}: {calls:?}") };
        // The words were taken out of sight, and put back.
        assert_eq!(run.command, Asked::Argv(["sh", "-c", "exit 7"].map(ByteBuf::from).into()), "{name}");
    }
}

#[test]
fn what_may_have_been_done_is_never_asked_for_again() {
    if !has_front() {
        return;
    }
    let world = World::new();
    let served = listen(&world, vec![None]);
    let said = world.rb(&["run", "-q", "true"]);
    assert_eq!((said.code, said.out.len()), (Some(125), 0), "{said:?}");
    assert!(said.err.contains("run") && said.err.contains("ringback ps"), "{said:?}");
    assert_eq!(served.join().unwrap().len(), 1);

    let world = World::new();
    let other = Reply::Fault(Fault { code: "store_full".into(), message: "the disk is full".into(), hint: None });
    let served = listen(&world, vec![Some(answer(VERSION, other))]);
    let said = world.rb(&["run", "-q", "true"]);
    assert!(said.code == Some(125) && said.err.contains("the disk is full"), "{said:?}");
    served.join().unwrap();

    // What could not be written is told with the id.
    let world = World::new();
    let served = listen(&world, vec![Some(answer(VERSION, self::said("k3")))]);
    let mut client = world.client(&["run", "-q", "true"]);
    let full = File::options().write(true).open("/dev/full").unwrap();
    let said = finish(client.stdout(Stdio::from(full)).spawn().unwrap());
    assert!(said.code != Some(0) && said.err.contains("ringback kill k3"), "{said:?}");
    served.join().unwrap();
}

#[test]
fn an_answer_that_comes_late_or_in_pieces_is_heard_by_the_main_program() {
    if !has_front() {
        return;
    }
    let mut bytes = Vec::new();
    encode(&answer(VERSION, said("k3")), &mut bytes).unwrap();
    for first in [0, 9] {
        let world = World::new();
        std::fs::create_dir_all(world.home()).unwrap();
        let listener = UnixListener::bind(world.home().join("daemon.sock")).unwrap();
        let client = world.client(&["run", "sh", "secret"]).spawn().unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        let call = hear_call(&mut stream);
        assert!(matches!(call.request, Request::Spoken(_)), "{call:?}");
        let of_client = |name: &str| machine::proc_file_text(machine::pid_of(&client).as_raw_nonzero().get(), name);
        assert!(of_client("cmdline").contains("run"), "it can be looked at");
        assert!(!of_client("cmdline").contains("secret"), "it is in nobody's command line from the moment it may run");
        let (one, other) = bytes.split_at(first);
        stream.write_all(one).unwrap();
        // The front has none, the C library has.
        machine::until("the main program", || of_client("maps").contains("[heap]"));
        stream.write_all(other).unwrap();
        let said = finish(client).ok();
        assert_eq!((said.text().as_str(), said.err.as_str()), ("k3\n", "a note\n"));
    }
}

#[test]
fn the_daemon_carries_out_only_what_is_plain_and_right_and_of_its_version() {
    let spoken = |words: &str| {
        let (words, env) = (words.replace(' ', "\0"), "PATH=/usr/bin:/bin\0NONSENSE\0");
        let (words, env, cwd) = (ByteBuf::from(words), ByteBuf::from(env), ByteBuf::from("/"));
        Request::Spoken(Box::new(Spoken { words, env, cwd, umask: 0o22, ..Spoken::default() }))
    };
    let world = World::new();
    world.run(&["true"]);
    let Reply::Said { id, stdout, stderr } = wire::ask(&world, spoken("ringback run -s other true")) else {
        panic!("nothing was said")
    };
    assert_eq!((stdout.to_vec(), world.end(&id)["session"].clone()), (format!("{id}\n").into_bytes(), "other".into()));
    assert!(stderr.ends_with(format!("ringback wait -s other {id}\n").as_bytes()), "{stderr:?}");
    // One name is enough for one session.
    assert!(matches!(wire::ask(&world, spoken("ringback run -n one sleep 9602")), Reply::Said { .. }));
    for other in [
        "ringback run -n one true",
        "ringback ps",
        "ringback",
        "",
        "ringback run",
        "ringback run -f true",
        "ringback run -C / true",
        "ringback run -c -",
        "ringback run -s a\nb true",
        "ringback run --timeout never true",
        "ringback run --sandbox ro true",
    ] {
        let reply = wire::ask(&world, spoken(other));
        assert!(matches!(reply, Reply::OldWay), "{other}: {reply:?}");
    }
    for version in ["0.0.1", "99.0.0"] {
        let call = Call { version: version.to_owned(), ..wire::call(spoken("ringback run true")) };
        assert!(matches!(wire::try_ask(&world, &call), Some(Reply::OldWay)), "{version}");
    }
    assert_eq!(
        // That of the next task is made ahead, and empty.
        world.folders().iter().filter(|folder| folder.join("spec").metadata().is_ok_and(|spec| spec.len() > 0)).count(),
        3,
        "nothing else was begun"
    );

    // It may not look at its callers here, so it does not know where they are.
    let world = World::new();
    world.configure("confined = \"allow\"\n");
    world.run(&["true"]);
    assert!(matches!(wire::ask(&world, spoken("ringback run true")), Reply::OldWay));
    // There may be something to warn of.
    let world = World::new();
    world.configure("limit = \"pids=1000\"\n");
    world.run(&["true"]);
    assert!(matches!(wire::ask(&world, spoken("ringback run true")), Reply::OldWay));
    assert!(matches!(wire::ask(&world, spoken("ringback run -q true")), Reply::Said { .. }));
}
