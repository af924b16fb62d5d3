//! What is drawn on a terminal, and only there: how far a task is while somebody waits for it.

use std::fs::File;
use std::io::Read as _;
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
