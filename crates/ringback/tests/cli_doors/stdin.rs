//! stdin and stdout of the command line: what is handed on, and what a closed one means.

use std::io::Write as _;
use std::process::Stdio;

use crate::home::{Home, Running, Said, seq};

/// Runs the client in a shell that changes its descriptors.
fn in_shell(home: &Home, script: &str) -> Said {
    let like = home.client(&[]);
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", script, "sh", env!("CARGO_BIN_EXE_ringback")]).env_clear();
    shell.envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.current_dir(like.get_current_dir().unwrap()).stdin(Stdio::null());
    shell.output().unwrap().into()
}

#[test]
fn what_is_piped_in_reaches_a_task_that_is_followed() {
    let home = Home::new();
    let said = in_shell(&home, "seq 1 200000 | \"$1\" run -f -q --stdin -- cat");
    assert_eq!((said.code, said.out == seq(200_000)), (Some(0), true), "{}", said.err);
    let said = in_shell(&home, "printf 'no newline' | \"$1\" run -f -q --stdin -- cat");
    assert_eq!((said.code, said.out.as_str()), (Some(0), "no newline"), "{said:?}");
    let said = in_shell(&home, "\"$1\" run -f -q --stdin -- cat <&-");
    assert_eq!((said.code, said.out.as_str()), (Some(0), ""), "{said:?}");
    // What nobody reads is no failure, and holds nothing up.
    let said = in_shell(&home, "yes | \"$1\" run -f -q --stdin -c 'read a; echo got $a; exit 4'");
    assert_eq!((said.code, said.out.as_str()), (Some(4), "got y\n"), "{said:?}");
}

#[test]
fn what_is_piped_in_reaches_a_task_that_is_run_again() {
    let home = Home::new();
    let said = in_shell(&home, "seq 1 3 | \"$1\" run -f -q --stdin -- cat");
    assert_eq!((said.code, said.out.as_str()), (Some(0), "1\n2\n3\n"), "{said:?}");
    let last = "$(\"$1\" ps -a -q | head -1)";
    let said = in_shell(&home, &format!("seq 1 200000 | \"$1\" retry -f -q {last}"));
    assert_eq!((said.code, said.out == seq(200_000)), (Some(0), true), "{}", said.err);
    // A task that takes none has none, and is followed all the same.
    let id = home.ended(&["-c", "cat; echo alone; exit 3"]);
    let said = in_shell(&home, &format!("yes | \"$1\" retry -f -q {id}"));
    assert_eq!((said.code, said.out.as_str()), (Some(3), "alone\n"), "{said:?}");
}

#[test]
fn a_feed_goes_on_when_the_daemon_is_killed_in_the_middle() {
    let home = Home::new();
    let mut client = home.client(&["run", "-f", "-q", "--stdin", "--", "cat"]);
    let (reader, mut writer) = std::io::pipe().unwrap();
    client.stdin(Stdio::from(reader));
    let mut client = Running::start(client);
    writer.write_all(b"before\n").unwrap();
    assert_eq!(client.line(), "before\n");
    home.kill_daemon();
    writer.write_all(b"after\n").unwrap();
    assert_eq!(client.line(), "after\n");
    drop(writer);
    let said = client.end();
    assert_eq!((said.code, said.out.as_str()), (Some(0), ""), "{said:?}");
}

#[test]
fn a_script_that_is_too_long_for_an_argument_comes_on_stdin() {
    let home = Home::new();
    std::fs::write(home.path("long"), "# padding\n".repeat(200_000) + "echo end of the script; exit 9\n").unwrap();
    let said = in_shell(&home, "\"$1\" run -f -q -c - < long");
    assert_eq!((said.code, said.out.as_str()), (Some(9), "end of the script\n"), "{said:?}");
}

#[test]
fn nothing_is_taken_or_started_where_stdout_is_closed() {
    let home = Home::new();
    let id = home.ended(&["-c", "echo output; exit 3"]);
    let closed = |verb: &str| in_shell(&home, &format!("\"$1\" {verb} >&-"));
    for verb in
        ["inbox --take", "inbox --take --json", "inbox --take -q", "ps", "run -- true", &format!("logs -f {id}")]
    {
        let said = closed(verb);
        assert_eq!(said.code, Some(125), "{verb}: {said:?}");
        assert!(said.err.starts_with("error: cannot write to stdout: Bad file descriptor"), "{verb}: {said:?}");
    }
    assert_eq!(home.say(&["inbox", "-q"]).out, format!("{id}\n"), "nobody has heard of it");
    assert_eq!(home.say(&["ps", "-a", "-q"]).out, format!("{id}\n"), "nothing was started");
    assert_eq!(closed(&format!("show {id}")).code, Some(125));
    assert_eq!(home.say(&["inbox", "-q"]).out, format!("{id}\n"));
    let null = in_shell(&home, "\"$1\" inbox --take > /dev/null");
    assert_eq!((null.code, home.say(&["inbox", "-q"]).out.as_str()), (Some(0), ""), "that is a wish");
}

#[test]
fn a_disk_that_is_full_is_named_and_takes_nothing() {
    let home = Home::new();
    let id = home.ended(&["-c", "echo output; exit 3"]);
    for verb in ["inbox --take".to_owned(), format!("show {id}"), format!("wait {id}"), format!("logs {id}")] {
        let said = in_shell(&home, &format!("\"$1\" {verb} > /dev/full"));
        assert_eq!(said.code, Some(125), "{verb}: {said:?}");
        assert!(said.err.contains("cannot write to stdout: No space left on device"), "{verb}: {said:?}");
    }
    assert_eq!(home.say(&["inbox", "-q"]).out, format!("{id}\n"));
    let started = in_shell(&home, "\"$1\" run -s s1 -- true > /dev/full");
    let new = home.say(&["ps", "-a", "-q", "-s", "s1"]).out;
    assert!(started.err.contains(&format!("hint: it is recorded all the same, as {}", new.trim())), "{started:?}");
}
