//! A task with a terminal: what it shows and what is typed, its size, its end, and the death of its keeper.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its task has failed")]

mod support;

use ringback_sys::form::record::{Cause, Phase, Record};
use ringback_sys::form::request::{Ask, Request};
use ringback_sys::form::sizes::{ENTRY_BYTES, Entry};
use ringback_sys::form::spec::Size;
use support::{Order, Task, code, is_alive, signal};

const SIZE: Size = Size { columns: 101, rows: 33 };

fn terminal(script: &str) -> Order {
    Order::sh(script).with(|head| head.pty = Some(SIZE))
}

fn shows(task: &Task, text: &str) -> Vec<u8> {
    task.wait_output(|output| String::from_utf8_lossy(output).contains(text))
}

fn sizes(task: &Task) -> Vec<(u16, u16, u64)> {
    let file = task.file("output.sizes");
    let entries = file.chunks(ENTRY_BYTES).map(|entry| Entry::decode(entry).unwrap());
    entries.map(|entry| (entry.size.columns, entry.size.rows, entry.offset)).collect()
}

#[test]
fn stdio_is_a_terminal_that_controls_the_session() {
    let script = "test -t 0 && test -t 1 && test -t 2 && stty size && tty && echo to the terminal > /dev/tty";
    let record = {
        let task = terminal(script).start();
        let record = task.wait_closed();
        let text = task.text();
        assert!(text.starts_with("33 101\r\n/dev/pts/") && text.ends_with("to the terminal\r\n"), "{text:?}");
        assert_eq!(sizes(&task), [(101, 33, 0)]);
        record
    };
    assert_eq!((code(&record), record.output_complete, record.leftovers_count), (Some(0), true, 0));
}

#[test]
fn what_is_typed_comes_in_order_and_is_echoed() {
    let task = terminal("read one; read two; echo \"<$one|$two>\"; exit 3").start();
    task.wait_started();
    task.send(b"first\r");
    task.send("zweite\u{e4}x\x7f\x7f\r".as_bytes());
    let record = task.wait_closed();
    // The second backspace took both bytes of the character.
    assert!(task.text().ends_with("<first|zweite>\r\n"), "{:?}", task.text());
    assert!(task.text().starts_with("first\r\n"), "{:?}", task.text());
    assert_eq!(code(&record), Some(3));
}

#[test]
fn control_characters_are_signals_and_the_end_of_input() {
    // A shell that is about to start a program says what it caught only after that one.
    let task = terminal("trap 'echo caught; trap - INT' INT; echo ready; while :; do sleep 0.1; done").start();
    shows(&task, "ready");
    task.send(b"\x03");
    shows(&task, "caught");
    task.send(b"\x03");
    assert_eq!(signal(&task.wait_closed()), Some(2));
    let task = terminal("cat; echo over").start();
    task.wait_started();
    task.send(b"\x04");
    assert_eq!(code(&task.wait_closed()), Some(0));
    assert!(task.text().ends_with("over\r\n"), "{:?}", task.text());
}

#[test]
fn a_new_size_is_told_to_the_program_and_noted_with_its_place() {
    let task = terminal("trap 'stty size' WINCH; echo ready; while :; do sleep 0.1; done").start();
    shows(&task, "ready");
    let size = Size { columns: 90, rows: 20 };
    task.ask(Request { ask: Ask::Resize, size, ..Request::default() });
    shows(&task, "20 90\r\n");
    assert_eq!(sizes(&task), [(101, 33, 0), (90, 20, 7)]);
    task.stop_and_wait(1000);
}

#[test]
fn a_flood_comes_whole_and_more_input_than_fits_waits() {
    let script = "stty raw -echo; echo ready; head -c 300000 | cksum; seq 200000";
    let task = terminal(script).start();
    shows(&task, "ready");
    let input: Vec<u8> = (0..300_000_u32).map(|n| (n % 251) as u8).collect();
    task.send(&input);
    let record = task.wait_closed();
    let sum = {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("input");
        std::fs::write(&path, &input).unwrap();
        let sum = std::process::Command::new("cksum").stdin(std::fs::File::open(path).unwrap()).output().unwrap();
        String::from_utf8(sum.stdout).unwrap().trim().to_owned()
    };
    let numbers = (1..=200_000).flat_map(|n: u32| [n.to_string(), "\n".to_owned()]).collect::<String>();
    assert!(task.text() == format!("ready\n{sum}\n{numbers}"), "{:?}", &task.text()[..200]);
    assert!(record.output_complete && code(&record) == Some(0));
}

#[test]
fn limits_and_stop_end_it_as_any_other() {
    let task = terminal("sleep 300").with(|head| head.wall_ms = 200).start();
    let record = task.wait_closed();
    assert_eq!((record.cause, record.phase), (Cause::Wall, Phase::Closed));
    let task = terminal("trap '' TERM HUP; echo ready; sleep 300 & while :; do sleep 300; done").start();
    shows(&task, "ready");
    let (record, receipt, _) = task.stop_and_wait(100);
    assert_eq!(record.cause, Cause::Request);
    assert!(receipt.verified_empty && receipt.survivors == 0, "{receipt:?}");
}

#[test]
fn a_command_that_closes_its_terminal_has_not_ended() {
    let script = "exec < /dev/null > /dev/null 2>&1; sleep 0.3; exec > /dev/tty; echo again; exit 4";
    let task = terminal(script).start();
    let record = task.wait_closed();
    assert_eq!((task.text().as_str(), code(&record)), ("again\r\n", Some(4)));
}

#[test]
fn what_outlives_the_command_keeps_the_terminal_and_its_output_is_kept() {
    let task = terminal("trap '' HUP; (read _ < /dev/null; sleep 0.5; echo late) & echo early; exit 6").start();
    let ended = task.wait_ended();
    assert_eq!(code(&ended), Some(6));
    let record = task.wait_closed();
    assert_eq!(task.text(), "early\r\nlate\r\n");
    assert!(record.output_complete);
}

/// Types, and sees what came of it, before and after its keeper was killed.
fn survives(take_from_keeper: bool) {
    let mut task = terminal("while read word; do echo \"got $word\"; done; echo over; exit 5").start();
    task.wait_started();
    if take_from_keeper {
        // As a daemon that was started after the task.
        task.terminal = None;
        let keeper = ringback_sys::identity::who(task.keeper_pid()).unwrap();
        let keeper = ringback_sys::pidfd::PidFd::open(keeper).unwrap();
        match ringback_sys::terminal::master_of(&keeper) {
            Ok(master) => task.terminal = Some(master),
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => return,
            Err(error) => panic!("{error}"),
        }
    }
    task.send(b"one\r");
    shows(&task, "got one\r\n");
    for round in 0..5 {
        let main = task.record().main.pid;
        task.kill_keeper();
        assert!(is_alive(main), "the terminal was hung up");
        // Typed while nobody keeps it.
        task.send(format!("round {round}\r").as_bytes());
        task.take_over();
        shows(&task, &format!("got round {round}\r\n"));
    }
    task.send(b"\x04");
    let record = task.wait_closed();
    let expected = ["one", "round 0", "round 1", "round 2", "round 3", "round 4"].map(|word| format!("got {word}\r\n"));
    let said: String = task.text().split_inclusive('\n').filter(|line| line.starts_with("got")).collect();
    assert_eq!(said, expected.concat());
    assert!(task.text().ends_with("over\r\n") && record.output_complete);
    assert_eq!(code(&record), Some(5));
}

#[test]
fn a_killed_keeper_costs_nothing_while_the_master_is_held() {
    survives(false);
}

#[test]
fn a_later_holder_takes_the_master_from_the_keeper() {
    survives(true);
}

#[test]
fn nothing_shown_is_lost_when_keepers_die() {
    let mut task =
        terminal("stty -opost; i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done; exit 7").start();
    for round in 1..=8 {
        task.wait_output(|output| output.len() > round * 20_000);
        task.kill_keeper();
        task.take_over();
    }
    let record = task.wait_closed();
    let lines: String = (0..20000).map(|i| ["line ", &i.to_string(), "\n"].concat()).collect();
    assert!(task.text() == lines, "the bytes differ");
    assert!(record.output_complete && code(&record) == Some(7), "{record:?}");
}

#[test]
fn without_anybody_who_holds_it_the_terminal_is_hung_up_and_that_is_what_is_recorded() {
    let mut task = terminal("echo ready; sleep 300").start();
    shows(&task, "ready");
    let main = task.record().main.pid;
    task.terminal = None;
    task.kill_keeper();
    assert_eq!(support::reap(main), 1, "SIGHUP");
    task.append(Request { ask: Ask::Witness, status: 1, ..Request::default() });
    task.take_over();
    let record = task.wait_closed();
    assert_eq!((signal(&record), record.phase), (Some(1), Phase::Closed), "{record:?}");
}

#[test]
fn a_keeper_without_its_terminal_starts_nothing() {
    let mut task = terminal("echo never").prepare();
    task.terminal = None;
    let task = task.started();
    let Record { phase, errno, .. } = task.wait_closed();
    assert_eq!((phase, errno, task.text().as_str()), (Phase::StartFailed, 25, ""));
}
