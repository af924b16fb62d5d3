//! What each tool does.

use serde_json::json;

use crate::agent::{Agent, Home, Ways};

#[test]
fn run_returns_the_result_of_what_ends_soon() {
    let home = Home::new();
    let mut agent = Agent::start(&home);
    let told = agent.call("run", json!({"command": "echo out; echo err >&2; exit 3", "name": "try"}));
    assert!(told.is_error && told.verdict().starts_with("FAILED exit 3"), "{told:?}");
    assert_eq!((&told.fields["exit"], &told.fields["state"]), (&3.into(), &"exited".into()));
    assert_eq!(told.fields["tail"], "| out\n| err");
    let told = agent.call("run", json!({"argv": ["printf", "%s", "$HOME; a b"]}));
    assert!(!told.is_error && told.fields["tail"] == "| $HOME; a b", "{told:?}");
    let told = agent.call("run", json!({"argv": ["no-such-program-here"]}));
    assert!(told.is_error && told.verdict().starts_with("NOT STARTED"), "{told:?}");
    assert!(told.fields["exit"].is_null());
}

#[test]
fn run_passes_on_what_was_asked_for() {
    let home = Home::new();
    let folder = home.path().join("sub");
    std::fs::create_dir(&folder).unwrap();
    let mut agent =
        Agent::start_with(&home, Ways { env: &[("CLAUDE_CODE_MESSAGING_TOKEN", "t0ken")], ..Ways::default() });
    let command = "pwd; echo $A; echo [$CLAUDE_CODE_MESSAGING_TOKEN]; echo $0 $RINGBACK_SESSION";
    let told = agent.call(
        "run",
        json!({"command": command, "cwd": "sub", "env": {"A": "b c"}, "shell": "bash -e", "session": "s9", "binding": {"x": [1]}}),
    );
    let tail = told.fields["tail"].as_str().unwrap();
    assert!(tail.contains(&format!("| {}", folder.display())) && tail.contains("| b c\n| []\n"), "{tail}");
    assert!(tail.ends_with("s9"), "{tail}");
    assert_eq!(told.fields["binding"], json!({"x": [1]}));
    assert_eq!(home.cli(&["show", &told.id()])["session"], "s9");
}

#[test]
fn run_gives_a_handle_that_says_how_the_end_will_be_heard() {
    let home = Home::new();
    let mut agent = Agent::start(&home);
    let told = agent.call("run", json!({"command": "echo hello; sleep 60", "wait_ms": 300, "key": "k"}));
    assert!(!told.is_error && told.fields["state"] == "running", "{told:?}");
    assert!(told.verdict().contains("NOT finished") && told.fields["tail"] == "| hello", "{told:?}");
    assert!(told.fields["next"].as_str().unwrap().contains(&format!("wait {{\"ids\":[\"{}\"]}}", told.id())));
    let again = agent.call("run", json!({"command": "echo hello; sleep 60", "wait_ms": 0, "key": "k"}));
    assert_eq!((again.id(), &again.fields["existing"]), (told.id(), &true.into()));
    let refused = agent.call("run", json!({"command": "true", "key": "k", "if_running": "reject"}));
    assert!(refused.is_error && refused.fields["next"].as_str().unwrap().contains("replace"), "{refused:?}");
}

#[test]
fn wait_is_for_all_or_any_or_for_the_next_end_of_the_session() {
    let home = Home::new();
    let mut agent = Agent::start(&home);
    let (slow, quick) = (agent.begin("sleep 60"), agent.begin("sleep 0.3; echo quick"));
    let told = agent.call("wait", json!({"ids": [slow, quick], "mode": "any"}));
    assert_eq!(told.verdict(), "1 ended, 1 still running");
    assert!(told.fields["tasks"][1]["tail"] == "| quick" && told.fields["tasks"][0]["state"] == "running", "{told:?}");
    let told = agent.call("wait", json!({"ids": [slow, quick], "any": true}));
    assert_eq!(told.verdict(), "1 ended, 1 still running");
    let told = agent.call("wait", json!({"ids": [slow, quick], "all": true, "timeout_ms": 50}));
    assert!(told.fields["next"].as_str().unwrap().starts_with("still running"), "{told:?}");
    let told = agent.call("wait", json!({"ids": [slow, quick], "all": true, "mode": "any"}));
    assert!(told.is_error && told.verdict().contains("not both"), "{told:?}");
    let told = agent.call("wait", json!({"ids": [slow], "timeout_ms": 50}));
    assert!(told.fields["next"].as_str().unwrap().starts_with("still running"), "{told:?}");
    let third = agent.begin("sleep 0.3; exit 4");
    let told = agent.call("wait", json!({}));
    assert!(told.text.contains(&third) && told.text.contains("FAILED exit 4"), "{told:?}");
    agent.call("stop", json!({"ids": [slow]}));
    assert_eq!(agent.call("wait", json!({})).verdict(), "nothing awaited runs in this session");
}

#[test]
fn a_digest_may_be_asked_for_by_its_name_and_one_pattern_needs_no_list() {
    let home = Home::new();
    let mut agent = Agent::start(&home);
    let id = agent.call("run", json!({"command": "echo a warning; sleep 60", "wait_ms": 0, "watch": "warn"})).id();
    let told = agent.call("wait", json!({"ids": [id], "until": "match"}));
    assert_eq!(told.fields["matched"], true, "{told:?}");
    agent.call("stop", json!({"ids": [id]}));
    let (named, usual) = (json!({"id": id, "digest": true}), json!({ "id": id }));
    assert_eq!(agent.call("output", named).text, agent.call("output", usual).text);
    let told = agent.call("output", json!({"id": id, "digest": true, "tail": 1}));
    assert!(told.is_error && told.verdict().contains("`digest` alone"), "{told:?}");
}

#[test]
fn wait_says_still_running_before_the_clients_limit() {
    // Nobody waits for a minute here: the limit is seen in the time that the answer leaves for it.
    let home = Home::new();
    let mut agent = Agent::start_with(&home, Ways { name: Some("codex-mcp-client"), ..Ways::default() });
    let id = agent.begin("sleep 60");
    let told = agent.call("wait", json!({"ids": [id], "timeout_ms": 100}));
    assert!(told.fields["state"] == "running" && !told.is_error, "{told:?}");
}

#[test]
fn wait_returns_when_a_pattern_appears_also_in_what_came_before() {
    let home = Home::new();
    let mut agent = Agent::start(&home);
    let id = agent.begin("echo one; sleep 0.3; printf 'listening on '; sleep 0.2; echo 8080; sleep 60");
    let told = agent.call("wait", json!({"ids": [id], "pattern": "listening on \\d+"}));
    assert!(told.fields["matched"] == true && told.fields["state"] == "running", "{told:?}");
    assert_eq!(told.fields["tail"], "| listening on 8080");
    let before = agent.call("wait", json!({"ids": [id], "pattern": "^one$"}));
    assert_eq!(before.fields["matched"], true);
    let after = told.fields["cursor"].as_u64().unwrap();
    let none = agent.call("wait", json!({"ids": [id], "pattern": "one", "offset": after, "timeout_ms": 100}));
    assert!(
        none.fields["matched"] == false && none.fields["next"].as_str().unwrap().starts_with("no match"),
        "{none:?}"
    );
    let pending = agent.send_call("wait", json!({"id": id, "pattern": "never"}));
    agent.call("stop", json!({"ids": [id]}));
    let ended = agent.told(pending);
    assert!(ended.fields["matched"] == false && ended.verdict().starts_with("KILLED"), "{ended:?}");
}

#[test]
fn a_task_that_was_told_to_say_when_it_is_ready_says_so() {
    let home = Home::new();
    let mut agent = Agent::start(&home);
    let command = "sleep 0.3; echo warning: old; echo listening; sleep 60";
    let arguments = json!({"command": command, "wait_ms": 0, "ready": "^listening", "watch": ["warning"]});
    let id = agent.call("run", arguments).id();
    let told = agent.call("wait", json!({"ids": [id], "until": "ready"}));
    assert!(told.fields["matched"] == true && told.fields["state"] == "running", "{told:?}");
    let told = agent.call("inbox", json!({}));
    let kinds: Vec<_> = told.fields["tasks"].as_array().unwrap().iter().map(|row| row["kind"].clone()).collect();
    assert_eq!(kinds, ["tool_match", "tool_ready"], "{told:?}");
    let never = agent.call("run", json!({"command": "sleep 60", "wait_ms": 0, "ready": "^up"})).id();
    let late = agent.call("wait", json!({"ids": [never], "until": "ready", "timeout_ms": 100}));
    assert!(late.fields["next"].as_str().unwrap().starts_with("still running"), "{late:?}");
}

#[test]
fn output_is_read_by_digest_offset_lines_tail_and_grep() {
    let home = Home::new();
    let mut agent = Agent::start(&home);
    let id = agent.call("run", json!({"command": "seq 1 20000"})).id();
    let digest = agent.call("output", json!({"id": id}));
    let tail = digest.fields["tail"].as_str().unwrap();
    assert!(tail.starts_with("| 1\n") && tail.ends_with("| 20000") && tail.contains(" left out: output {"), "{tail}");
    assert!(tail.len() <= 2048);
    let page = agent.call("output", json!({"id": id, "offset": 0, "max_bytes": 100}));
    let cursor = page.fields["cursor"].as_u64().unwrap();
    assert!(page.fields["next"].as_str().unwrap().contains(&format!("\"offset\":{cursor}")), "{page:?}");
    let next = agent.call("output", json!({"id": id, "offset": cursor, "max_bytes": 100}));
    let line = |told: &crate::agent::Told, last: bool| {
        let tail = told.fields["tail"].as_str().unwrap().to_owned();
        let line = if last { tail.lines().last().unwrap().to_owned() } else { tail.lines().next().unwrap().to_owned() };
        line[2..].parse::<u32>().unwrap()
    };
    assert_eq!(line(&page, true) + 1, line(&next, false));
    assert_eq!(agent.call("output", json!({"id": id, "lines": "50:51"})).fields["tail"], "| 50\n| 51");
    assert_eq!(agent.call("output", json!({"id": id, "tail": 2})).fields["tail"], "| 19999\n| 20000");
    let grep = agent.call("output", json!({"id": id, "grep": "^1999[89]$"}));
    assert_eq!(grep.fields["tail"].as_str().unwrap().matches("| 1999").count(), 2, "{grep:?}");
    let around = agent.call("output", json!({"id": id, "grep": "^700$", "context": 1, "since": "1h"}));
    assert_eq!(around.fields["tail"], "2684| 699\n2688| 700\n2692| 701");
    let nothing = agent.call("output", json!({"id": id, "since": "0s"}));
    assert_eq!(nothing.fields["cursor"], nothing.fields["bytes"], "{nothing:?}");
    let so_far = agent.call("output", json!({"id": id, "grep": "^700$", "until": "0s"}));
    assert_eq!(so_far.fields["tail"], "2688| 700");
    let later = agent.call("output", json!({"id": id, "until": "1h"}));
    assert!(later.fields["cursor"] == 0 && later.fields["eof"] == false, "{later:?}");
    assert!(later.fields["next"].as_str().unwrap().contains("came later"), "{later:?}");
    for (wrong, word) in [
        (json!({"id": id, "context": 1}), "with `grep`"),
        (json!({"id": id, "lines": "1:2", "until": "1m"}), "alone"),
        (json!({"id": id, "tail": 1, "since": "1m"}), "alone"),
    ] {
        let said = agent.call("output", wrong);
        assert!(said.is_error && said.text.contains(word), "{said:?}");
    }
    let split = agent.call("run", json!({"command": "echo o; echo e >&2", "split": true})).id();
    assert_eq!(agent.call("output", json!({"id": split, "stream": "stderr"})).fields["tail"], "| e");
}

#[test]
fn output_names_what_is_missing_of_a_file_that_somebody_shortened_or_removed() {
    for (removes, missing) in [(false, "truncated"), (true, "removed")] {
        let home = Home::new();
        let mut agent = Agent::start(&home);
        let id = agent.call("run", json!({"command": "echo one; read x; echo two; exit 4", "stdin": true})).id();
        agent.call("wait", json!({"ids": [id], "pattern": "one"}));
        let output = home.cli(&["show", &id])["output"]["path"].as_str().unwrap().to_owned();
        if removes {
            std::fs::remove_file(&output).unwrap();
        } else {
            std::fs::OpenOptions::new().write(true).open(&output).unwrap().set_len(1).unwrap();
        }
        agent.call("send", json!({"id": id, "text": "go\n"}));
        agent.call("wait", json!({"ids": [id]}));
        for args in [json!({"id": id}), json!({"id": id, "offset": 0}), json!({"id": id, "tail": 9})] {
            let told = agent.call("output", args);
            let tail = told.fields["tail"].as_str().unwrap();
            assert!(tail.contains("not kept") && tail.contains(missing) && tail.ends_with("| two"), "{tail}");
        }
    }
}

#[test]
fn output_shows_the_screen_of_a_task_that_has_a_terminal() {
    let home = Home::new();
    let mut agent = Agent::start(&home);
    let command = "printf 'one\\rtwo\\n\\033[5;3Hfive'; read x";
    let told = agent.call("run", json!({"command": command, "pty": "40x6", "wait_ms": 300}));
    let shown = agent.call("output", json!({"id": told.id(), "screen": true}));
    assert!(!shown.is_error && shown.text.contains("| two\n| \n| \n| \n|   five"), "{shown:?}");
    let plain = agent.begin("sleep 60");
    let refused = agent.call("output", json!({"id": plain, "screen": true}));
    assert!(refused.is_error && refused.text.contains("has no terminal"), "{refused:?}");
}

#[test]
fn list_shows_what_is_not_over_and_with_ended_what_is() {
    let home = Home::new();
    let mut agent = Agent::start(&home);
    let ended = agent.call("run", json!({"command": "true"})).id();
    let running = agent.begin("sleep 60");
    let other = agent.call("run", json!({"command": "sleep 60", "wait_ms": 0, "session": "other"})).id();
    let told = agent.call("list", json!({}));
    assert!(told.text.contains(&running) && !told.text.contains(&ended) && !told.text.contains(&other), "{told:?}");
    let told = agent.call("list", json!({"ended": true}));
    assert!(told.text.contains(&running) && told.text.contains(&ended), "{told:?}");
    let all = agent.call("list", json!({"all_sessions": true}));
    assert!(all.text.contains(&format!("{other} is of session other")), "{all:?}");
    let row = all.fields["tasks"].as_array().unwrap().iter().find(|row| row["id"] == other.as_str()).unwrap();
    assert_eq!(row["session"], "other");
    let page = agent.call("list", json!({"ended": true, "limit": 1}));
    let before = page.fields["cursor"].as_u64().unwrap();
    let page = agent.call("list", json!({"ended": true, "limit": 1, "before": before}));
    assert!(page.text.contains(&ended) && !page.text.contains(&running), "{page:?}");
}

#[test]
fn stop_ends_the_whole_tree_and_shows_the_receipt() {
    let home = Home::new();
    let mut agent = Agent::start(&home);
    let id = agent.begin("sleep 60 & setsid sleep 60 & echo up; wait");
    agent.call("wait", json!({"ids": [id], "pattern": "up"}));
    let told = agent.call("stop", json!({"ids": [id]}));
    assert!(told.verdict().starts_with("KILLED by person") && !told.is_error, "{told:?}");
    assert!(told.fields["stopped"].as_str().unwrap().contains("all gone"), "{told:?}");
    assert_eq!(home.cli(&["show", &id])["cleanup"]["verified_empty"], true);
    let again = agent.call("stop", json!({"id": id, "ids": [id]}));
    assert!(again.verdict().starts_with("KILLED by person") && !again.is_error, "idempotent: {again:?}");
    let (a, b) = (agent.begin("sleep 60"), agent.begin("sleep 60"));
    let told = agent.call("stop", json!({"all": true}));
    assert!(told.verdict() == "2 tasks stopped" && told.text.contains(&a) && told.text.contains(&b), "{told:?}");
}

#[test]
fn an_awaited_task_is_let_go_of_and_runs_on_as_a_service() {
    let home = Home::new();
    let mut agent = Agent::start(&home);
    let id = agent.begin("echo up; exec sleep 60");
    agent.call("wait", json!({"ids": [id], "pattern": "up"}));
    let told = agent.call("stop", json!({"ids": [id], "release": true}));
    assert!(!told.is_error && told.verdict().starts_with("1 task released"), "{told:?}");
    assert_eq!(
        (&told.fields["tasks"][0]["lease"], &home.cli(&["show", &id])["lease"]),
        (&"service".into(), &"service".into())
    );
    assert_eq!(home.cli(&["show", &id])["state"], "running");
    assert_eq!(agent.call("wait", json!({})).verdict(), "nothing awaited runs in this session");
    assert!(agent.call("stop", json!({"all": true, "release": true})).is_error);
}

#[test]
fn a_signal_alone_stops_nothing_by_itself() {
    let home = Home::new();
    let mut agent = Agent::start(&home);
    let id = agent.begin("trap 'echo got it' USR1; echo up; while :; do sleep 0.05; done");
    agent.call("wait", json!({"ids": [id], "pattern": "up"}));
    let told = agent.call("stop", json!({"ids": [id], "signal": "USR1"}));
    assert!(told.verdict().starts_with("sent SIGUSR1"), "{told:?}");
    let told = agent.call("wait", json!({"ids": [id], "pattern": "got it"}));
    assert!(told.fields["matched"] == true && told.fields["state"] == "running", "{told:?}");
}

#[test]
fn send_reaches_a_stdin_that_was_asked_for() {
    let home = Home::new();
    let mut agent = Agent::start(&home);
    let id = agent.call("run", json!({"command": "echo up; cat; echo end", "stdin": true, "wait_ms": 0})).id();
    agent.call("wait", json!({"ids": [id], "pattern": "up"}));
    assert!(agent.call("send", json!({"id": id, "text": "hello\n"})).verdict().starts_with("sent 6 bytes"));
    assert_eq!(agent.call("wait", json!({"ids": [id], "pattern": "hello"})).fields["matched"], true);
    agent.call("send", json!({"id": id, "eof": true}));
    assert_eq!(agent.call("wait", json!({"ids": [id]})).fields["tail"], "| up\n| hello\n| end");
    let closed = agent.begin("sleep 60");
    let told = agent.call("send", json!({"id": closed, "text": "x"}));
    assert!(told.is_error && told.fields["next"].as_str().unwrap().contains("\"stdin\":true"), "{told:?}");
}

#[test]
fn inbox_is_read_by_cursor() {
    let home = Home::new();
    let mut agent = Agent::start(&home);
    let id = agent.begin("sleep 0.2; echo why; exit 5");
    let told = agent.call("inbox", json!({"wait_ms": 20_000}));
    assert!(told.text.contains(&id) && told.text.contains("FAILED exit 5") && told.text.contains("| why"), "{told:?}");
    assert_eq!(agent.unheard(), [id], "reading alone acknowledges nothing");
    let cursor = told.fields["cursor"].as_u64().unwrap();
    let told = agent.call("inbox", json!({"after": cursor}));
    assert_eq!(told.verdict(), "nothing unheard");
    assert!(agent.unheard().is_empty());
}

#[test]
fn secrets_of_a_task_are_starred_in_every_answer() {
    let home = Home::new();
    let mut agent = Agent::start(&home);
    let run = json!({"command": "echo value $DEPLOY_TOKEN; echo ok", "env": {"DEPLOY_TOKEN": "abcd1234efgh"}});
    let told = agent.call("run", run);
    assert_eq!(told.fields["tail"], "| value ************\n| ok");
    let id = told.id();
    for arguments in
        [json!({}), json!({"offset": 0}), json!({"tail": 5}), json!({"grep": "value"}), json!({"lines": "1:1"})]
    {
        let mut arguments = arguments;
        arguments["id"] = json!(id);
        let text = agent.call("output", arguments.clone()).fields["tail"].as_str().unwrap().to_owned();
        assert!(text.contains("value ************") && !text.contains("abcd1234efgh"), "{arguments}: {text}");
    }
    let command = r"printf '\033[31mabcd\033[0m1234efgh\npassword=\033[1mhunter22x\033[0m\n'; read x; exit 3";
    let coloured = json!({"command": command, "env": {"DEPLOY_TOKEN": "abcd1234efgh"}, "stdin": true, "wait_ms": 0});
    let coloured = agent.call("run", coloured).id();
    let stars = ["| ************\n", "| password=*********"];
    let ready = agent.call("wait", json!({"ids": [coloured], "pattern": "password"}));
    agent.call("send", json!({"id": coloured, "text": "go\n"}));
    let ended = agent.call("wait", json!({"ids": [coloured]}));
    assert!(
        ended.text.contains("password=*********") && !format!("{ready:?}{ended:?}").contains("hunter22x"),
        "{ended:?}"
    );
    for mut arguments in
        [json!({}), json!({"offset": 0}), json!({"tail": 5}), json!({"grep": "."}), json!({"lines": "1:2"})]
    {
        arguments["id"] = json!(coloured);
        let text = agent.call("output", arguments.clone()).fields["tail"].as_str().unwrap().to_owned();
        assert!(stars.iter().all(|line| text.contains(line)) && !text.contains("efgh"), "{arguments}: {text}");
    }
    let within = agent.call("output", json!({"id": id, "offset": 10}));
    assert_eq!(within.fields["tail"], "| ********\n| ok", "offsets are those of the raw output");
}

#[test]
fn a_task_says_what_of_its_limits_does_not_hold() {
    if let Err(lack) = ringback_sys::sandbox::landlock() {
        return eprintln!("no sandbox here: {lack}");
    }
    let home = Home::new();
    let mut agent = Agent::start(&home);
    let told = agent.call("run", json!({"command": "true", "limit": "cpu=50%", "sandbox": "ro"}));
    let shown = home.cli(&["show", &told.id(), "--json"]);
    let (cpu, sandbox) = (&shown["limits"]["cpu"], &shown["sandbox"]);
    assert_eq!((&cpu["percent"], &sandbox["mode"], &sandbox["enforced"]), (&50.into(), &"ro".into(), &true.into()));
    let loose = told.fields.get("not_enforced").and_then(|text| text.as_str()).unwrap_or_default();
    assert_eq!(loose.contains("cpu 50%"), cpu["by"].is_null(), "{told:?}");
    let wrong = agent.call("run", json!({"command": "true", "limit": "disk=1G"}));
    assert!(format!("{wrong:?}").contains("mem=SIZE"), "{wrong:?}");
}

#[test]
fn what_is_removed_from_the_environment_is_gone_and_what_is_given_is_there() {
    let home = Home::new();
    let env = [("GONE", "1"), ("BOTH", "2"), ("A_TOKEN", "3")];
    let mut agent = Agent::start_with(&home, Ways { env: &env, ..Ways::default() });
    let script = "echo [$GONE] [$BOTH] [${A_TOKEN:+there}]";
    let mut options = json!({"command": script, "env_remove": ["GONE", "BOTH"], "env": {"BOTH": "given"}});
    assert_eq!(agent.call("run", options.clone()).fields["tail"], "| [] [given] [there]");
    options["env_mode"] = "clean".into();
    assert_eq!(agent.call("run", options.clone()).fields["tail"], "| [] [given] []", "it looks like a secret");
    options["env"]["A_TOKEN"] = "granted".into();
    assert_eq!(
        agent.call("run", options).fields["tail"],
        "| [] [given] [there]",
        "what is given counts before the name"
    );
    let mut command = home.command();
    command.args(["run", "-f", "--env-remove", "GONE", "--env-remove", "BOTH", "-e", "BOTH=given", "-c", script]);
    let output = command.envs(env).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "[] [given] [there]\n");
}
