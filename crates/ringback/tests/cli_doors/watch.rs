//! What a session hears of a task that runs: progress, matches, readiness, silence; and nothing after its end.

use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;

use serde_json::{Value, json};

use crate::home::Home;

/// Lets a command go on that reads from this FIFO; blocks until it does.
fn open(gate: &Path) {
    fs::write(gate, "go\n").unwrap();
}

fn kinds(notices: &[Value]) -> Vec<&str> {
    notices.iter().map(|notice| notice["kind"].as_str().unwrap()).collect()
}

fn seq_of(notices: &[Value]) -> String {
    notices.last().unwrap()["seq"].to_string()
}

#[test]
fn progress_tells_what_is_new_and_ends_with_the_task() {
    let home = Home::new();
    let (first, second) = (home.gate("first"), home.gate("second"));
    let id = home.run(&["--progress", "100ms..100ms", "-c", "echo one; read _ < first; echo two; read _ < second"]);
    let mut seq = "0".to_owned();
    let mut next = |from: u64| {
        let said = home.say(&["inbox", "--json", "--wait", "30s", "--after", &seq]).json();
        let notice = said["notices"][0].clone();
        assert_eq!((&notice["kind"], &notice["delta"]["from"]), (&"tool_progress".into(), &from.into()), "{notice:#}");
        seq = notice["seq"].to_string();
        notice
    };
    let told = next(0);
    assert_eq!((&told["delta"]["to"], &told["offset"], &told["state"]), (&4.into(), &4.into(), &"running".into()));
    let text = told["text"].as_str().unwrap();
    assert!(text.starts_with("STILL RUNNING, not finished") && text.ends_with("\n  | one"), "{text}");
    assert!(next(4)["text"].as_str().unwrap().contains("no new output"));
    open(&first);
    let news = (0..20).map(|_| next(4)).find(|notice| notice["delta"]["to"] != 4).unwrap();
    assert_eq!((&news["delta"]["to"], news["text"].as_str().unwrap().ends_with("\n  | two")), (&8.into(), true));
    open(&second);
    home.say(&["wait", "-s", "onlooker", &id]);
    assert_eq!(kinds(&home.notices()), ["tool_result"], "the end makes old progress silent");
}

#[test]
fn what_a_notice_of_progress_leaves_out_is_named() {
    let home = Home::new();
    let gate = home.gate("gate");
    home.run(&["--progress", "200ms", "-c", "seq 1 2000; read _ < gate"]);
    let notice = home.notices()[0].clone();
    let (to, left) = (notice["delta"]["to"].as_u64().unwrap(), notice["left_out"]["to"].as_u64().unwrap());
    assert_eq!((to, &notice["left_out"]["from"]), (8893, &0.into()), "{notice:#}");
    assert!(to - left <= 1024, "{notice:#}");
    let text = notice["text"].as_str().unwrap();
    let quoted: String = text.lines().filter_map(|line| line.strip_prefix("  | ")).flat_map(|l| [l, "\n"]).collect();
    assert_eq!(quoted.len() as u64, to - left, "quoted and left out are the whole");
    assert!(text.contains(&format!("bytes 0-{} left out: ringback logs ", left - 1)), "{text}");
    open(&gate);
}

#[test]
fn each_matching_line_is_told_once_whatever_pieces_it_came_in() {
    let home = Home::new();
    let (first, second) = (home.gate("first"), home.gate("second"));
    let script =
        "printf 'a err'; read _ < first; printf 'or: x\\nplain\\n50%% done? '; read _ < second; echo; echo an ERROR";
    let args = ["--watch", "error:?", "--watch-literal", "done? ", "--watch", "(?i)^an err.*r$", "-c", script];
    let id = home.run(&args);
    open(&first);
    assert_eq!(home.say(&["wait", "--match", &id]).code, Some(0));
    let told = home.notices();
    let facts = |notice: &Value| (notice["pattern"].clone(), notice["offset"].clone(), notice["line"].clone());
    assert_eq!(facts(&told[0]), (json!("error:?"), json!(0), json!("a error: x")));
    // A prompt has no newline; it is told all the same.
    let prompt = home.say(&["inbox", "--json", "--wait", "30s", "--after", &told[0]["seq"].to_string()]).json();
    assert_eq!(facts(&prompt["notices"][0]), (json!("done? "), json!(17), json!("50% done? ")));
    open(&second);
    home.say(&["wait", "-s", "onlooker", &id]);
    let told = home.notices();
    assert_eq!(kinds(&told), ["tool_match", "tool_match", "tool_result"]);
    assert_eq!(facts(&told[1]), (json!("(?i)^an err.*r$"), json!(28), json!("an ERROR")));
    assert_eq!(home.say(&["show", &id, "--json", "-s", "onlooker"]).json()["matches"], 3);
}

#[test]
fn many_matches_are_folded_into_one_notice_and_come_before_the_end() {
    let home = Home::new();
    home.ended(&["--watch-literal", "x", "-c", "for i in $(seq 1 50); do echo x$i; done"]);
    let told = home.notices();
    assert_eq!(told.len(), 22, "{:?}", kinds(&told));
    assert_eq!((&told[19]["line"], &told[20]["count"], &told[20]["line"]), (&"x20".into(), &30.into(), &"x50".into()));
    assert_eq!(told[21]["kind"], "tool_result");
}

#[test]
fn an_ending_is_told_also_where_nothing_matched() {
    let home = Home::new();
    let id = home.run(&["--watch", "All checks passed", "-c", "echo 'unexpected failure'; exit 3"]);
    assert_eq!(home.say(&["wait", "--match", &id, "-s", "onlooker"]).code, Some(3));
    assert_eq!(kinds(&home.notices()), ["tool_result"]);
}

#[test]
fn the_owner_who_was_given_the_result_still_hears_the_matches() {
    let home = Home::new();
    let id = home.run(&["--watch", "needle", "--progress", "100ms", "-c", "echo needle"]);
    assert_eq!(home.say(&["wait", &id]).code, Some(0));
    assert_eq!(kinds(&home.notices()), ["tool_match"]);
}

#[test]
fn waiting_for_readiness_ends_with_it_or_with_the_task() {
    let home = Home::new();
    let (first, second) = (home.gate("first"), home.gate("second"));
    let script = "echo starting; read _ < first; printf '\\033[32mready\\033[0m in 3 ms\\n'; read _ < second";
    let id = home.run(&["--ready", "^ready in", "-c", script]);
    let ready = || home.say(&["show", &id, "--json"]).json()["ready"].clone();
    assert_eq!(ready(), false);
    assert_eq!(home.say(&["wait", "--ready", "--timeout", "0", &id]).code, Some(124));
    open(&first);
    assert_eq!(home.say(&["wait", "--ready", &id]).code, Some(0));
    assert_eq!(ready(), true);
    let told = home.notices();
    assert_eq!((kinds(&told), &told[0]["line"]), (vec!["tool_ready"], &"ready in 3 ms".into()));
    open(&second);
    home.say(&["wait", "-s", "onlooker", &id]);
    let ended = |id: &str, code: i32, why: &str| {
        let said = home.say(&["wait", "--ready", id]);
        assert_eq!((said.code, said.err), (Some(code), format!("{id} {why}\n")));
    };
    ended(&id, 1, "was ready, and has ended since");
    let failed = home.run(&["--ready", "ready", "-c", "echo 'address in use'; exit 98"]);
    ended(&failed, 98, "ended before it was ready");
    let never = home.run(&["--ready", "ready", "--", "true"]);
    ended(&never, 1, "ended before it was ready");
    let unmatched = home.run(&["--watch", "needle", "--", "true"]);
    let said = home.say(&["wait", "--match", &unmatched]);
    assert_eq!((said.code, said.err), (Some(1), format!("{unmatched} ended before a line matched\n")));
    let plain = home.run(&["--", "true"]);
    let refused = home.say(&["wait", "--ready", &plain]);
    assert!(refused.code == Some(125) && refused.err.contains("without --ready"), "{refused:?}");
    assert_eq!(home.say(&["show", &plain, "--json"]).json()["ready"], Value::Null);
}

#[test]
fn a_port_counts_only_when_the_task_itself_listens_there() {
    let home = Home::new();
    let stale = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = stale.local_addr().unwrap().port().to_string();
    let server = ["--", "python3", "-m", "http.server", "--bind", "127.0.0.1", &port];
    let place = format!("tcp:127.0.0.1:{port}");
    let beaten = home.run(&[&["--ready", &place][..], &server].concat());
    assert_eq!(home.say(&["wait", "--ready", &beaten]).code, Some(1), "the stale server is not its own");
    assert_eq!(home.say(&["show", &beaten, "--json"]).json()["ready"], false);
    assert_eq!(home.say(&["inbox", "--json"]).json()["notices"], json!([]), "its end was heard, and nothing else was");
    drop(stale);
    let own = home.run(&[&["--ready", &place][..], &server].concat());
    assert_eq!(home.say(&["wait", "--ready", &own]).code, Some(0));
    TcpStream::connect((Ipv4Addr::LOCALHOST, port.parse().unwrap())).unwrap();
    let told = home.notices();
    assert_eq!(
        (&told.last().unwrap()["kind"], &told.last().unwrap()["pattern"]),
        (&"tool_ready".into(), &place.into())
    );
}

#[test]
fn an_awaited_task_that_is_silent_is_told_once_and_a_service_never() {
    let home = Home::new();
    home.configure("stall_after = '300ms'");
    let (first, second) = (home.gate("first"), home.gate("second"));
    home.run(&["--lease", "service", "--", "sleep", "100"]);
    let id = home.run(&["-c", "echo 'Overwrite? [y/N]'; read _ < first; echo on; read _ < second"]);
    let told = home.notices();
    assert_eq!((kinds(&told), &told[0]["task"]), (vec!["tool_stalled"], &id.as_str().into()));
    assert!(told[0]["silence_ms"].as_u64().unwrap() >= 300, "{told:?}");
    let text = told[0]["text"].as_str().unwrap();
    assert!(text.starts_with("NO OUTPUT for 3") && text.ends_with("| Overwrite? [y/N]"), "{text}");
    let again = home.say(&["inbox", "--json", "--wait", "700ms", "--after", &seq_of(&told)]).json();
    assert_eq!(again["notices"], json!([]), "once");
    open(&first);
    let again = home.notices();
    assert_eq!((kinds(&again), &again[0]["offset"]), (vec!["tool_stalled"], &20.into()), "new output arms it again");
    open(&second);
    home.say(&["wait", "-s", "onlooker", &id]);
    assert_eq!(kinds(&home.notices()), ["tool_result"]);
}

#[test]
fn a_new_daemon_tells_what_came_while_there_was_none_and_nothing_twice() {
    let home = Home::new();
    let (first, second) = (home.gate("first"), home.gate("second"));
    let script = "echo hit 1; echo up; read _ < first; echo hit 2; echo; read _ < second; echo hit 3";
    let id = home.run(&["--watch", "^hit", "--ready", "^up", "-c", script]);
    assert_eq!(home.say(&["wait", "--ready", &id]).code, Some(0));
    home.kill_daemon();
    open(&first);
    assert_eq!(home.say(&["show", "-s", "onlooker", &id, "--json"]).json()["ready"], true);
    open(&second);
    home.say(&["wait", "-s", "onlooker", &id]);
    let all = home.notices();
    let lines: Vec<&Value> = all.iter().map(|notice| &notice["line"]).collect();
    assert_eq!(kinds(&all), ["tool_match", "tool_ready", "tool_match", "tool_match", "tool_result"]);
    assert_eq!(lines, [&json!("hit 1"), &json!("up"), &json!("hit 2"), &json!("hit 3"), &Value::Null]);
}

#[test]
fn a_pattern_that_is_none_is_refused_before_anything_runs() {
    let home = Home::new();
    for (args, why) in [
        (["--watch", "a("], "unclosed group"),
        (["--ready", "tcp:nowhere:80"], "is not a port"),
        (["--progress", "1ms"], "100 ms or more"),
    ] {
        let said = home.say(&[&["run"], &args[..], &["--", "true"]].concat());
        assert!(said.code == Some(2) && said.err.contains(why), "{said:?}");
    }
    assert_eq!(home.say(&["ps", "-a", "-q"]).out, "");
}

#[test]
fn a_running_task_with_news_is_still_a_running_task() {
    let home = Home::new();
    let id = home.run(&["--watch", "news", "-c", "echo news; echo more news; exec sleep 1000"]);
    home.say(&["wait", "--match", "-s", "onlooker", &id]);
    let loose = home.say(&["ps", "--json"]).json();
    assert_eq!((&loose["tasks"][0]["id"], &loose["notices"][0]["kind"]), (&id.as_str().into(), &"tool_match".into()));
    assert_eq!(home.say(&["ps", "-q"]).out, format!("{id}\n"), "each id once");
}
