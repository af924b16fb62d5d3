//! `attach` at a real terminal: what is shown and typed, who leaves, and in what state the terminal is left.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use ringback_sys::pidfd::PidFd;
use ringback_sys::watch::{For, poll};
use ringback_sys::{identity, signals};
use rustix::pty::OpenptFlags;
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::home::Home;

/// Nothing here takes this long unless it hangs.
const PATIENCE: Duration = Duration::from_secs(30);

/// A person's terminal with a program at it.
struct Person {
    master: File,
    peer: OwnedFd,
    child: Child,
    seen: String,
}

impl Person {
    fn at(home: &Home, args: &[&str]) -> Self {
        let master = ringback_sys::terminal::open_master().unwrap();
        let peer = rustix::pty::ioctl_tiocgptpeer(&master, OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        tcsetwinsize(&peer, Winsize { ws_row: 30, ws_col: 90, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let end = || Stdio::from(peer.try_clone().unwrap());
        let child = home.client(args).stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        Self { master: master.into(), peer, child, seen: String::new() }
    }

    fn types(&mut self, keys: &[u8]) {
        self.master.write_all(keys).unwrap();
    }

    /// Waits until the terminal has shown this; everything that it has shown so far.
    #[track_caller]
    fn sees(&mut self, text: &str) -> String {
        let until = Instant::now() + PATIENCE;
        while !self.seen.contains(text) {
            let left = until.saturating_duration_since(Instant::now());
            assert!(
                poll(&[(self.master.as_fd(), For::Read)], Some(left)).unwrap() == [true],
                "no {text:?} in {:?}",
                self.seen
            );
            let mut bytes = [0; 4096];
            let count = self.master.read(&mut bytes).unwrap();
            self.seen.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
        std::mem::take(&mut self.seen)
    }

    fn pid(&self) -> PidFd {
        identity::who(i32::try_from(self.child.id()).unwrap()).and_then(PidFd::open).unwrap()
    }

    /// Waits until the program has left; its exit code, or minus the signal.
    #[track_caller]
    fn left(&mut self) -> i32 {
        assert_eq!(poll(&[(self.pid().as_fd(), For::Read)], Some(PATIENCE)).unwrap(), [true], "{:?}", self.seen);
        let status = self.child.wait().unwrap();
        status.code().unwrap_or_else(|| -status.signal().unwrap())
    }

    fn is_raw(&self) -> bool {
        !tcgetattr(&self.peer).unwrap().local_modes.contains(LocalModes::ICANON)
    }
}

impl Drop for Person {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const ECHO: &str = "stty size; while read word; do echo \"<$word>\"; done; exit 5";

#[test]
fn keys_go_to_the_task_and_its_code_comes_back() {
    let home = Home::new();
    let id = home.run(&["--pty", "-c", ECHO]);
    let mut person = Person::at(&home, &["attach", &id]);
    person.types(b"one\r");
    person.sees("<one>\r\n");
    assert!(person.is_raw());
    assert_eq!(home.say(&["show", "--json", &id]).json()["pty"]["columns"], 90);
    person.types(b"\x04");
    person.sees("FAILED exit 5");
    assert_eq!((person.left(), person.is_raw()), (5, false));
    assert_eq!(home.say(&["ps", "-q"]).out, "", "what was shown to its own session is heard");
}

#[test]
fn who_leaves_by_the_chord_leaves_the_task_running() {
    let home = Home::new();
    let id = home.run(&["--pty", "-c", ECHO]);
    let mut person = Person::at(&home, &["attach", &id]);
    person.types(b"one\r");
    person.sees("<one>\r\n");
    person.types(b"tw\x1d");
    let said = person.sees("ringback attach");
    assert!(said.contains("detached"), "{said:?}");
    assert_eq!((person.left(), person.is_raw()), (130, false));
    // What was there is shown to the next one, who has other keys.
    let mut next = Person::at(&home, &["attach", "--detach-keys", "ctrl-p,ctrl-q", &id]);
    next.sees("<one>\r\ntw");
    next.types(b"o\r");
    next.sees("<two>");
    next.types(b"\x10\x11");
    next.sees("detached");
    assert_eq!(next.left(), 130);
    assert_eq!(home.say(&["show", "--json", &id]).json()["state"], "running");
}

#[test]
fn all_viewers_see_the_same_and_a_new_size_reaches_the_program() {
    let home = Home::new();
    let id =
        home.run(&["--pty", "-c", "trap 'stty size' WINCH; echo up; while :; do read word && echo \"<$word>\"; done"]);
    let mut first = Person::at(&home, &["attach", &id]);
    first.sees("up");
    let mut second = Person::at(&home, &["attach", &id]);
    second.sees("up");
    first.types(b"one\r");
    first.sees("<one>");
    second.sees("<one>");
    second.types(b"two\r");
    first.sees("<two>");
    second.sees("<two>");
    tcsetwinsize(&second.peer, Winsize { ws_row: 12, ws_col: 70, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    second.pid().signal(signals::SIGWINCH).unwrap();
    first.sees("12 70");
    home.say(&["kill", "--now", &id]);
    assert_eq!((first.left(), second.left()), (137, 137));
}

#[test]
fn the_terminal_is_given_back_whatever_ends_the_client() {
    let home = Home::new();
    let id = home.run(&["--pty", "-c", "printf '\\033[?1049h\\033[?25lfull screen'; exec sleep 1000"]);
    for (signal, code) in [(signals::SIGTERM, 143), (signals::SIGHUP, 129), (signals::SIGKILL, -9)] {
        let mut person = Person::at(&home, &["attach", &id]);
        person.sees("full screen");
        assert!(person.is_raw());
        person.pid().signal(signal).unwrap();
        assert_eq!(person.left(), code);
        // After a SIGKILL by its guard, which does not know what was set and takes all of it back.
        person.sees(if code < 0 { "\u{1b}[?25h" } else { "\u{1b}[?1049l" });
        let until = Instant::now() + PATIENCE;
        while person.is_raw() {
            assert!(Instant::now() < until, "the terminal stays raw after signal {signal}");
            std::thread::yield_now();
        }
    }
    assert_eq!(home.say(&["show", "--json", &id]).json()["state"], "running");
}

#[test]
fn run_f_with_a_terminal_is_at_it() {
    let home = Home::new();
    let mut person = Person::at(&home, &["run", "-f", "--pty", "-c", "stty size; read word; echo \"<$word>\"; exit 3"]);
    person.sees("30 90\r\n");
    person.types(b"word\r");
    person.sees("<word>");
    assert_eq!(person.left(), 3);
}

#[test]
fn a_task_without_a_terminal_shows_its_output_and_takes_our_stdin() {
    let home = Home::new();
    let id = home.run(&["--stdin", "-c", "echo up; cat; exit 4"]);
    let mut client = home.client(&["attach", &id]);
    let mut child = client.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"typed\n").unwrap();
    let out = child.wait_with_output().unwrap();
    assert_eq!((out.status.code(), out.stdout.as_slice()), (Some(4), &b"up\ntyped\n"[..]), "{out:?}");
    // A stdin in which there is nothing says nothing about the task's.
    let id = home.run(&["--stdin", "-c", "echo up; read word; echo \"<$word>\""]);
    let looks = home.client(&["attach", &id]).spawn().unwrap();
    home.say(&["send", &id, "word"]);
    let out = looks.wait_with_output().unwrap();
    assert_eq!((out.status.code(), out.stdout.as_slice()), (Some(0), &b"up\n<word>\n"[..]), "{out:?}");
    let ended = home.say(&["attach", &id]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "up\n<word>\n"));
    let said = home.say(&["attach", "--detach-keys", "nokey", &id]);
    assert_eq!(said.code, Some(2), "{said:?}");
}
