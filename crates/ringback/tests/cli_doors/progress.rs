//! How far a task is: reported from inside it, shown by its output, or expected from earlier runs.

use serde_json::{Value, json};

use crate::home::{Home, Running};

fn progress(home: &Home, id: &str) -> Value {
    home.say(&["show", "--json", id]).json()["progress"].clone()
}

/// Starts a script that has said something (`up`) and then waits for ever; gives its id once it has.
fn up(home: &Home, args: &[&str], script: &str) -> String {
    let script = format!("mkfifo never; exec 3<>never; {script}; echo up; read x <&3");
    let mut client = Running::start(home.client(&[&["run", "-f", "-q"], args, &["-c", &script]].concat()));
    loop {
        let line = client.line();
        assert!(!line.is_empty(), "it ended before it was up");
        if line.ends_with("up\n") {
            break;
        }
    }
    drop(client);
    home.say(&["ps", "-q"]).out.trim().to_owned()
}

fn inside() -> String {
    format!("\"{}\"", env!("CARGO_BIN_EXE_ringback"))
}

#[test]
fn a_command_reports_from_inside_and_everybody_sees_it() {
    let home = Home::new();
    let id = up(&home, &["--progress", "100ms"], &format!("{} progress 37 -m 'epoch 2'", inside()));
    let said = json!({ "percent": 37, "text": "epoch 2", "source": "reported" });
    assert_eq!(progress(&home, &id), said);
    assert_eq!(home.say(&["ps", "--json"]).json()["tasks"][0]["progress"], said);
    let row = home.say(&["ps"]).out;
    assert!(row.contains("PROGRESS") && row.contains("37% epoch 2"), "{row}");
    assert!(home.say(&["show", &id]).out.contains("progress    37%, epoch 2 (reported by the command)"));
    let notice = home.notices().remove(0);
    assert_eq!((&notice["kind"], &notice["progress"]), (&"tool_progress".into(), &said));
    assert!(notice["text"].as_str().unwrap().contains("STILL RUNNING, not finished · 37% epoch 2 · "), "{notice}");
    home.kill_daemon();
    assert_eq!(progress(&home, &id), said, "a new daemon knows it too");
    let by_hand = home.say(&["progress", "12/40", "--task", &id, "--json"]).json();
    assert_eq!((&by_hand["percent"], &progress(&home, &id)["percent"]), (&30.into(), &30.into()));
    home.say(&["kill", "--now", &id]);
    assert_eq!(progress(&home, &id), Value::Null, "what has ended is not on its way");
}

#[test]
fn a_report_that_cannot_be_meant_is_refused() {
    let home = Home::new();
    let id = home.ended(&["--", "true"]);
    for (args, code, message) in [
        (&["progress"][..], 2, "not provided"),
        (&["progress", "101"], 2, "at most 100%"),
        (&["progress", "7/3"], 2, "at most 100%"),
        (&["progress", "half"], 2, "at most 100%"),
        (&["progress", "5"], 2, "RINGBACK_ID is not set"),
        (&["progress", "5", "--task", "zzzz"], 125, "no task has the id zzzz"),
        (&["progress", "5", "--task", &id], 125, "it has ended"),
    ] {
        let said = home.say(args);
        assert_eq!((said.code, said.out.as_str()), (Some(code), ""), "{args:?}: {said:?}");
        assert!(said.err.contains(message) && said.err.contains("\nhint: "), "{args:?}: {said:?}");
    }
}

#[test]
fn lines_on_a_descriptor_are_reports_and_a_flood_of_them_is_bounded() {
    let home = Home::new();
    let script = "test $RINGBACK_PROGRESS_FD = 9; yes 12 early >&9 2>/dev/null; \
        until echo 40/80 late >&9 2>/dev/null; do :; done";
    let id = up(&home, &["--progress-fd", "--progress", "100ms"], script);
    // The pipe is read by the daemon when it has time; a notice is told after it.
    let late = json!({ "percent": 50, "text": "late", "source": "reported" });
    let mut after = 0;
    loop {
        let page = home.say(&["inbox", "--json", "--wait", "30s", "--after", &after.to_string()]).json();
        let notice = page["notices"][0].clone();
        if notice["progress"] == late {
            break;
        }
        after = notice["seq"].as_u64().unwrap();
    }
    assert_eq!(progress(&home, &id), late);
    let plain = home.ended(&["-c", "echo ${RINGBACK_PROGRESS_FD-none}; ls /proc/self/fd"]);
    assert_eq!(home.say(&["logs", &plain]).out, "none\n0\n1\n2\n3\n", "only who asks has one (3 is that of ls)");
}

#[test]
fn output_shows_it_where_the_command_says_nothing_else() {
    let home = Home::new();
    let id = up(&home, &[], r"printf 'start\n'; printf '\033]9;4;1;64\007'");
    let shown = progress(&home, &id);
    assert_eq!((&shown["percent"], &shown["source"]), (&64.into(), &"terminal".into()), "{shown}");
    let row = home.say(&["ps"]).out;
    assert!(row.contains("64%"), "{row}");
    home.say(&["progress", "-m", "linking", "--task", &id]);
    assert_eq!(progress(&home, &id), json!({ "percent": null, "text": "linking", "source": "reported" }));
}

#[test]
fn an_estimate_comes_from_earlier_runs_and_says_so() {
    let home = Home::new();
    let gate = home.gate("gate");
    let id = |args: &[&str]| home.run(&[&["-s", "s1", "-c", "read x < gate"], args].concat());
    let first = id(&[]);
    assert_eq!(progress(&home, &first), Value::Null, "nobody knows yet");
    std::fs::write(&gate, "go\n").unwrap();
    home.say(&["wait", &first]);
    // A new daemon reads it from what was recorded.
    home.kill_daemon();
    let second = id(&[]);
    home.say(&["wait", "--timeout", "300ms", &second]);
    let estimate = progress(&home, &second);
    assert_eq!(estimate["source"], "usual_duration", "{estimate}");
    assert!(estimate["text"].as_str().unwrap().starts_with("usually "), "{estimate}");
    assert!(estimate["usual_ms"].as_u64() > Some(0), "{estimate}");
    assert!(estimate["percent"].as_u64().unwrap() <= 99, "{estimate}");
    let row = home.say(&["ps", "-s", "s1"]).out;
    assert!(row.contains('~') && row.contains('%'), "{row}");
    home.say(&["kill", "--now", &second]);
}
