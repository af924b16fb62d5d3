//! Another user of the machine: on the socket, in the files, as the owner of the home, and with links that he planted.
//!
//! A second user is real here: what needs one is tried as root alone, and says so elsewhere.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, chown, lchown, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use ringback_host::wire::{Answer, Reply, Request, decode, encode, frame::PREFIX_BYTES};

use crate::support::stranger::{STRANGER, become_user, has_stranger, let_in, mode};
use crate::support::{MINE, Said, World, finish, wire};

/// A script that gives up every right before it does anything.
fn python(script: &str, args: &[&str]) -> Command {
    let give_up = format!("import os, socket, sys; os.setgroups([]); os.setresgid({STRANGER}, {STRANGER}, {STRANGER})");
    let script = format!("{give_up}; os.setresuid({STRANGER}, {STRANGER}, {STRANGER}){script}");
    let mut command = Command::new("python3");
    command.args(["-c", &script]).args(args);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// ringback itself as the stranger, from a copy that he may execute.
fn ringback_of_stranger(world: &World, program: &Path, args: &[&str]) -> Said {
    let mut command = world.command(&become_user(STRANGER));
    finish(command.arg(program).args(args).current_dir("/").spawn().unwrap())
}

#[test]
fn another_user_can_neither_reach_the_socket_nor_read_a_file() {
    if !has_stranger() {
        return;
    }
    let world = World::new();
    let id = world.sh("echo secret");
    world.end(&id);
    let_in(&world);
    let script = "
import os, socket, sys
def denied(act, *args):
    try:
        act(*args)
    except PermissionError:
        return
    sys.exit(f'{act} {args} was allowed')
denied(os.listdir, sys.argv[1])
denied(socket.socket(socket.AF_UNIX).connect, sys.argv[1] + '/daemon.sock')
for path in sys.argv[2:]:
    denied(open, path)
";
    let output = world.show(&id)["output"]["path"].as_str().unwrap().to_owned();
    let home = world.home().display().to_string();
    let (db, spec) = (format!("{home}/db.sqlite"), world.folder(&id).join("spec").display().to_string());
    let said = finish(python(script, &[&home, &output, &db, &spec]).spawn().unwrap());
    assert_eq!(said.code, Some(0), "{said:?}");
}

#[test]
fn another_user_who_gets_as_far_as_the_socket_is_refused_by_the_daemon() {
    if !has_stranger() {
        return;
    }
    let world = World::new();
    let id = world.sh("echo secret; sleep 8701");
    let program = let_in(&world);
    // As if somebody had opened them by mistake.
    mode(world.home(), 0o755);
    mode(&world.home().join("daemon.sock"), 0o666);
    let script = "
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.settimeout(30)
s.connect(sys.argv[1])
try:
    s.sendall(bytes.fromhex(sys.argv[2]))
except ConnectionError:
    pass  # The answer may be there before the question.
print(s.recv(1 << 20).hex())
";
    let socket = world.home().join("daemon.sock").display().to_string();
    for request in [
        Request::Run(Box::new(wire::run(&[b"touch", world.work("out").to_str().unwrap().as_bytes()]))),
        Request::Show { id: id.clone() },
        Request::Kill { ids: vec![id.clone()], session: None, grace_ms: None },
        Request::Inbox { after: Some(99), wait_ms: None, limit: 9 },
        Request::Stop,
    ] {
        let asked = format!("{request:?}");
        let mut bytes = Vec::new();
        encode(&wire::call(request), &mut bytes).unwrap();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let said = finish(python(script, &[&socket, &hex]).spawn().unwrap()).ok();
        let text = said.text();
        let answer: Vec<u8> =
            (0..text.trim().len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect();
        let answer: Answer = decode(&answer[PREFIX_BYTES..]).unwrap();
        match answer.reply {
            Reply::Fault(fault) => assert!(fault.code == "other_user" && fault.hint.is_some(), "{asked}: {fault:?}"),
            other => panic!("{asked}: {other:?}"),
        }
    }
    // The program itself does not even ask.
    let said = ringback_of_stranger(&world, &program, &["run", "--", "true"]);
    assert_eq!(said.code, Some(125), "{said:?}");
    assert!(!world.work("out").exists());
    assert_eq!(world.show(&id)["state"], "running");
    let list = world.look(&["ps", "-a", "--all-sessions", "--json"]).ok().json();
    assert_eq!(list["tasks"].as_array().unwrap().len(), 1, "{list:#}");
    world.kill(&id);
}

#[test]
fn a_home_that_belongs_to_another_user_is_refused_and_left_alone() {
    if !has_stranger() {
        return;
    }
    let world = World::new();
    let folder = world.home().parent().unwrap().to_owned();
    fs::create_dir(world.home()).unwrap();
    mode(world.home(), 0o700);
    chown(world.home(), Some(STRANGER), Some(STRANGER)).unwrap();
    let said = world.rb(&["run", "--", "true"]);
    assert!(said.code == Some(125) && said.err.contains("belongs to user 65534"), "{said:?}");
    assert_eq!(fs::read_dir(world.home()).unwrap().count(), 0);
    // A link of his to a folder of ours: what is there is not his to choose.
    fs::remove_dir(world.home()).unwrap();
    let ours = folder.join("ours");
    fs::create_dir(&ours).unwrap();
    mode(&ours, 0o700);
    symlink(&ours, world.home()).unwrap();
    lchown(world.home(), Some(STRANGER), Some(STRANGER)).unwrap();
    let said = world.rb(&["run", "--", "true"]);
    assert!(said.code == Some(125) && said.err.contains("belongs to user 65534"), "{said:?}");
    assert_eq!(fs::read_dir(&ours).unwrap().count(), 0);
    // Ours is one.
    lchown(world.home(), Some(0), Some(0)).unwrap();
    assert_eq!(world.end(&world.sh("exit 3"))["exit_code"], 3);
}

#[test]
fn links_that_were_planted_in_a_home_lead_nowhere() {
    let names = [
        "daemon.lock",
        "start.lock",
        "daemon.log",
        "daemon.sock",
        "news",
        "boot",
        "reserve",
        "db.sqlite",
        "db.sqlite-wal",
        "db.sqlite-journal",
        "t",
        "bin",
    ];
    for name in names {
        for is_folder in [false, true] {
            let world = World::new();
            let victim = world.work("victim");
            if is_folder {
                fs::create_dir(&victim).unwrap();
            } else {
                fs::write(&victim, "").unwrap();
            }
            mode(&victim, 0o750);
            fs::create_dir(world.home()).unwrap();
            mode(world.home(), 0o700);
            symlink(&victim, world.home().join(name)).unwrap();
            let said = world.rb(&["run", "-f", "-c", "exit 7"]);
            // It works all the same, or says what is in its way.
            let told = said.code == Some(125) && said.err.starts_with("error: ") && said.err.contains("\nhint: ");
            assert!(told || said.code == Some(7), "{name}: {said:?}");
            let meta = fs::metadata(&victim).unwrap();
            assert_eq!(meta.mode() & 0o7777, 0o750, "{name}");
            let untouched = if is_folder { fs::read_dir(&victim).unwrap().count() == 0 } else { meta.len() == 0 };
            assert!(untouched, "{name}: it was written through the link; {said:?}");
        }
    }
}

#[test]
fn a_database_with_another_name_elsewhere_is_not_written_to() {
    let world = World::new();
    world.end(&world.sh("exit 3"));
    world.rb(&["daemon", "stop"]).ok();
    let (db, other) = (world.home().join("db.sqlite"), world.work("other"));
    fs::hard_link(&db, &other).unwrap();
    let before = fs::read(&other).unwrap();
    let said = world.rb(&["run", "--", "true"]);
    assert!(said.code == Some(125) && said.err.contains("hard link"), "{said:?}");
    assert!(fs::read(&other).unwrap() == before);
    fs::remove_file(&other).unwrap();
    assert_eq!(world.inbox(MINE).len(), 1, "nothing was lost meanwhile");
}

/// What is below a folder and has other bits than its owner's.
fn check_modes(folder: &Path, what: &str) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let meta = entry.path().symlink_metadata().unwrap();
        let wanted: &[u32] = if meta.is_dir() { &[0o700] } else { &[0o600, 0o700] };
        if !meta.is_symlink() {
            assert!(wanted.contains(&(meta.mode() & 0o7777)), "{what}: {:o} {}", meta.mode(), entry.path().display());
        }
        if meta.is_dir() {
            check_modes(&entry.path(), what);
        }
    }
}

#[test]
fn under_any_umask_everything_in_a_home_is_its_owners_alone() {
    for umask in ["000", "022", "077", "177", "777"] {
        let world = World::new();
        let folder = world.home().parent().unwrap().to_owned();
        let program = let_in(&world);
        // As somebody who depends on the bits, where there is one: root may enter any folder.
        let is_there = has_stranger();
        let who = if is_there { become_user(STRANGER) } else { vec!["env".to_owned()] };
        let place = folder.join("place");
        fs::create_dir(&place).unwrap();
        if is_there {
            chown(&place, Some(STRANGER), Some(STRANGER)).unwrap();
        }
        let home = place.join("made/on/the/way");
        let run = |args: &[&str]| {
            let mut command = world.command(&who);
            command.args(["sh", "-c", &format!("umask {umask}; exec \"$@\""), "sh"]).arg(&program).args(args);
            command.env("HOME", &place).env("RINGBACK_HOME", &home).current_dir("/");
            finish(command.spawn().unwrap())
        };
        let said = run(&["run", "-f", "--split", "--progress", "1s", "-c", "umask; echo x >&2; exit 7"]);
        assert!(said.code == Some(7) && said.text().contains(umask), "umask {umask}: {said:?}");
        assert_eq!(run(&["run", "-q", "--pty", "-c", "sleep 8702"]).code, Some(0), "umask {umask}");
        check_modes(&place, &format!("umask {umask}"));
        assert_eq!(run(&["kill", "-s", MINE]).code, Some(0), "umask {umask}");
        assert_eq!(run(&["daemon", "stop"]).code, Some(0), "umask {umask}");
    }
}
