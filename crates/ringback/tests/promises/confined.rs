//! Callers in real sandboxes: none of them has a command run outside of its sandbox by asking us, whichever door it takes.

use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use ringback_sys::watch::{FolderWatch, For, poll};

use crate::support::{HANG, MINE, Said, World, finish};

/// Puts a seccomp filter on itself that allows everything, then becomes its arguments. 22 is `PR_SET_SECCOMP` and 38
/// `PR_SET_NO_NEW_PRIVS`, which only root can do without (prctl(2)).
const SECCOMP: &str = "
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
allow = ctypes.create_string_buffer(struct.pack('HBBI', 6, 0, 0, 0x7fff0000))
program = ctypes.create_string_buffer(struct.pack('HxxxxxxQ', 1, ctypes.addressof(allow)))
if libc.prctl(22, 2, program, 0, 0) != 0:
    assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0
os.execvp(sys.argv[1], sys.argv[1:])
";

/// Takes away every right to change a file (landlock(7)), sees that it is gone, then becomes its arguments.
const LANDLOCK: &str = "
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
rules = libc.syscall(444, struct.pack('Q', 0x1ff2), 8, 0)
assert rules >= 0, 'no Landlock: ' + os.strerror(ctypes.get_errno())
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.syscall(446, rules, 0) == 0
try:
    open('forbidden', 'w')
    sys.exit('Landlock forbids nothing')
except PermissionError:
    os.execvp(sys.argv[1], sys.argv[1:])
";

/// Forbids itself `connect(2)`, as the sandbox of an agent does, then becomes its arguments: a filter of four instructions
/// (seccomp(2)) that answers EPERM.
const NO_CONNECT: &str = "
import ctypes, os, platform, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
connect = {'x86_64': 42, 'aarch64': 203}[platform.machine()]
steps = [(0x20, 0, 0, 0), (0x15, 0, 1, connect), (6, 0, 0, 0x50001), (6, 0, 0, 0x7fff0000)]
code = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *step) for step in steps))
program = ctypes.create_string_buffer(struct.pack('HxxxxxxQ', len(steps), ctypes.addressof(code)))
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0
os.execvp(sys.argv[1], sys.argv[1:])
";

/// Every sandbox that is tried: its name and the words before a command.
const SANDBOXES: [(&str, &[&str]); 11] = [
    ("no_new_privs", &["setpriv", "--no-new-privs"]),
    ("a smaller bounding set", &["setpriv", "--bounding-set", "-sys_boot"]),
    ("seccomp", &["python3", "-c", SECCOMP]),
    ("Landlock", &["python3", "-c", LANDLOCK]),
    ("bubblewrap", &["bwrap", "--bind", "/", "/"]),
    ("bubblewrap, read-only", &["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]),
    ("bubblewrap, all namespaces", &["bwrap", "--ro-bind", "/", "/", "--proc", "/proc", "--unshare-all"]),
    ("user namespace", &["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]),
    ("pid namespace", &["unshare", "--pid", "--fork"]),
    ("mount namespace", &["unshare", "--mount"]),
    ("network namespace", &["unshare", "--net"]),
];

/// The sandboxes that can be made here; the others are named.
fn sandboxes() -> Vec<(&'static str, &'static [&'static str])> {
    let works = |(name, words): &(&'static str, &'static [&'static str])| {
        let tried = Command::new(words[0]).args(&words[1..]).arg("true").output();
        let why = match tried {
            Ok(output) if output.status.success() => return true,
            Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
            Err(error) => error.to_string(),
        };
        eprintln!("not tried, since this machine has none: {name}: {}", why.trim());
        false
    };
    let found: Vec<_> = SANDBOXES.into_iter().filter(works).collect();
    assert!(found.len() >= 2, "setpriv(1) and python3 are needed at least");
    found
}

#[track_caller]
fn check_refused(said: &Said, name: &str) {
    assert_eq!(said.code, Some(125), "{name}: {said:?}");
    assert!(said.out.is_empty() && said.err.contains("confined") && said.err.contains("\nhint: "), "{name}: {said:?}");
}

/// No task but this one was ever there, and nothing was written where a command would have.
#[track_caller]
fn check_nothing_ran(world: &World, known: &str, name: &str) {
    let list = world.look(&["ps", "-a", "--all-sessions", "--json"]).ok().json();
    let ids: Vec<&str> = list["tasks"].as_array().unwrap().iter().map(|task| task["id"].as_str().unwrap()).collect();
    assert_eq!(ids, [known], "{name}");
    assert!(!world.work("out").exists(), "{name}: a command ran outside");
}

#[test]
fn no_sandboxed_caller_starts_a_command_through_a_free_daemon() {
    let world = World::new();
    let secret = world.sh("echo secret; sleep 8601");
    let out = world.work("out").display().to_string();
    for (name, words) in sandboxes() {
        for args in [
            &["run", "--", "touch", &out][..],
            &["run", "-f", "--", "touch", &out],
            &["retry", &secret],
            &["send", &secret, "touch out"],
            &["kill", &secret],
            &["session", "end", MINE],
            &["daemon", "stop"],
        ] {
            check_refused(&finish(world.client_below(words, args).spawn().unwrap()), &format!("{name}: {args:?}"));
        }
        check_nothing_ran(&world, &secret, name);
        assert_eq!(world.show(&secret)["state"], "running", "{name}");
    }
    world.kill(&secret);
}

#[test]
fn no_sandboxed_caller_starts_a_command_through_mcp_or_a_spool() {
    let world = World::new();
    let known = world.sh("exit 3");
    world.end(&known);
    let out = world.work("out").display().to_string();
    let spool = world.work("spool");
    for (name, words) in sandboxes() {
        let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
        let call = serde_json::json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call",
            "params": {"name": "run", "arguments": {"argv": ["touch", out]}}});
        let mut server = world.client_below(words, &["mcp"]).stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = server.stdin.take().unwrap();
        let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        write!(stdin, "{hello}\n{ready}\n{call}\n").unwrap();
        // The end of its stdin ends the server once all is answered.
        drop(stdin);
        let said = finish(server);
        assert!(said.text().contains("confined"), "{name}: {said:?}");
        check_nothing_ran(&world, &known, name);

        // The server is in the sandbox, and so is whoever wrote the request.
        let _ = std::fs::remove_dir_all(&spool);
        std::fs::create_dir(&spool).unwrap();
        let request = serde_json::json!({"id": "a", "cmd": format!("touch {out}"), "status": "pending"});
        std::fs::write(spool.join("a.json"), request.to_string()).unwrap();
        let args = ["spool", spool.to_str().unwrap()];
        let said = finish(world.client_below(words, &args).spawn().unwrap());
        assert_eq!(said.code, Some(125), "{name}: {said:?}");
        check_nothing_ran(&world, &known, name);
    }
}

#[test]
fn no_sandboxed_first_caller_becomes_the_one_whose_daemon_serves_all() {
    let world = World::new();
    for (name, words) in sandboxes() {
        let said = finish(world.client_below(words, &["run", "--", "true"]).spawn().unwrap());
        check_refused(&said, name);
        assert_eq!(world.daemon(), None, "{name}");
        // A daemon that is started by hand knows it as well.
        let said = finish(world.client_below(words, &["daemon", "run"]).spawn().unwrap());
        assert!(said.code == Some(125) && said.err.contains("confined"), "{name}: {said:?}");
        assert_eq!(world.daemon(), None, "{name}");
    }
    // Whoever is free starts one all the same.
    assert_eq!(world.end(&world.sh("exit 3"))["exit_code"], 3);
}

#[test]
fn who_allows_confined_callers_in_the_config_has_them_served() {
    let world = World::new();
    world.configure("confined = \"allow\"\n");
    world.end(&world.sh("true"));
    let (name, words) = SANDBOXES[0];
    let said = finish(world.client_below(words, &["run", "-f", "-c", "exit 7"]).spawn().unwrap());
    assert_eq!(said.code, Some(7), "{name}: {said:?}");
}

#[test]
fn a_shell_that_may_not_connect_is_told_what_to_use_instead() {
    let world = World::new();
    let known = world.sh("exit 3");
    world.end(&known);
    let words = ["python3", "-c", NO_CONNECT];
    for args in [&["run", "--", "true"][..], &["ps"], &["wait", &known]] {
        let said = finish(world.client_below(&words, args).spawn().unwrap());
        assert!(said.code == Some(125) && said.err.starts_with("error: cannot reach the daemon at "), "{said:?}");
        let hint = said.err.split_once("\nhint: ").unwrap_or_else(|| panic!("{said:?}")).1;
        assert!(hint.contains("in a sandbox (") && hint.contains("MCP") && hint.contains("`ringback spool`"), "{hint}");
    }
    check_nothing_ran(&world, &known, "no connect(2)");
    // What the hint names does serve it: the server of the folder is outside.
    let folder = world.work("spool");
    std::fs::create_dir(&folder).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).unwrap();
    let write = "echo '{\"cmd\":\"echo served\"}' > .new && mv .new a.json";
    let mut shell = Command::new(words[0]);
    shell.args(&words[1..]).args(["sh", "-c", write]).current_dir(&folder);
    assert!(shell.status().unwrap().success());
    let mut server = world.client(&["spool", folder.to_str().unwrap()]).spawn().unwrap();
    let folder_news = FolderWatch::new().unwrap();
    folder_news.arrivals(&folder).unwrap();
    let record = || std::fs::read_to_string(folder.join("a.json")).unwrap_or_default();
    while !record().contains("\"done\"") {
        assert_eq!(poll(&[(folder_news.as_fd(), For::Read)], Some(HANG)).unwrap(), [true], "{}", record());
        folder_news.read().unwrap();
    }
    assert!(record().contains("served\\n"), "{}", record());
    server.kill().unwrap();
    finish(server);
}
