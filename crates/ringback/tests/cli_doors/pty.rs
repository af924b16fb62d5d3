//! Tasks with a terminal: what they are given, what is typed, how large it is, and who may die.

use crate::home::{Home, Running};

/// Waits until the output of a task has this text.
fn shows(home: &Home, id: &str, text: &str) {
    let mut stream = Running::start(home.client(&["logs", "-n", "all", "-f", id]));
    loop {
        let line = stream.line();
        assert!(!line.is_empty(), "no {text:?} in {:?}", raw(home, id));
        if line.contains(text) {
            stream.press_ctrl_c();
            stream.end();
            return;
        }
    }
}

fn raw(home: &Home, id: &str) -> String {
    home.say(&["logs", "--raw", id]).out
}

#[test]
fn a_task_has_a_terminal_of_the_size_that_was_asked_for() {
    let home = Home::new();
    let id = home.ended(&["--pty", "-c", "stty size; echo $TERM; test -t 0 && test -t 1 && test -t 2"]);
    let task = home.say(&["show", "--json", &id]).json();
    assert_eq!((raw(&home, &id).as_str(), &task["exit_code"]), ("24 80\r\nxterm-256color\r\n", &0.into()), "{task:#}");
    assert_eq!((&task["pty"]["columns"], &task["pty"]["rows"]), (&80.into(), &24.into()));
    let id = home.ended(&["--pty=132x50", "-e", "TERM=vt100", "-c", "stty size; echo $TERM"]);
    assert_eq!(raw(&home, &id), "50 132\r\nvt100\r\n");
    assert_eq!(home.say(&["logs", "--rendered", &id]).out, "50 132\nvt100\n");
    assert!(home.say(&["show", "--json", &home.ended(&["true"])]).json()["pty"].is_null());
}

#[test]
fn text_keys_and_sizes_reach_the_terminal() {
    let home = Home::new();
    let script = "trap 'echo int' INT; read a; echo \"<$a>\"; trap 'stty size' WINCH; echo ready; cat -v; exit 7";
    let id = home.run(&["--pty", "-c", script]);
    home.say(&["send", &id, "two", "words"]);
    shows(&home, &id, "<two words>");
    shows(&home, &id, "ready");
    let said = home.say(&["send", "--resize", "100x30", &id]);
    assert_eq!(said.code, Some(0), "{said:?}");
    // The escape character comes out as `^[`.
    home.say(&["send", &id, "x", "-k", "up,alt-y", "--key", "enter"]);
    shows(&home, &id, "x^[[A^[y");
    let said = home.say(&["send", "--json", &id, "--eof"]).json();
    assert_eq!(said["bytes"], 1, "{said}");
    assert_eq!(home.say(&["wait", &id]).code, Some(7));
    // The trap runs when cat(1) has ended.
    assert!(raw(&home, &id).contains("30 100"), "{:?}", raw(&home, &id));
    assert_eq!(home.say(&["show", "--json", &id]).json()["pty"]["columns"], 100);
}

#[test]
fn ctrl_c_interrupts() {
    let home = Home::new();
    let id = home.run(&["--pty", "-c", "echo up; exec sleep 1000"]);
    shows(&home, &id, "up");
    home.say(&["send", &id, "--key", "ctrl-c"]);
    assert_eq!(home.say(&["wait", &id]).code, Some(130));
}

#[test]
fn arrows_are_those_that_the_program_asked_for() {
    let home = Home::new();
    let id = home.run(&["--pty", "-c", "printf '\\033[?1h'; echo ready; cat -v"]);
    shows(&home, &id, "ready");
    home.say(&["send", &id, "--key", "up,enter"]);
    shows(&home, &id, "^[OA");
}

#[test]
fn what_has_no_terminal_says_so() {
    let home = Home::new();
    let id = home.run(&["--stdin", "cat"]);
    for args in [&["send", &id, "--key", "ctrl-c"][..], &["send", &id, "--resize", "80x24"]] {
        let said = home.say(args);
        assert_eq!(said.code, Some(125), "{said:?}");
        assert!(said.err.contains("has no terminal") && said.err.contains("--pty"), "{said:?}");
    }
    let said = home.say(&["run", "--pty", "--split", "true"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    let said = home.say(&["run", "--pty=0x9", "true"]);
    assert!(said.code == Some(2) && said.err.contains("80x24"), "{said:?}");
    let said = home.say(&["send", &id, "--key", "hyper-x"]);
    assert!(said.code == Some(2) && said.err.contains("ctrl-c"), "{said:?}");
}

#[test]
fn a_terminal_outlives_daemon_and_keeper() {
    let home = Home::new();
    let id = home.run(&["--pty", "-c", "while read word; do echo \"got $word\"; done; exit 5"]);
    home.say(&["send", &id, "one"]);
    shows(&home, &id, "got one");
    home.kill_daemon();
    home.say(&["send", &id, "two"]);
    shows(&home, &id, "got two");
    // The daemon that came after it takes the terminal from the keeper, so it is not hung up with the keeper.
    home.kill_keeper(&id);
    home.say(&["send", &id, "three"]);
    shows(&home, &id, "got three");
    home.say(&["send", &id, "--eof"]);
    assert_eq!(home.say(&["wait", &id]).code, Some(5));
    let said: Vec<String> = raw(&home, &id).lines().filter(|line| line.starts_with("got")).map(str::to_owned).collect();
    assert_eq!(said, ["got one", "got two", "got three"]);
    assert_eq!(home.say(&["show", "--json", &id]).json()["output"]["complete"], true);
}

#[test]
fn the_screen_of_a_terminal_is_what_a_person_would_see() {
    let home = Home::new();
    let script = "printf '\\033[2J\\033[3;5Hfull\\033[1;1Htop\\n'; exec sleep 1000";
    let id = home.run(&["--pty=40x6", "-c", script]);
    shows(&home, &id, "top");
    assert_eq!(home.say(&["logs", "--screen", &id]).out, "top\n\n    full\n");
    let screen = home.say(&["logs", "--screen", "--json", &id]).json();
    assert_eq!(
        (&screen["columns"], &screen["cursor"]["row"], &screen["screen"][2]),
        (&40.into(), &1.into(), &"    full".into())
    );
    let said = home.say(&["logs", "--screen", &home.ended(&["true"])]);
    assert!(said.code == Some(125) && said.err.contains("has no terminal"), "{said:?}");
}

#[test]
fn a_recording_has_the_size_the_output_and_the_exit_code() {
    let home = Home::new();
    let id = home.run(&["--pty=100x30", "-n", "demo", "-c", "printf 'gr\\303\\274n\\n'; read word; exit 9"]);
    shows(&home, &id, "gr\u{fc}n");
    home.say(&["send", "--resize", "90x20", &id]);
    home.say(&["send", &id, "x"]);
    assert_eq!(home.say(&["wait", &id]).code, Some(9));
    let cast = home.say(&["logs", "--asciicast", &id]).out;
    let lines: Vec<serde_json::Value> = cast.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let header = &lines[0];
    assert_eq!(
        (&header["version"], &header["term"]["cols"], &header["title"]),
        (&3.into(), &100.into(), &"demo".into())
    );
    let of = |code: &str| -> Vec<&str> {
        lines[1..].iter().filter(|event| event[1] == code).map(|event| event[2].as_str().unwrap()).collect()
    };
    assert_eq!(of("o").concat(), raw(&home, &id));
    assert_eq!((of("r"), of("x")), (vec!["90x20"], vec!["9"]));
    assert!(lines[1..].iter().all(|event| event[0].as_f64().is_some_and(|seconds| seconds >= 0.0)));
    let plain = home.ended(&["-c", "echo a; echo b"]);
    let cast = home.say(&["logs", "--asciicast", &plain]).out;
    assert!(cast.contains("a\\r\\nb\\r\\n") && cast.lines().next().unwrap().contains("\"cols\":80"), "{cast}");
}
