//! Arguments: what cannot be meant is refused with the word that can, before anything is done.

use serde_json::json;

use crate::home::{Home, Said};

fn refused(home: &Home, args: &[&str], message: &str, hint: &str) {
    let said = home.say(args);
    assert_eq!((said.code, said.out.as_str()), (Some(2), ""), "{args:?}: {said:?}");
    assert!(said.err.starts_with("error: ") && said.err.contains(message), "{args:?}: {said:?}");
    assert!(said.err.contains(&format!("hint: {hint}")), "{args:?}: {said:?}");
}

#[test]
fn a_verb_that_there_is_not_leads_to_the_one_that_is_meant() {
    let home = Home::new();
    refused(&home, &["daemon", "foo"], "`foo` is no verb of ringback daemon", "it is one of `ringback daemon run`");
    refused(&home, &["session"], "`ringback session` alone does nothing", "it is one of `ringback session end`");
    refused(&home, &["session", "ends"], "`ends` is no verb of", "did you mean `ringback session end`?");
    refused(&home, &["jobs"], "`jobs` is no verb of ringback", "did you mean `ringback ps`?");
    refused(&home, &["help", "jobs"], "`jobs`", "did you mean `ringback ps`?");
    refused(
        &home,
        &["make"],
        "`make` is no verb",
        "`ringback` alone lists the verbs; to start a program: ringback run -- make",
    );
    refused(&home, &["run", "-f", "--stdin", "-c", "-"], "stdin is the script already", "leave --stdin away");
    let at_once = "to stop it at once with all that it started: ringback kill --now x;";
    refused(&home, &["kill", "-9", "x"], "unexpected argument '-9'", at_once);
    refused(&home, &["kill", "-s", "KILL", "x"], "cannot be used with", at_once);
    refused(&home, &["show", "--wat"], "unexpected argument '--wat'", "`ringback show --help`");
    refused(&home, &["run", "--lease", "eternal", "true"], "[possible values: ", "`ringback run --help`");
    refused(
        &home,
        &["run", "-c", "true", "x"],
        "cannot be used with",
        "write it as: ringback run [OPTIONS] [--] PROGRAM",
    );
}

#[test]
fn a_value_that_cannot_be_meant_is_named_and_nothing_is_started() {
    let home = Home::new();
    for (args, message) in [
        (&["--timeout", "0"][..], "leave the option away for no limit"),
        (&["--timeout", "100us"], "leave the option away for no limit"),
        (&["--timeout", "99999999999999999999999"], "is not a duration"),
        (&["--idle-timeout", "soon"], "is not a duration"),
        (&["--max-output", "99999999999999999999G"], "is not a size"),
        (&["--max-output", ""], "is not a size"),
        (&["--binding", "{"], "it is not JSON"),
        (&["--binding", ""], "it is not JSON"),
        (&["-e", ""], "a variable needs a name"),
        (&["-e", "=b"], "a variable needs a name"),
        (&["--env-remove", "A=b"], "without `=`"),
        (&["-s", ""], "cannot be the name of a session"),
        (&["-s", "two\nlines"], "cannot be the name of a session"),
        (&["-n", ""], "the name cannot be used"),
        (&["--key", ""], "the key cannot be used"),
        (&["--watch", "("], "is not a regular expression"),
        (&["--ready", "tcp:99999"], "is not a port"),
        (&["--progress", "5s..1s"], "the longest pause is below the first"),
        (&["--shell", "'", "-c", "true"], "is not a shell"),
    ] {
        let said = home.say(&[&["run"], args, &["true"]].concat());
        let said = if args.contains(&"-c") { home.say(&[&["run"], args].concat()) } else { said };
        assert_eq!((said.code, said.out.as_str()), (Some(2), ""), "{args:?}: {said:?}");
        assert!(said.err.contains(message) && said.err.contains("\nhint: "), "{args:?}: {said:?}");
    }
    assert_eq!(home.say(&["ps", "-a", "--all-sessions", "-q"]).out, "");
}

#[test]
fn the_name_of_a_session_is_one_for_every_verb() {
    let home = Home::new();
    for args in [&["ps", "-s", ""][..], &["inbox", "-s", "a\nb"], &["kill", "-s", ""], &["ack", "-s", "", "--all"]] {
        refused(&home, args, "cannot be the name of a session", "a session's name is one line");
    }
}

#[test]
fn a_variable_that_cannot_name_a_session_is_not_taken_for_none() {
    let home = Home::new();
    home.ended(&["--", "true"]);
    let with = |args: &[&str], value: &str| -> Said {
        home.client(args).env("RINGBACK_SESSION", value).output().unwrap().into()
    };
    for args in [&["run", "true"][..], &["ps"], &["inbox", "--take"], &["show", "zz", "--json"]] {
        let said = with(args, "two\nlines");
        assert_eq!(said.code, Some(2), "{args:?}: {said:?}");
        assert!(said.err.contains("RINGBACK_SESSION cannot be the name of a session: it has a control"), "{said:?}");
        assert!(said.err.contains("hint: unset RINGBACK_SESSION"), "{said:?}");
    }
    assert_eq!(with(&["ps", "--json"], &"x".repeat(300)).json()["code"], "bad_session");
    assert_eq!(
        with(&["inbox", "-q", "-s", "default"], "two\nlines").out.lines().count(),
        1,
        "a name that is given holds"
    );
    assert_eq!(with(&["ps", "-q"], "").out.lines().count(), 1, "empty is not set");
    let doctor = with(&["doctor", "--problems"], "two\nlines");
    assert!(doctor.code == Some(1) && doctor.out.contains("FAIL  session"), "{doctor:?}");
}

#[test]
fn lists_have_at_least_one_place() {
    let home = Home::new();
    refused(&home, &["ps", "--limit", "0"], "invalid value '0'", "`ringback ps --help`");
    refused(&home, &["inbox", "--limit", "0"], "invalid value '0'", "`ringback inbox --help`");
    let id = home.ended(&["-c", "exit 3"]);
    for budget in ["10", "18446744073709551615"] {
        let message = format!("invalid value '{budget}'");
        refused(&home, &["logs", "--digest", "--budget", budget, &id], &message, "`ringback logs --help`");
    }
    let least = home.say(&["logs", "--digest", "--budget", "128", &id]).out;
    assert!(least.starts_with("FAILED exit 3") && least.len() <= 128, "{least}");
}

#[test]
fn a_wait_for_no_time_says_how_an_ended_task_ended() {
    let home = Home::new();
    let id = home.ended(&["-c", "exit 3"]);
    let live = home.run(&["--", "sleep", "1000"]);
    assert_eq!(home.say(&["wait", "--timeout", "0", &id]).code, Some(3));
    assert_eq!(home.say(&["wait", "--timeout", "0", &live]).code, Some(124));
    assert_eq!(home.say(&["wait", "--timeout", "0", "--any", &live, &id]).code, Some(3));
}

#[test]
fn a_stop_or_release_of_what_has_ended_says_so() {
    let home = Home::new();
    let id = home.ended(&["-c", "exit 3"]);
    let said = home.say(&["kill", &id]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.out.contains("FAILED exit 3") && said.out.contains("\n  had ended before"), "{said:?}");
    let said = home.say(&["release", &id]);
    assert_eq!(said.code, Some(125));
    assert!(said.err.starts_with(&format!("error: cannot release {id}: it has ended\nhint: ")), "{said:?}");
    let live = home.run(&["--", "sleep", "1000"]);
    let both = home.say(&["release", "--json", &id, &live]);
    let document = both.json();
    assert_eq!((both.code, &document["faults"][0]["code"]), (Some(125), &"already_ended".into()));
    assert_eq!(document["tasks"][0]["lease"], "service");
    let killed = home.say(&["kill", &live]);
    assert!(!killed.out.contains("had ended before"), "{killed:?}");
}

#[test]
fn a_lease_beyond_the_calendar_holds() {
    let home = Home::new();
    let said = home.say(&["session", "lease", "s1", "--for", "99999999999d"]);
    assert!(said.code == Some(0) && said.out.contains("until 9999-12-30"), "{said:?}");
    home.say(&["session", "lease", "s1", "--for", "0"]);
}

#[test]
fn a_stop_that_finds_nobody_says_so() {
    let home = Home::new();
    let other = home.run(&["--", "sleep", "1000"]);
    for verb in [["kill", "-s", "nobody"].as_slice(), &["session", "end", "nobody"]] {
        let said = home.say(verb);
        assert_eq!((said.code, said.out.as_str(), said.err.trim()), (Some(0), "", "nothing to stop"), "{verb:?}");
        let document = home.say(&[&["--json"], verb].concat()).json();
        assert_eq!((&document["tasks"], &document["faults"]), (&json!([]), &json!([])), "{verb:?}");
    }
    let unknown = home.say(&["kill", "zzzzzzzzzzzz"]);
    assert!(unknown.code == Some(125) && unknown.err.contains("zzzzzzzzzzzz"), "{unknown:?}");
    assert_eq!(home.say(&["show", "--json", &other]).json()["state"], "running");
}

#[test]
fn a_folder_has_one_name_in_every_answer() {
    let home = Home::new();
    let folder = home.path("folder");
    std::fs::create_dir_all(folder.join("below")).unwrap();
    std::os::unix::fs::symlink(&folder, home.path("link")).unwrap();
    let name = folder.canonicalize().unwrap();
    let below = home.path("folder/below/..");
    for spelling in ["folder", "./folder/", "link", "link/below/..", below.to_str().unwrap()] {
        let id = home.ended(&["-C", spelling, "-c", "pwd -P"]);
        // Who is shown it has heard of it.
        let notice = home.notices().pop().unwrap();
        for document in [notice, home.say(&["show", "--json", &id]).json()] {
            assert_eq!(document["cwd"], name.to_str().unwrap(), "{spelling}");
        }
        assert_eq!(home.say(&["logs", &id]).out.trim(), name.to_str().unwrap(), "{spelling}");
    }
    let missing = home.ended(&["-C", "link/none", "true"]);
    let task = home.say(&["show", "--json", &missing]).json();
    assert_eq!((&task["reason"], &task["cwd"]), (&json!("cwd_missing"), &json!(home.path("link/none"))));
}

#[test]
fn variables_come_from_a_file_as_docker_reads_it() {
    let home = Home::new();
    let file = home.path("vars");
    std::fs::write(&file, "# comment\nA=from file\nB=1\nNOT_SET_ANYWHERE\nHERE\n").unwrap();
    let file = file.to_str().unwrap();
    let run = [
        "run",
        "--wait",
        "-q",
        "--env-file",
        file,
        "-e",
        "B=2",
        "-c",
        "echo \"$A|$B|$HERE|${NOT_SET_ANYWHERE-unset}\"",
    ];
    let out = home.client(&run).env("HERE", "h").output().unwrap();
    let id = String::from_utf8(out.stdout).unwrap();
    assert_eq!(home.say(&["logs", id.trim()]).out, "from file|2|h|unset\n");
    std::fs::write(home.path("vars"), "A=1\nexport B=2\n").unwrap();
    let wrong = home.say(&["run", "--env-file", file, "true"]);
    assert!(wrong.code == Some(125) && wrong.err.contains("line 2 of "), "{wrong:?}");
    let none = home.say(&["run", "--env-file", "/no/such/file", "true"]);
    assert!(none.code == Some(125) && none.err.contains("hint: pass --env-file a file"), "{none:?}");
}
