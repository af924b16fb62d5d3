//! Sinks: what is sent besides the inbox, tried again until it has arrived, and not sent if it was heard before.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

use ringback_sys::identity;
use ringback_sys::pidfd::PidFd;
use ringback_sys::watch::{For, poll};
use serde_json::{Value, json};

use crate::home::Home;

/// What a program wrote into this FIFO; blocks until it did.
fn taken(gate: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(gate).unwrap()).unwrap()
}

/// A home whose sink is this script, tried again after `retry`; `$D` is the folder of the test.
fn home_with(script: &str, retry: &str, more: &str) -> Home {
    let home = Home::new();
    let folder = home.gate("got").parent().unwrap().display().to_string();
    home.configure(&format!("[[sink]]\nexec = ['sh', '-c', '''D={folder}; {script}''']\nretry = '{retry}'\n{more}"));
    home
}

fn got(home: &Home) -> std::path::PathBuf {
    home.path("got")
}

#[test]
fn a_program_is_given_one_line_and_its_session() {
    let home = home_with("{ cat; echo $RINGBACK_SESSION; } > $D/got", "100ms", "sessions = ['s1']");
    home.run(&["--", "true"]);
    let id = home.run(&["-s", "s1", "--watch", "x", "-c", "echo x; exit 3"]);
    let text = fs::read_to_string(got(&home)).unwrap();
    let (line, session) = text.trim_end().split_once('\n').unwrap();
    let notice: Value = serde_json::from_str(line).unwrap();
    assert_eq!((session, &notice["task"], &notice["exit_code"]), ("s1", &id.as_str().into(), &3.into()));
    assert_eq!((&notice["kind"], &notice["notice"]), (&"tool_result".into(), &format!("{id}-2").into()));
    // Sent is not heard: the session's inbox still has it.
    assert_eq!(home.say(&["inbox", "-s", "s1", "--json"]).json()["notices"][1]["task"], id);
}

#[test]
fn a_failed_delivery_is_tried_again_with_the_same_id_and_its_trouble_is_shown() {
    let home = home_with("cat > $D/got; test -e $D/again || { touch $D/again; echo broken >&2; exit 3; }", "100ms", "");
    home.run(&["--", "true"]);
    let (first, second) = (taken(&got(&home)), taken(&got(&home)));
    assert_eq!(first["notice"], second["notice"]);
    let troubles = home.say(&["daemon", "status", "--json"]).json()["troubles"].to_string();
    assert!(troubles.contains("(try 1)") && troubles.contains("exit 3: broken"), "{troubles}");
}

#[cfg(not(feature = "https"))]
#[test]
fn an_address_that_this_build_cannot_reach_is_told_at_once() {
    let home = Home::new();
    home.configure("[[sink]]\nname = 'far'\nwebhook = 'https://127.0.0.1:1/hook'");
    home.run(&["--", "true"]);
    let troubles = home.say(&["daemon", "status", "--json"]).json()["troubles"].to_string();
    assert!(troubles.contains("cannot deliver to sink far: this ringback was built without https"), "{troubles}");
    let doctor = home.say(&["doctor"]).out;
    assert!(doctor.contains("sink far: this ringback was built without https (`cargo install --locked"), "{doctor}");
    let restart = home.say(&["daemon", "restart"]);
    let warning = "warning: nothing can be delivered to the sink far: this ringback was built without https";
    assert!(restart.code == Some(0) && restart.err.contains(warning), "{restart:?}");
}

#[test]
fn what_waits_for_a_sink_outlives_the_daemon() {
    let home = home_with("cat > $D/got; test -e $D/mended", "200ms", "");
    let id = home.run(&["--", "false"]);
    let first = taken(&got(&home));
    home.kill_daemon();
    fs::write(home.path("mended"), "").unwrap();
    home.say(&["ps"]);
    let again = taken(&got(&home));
    assert_eq!((&first["notice"], &again["notice"]), (&format!("{id}-1").into(), &format!("{id}-1").into()));
}

#[test]
fn what_was_heard_meanwhile_is_not_sent_again_unless_it_is_always_sent() {
    for (more, always) in [("", false), ("always = true", true)] {
        let home = home_with("cat > $D/got; test -e $D/mended", "1s", more);
        home.run(&["--", "true"]);
        assert_eq!(taken(&got(&home))["seq"], 1);
        home.say(&["inbox", "--take"]);
        fs::write(home.path("mended"), "").unwrap();
        // It ends after the time of the next try, so that try would come before it.
        home.run(&["-c", "sleep 1.2"]);
        let next = taken(&got(&home))["seq"].clone();
        assert_eq!(next, if always { 1 } else { 2 }, "{more}");
    }
}

#[test]
fn what_was_delivered_is_acknowledged_only_if_the_config_says_so() {
    let home = home_with("cat > $D/got", "100ms", "acknowledge = true");
    for seq in 1..=2 {
        home.run(&["--", "true"]);
        assert_eq!(taken(&got(&home))["seq"], seq);
    }
    // The second one was begun after the first one was recorded as delivered.
    let left = home.say(&["inbox", "--json"]).json();
    assert!(left["notices"].as_array().unwrap().iter().all(|notice| notice["seq"] == 2), "{left}");
}

#[test]
fn a_delivery_that_takes_too_long_is_ended_and_others_are_not_held_up() {
    let home = home_with(
        "cat > $D/got; test -e $D/again || { touch $D/again; exec sleep 100; }",
        "100ms",
        "timeout = '300ms'",
    );
    home.run(&["--", "true"]);
    let first = taken(&got(&home));
    assert_eq!(home.say(&["ps", "-q"]).code, Some(0), "the daemon answers meanwhile");
    assert_eq!(taken(&got(&home))["notice"], first["notice"]);
    assert!(home.say(&["daemon", "status", "--json"]).out.contains("it took too long"));
}

#[test]
fn a_program_that_hangs_is_ended_in_time_also_without_its_daemon() {
    let home = home_with("sleep 1000 & echo \"[$$, $!]\" > $D/got; wait", "1h", "timeout = '3s'");
    home.run(&["--", "true"]);
    let pids = taken(&got(&home));
    let ended = pids.as_array().unwrap().iter().map(|pid| {
        let pid = i32::try_from(pid.as_i64().unwrap()).unwrap();
        PidFd::open_living(identity::who(pid).unwrap()).unwrap()
    });
    let ended: Vec<PidFd> = ended.collect();
    home.kill_daemon();
    for process in &ended {
        assert_eq!(poll(&[(process.as_fd(), For::Read)], Some(Duration::from_secs(30))).unwrap(), [true]);
    }
}

#[test]
fn a_socket_is_given_one_line() {
    let home = Home::new();
    let path = home.path("sink.sock");
    let listener = UnixListener::bind(&path).unwrap();
    home.configure(&format!("[[sink]]\nunix = '{}'\nkinds = ['tool_match', 'tool_result']", path.display()));
    let id = home.run(&["--watch", "needle", "-c", "echo a needle; exit 1"]);
    for (kind, line) in [("tool_match", json!("a needle")), ("tool_result", Value::Null)] {
        let (stream, _) = listener.accept().unwrap();
        let mut text = String::new();
        BufReader::new(stream).read_line(&mut text).unwrap();
        let notice: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&notice["kind"], &notice["line"], &notice["task"]), (&kind.into(), &line, &id.as_str().into()));
    }
}

/// One request over HTTP: its head in lower case, and its body.
fn request(stream: &TcpStream) -> (String, String) {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(reader.read_line(&mut head).unwrap(), 0, "{head}");
    }
    let field = |name: &str| head.lines().find_map(|line| line.to_lowercase().strip_prefix(name).map(str::to_owned));
    let length: usize = field("content-length: ").unwrap().parse().unwrap();
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    (head, String::from_utf8(body).unwrap())
}

#[test]
fn a_webhook_is_signed_and_posted_until_it_is_taken() {
    use base64::Engine as _;
    use hmac::{KeyInit as _, Mac as _};
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let home = Home::new();
    home.configure(&format!("[[sink]]\nwebhook = '{url}'\nsecret = 'whsec_c2VjcmV0'\nretry = '100ms'"));
    let id = home.run(&["--", "false"]);
    for answer in ["503 Busy", "302 Found\r\nlocation: /elsewhere", "204 No Content"] {
        let (mut stream, _) = listener.accept().unwrap();
        let (head, body) = request(&stream);
        write!(stream, "HTTP/1.1 {answer}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").unwrap();
        let field = |name: &str| {
            let line =
                head.lines().find(|line| line.to_lowercase().starts_with(name)).unwrap_or_else(|| panic!("{head}"));
            line[name.len()..].trim().to_owned()
        };
        assert!(head.starts_with("POST /hook HTTP/1.1"), "{head}");
        let (sent, seconds) = (field("webhook-id:"), field("webhook-timestamp:"));
        assert_eq!(sent, format!("{id}-1"));
        let mut mac = hmac::Hmac::<sha2::Sha256>::new_from_slice(b"secret").unwrap();
        mac.update(format!("{sent}.{seconds}.{body}").as_bytes());
        let encoded = base64::engine::general_purpose::STANDARD.encode(mac.finalize().into_bytes());
        assert_eq!(field("webhook-signature:"), format!("v1,{encoded}"));
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((&body["type"], &body["data"]["exit_code"]), (&"tool_result".into(), &1.into()));
    }
    listener.set_nonblocking(true).unwrap();
    home.run(&["--wait", "--", "true"]);
    assert!(!home.say(&["daemon", "status", "--json"]).out.contains("(try 3)"), "the last answer was good");
}

#[test]
fn a_sink_that_is_none_is_named_before_anything_runs() {
    let home = Home::new();
    home.configure("[[sink]]\nname = 'lost'");
    let said = home.say(&["run", "--", "true"]);
    assert!(said.code == Some(125) && said.err.contains("a sink needs one of exec"), "{said:?}");
    assert!(said.err.contains("config.toml, or move the file away") && !said.err.contains("daemon.log"), "{said:?}");
}
