//! Hearing: what was written out is heard, what was not is offered again.

use std::process::Stdio;

use crate::home::Home;

#[test]
fn taking_acknowledges_only_what_was_written_out() {
    let home = Home::new();
    home.ended(&["-c", "exit 3"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let failed = home.client(&["inbox", "--take"]).stdout(Stdio::from(writer)).status().unwrap();
    assert_eq!(failed.code(), Some(141));
    let taken = home.say(&["inbox", "--take"]);
    assert!(taken.out.contains("FAILED exit 3"), "{taken:?}");
    assert_eq!(home.say(&["inbox"]).out, "");
}

#[test]
fn reading_by_cursor_acknowledges_what_is_older() {
    let home = Home::new();
    let ids = [home.ended(&["--", "true"]), home.ended(&["--", "false"])];
    let first = home.say(&["inbox", "--json", "--limit", "1"]).json();
    assert_eq!((&first["notices"][0]["task"], &first["more"]), (&ids[0].as_str().into(), &true.into()));
    let seq = first["notices"][0]["seq"].as_u64().unwrap().to_string();
    let second = home.say(&["inbox", "--json", "--after", &seq]).json();
    assert_eq!((&second["notices"][0]["id"], &second["notices"][0]["exit_code"]), (&ids[1].as_str().into(), &1.into()));
    assert_eq!(home.say(&["ack", &ids[1], "--json"]).json()["acknowledged"], 1);
    assert_eq!(home.say(&["inbox", "--json"]).json()["notices"], serde_json::json!([]));
}

#[test]
fn a_cursor_ahead_of_what_was_given_is_refused_and_acknowledges_nothing() {
    let home = Home::new();
    let id = home.ended(&["-s", "cur", "--", "false"]);
    let refused = [
        (&["inbox", "-s", "cur", "--after", "57"][..], "57", "cur is 1;"),
        (&["ack", "-s", "cur", "--up-to", "2"], "2", "cur is 1;"),
        (&["inbox", "-s", "a new one", "--after", "1"], "1", "a new one is 0;"),
    ];
    for (args, asked, highest) in refused {
        let said = home.say(args);
        assert_eq!((said.code, said.out.as_str()), (Some(125), ""), "{said:?}");
        let first = format!("error: cannot acknowledge up to {asked}: the highest number of session {highest}");
        assert!(said.err.starts_with(&first), "{said:?}");
        assert_eq!(home.say(&[args, &["--json"]].concat()).json()["code"], "cursor_ahead");
    }
    assert!(home.say(&["inbox", "-s", "a new one", "--after", "1"]).err.contains("`ringback inbox -s 'a new one'`"));
    assert_eq!(home.say(&["inbox", "-s", "cur", "--after", "0", "-q"]).out, format!("{id}\n"));
    assert_eq!(home.say(&["inbox", "-s", "cur", "--after", "1", "-q"]).out, "");
    assert_eq!(home.say(&["inbox", "-s", "a new one", "--after", "0"]).code, Some(0));
    assert_eq!(home.say(&["ack", "-s", "cur", "--all"]).code, Some(0), "all is all, whatever was given");
    assert_eq!(home.say(&["inbox", "-s", "cur", "--after", "1"]).code, Some(0), "what was given stays given");
}

#[test]
fn the_number_of_a_notice_that_never_was_is_a_fault_and_the_others_are_acknowledged() {
    let home = Home::new();
    home.ended(&["--", "true"]);
    let said = home.say(&["ack", "99"]);
    assert_eq!((said.code, said.out.as_str()), (Some(125), ""), "{said:?}");
    assert!(said.err.starts_with("error: session default has no notice 99: its highest number is 1\n"), "{said:?}");
    assert_eq!(home.say(&["ack", "99", "--json"]).json()["code"], "unknown_notice");
    let both = home.say(&["ack", "1", "99", "--json"]);
    let document = both.json();
    assert_eq!((both.code, &document["acknowledged"]), (Some(125), &1.into()));
    assert_eq!(document["faults"][0]["code"], "unknown_notice");
    let again = home.say(&["ack", "1"]);
    assert_eq!((again.code, again.err.as_str()), (Some(0), "0 notices acknowledged\n"), "it was, and may be again");
}

#[test]
fn only_a_look_of_the_owner_counts() {
    let home = Home::new();
    let id = home.ended(&["-s", "s1", "--", "true"]);
    home.say(&["show", &id]);
    assert_eq!(home.say(&["inbox", "-s", "s1", "-q"]).out, format!("{id}\n"));
    home.say(&["show", "-s", "s1", &id]);
    assert_eq!(home.say(&["inbox", "-s", "s1", "-q"]).out, "");
}

#[test]
fn the_agents_own_variable_names_the_session() {
    let home = Home::new();
    let session = |name: &str| {
        let said = home.client(&["run", "--json", "--", "true"]).env(name, "s1").output().unwrap();
        let task: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap();
        task["session"].as_str().unwrap().to_owned()
    };
    for name in ["RINGBACK_SESSION", "CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID", "GEMINI_SESSION_ID"] {
        assert_eq!(session(name), "s1", "{name}");
    }
    assert_eq!(session("SOMETHING_ELSE"), "default");
}
