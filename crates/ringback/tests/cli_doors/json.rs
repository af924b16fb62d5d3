//! `--json`: one document for everything that is printed, one line per event for streams.

use serde_json::Value;

use crate::home::{Home, Said};

fn lines(said: &Said) -> Vec<Value> {
    said.out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {said:?}")))
        .collect()
}

#[test]
fn what_needs_no_daemon_is_a_document_too() {
    let home = Home::new();
    let pages = home.path("pages/new");
    for (args, field) in [
        (&["--json"][..], "help"),
        (&["help", "--json"], "help"),
        (&["--json", "help", "run"], "help"),
        (&["help", "run", "--json"], "help"),
        (&["run", "--help", "--json"], "help"),
        (&["daemon", "stop", "--help", "--json"], "help"),
        (&["--version", "--json"], "version"),
        (&["completions", "bash", "--json"], "completions"),
        (&["man", "--json"], "man"),
        (&["man", "--json", "--dir", pages.to_str().unwrap()], "files"),
        (&["setup", "--json", "--print", "claude"], "files"),
        (&["setup", "--json", "--print", "agents-md"], "files"),
    ] {
        let said = home.say(args);
        assert_eq!((said.code, &said.json()["schema"]), (Some(0), &1.into()), "{args:?}: {said:?}");
        assert!(!said.json()[field].is_null(), "{args:?}: {said:?}");
    }
    let snippets = home.say(&["setup", "--json", "--print", "claude"]).json();
    assert_eq!(snippets["files"][0]["agent"], "claude");
    assert!(snippets["files"][0]["text"].as_str().unwrap().contains("mcpServers"));
    assert!(home.say(&["help", "run"]).out.contains("--idle-timeout"));
}

#[test]
fn a_wrong_command_line_is_a_document_too() {
    let home = Home::new();
    for args in [&["--json", "session"][..], &["nosuch", "--json"], &["daemon", "nosuch", "--json"], &["run", "--json"]]
    {
        let said = home.say(args);
        assert_eq!((said.code, &said.json()["code"]), (Some(2), &"usage".into()), "{args:?}: {said:?}");
        assert!(said.json()["hint"].is_string(), "{said:?}");
    }
}

#[test]
fn a_stream_of_an_ended_task_is_a_stream() {
    let home = Home::new();
    let id = home.ended(&["-c", "echo one; echo two; exit 3"]);
    let said = home.say(&["logs", "-f", "--json", "--exit-code", &id]);
    let events = lines(&said);
    let kinds: Vec<&str> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!((said.code, kinds), (Some(3), vec!["output", "output", "ended"]), "{said:?}");
    assert_eq!((&events[1]["text"], &events[2]["task"]["exit_code"]), (&"two\n".into(), &3.into()));
    assert_eq!(home.say(&["ps", "-q"]).out, "", "its end was shown to its own session");
    let never_ran = home.ended(&["--", "surely-not-a-program"]);
    let said = home.say(&["logs", "-f", "--json", &never_ran]);
    assert_eq!(lines(&said).last().unwrap()["task"]["state"], "start_failed", "{said:?}");
}

#[test]
fn quiet_is_ids_and_nothing_else() {
    let home = Home::new();
    let id = home.ended(&["--", "true"]);
    for args in [&["stats", "-q"][..], &["daemon", "status", "-q"], &["doctor", "-q"], &["ack", "-q", "--all"]] {
        let said = home.say(args);
        assert_eq!((said.out.as_str(), said.err.as_str(), said.code), ("", "", Some(0)), "{args:?}");
    }
    for args in [&["stats", "-q", &id][..], &["show", "-q", &id], &["kill", "-q", &id], &["rm", "-q", &id]] {
        let said = home.say(args);
        assert_eq!((said.out, said.err.as_str()), (format!("{id}\n"), ""), "{args:?}");
    }
}
