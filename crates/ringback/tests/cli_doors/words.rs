//! The words: one line that cannot be mistaken for an end, errors with hints, and the demo, which checks itself.

use crate::home::{Home, Running};

#[test]
fn run_says_that_it_is_not_finished_and_how_to_wait() {
    let home = Home::new();
    let said = home.say(&["run", "-s", "s1", "--", "sleep", "1000"]);
    let id = said.out.trim();
    assert_eq!(id.len(), 12, "{said:?}");
    let expected = format!(
        "running, NOT finished; its end will be told to session s1; wait for it with: ringback wait -s s1 {id}\n"
    );
    assert_eq!((said.code, said.err), (Some(0), expected));
    for quiet in [["run", "-q", "true"], ["run", "--json", "true"]] {
        assert_eq!(home.say(&quiet).err, "");
    }
}

#[test]
fn what_run_says_to_wait_with_hears_for_the_session_that_was_named() {
    let home = Home::new();
    let said = home.say(&["run", "-s", "it's", "--key", "k", "--", "sleep", "1000"]);
    let again = home.say(&["run", "-s", "it's", "--key", "k", "--", "sleep", "1000"]);
    assert!(again.err.contains(" under this key; wait for it with: ringback wait -s "), "{again:?}");
    home.say(&["kill", said.out.trim()]);
    for said in [said, again] {
        let (_, command) = said.err.trim().rsplit_once("wait for it with: ringback ").unwrap();
        let words = shlex::split(command).unwrap();
        assert_eq!(words, ["wait", "-s", "it's", said.out.trim()]);
        home.say(&words.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(home.say(&["inbox", "-s", "it's", "-q"]).out, "", "it was heard");
    }
    home.ended(&["-s", "it's", "--", "true"]);
    assert!(home.say(&["inbox", "-s", "it's"]).err.ends_with("ringback ack -s \"it's\" --up-to 2\n"));
    let own = home.say(&["run", "--", "true"]);
    assert!(own.err.ends_with(&format!("with: ringback wait {}\n", own.out.trim())), "{own:?}");
}

#[test]
fn who_asks_how_to_stop_is_told_the_exit_codes() {
    let home = Home::new();
    for verb in [&["kill", "--help"][..], &["session", "end", "--help"]] {
        let help = home.say(verb).out.split_whitespace().collect::<Vec<_>>().join(" ");
        for words in ["Exits 0 when somebody looked", " 1 when a process survived", "or nobody looked", " 125 when "] {
            assert!(help.contains(words), "{verb:?} {words}: {help}");
        }
    }
}

#[test]
fn a_lease_is_named_where_one_is_not_as_usual() {
    let home = Home::new();
    let id = home.run(&["--", "sleep", "1000"]);
    let head = |said: crate::home::Said| said.out.lines().next().unwrap().to_owned();
    assert!(!head(home.say(&["ps"])).contains("LEASE"));
    home.say(&["release", &id]);
    let awaited = home.run(&["--", "sleep", "1001"]);
    for args in [&["ps"][..], &["ps", "-a", "--all-sessions"]] {
        let said = home.say(args);
        let row = |id: &str| said.out.lines().find(|line| line.starts_with(id)).unwrap().to_owned();
        assert!(row(&id).contains("  service  ") && row(&awaited).contains("  awaited  "), "{said:?}");
        assert!(head(said).contains("  LEASE  "));
    }
}

#[test]
fn what_is_removed_is_said_to_be_freed() {
    let home = Home::new();
    let id = home.ended(&["--", "true"]);
    home.say(&["kill", &id]);
    let would = home.say(&["ack", "--all"]);
    assert_eq!(would.code, Some(0), "{would:?}");
    let would = home.say(&["prune", "--older-than", "0s", "--dry-run"]);
    assert!(would.err.starts_with("1 task would be removed, would free "), "{would:?}");
    let said = home.say(&["rm", &id]);
    assert!(said.err.starts_with("1 task removed, freed ") && said.err.ends_with("iB\n"), "{said:?}");
}

#[test]
fn a_config_that_cannot_be_used_costs_no_daemon_and_is_named_once() {
    let home = Home::new();
    home.run(&["--", "true"]);
    let pid = || home.say(&["daemon", "status", "--json"]).json()["pid"].clone();
    let old = pid();
    home.configure("grce = '3s'");
    let said = home.say(&["daemon", "restart"]);
    assert_eq!((said.code, said.out.as_str()), (Some(125), ""), "{said:?}");
    assert!(said.err.contains("`grce`") && said.err.matches("stall_after").count() == 1, "{said:?}");
    assert_eq!(pid(), old, "the daemon lives on");
    home.say(&["daemon", "stop"]);
    let doctor = home.say(&["doctor"]);
    assert_eq!((doctor.code, doctor.out.matches("grce").count()), (Some(1), 1), "{doctor:?}");
    assert!(doctor.out.contains("trees        not known while the config cannot be used"), "{doctor:?}");
    home.configure("grace = '3s'");
    assert_eq!(home.say(&["daemon", "restart"]).code, Some(0));
}

#[test]
fn a_program_that_is_not_there_is_recorded_with_a_warning() {
    let home = Home::new();
    let said = home.say(&["run", "echo a && echo b"]);
    assert_eq!(said.code, Some(0));
    let hint = "hint: a whole command line goes through a shell: ringback run -c 'echo a && echo b'\n";
    assert!(said.err.contains("warning: ") && said.err.ends_with(hint), "{said:?}");
    let waited = home.say(&["wait", said.out.trim()]);
    assert_eq!(waited.code, Some(127));
    assert!(waited.out.contains("NOT STARTED: program not found"), "{waited:?}");
}

#[test]
fn what_a_list_says_is_next_can_be_run_as_it_stands() {
    let home = Home::new();
    for _ in 0..3 {
        home.ended(&["-s", "spool 1", "--", "true"]);
    }
    home.say(&["inbox", "-s", "spool 1", "--take"]);
    let said = home.say(&["ps", "-s", "spool 1"]);
    assert!(said.err.ends_with("ended tasks: ringback ps -a -s 'spool 1'\n"), "{said:?}");
    assert!(home.say(&["ps"]).err.ends_with("ended tasks: ringback ps -a\n"));
    let said = home.say(&["ps", "-a", "-s", "spool 1", "--limit", "2"]);
    let (said_before, before) = said.err.trim_end().rsplit_once(' ').unwrap();
    assert_eq!(said_before, "there are more: ringback ps -a -s 'spool 1' --limit 2 --before");
    let rest = home.say(&["ps", "-a", "-s", "spool 1", "--limit", "2", "--before", before, "-q"]);
    assert_eq!(rest.out.lines().count(), 1, "{rest:?}");
}

#[test]
fn quiet_is_the_id_alone() {
    let home = Home::new();
    let id = home.ended(&["-c", "echo 'a.c:1:2: error: no'; exit 1"]);
    for verb in ["show", "results", "diagnostics"] {
        assert_eq!(home.say(&[verb, "-q", &id]).out, format!("{id}\n"), "{verb}");
    }
}

#[test]
fn the_same_label_twice_is_worth_a_word() {
    let home = Home::new();
    let first = home.run(&["-n", "build", "--", "sleep", "1000"]);
    let said = home.say(&["run", "-n", "build", "--", "sleep", "1000"]);
    assert!(said.err.contains(&format!("another task named `build` is live: {first}")), "{said:?}");
}

#[test]
fn errors_are_lines_for_people_and_a_document_for_programs() {
    let home = Home::new();
    let said = home.say(&["show", "zzzz"]);
    assert_eq!((said.code, said.out.as_str()), (Some(125), ""));
    assert!(said.err.starts_with("error: no task has the id zzzz\nhint: "), "{said:?}");
    let document = home.say(&["show", "zzzz", "--json"]).json();
    assert_eq!((&document["schema"], &document["code"]), (&1.into(), &"unknown_id".into()));
    assert!(document["hint"].is_string());
    let usage = home.say(&["run", "--json", "--timeout", "soon", "true"]);
    assert_eq!((usage.code, usage.json()["code"].as_str()), (Some(2), Some("usage")));
}

#[test]
fn a_home_that_cannot_be_one_is_an_error_with_a_hint() {
    let home = Home::new();
    for place in ["/dev/null", "/proc/nowhere", "relative"] {
        let said: crate::home::Said = home.client(&["ps"]).env("RINGBACK_HOME", place).output().unwrap().into();
        assert_eq!(said.code, Some(125), "{said:?}");
        assert!(said.err.starts_with("error: ") && said.err.contains("RINGBACK_HOME"), "{said:?}");
    }
    let mut nowhere = home.client(&["ps"]);
    let said: crate::home::Said = nowhere.env_remove("RINGBACK_HOME").env_remove("HOME").output().unwrap().into();
    assert!(said.err.starts_with("error: cannot tell where the home is"), "{said:?}");
}

#[test]
fn doctor_looks_and_finds_nothing_wrong_here() {
    let home = Home::new();
    home.ended(&["--", "true"]);
    let said = home.say(&["doctor", "--json"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let checks = said.json()["checks"].as_array().unwrap().clone();
    let verdict = |name: &str| checks.iter().find(|check| check["name"] == name).unwrap()["verdict"].clone();
    assert_eq!((verdict("home"), verdict("daemon")), ("ok".into(), "ok".into()));
    assert_eq!(verdict("program"), "warn", "nobody put ringback on the PATH of a test");
    let broken: crate::home::Said = home.client(&["doctor"]).env("RINGBACK_HOME", "/dev/null").output().unwrap().into();
    assert!(broken.code == Some(1) && broken.out.contains("FAIL"), "{broken:?}");
}

#[test]
fn the_demo_holds_and_leaves_nothing() {
    let home = Home::new();
    let dir = tempfile::tempdir().unwrap();
    let output = home.client(&["demo", "--json"]).env("TMPDIR", dir.path()).output().unwrap();
    let said: crate::home::Said = output.into();
    assert_eq!((said.code, &said.json()["holds"]), (Some(0), &true.into()), "{said:?}");
    assert!(said.json()["checks"].as_array().unwrap().len() >= 13);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn completions_and_man_pages_are_made_from_the_command_line() {
    let home = Home::new();
    assert!(home.say(&["completions", "bash"]).out.contains("_ringback"));
    assert!(home.say(&["man"]).out.contains(".TH ringback"));
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(home.say(&["man", "--dir", dir.path().to_str().unwrap()]).code, Some(0));
    assert!(dir.path().join("ringback-run.1").exists() && dir.path().join("ringback.1").exists());
}

#[test]
fn term_to_the_main_process_alone_lets_it_stop_its_workers_in_order() {
    let home = Home::new();
    let script = r#"mkfifo never; exec 3<>never
        sh -c 'trap "echo stopped in order; exit" USR1; trap "echo torn down; exit" TERM; echo up > up; read x <&3; read x <&3' &
        trap 'kill -USR1 $!; wait $!; exit 5' TERM
        read x < up; echo ready; read x <&3; wait"#;
    std::fs::write(home.path("script"), script).unwrap();
    home.gate("up");
    let mut client = Running::start(home.client(&["run", "-f", "--term", "main", "sh", "script"]));
    assert_eq!(client.line(), "ready\n");
    let id = home.say(&["ps", "-q"]).out.trim().to_owned();
    let killed = home.say(&["kill", "--json", &id]).json();
    assert_eq!((&killed["tasks"][0]["state"], &killed["tasks"][0]["final_exit_code"]), (&"killed".into(), &5.into()));
    assert_eq!(client.end().out, "stopped in order\n");
}

#[test]
fn the_page_of_a_task_has_what_was_asked_for_it() {
    let home = Home::new();
    let limits = ["--timeout", "1h", "--grace", "3s", "--key", "k1", "--binding", r#"{"thread":"t"}"#];
    let id = home.run(&[&limits[..], &["--ready", "up", "-c", "echo up; exec sleep 1000"]].concat());
    assert_eq!(home.say(&["wait", "--ready", &id]).code, Some(0));
    let page = home.say(&["show", &id]).out;
    for fact in [
        "key         k1",
        r#"binding     {"thread":"t"}"#,
        "timeouts    1h in all, 3.0s from TERM to KILL",
        "started     ",
    ] {
        assert!(page.contains(fact), "no `{fact}` in {page}");
    }
}

#[test]
fn a_wait_for_all_is_for_what_lives_in_the_session() {
    let home = Home::new();
    let none = home.say(&["wait", "--all"]);
    assert_eq!((none.code, none.out.as_str()), (Some(0), ""), "{none:?}");
    assert!(none.err.contains("nothing to wait for"), "{none:?}");
    let gate = home.gate("gate");
    home.run(&["-s", "s1", "--", "sleep", "1000"]);
    let mut rounds = 0..100;
    // The gate may open before the wait has looked; then it found nothing, and is asked anew.
    let (id, said) = loop {
        rounds.next().expect("a wait that looks in time");
        let id = home.run(&["-c", "read x < gate; exit 4"]);
        assert_eq!(home.say(&["wait", "--all", "--timeout", "50ms"]).code, Some(124));
        let waits = Running::start(home.client(&["wait", "--all", "--json"]));
        home.say(&["ps"]);
        std::fs::write(&gate, "go\n").unwrap();
        let said = waits.end();
        if said.code != Some(0) {
            break (id, said);
        }
    };
    assert_eq!((said.code, &said.json()["tasks"][0]["id"]), (Some(4), &id.as_str().into()));
    assert_eq!(said.json()["tasks"].as_array().unwrap().len(), 1, "another session's task is not waited for");
}

#[test]
fn a_wait_without_ids_is_not_for_the_end_of_a_service() {
    let home = Home::new();
    let service = home.run(&["--lease", "service", "--", "sleep", "1000"]);
    let said = home.say(&["wait", "--all", "--timeout", "100s"]);
    assert!(said.code == Some(0) && said.out.is_empty() && said.err.contains("services alone"), "{said:?}");
    let named = home.say(&["wait", "--timeout", "0s", &service]);
    assert_eq!(named.code, Some(124), "one that is named is waited for: {named:?}");
}

#[test]
fn tasks_are_listed_by_their_state() {
    let home = Home::new();
    let good = home.ended(&["--", "true"]);
    let bad = home.ended(&["--", "false"]);
    let missing = home.ended(&["--", "/no/such/program"]);
    let runs = home.run(&["--", "sleep", "1000"]);
    let listed = |args: &[&str]| {
        let out = home.say(&[&["ps", "-q"], args].concat()).out;
        out.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    // It may not have begun yet.
    assert_eq!(listed(&["--state", "running", "--state", "queued"]), [runs.as_str()]);
    assert_eq!(listed(&["--state", "exited"]), [bad.as_str(), &good]);
    assert_eq!(listed(&["--state", "failed"]), [missing.as_str(), &bad]);
    assert_eq!(listed(&["--state", "ended"]), [missing.as_str(), &bad, &good]);
    assert_eq!(listed(&["--state", "start_failed"]), [missing.as_str()]);
    assert_eq!(listed(&["--state", "running", "-s", "another"]), [""; 0]);
    // A page of them, and where it goes on.
    let page = home.say(&["ps", "--state", "failed", "--limit", "1", "--json"]).json();
    assert_eq!(page["tasks"][0]["id"], missing.as_str(), "{page:#}");
    let next = page["next"].to_string();
    assert_eq!(listed(&["-a", "--state", "failed", "--limit", "1", "--before", &next]), [bad.as_str()]);
    let wrong = home.say(&["ps", "--state", "dead"]);
    assert!(wrong.code == Some(2) && wrong.err.contains("queued, running, ended, failed"), "{wrong:?}");
}

#[test]
fn who_gives_a_name_for_an_id_is_told_the_id() {
    let home = Home::new();
    home.ended(&["-n", "build", "--", "true"]);
    let newest = home.ended(&["-n", "build", "--", "true"]);
    for args in [&["show", "build"][..], &["logs", "build"], &["kill", "build"], &["wait", "build"]] {
        let said = home.say(args);
        assert!(said.code == Some(125) && said.err.contains(&format!("named \"build\" is {newest}")), "{said:?}");
    }
    assert!(!home.say(&["show", "zzzz"]).err.contains("named"));
}
