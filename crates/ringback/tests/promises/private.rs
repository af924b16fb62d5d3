//! Nobody else can read the home, and a command sees its caller's world, never the daemon's.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use proptest::prelude::{ProptestConfig, any, proptest};
use proptest::{collection, strategy::Strategy};

use crate::support::{World, finish, id_of, machine};

/// Everything below `folder` that others may read, write or enter.
fn open_to_others(folder: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let meta = entry.path().symlink_metadata().unwrap();
        if meta.permissions().mode() & 0o077 != 0 {
            found.push(format!("{:o} {}", meta.permissions().mode(), entry.path().display()));
        }
        if meta.is_dir() {
            open_to_others(&entry.path(), found);
        }
    }
}

/// Runs a client through a shell that first does something to itself.
#[track_caller]
fn run_after(world: &World, preparation: &str, args: &[&str]) -> String {
    let shell = ["bash", "-c", &format!("{preparation}; exec \"$@\""), "bash"];
    let mut command = world.client_below(&shell, &["run"]);
    id_of(&finish(command.args(args).spawn().unwrap()).ok())
}

#[test]
fn with_umask_000_nothing_in_the_home_is_open_to_others() {
    let world = World::new();
    let script = "umask; echo secret-token; cat; sleep 7701 & exit 0";
    let id = run_after(&world, "umask 000", &["--stdin", "--split", "-c", script]);
    world.rb(&["send", &id, "secret", "--eof"]).ok();
    world.end(&id);
    let read = std::fs::read_to_string(world.show(&id)["stdout_path"].as_str().unwrap()).unwrap();
    assert!(read.starts_with("0000\nsecret-token\n"), "the command has its caller's umask: {read}");
    world.kill(&id);
    world.end(&run_after(&world, "umask 000", &["-c", "echo other"]));
    let mut found = Vec::new();
    open_to_others(world.home(), &mut found);
    assert_eq!(found, Vec::<String>::new());
    assert_eq!(std::fs::metadata(world.home()).unwrap().permissions().mode() & 0o7777, 0o700);
}

#[test]
fn a_command_has_only_its_three_descriptors() {
    let world = World::new();
    let first = run_after(&world, "exec 7</dev/null 9</dev/null", &["--", "ls", "/proc/self/fd"]);
    world.end(&first);
    // `ls` itself has the folder open as one more.
    assert_eq!(String::from_utf8(world.output(&first)).unwrap(), "0\n1\n2\n3\n");
    let with_stdin = run_after(&world, "exec 7</dev/null", &["--stdin", "--split", "--", "ls", "/proc/self/fd"]);
    world.end(&with_stdin);
    assert_eq!(String::from_utf8(world.output(&with_stdin)).unwrap(), "0\n1\n2\n3\n");
}

#[test]
fn a_command_starts_with_default_signals_whatever_its_caller_ignored() {
    let world = World::new();
    let id = run_after(
        &world,
        "trap '' HUP INT TERM PIPE CHLD",
        &["--", "grep", "-E", "^Sig(Blk|Ign|Pnd)", "/proc/self/status"],
    );
    world.end(&id);
    let said = String::from_utf8(world.output(&id)).unwrap();
    assert_eq!(said.lines().count(), 3, "{said}");
    for line in said.lines() {
        assert!(line.ends_with("\t0000000000000000"), "{said}");
    }
}

#[test]
fn a_command_leads_its_own_session_without_a_terminal() {
    let world = World::new();
    let id =
        world.sh("echo $$ $(cut -d' ' -f5,6,7 /proc/$$/stat); sh -c 'read -r x < /dev/tty' 2>&1 || echo no terminal");
    let task = world.end(&id);
    let said = String::from_utf8(world.output(&id)).unwrap();
    let pid = task["pid"].as_i64().unwrap();
    assert!(said.starts_with(&format!("{pid} {pid} {pid} 0\n")), "{said}");
    assert!(said.ends_with("no terminal\n"), "{said}");
    assert_eq!(task["process_group_id"], pid);
}

#[test]
fn the_environment_is_the_callers_and_never_the_daemons() {
    let world = World::new();
    let mut daemon = world.start_daemon(&[("ONLY_IN_DAEMON", "1")]).expect("a daemon");
    let mut client = world.client(&["run", "-e", "ADDED=a b", "--env-remove", "GONE", "--", "env", "-0"]);
    let id = id_of(&finish(client.env("ONLY_IN_CLIENT", "x\ny").env("GONE", "1").spawn().unwrap()).ok());
    world.end(&id);
    let said = world.output(&id);
    let entries: Vec<&[u8]> = said.split(|byte| *byte == 0).collect();
    let has = |entry: &str| entries.contains(&entry.as_bytes());
    assert!(has("ONLY_IN_CLIENT=x\ny") && has("ADDED=a b"), "{}", String::from_utf8_lossy(&said));
    assert!(!has("ONLY_IN_DAEMON=1") && !has("GONE=1"), "{}", String::from_utf8_lossy(&said));
    assert!(has(&format!("RINGBACK_ID={id}")) && has("RINGBACK_SESSION=mine"));
    daemon.kill().unwrap();
    daemon.wait().unwrap();
}

#[test]
fn a_clean_environment_has_what_was_given_and_little_else() {
    let world = World::new();
    let mut client = world.client(&["run", "--env-mode", "replace", "-e", "A=1", "--", "/usr/bin/env", "-0"]);
    let id = id_of(&finish(client.env("ONLY_IN_CLIENT", "1").spawn().unwrap()).ok());
    world.end(&id);
    let said = world.output(&id);
    let mut names: Vec<String> = said
        .split(|byte| *byte == 0)
        .filter(|entry| !entry.is_empty())
        .map(|entry| String::from_utf8_lossy(entry).split('=').next().unwrap().to_owned())
        .collect();
    names.sort();
    assert_eq!(names, ["A", "RINGBACK_ID", "RINGBACK_SESSION"]);
    let mut client = world.client(&["run", "--env-mode", "clean", "--", "/usr/bin/env", "-0"]);
    let id = id_of(&finish(client.env("PLAIN", "1").env("SOME_API_TOKEN", "2").spawn().unwrap()).ok());
    world.end(&id);
    let said = String::from_utf8_lossy(&world.output(&id)).into_owned();
    assert!(said.contains("PLAIN=1") && !said.contains("SOME_API_TOKEN"), "without what looks like a secret: {said}");
}

#[test]
fn the_working_directory_is_the_callers_also_with_spaces_and_after_a_restart() {
    let world = World::new();
    let folder = world.work("with space 'and' \"quotes\"");
    std::fs::create_dir(&folder).unwrap();
    let mut client = world.client(&["run", "--", "pwd", "-P"]);
    let id = id_of(&finish(client.current_dir(&folder).spawn().unwrap()).ok());
    world.end(&id);
    world.kill_daemon();
    let relative = world.run(&["-C", folder.file_name().unwrap().to_str().unwrap(), "--", "pwd", "-P"]);
    world.end(&relative);
    let expected = format!("{}\n", folder.canonicalize().unwrap().display());
    assert_eq!(String::from_utf8(world.output(&id)).unwrap(), expected);
    assert_eq!(String::from_utf8(world.output(&relative)).unwrap(), expected);
}

#[test]
fn a_folder_that_goes_away_harms_only_who_asked_for_it() {
    let world = World::new();
    let folder = world.work("short-lived");
    std::fs::create_dir(&folder).unwrap();
    world.end(&world.run(&["-C", folder.to_str().unwrap(), "--", "true"]));
    std::fs::remove_dir(&folder).unwrap();
    let failed = world.end(&world.run(&["-C", folder.to_str().unwrap(), "--", "true"]));
    assert_eq!(failed["reason"], "cwd_missing", "{failed:#}");
    assert_eq!(world.end(&world.sh("exit 2"))["exit_code"], 2);
    let daemon = world.daemon().unwrap();
    assert_eq!(
        std::fs::read_link(machine::proc_file(daemon, "cwd")).unwrap().as_os_str(),
        "/",
        "it stands in nobody's way"
    );
}

#[test]
fn a_script_and_its_arguments_are_in_nobodys_command_line() {
    let world = World::new();
    let up = world.fifo("up");
    let secret = "zzqq-secret-word";
    let id = world.sh(&format!("# {secret}\nsleep 7702 & echo up > {}; wait", up.word()));
    up.line();
    let mut looked_at = world.tree(&id);
    looked_at.extend(world.keeper(&id));
    looked_at.extend(world.daemon());
    assert!(looked_at.len() >= 4, "shell, sleep, keeper, daemon: {looked_at:?}");
    for pid in looked_at {
        let line = std::fs::read(machine::proc_file(pid, "cmdline")).unwrap();
        assert!(!String::from_utf8_lossy(&line).contains(secret), "{pid:?}");
    }
    world.kill(&id);
}

#[test]
fn resource_limits_and_nice_are_the_callers() {
    let world = World::new();
    world.end(&world.sh("true"));
    let id = run_after(&world, "ulimit -S -n 77; ulimit -S -c 0", &["-c", "ulimit -S -n; ulimit -S -c"]);
    world.end(&id);
    assert_eq!(String::from_utf8(world.output(&id)).unwrap(), "77\n0\n");
}

/// Arguments of any bytes that the kernel takes: all but NUL.
fn arguments() -> impl Strategy<Value = Vec<OsString>> {
    let byte = any::<u8>().prop_map(|byte| byte.max(1));
    let one = collection::vec(byte, 0..40).prop_map(OsString::from_vec);
    collection::vec(one, 0..6)
}

#[test]
fn every_argument_reaches_the_command_byte_for_byte() {
    let world = World::new();
    proptest!(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() }, |(args in arguments())| {
        let mut all: Vec<OsString> = ["--", "/bin/sh", "-c", "for a; do printf '%s\\0' \"$a\"; done", "sh"].map(OsString::from).to_vec();
        all.extend(args.iter().cloned());
        let id = world.run(&all);
        world.end(&id);
        let mut expected = Vec::new();
        for arg in &args {
            expected.extend_from_slice(arg.as_bytes());
            expected.push(0);
        }
        assert_eq!(world.output(&id), expected, "{args:?}");
    });
}

#[test]
fn every_script_reaches_the_shell_byte_for_byte() {
    let world = World::new();
    // Read back by `cat`, standing in for the shell, so that no quoting can hide a change.
    let script =
        OsStr::from_bytes(b"one:  C:\\Users\ntwo:  C:\\\\Users\nit's 'quoted' \"too\" `x` $HOME !\xff\xfe\r\n\tend");
    let id = world.run(&[OsStr::new("--shell"), OsStr::new("cat"), OsStr::new("-c"), script]);
    world.end(&id);
    assert_eq!(world.output(&id), script.as_bytes());
}
