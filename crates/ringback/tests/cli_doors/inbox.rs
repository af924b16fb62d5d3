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
