//! What is drawn on a terminal, and only there: how far a task is while somebody waits for it.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::Stdio;

use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};

use crate::home::{Home, Running};

/// A terminal that nobody sits at: the side that is read here, and the side of a client.
struct Terminal {
    screen: File,
    seen: String,
}

impl Terminal {
    fn open() -> (Self, OwnedFd) {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = openpt(flags).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let client = ioctl_tiocgptpeer(&master, flags).unwrap();
        (Self { screen: File::from(master), seen: String::new() }, client)
    }

    /// Reads until this was drawn. The end of everybody who has the terminal open is an error of its own (EIO).
    fn until(&mut self, text: &str) {
        while !self.seen.contains(text) {
            let mut bytes = [0; 4096];
            let count = self.screen.read(&mut bytes).unwrap_or_else(|error| panic!("{error}: {:?}", self.seen));
            self.seen.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
    }
}

/// A task that has reported its progress and waits for the gate.
const SCRIPT: &str = r#"echo before; "$RINGBACK" progress 37 -m 'epoch 2'; read x < gate; echo after; exit 3"#;

#[test]
fn a_wait_on_a_terminal_shows_how_far_the_task_is() {
    let home = Home::new();
    let gate = home.gate("gate");
    let id = home.run(&["-e", concat!("RINGBACK=", env!("CARGO_BIN_EXE_ringback")), "-c", SCRIPT]);
    let (mut terminal, side) = Terminal::open();
    let mut wait = home.client(&["wait", &id]);
    wait.stderr(Stdio::from(side)).env("TERM", "xterm-256color").env("NO_COLOR", "1");
    let mut client = wait.spawn().unwrap();
    drop(wait);
    terminal.until("37%");
    terminal.until("epoch 2");
    assert!(!terminal.seen.contains("\u{1b}[36m"), "no colours: {:?}", terminal.seen);
    // A word of the daemon is enough; nobody looks again and again.
    home.say(&["progress", "50%", "-m", "epoch 3", "--task", &id]);
    terminal.until("50%");
    std::fs::write(&gate, "go\n").unwrap();
    let mut out = String::new();
    client.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    assert_eq!(client.wait().unwrap().code(), Some(3));
    assert!(
        out.starts_with(&format!("{id}  FAILED exit 3")) && !out.contains('\u{1b}') && out.lines().count() == 1,
        "{out:?}"
    );
}

#[test]
fn a_stream_is_not_touched_by_what_is_drawn_beside_it() {
    let home = Home::new();
    let gate = home.gate("gate");
    let (mut terminal, side) = Terminal::open();
    let mut run = home.client(&["run", "-f", "-e", concat!("RINGBACK=", env!("CARGO_BIN_EXE_ringback")), "-c", SCRIPT]);
    run.stderr(Stdio::from(side)).env("TERM", "xterm-256color");
    let mut client = Running::start(run);
    assert_eq!(client.line(), "before\n");
    terminal.until("37%");
    std::fs::write(&gate, "go\n").unwrap();
    terminal.until("FAILED exit 3");
    let said = client.end();
    assert_eq!((said.code, said.out.as_str()), (Some(3), "after\n"));
}

#[test]
fn off_a_terminal_or_where_nobody_wants_it_nothing_is_drawn() {
    let home = Home::new();
    for (args, term) in [(&["wait", "-q"][..], "xterm"), (&["wait", "--json"], "xterm"), (&["wait"], "dumb")] {
        let id = home.run(&["-e", concat!("RINGBACK=", env!("CARGO_BIN_EXE_ringback")), "-c", "sleep 1; exit 3"]);
        let (mut terminal, side) = Terminal::open();
        let mut wait = home.client(&[args, &[&id]].concat());
        wait.stderr(Stdio::from(side)).env("TERM", term);
        assert_eq!(wait.output().unwrap().status.code(), Some(3));
        drop(wait);
        let mut bytes = [0; 64];
        let drawn = terminal.screen.read(&mut bytes).map(|count| bytes[..count].to_vec());
        assert!(drawn.is_err(), "{args:?} drew {drawn:?}");
    }
}

#[test]
fn top_is_drawn_anew_by_events_and_gives_the_terminal_back() {
    let home = Home::new();
    let gate = home.gate("gate");
    let (mut terminal, side) = Terminal::open();
    let mut top = home.client(&["top"]);
    top.stdin(Stdio::from(side.try_clone().unwrap())).stdout(Stdio::from(side)).env("TERM", "xterm");
    let mut client = top.spawn().unwrap();
    drop(top);
    terminal.until("no loose ends in session default");
    let id = home.run(&["-n", "build", "-c", "read x < gate; exit 3"]);
    terminal.until("running");
    terminal.until("build");
    home.say(&["progress", "41", "--task", &id]);
    terminal.until("41%");
    home.kill_daemon();
    std::fs::write(&gate, "go\n").unwrap();
    terminal.until("FAILED exit 3");
    terminal.screen.write_all(b"xq").unwrap();
    assert_eq!(client.wait().unwrap().code(), Some(0));
    terminal.until("\u{1b}[?1049l");
    assert!(terminal.seen.starts_with("\u{1b}[?1049h"), "{:?}", terminal.seen);
    assert_eq!(home.say(&["inbox", "-q"]).out, format!("{id}\n"), "a look is no hearing");
}

#[test]
fn top_prints_one_frame_or_one_document_per_change() {
    let home = Home::new();
    let said = home.say(&["top"]);
    assert_eq!((said.code, said.out.as_str()), (Some(0), ""), "{said:?}");
    assert!(said.err.contains("no loose ends"), "{said:?}");
    let gate = home.gate("gate");
    let mut client = Running::start(home.client(&["top", "--json"]));
    let mut next = || -> serde_json::Value { serde_json::from_str(&client.line()).unwrap() };
    let first = next();
    assert_eq!(
        (&first["schema"], &first["session"], &first["tasks"]),
        (&1.into(), &"default".into(), &serde_json::json!([]))
    );
    let id = home.run(&["-c", "read x < gate; exit 3"]);
    let mut document = next();
    while document["tasks"][0]["state"] != "running" {
        document = next();
    }
    assert_eq!(document["tasks"][0]["id"], *id);
    assert!(home.say(&["top"]).out.contains(&id) && home.say(&["top", "-q", "--all-sessions"]).out.contains(&id));
    std::fs::write(&gate, "go\n").unwrap();
    while document["notices"][0]["exit_code"] != 3 {
        document = next();
    }
    assert_eq!(document["tasks"], serde_json::json!([]));
    client.press_ctrl_c();
    assert_eq!(client.end().code, Some(130));
}
