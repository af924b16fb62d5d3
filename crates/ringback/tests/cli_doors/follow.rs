//! Streams: what is mirrored, what Ctrl-C means, and what a dead daemon changes (nothing).

use std::io::Read as _;

use serde_json::Value;

use crate::home::{Home, Running, seq};

/// Waits without a child, which would have something of its own to say about signals.
const FOR_EVER: &str = "mkfifo never; exec 3<>never; echo up; while :; do read x <&3; done";

#[test]
fn run_f_streams_every_byte_and_mirrors_the_exit_code() {
    let home = Home::new();
    let said = home.say(&["run", "-f", "-c", "seq 1 20000; echo err >&2; exit 7"]);
    let expected = seq(20_000) + "err\n";
    assert_eq!((said.code, said.out == expected), (Some(7), true), "{}", said.err);
    assert!(said.err.contains("FAILED exit 7"), "{}", said.err);
    let apart = home.say(&["run", "-f", "-q", "--split", "-c", "echo out; echo err >&2"]);
    assert_eq!((apart.out.as_str(), apart.err.as_str()), ("out\n", "err\n"));
    assert_eq!(home.say(&["ps", "-q"]).out, "", "what was shown to its own session is heard");
}

#[test]
fn the_first_ctrl_c_goes_to_the_task_and_the_second_stops_it() {
    let home = Home::new();
    let script = format!("trap 'echo got int' INT; trap 'echo got term; exit 9' TERM; {FOR_EVER}");
    let mut client = Running::start(home.client(&["run", "-f", "-c", &script]));
    assert_eq!(client.line(), "up\n");
    client.press_ctrl_c();
    assert_eq!(client.line(), "got int\n");
    client.press_ctrl_c();
    assert_eq!(client.line(), "got term\n");
    let said = client.end();
    assert_eq!(said.code, Some(9), "{said:?}");
    assert!(said.err.contains("KILLED"), "{said:?}");
}

#[test]
fn the_third_ctrl_c_leaves_the_task_to_itself() {
    let home = Home::new();
    let script = format!("trap 'echo int' INT; trap 'echo term' TERM; {FOR_EVER}");
    let mut client = Running::start(home.client(&["run", "-f", "--grace", "1h", "-c", &script]));
    assert_eq!(client.line(), "up\n");
    for answer in ["int\n", "term\n"] {
        client.press_ctrl_c();
        assert_eq!(client.line(), answer);
    }
    client.press_ctrl_c();
    let said = client.end();
    assert_eq!(said.code, Some(130), "{said:?}");
    let id = home.say(&["ps", "-q"]).out.trim().to_owned();
    assert!(said.err.ends_with(&format!("still running: ringback kill {id}\n")), "{said:?}");
}

#[test]
fn whoever_follows_into_a_pipe_that_closes_is_told_that_the_task_runs_on() {
    let home = Home::new();
    // It goes on when its reader has gone, and not before.
    let script = "mkfifo never; exec 3<>never; echo up; read x < gate; echo more; while :; do read x <&3; done";
    let gate = home.gate("gate");
    let mut client = home.client(&["run", "-f", "-c", script]).spawn().unwrap();
    let mut first = [0; 3];
    client.stdout.take().unwrap().read_exact(&mut first).unwrap();
    std::fs::write(gate, "go\n").unwrap();
    let said: crate::home::Said = client.wait_with_output().unwrap().into();
    let id = home.say(&["ps", "-q"]).out.trim().to_owned();
    assert!(said.code == Some(141) && said.err.ends_with(&format!("still running: ringback kill {id}\n")), "{said:?}");
    home.say(&["kill", &id]);
    // One that has ended meanwhile is not said to run, and was not heard.
    let mut client = home.client(&["run", "-f", "-c", "seq 1 300000"]).spawn().unwrap();
    client.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    let id = home.say(&["ps", "-q"]).out.trim().to_owned();
    home.say(&["wait", "-s", "onlooker", &id]);
    drop(client.stdout.take());
    let said: crate::home::Said = client.wait_with_output().unwrap().into();
    assert!(said.code == Some(141) && !said.err.contains("still running"), "{said:?}");
    assert_eq!(home.say(&["inbox", "-q"]).out, format!("{id}\n"));
}

#[test]
fn ctrl_c_on_logs_f_stops_the_looking_and_not_the_task() {
    let home = Home::new();
    let id = home.run(&["-c", "echo up; exec sleep 1000"]);
    let mut client = Running::start(home.client(&["logs", "-f", &id]));
    assert_eq!(client.line(), "up\n");
    client.press_ctrl_c();
    let said = client.end();
    assert_eq!((said.code, said.err), (Some(130), format!("still running: ringback kill {id}\n")));
    assert_eq!(home.say(&["show", "--json", &id]).json()["state"], "running");
}

#[test]
fn a_stream_goes_on_when_the_daemon_is_killed_in_the_middle() {
    let home = Home::new();
    let script = "mkfifo gate; echo before; read x < gate; echo after; exit 5";
    let mut client = Running::start(home.client(&["run", "-f", "-c", script]));
    assert_eq!(client.line(), "before\n");
    home.kill_daemon();
    std::fs::write(gate(&home), "go\n").unwrap();
    let after = client.line();
    let said = client.end();
    assert_eq!((after.as_str(), said.code), ("after\n", Some(5)), "{said:?}");
}

fn gate(home: &Home) -> std::path::PathBuf {
    home.client(&[]).get_current_dir().unwrap().join("gate")
}

#[test]
fn a_json_stream_is_one_document_per_line() {
    let home = Home::new();
    let said = home.say(&["run", "-f", "--json", "--split", "-c", "echo out; echo err >&2; printf last; exit 3"]);
    assert_eq!(said.code, Some(3), "{said:?}");
    let events: Vec<Value> = said.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(events.iter().all(|event| event["schema"] == 1), "{said:?}");
    let kinds: Vec<&str> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!((kinds.first(), kinds.last()), (Some(&"started"), Some(&"ended")));
    let text = |stream: &str| -> String {
        let of_stream = events.iter().filter(|event| event["stream"] == stream);
        of_stream.map(|event| event["text"].as_str().unwrap()).collect()
    };
    assert_eq!((text("stdout").as_str(), text("stderr").as_str()), ("out\nlast", "err\n"));
    assert_eq!(events.last().unwrap()["task"]["exit_code"], 3);
}

#[test]
fn a_command_that_looks_for_its_own_text_finds_nobody() {
    let home = Home::new();
    // As `pkill -f` does; the text is in the script and in a value, and would be in the arguments of who waits for it.
    let script = "# zzqq-only-here\n! grep -la 'zz[q]q-only-here' /proc/[0-9]*/cmdline";
    for how in ["-f", "--wait"] {
        let said = home.say(&["run", how, "-q", "-e", "SECRET=zzqq-only-here", "-c", script]);
        assert_eq!(said.code, Some(0), "{how}: {said:?}");
    }
    let kept = home.say(&["run", "-f", "-q", "--", "cat", "/proc/self/cmdline"]);
    assert_eq!(kept.out, "cat\0/proc/self/cmdline\0", "its own are its own");
}

#[test]
fn whoever_follows_an_output_that_somebody_shortens_or_removes_misses_nothing_that_came_later() {
    for (how, missing) in [("truncate", "truncated"), ("remove", "removed")] {
        let home = Home::new();
        let gate = home.gate("gate");
        let script = "echo one; echo two; read x < gate; echo three; echo four; exit 4";
        let mut client = Running::start(home.client(&["run", "-f", "-c", script]));
        assert_eq!((client.line().as_str(), client.line().as_str()), ("one\n", "two\n"));
        let id = home.say(&["ps", "-q"]).out.trim().to_owned();
        let task: Value = serde_json::from_str(&home.say(&["show", "--json", &id]).out).unwrap();
        let output = std::path::Path::new(task["output"]["path"].as_str().unwrap()).to_owned();
        let mut late = None;
        if how == "truncate" {
            std::fs::OpenOptions::new().write(true).open(&output).unwrap().set_len(4).unwrap();
            late = Some(Running::start(home.client(&["logs", "-f", "-n", "all", &id])));
            assert_eq!(late.as_mut().unwrap().line(), "one\n");
        } else {
            std::fs::remove_file(&output).unwrap();
            let said = home.say(&["logs", "--digest", &id]);
            assert!(said.code == Some(125) && said.err.contains("is not there any more"), "{said:?}");
        }
        // What was given to the client already is not given again.
        std::fs::write(&gate, "\n").unwrap();
        let said = client.end();
        assert_eq!((said.code, said.out.as_str()), (Some(4), "three\nfour\n"), "{how}: {said:?}");
        // Who came while nobody knew of it yet reads no zeros for what is missing.
        if let Some(late) = late {
            let said = late.end();
            assert_eq!(said.out, "[ringback: bytes 4-7 are missing: truncated]\nthree\nfour\n", "{said:?}");
        }
        let followed = home.say(&["logs", "-f", "-n", "all", &id]);
        let mark = format!("are missing: {missing}]\nthree\nfour\n");
        assert!(followed.code == Some(0) && followed.out.ends_with(&mark), "{how}: {followed:?}");
        let digest = home.say(&["logs", "--digest", &id]).out;
        assert!(digest.contains(&format!("not kept ({missing})")) && digest.contains("\n| three\n"), "{how}: {digest}");
    }
}

#[test]
fn whoever_follows_too_slowly_is_told_what_was_freed_meanwhile() {
    let home = Home::new();
    let _gate = home.gate("gate");
    let script = "echo up; read x < gate; seq 1 2000000; echo LAST";
    let id = home.run(&["--max-output", "256KiB", "-c", script]);
    // More than a pipe holds is not read before the end, so that the client waits in the middle of the file.
    let mut client = Running::start(home.client(&["logs", "-f", "-n", "all", &id]));
    assert_eq!(client.line(), "up\n");
    std::fs::write(home.path("gate"), "go\n").unwrap();
    assert_eq!(home.say(&["wait", "-q", &id]).code, Some(0));
    let said = client.end();
    assert!(
        said.code == Some(0) && !said.out.contains('\0') && said.out.ends_with("\n2000000\nLAST\n"),
        "{}",
        said.err
    );
    let missing: Vec<&str> = said.out.lines().filter(|line| line.contains("are missing: output_limit]")).collect();
    assert!(!missing.is_empty(), "{} bytes", said.out.len());
}
