//! What a command writes is kept byte for byte, whatever the bytes are and however they are read back.

use std::io::Read;
use std::os::fd::AsFd as _;
use std::path::Path;

use ringback_sys::watch::{FileWatch, For, poll};

use crate::support::{HANG, World, machine};

/// What the command of [`a_daemon_stays_flat_while_much_is_written_and_every_byte_is_kept`] writes: a gigabyte, just below the default cap of one output.
const FLOOD_BYTES: u64 = 1_000_000_000;
/// How much the daemon may grow meanwhile.
const GROWTH_BYTES_MAX: u64 = 8 << 20;

/// Runs `cat FILE` and compares what was kept with the file.
#[track_caller]
fn check_kept(world: &World, name: &str, bytes: &[u8]) {
    let file = world.work(name);
    std::fs::write(&file, bytes).unwrap();
    let id = world.run(&["--", "cat", file.to_str().unwrap()]);
    let task = world.end(&id);
    assert_eq!(task["exit_code"], 0, "{name}: {task:#}");
    assert_eq!(task["output"]["bytes"], bytes.len(), "{name}");
    assert_eq!(task["output"]["complete"], true, "{name}");
    assert_eq!(task["output"]["gaps"].as_array().unwrap().len(), 0, "{name}");
    assert!(world.output(&id) == bytes, "{name}: the file differs");
    assert!(world.look(&["logs", "--raw", "-n", "all", &id]).ok().out == bytes, "{name}: logs --raw differs");
}

#[test]
fn any_bytes_come_back_as_they_were_written() {
    let world = World::new();
    let all: Vec<u8> = (0..=255u8).cycle().take(10_000).collect();
    check_kept(&world, "every-byte", &all);
    check_kept(&world, "nul", b"a\0b\0\0\n");
    check_kept(&world, "invalid-utf-8", b"\xff\xfe\xc3\n\xe2\x89\n");
    check_kept(&world, "no-last-newline", b"Hello World!\nThere is no newline");
    check_kept(&world, "nothing", b"");
    check_kept(&world, "one-newline", b"\n");
    check_kept(&world, "one-line-of-a-mebibyte", &vec![b'x'; 1 << 20]);
    check_kept(&world, "wide-characters", "你".repeat(50_000).as_bytes());
    check_kept(&world, "carriage-returns", b"1%\r2%\r100%\r\n");
    check_kept(&world, "escapes", b"\x1b[?1049h\x1b[2J\x1b]0;owned\x07\x1b[6n\x1bPq\x1b\\text\n");
}

#[test]
fn stderr_and_stdout_keep_their_order_in_one_stream() {
    let world = World::new();
    let id = world.sh("i=0; while [ $i -lt 500 ]; do echo out $i; echo err $i >&2; i=$((i+1)); done");
    world.end(&id);
    let expected: String = (0..500).map(|i| format!("out {i}\nerr {i}\n")).collect();
    assert_eq!(String::from_utf8(world.output(&id)).unwrap(), expected);
}

#[test]
fn opening_dev_stderr_truncates_nothing() {
    let world = World::new();
    let id = world.sh(
        "echo first; echo second > /dev/stderr; echo third; echo fourth | tee /dev/stderr; echo fifth > /dev/stdout",
    );
    let task = world.end(&id);
    assert_eq!(task["exit_code"], 0);
    assert_eq!(String::from_utf8(world.output(&id)).unwrap(), "first\nsecond\nthird\nfourth\nfourth\nfifth\n");
}

#[test]
fn split_streams_are_told_apart_and_both_are_whole() {
    let world = World::new();
    let id =
        world.run(&["--split", "-c", "seq 1 20000; seq 1 20000 >&2; echo END; echo END2 >&2; echo x > /dev/stderr"]);
    let task = world.end(&id);
    let numbers: String = (1..=20_000).map(|n| format!("{n}\n")).collect();
    let read = |field: &str| std::fs::read_to_string(task[field].as_str().expect(field)).unwrap();
    assert_eq!(read("stdout_path"), format!("{numbers}END\n"));
    assert_eq!(read("stderr_path"), format!("{numbers}END2\nx\n"));
    assert_eq!(world.look(&["logs", "--raw", "-n", "all", "--stdout", &id]).ok().text(), format!("{numbers}END\n"));
    assert_eq!(world.look(&["logs", "--raw", "-n", "all", "--stderr", &id]).ok().text(), format!("{numbers}END2\nx\n"));
    assert_eq!(world.output(&id).len(), 2 * numbers.len() + 4 + 5 + 2, "and merged by arrival");
}

#[test]
fn pages_of_any_size_put_together_are_the_raw_bytes() {
    let world = World::new();
    let id = world.sh("seq 1 300; printf '\\377\\000 no newline'");
    world.end(&id);
    let raw = world.output(&id);
    for limit in [1usize, 7, 100, 10_000] {
        // A page of one byte costs a client each; the first hundred show it.
        let until = if limit < 100 { 100 * limit.min(7) } else { raw.len() };
        let mut together = Vec::new();
        while together.len() < until {
            let offset = together.len().to_string();
            let page = world.look(&["logs", "--raw", "--offset", &offset, "--limit", &limit.to_string(), &id]).ok();
            assert!(!page.out.is_empty() && page.out.len() <= limit, "{} bytes at {offset}", page.out.len());
            together.extend(page.out);
        }
        assert!(raw.starts_with(&together), "pages of {limit} differ");
    }
    let past = (raw.len() + 5).to_string();
    assert_eq!(world.look(&["logs", "--raw", "--offset", &past, "--limit", "10", &id]).ok().out, b"");
}

#[test]
fn a_follower_sees_every_byte_and_ends_with_the_task() {
    let world = World::new();
    let go = world.fifo("go");
    let id = world.sh(&format!("echo early; read x < {}; seq 1 50000; exit 3", go.word()));
    let follower = world.onlooker(&["logs", "--raw", "-n", "all", "-f", &id]).spawn().unwrap();
    let mut blocked = world.onlooker(&["logs", "--raw", "-n", "all", "-f", &id]).spawn().unwrap();
    go.release(1);
    let task = world.end(&id);
    assert_eq!(task["exit_code"], 3, "a follower that does not read holds nobody up");
    let said = crate::support::finish(follower);
    assert!(said.out == world.output(&id), "the follower saw {} bytes", said.out.len());
    machine::kill(machine::pid_of(&blocked));
    blocked.wait().unwrap();
}

#[test]
fn run_follow_streams_and_mirrors() {
    let world = World::new();
    let said = world.rb(&["run", "-f", "-c", "seq 1 1000; printf end; exit 41"]);
    let expected: String = (1..=1000).map(|n| format!("{n}\n")).collect();
    assert_eq!((said.code, said.text()), (Some(41), format!("{expected}end")), "{}", said.err);
}

#[test]
fn a_daemon_stays_flat_while_much_is_written_and_every_byte_is_kept() {
    let world = World::new();
    world.end(&world.sh("true"));
    let daemon = world.daemon().expect("a daemon");
    let before = machine::resident_bytes(daemon);
    let id = world.sh(&format!("yes 'the quick brown fox jumps over the lazy dog' | head -c {FLOOD_BYTES}"));
    let task = world.end(&id);
    let grown = machine::resident_bytes(daemon).saturating_sub(before);
    assert!(grown < GROWTH_BYTES_MAX, "the daemon grew by {grown} bytes");
    assert_eq!(task["output"]["bytes"], FLOOD_BYTES, "{task:#}");
    check_cycle(Path::new(task["output"]["path"].as_str().unwrap()), b"the quick brown fox jumps over the lazy dog\n");
}

/// Whether the file is `FLOOD_BYTES` of this line, again and again.
fn check_cycle(path: &Path, line: &[u8]) {
    // A block of whole lines, so that each read of one block compares with it.
    let block = line.repeat(1 << 14);
    let mut file = std::fs::File::open(path).unwrap();
    let mut seen = 0;
    let mut buffer = vec![0; block.len()];
    loop {
        let mut filled = 0;
        while filled < buffer.len() {
            match file.read(&mut buffer[filled..]).unwrap() {
                0 => break,
                count => filled += count,
            }
        }
        assert!(buffer[..filled] == block[..filled], "the block at {seen} differs");
        seen += filled as u64;
        if filled < buffer.len() {
            break;
        }
    }
    assert_eq!(seen, FLOOD_BYTES);
}

#[test]
fn an_output_over_its_cap_keeps_head_and_tail_and_says_what_is_missing() {
    let world = World::new();
    let id = world.run(&["--max-output", "4MiB", "-c", "echo HEAD; seq 1 3000000; echo TAIL"]);
    let task = world.end(&id);
    let gaps = task["output"]["gaps"].as_array().unwrap();
    assert_eq!(gaps.len(), 1, "{task:#}");
    let (from, to) = (gaps[0][0].as_u64().unwrap() as usize, gaps[0][1].as_u64().unwrap() as usize);
    assert_eq!(gaps[0][2], "output_limit");
    let path = task["output"]["path"].as_str().unwrap();
    let kept = std::fs::read(path).unwrap();
    let mut expected = b"HEAD\n".to_vec();
    (1..=3_000_000).for_each(|n| expected.extend_from_slice(format!("{n}\n").as_bytes()));
    expected.extend_from_slice(b"TAIL\n");
    assert_eq!(task["output"]["bytes"], expected.len(), "offsets are stable");
    assert!(kept.len() == expected.len() && kept[..from] == expected[..from] && kept[to..] == expected[to..]);
    let blocks = std::os::unix::fs::MetadataExt::blocks(&std::fs::metadata(path).unwrap()) * 512;
    assert!(blocks <= 5 << 20, "{blocks} bytes on disk");
}

/// What one move frees at once, so much more than its cap an output may have for a moment; and what a file system needs
/// itself, to find the parts of a file with a hole.
const MOVE_BYTES: u64 = 1 << 20;
const BLOCKS_BYTES: u64 = 64 << 10;

/// Lets a task write far more than its cap, and looks at the files of its output whenever the last of them is written to.
#[track_caller]
fn check_cap(args: &[&str], files: &[&str], cap_bytes: u64, lines: u64) {
    let world = World::new();
    let go = world.fifo("go");
    let cap = format!("{cap_bytes}");
    let script = format!("read go < {}; yes 'a line of it' | head -n {lines}", go.word());
    let id = world.run(&[args, &["--max-output", &cap, "-c", &script]].concat());
    let paths: Vec<_> = files.iter().map(|name| world.folder(&id).join(name)).collect();
    paths.iter().for_each(|path| machine::until_there(path));
    let last = paths.last().unwrap();
    let watch = FileWatch::modify(last).unwrap();
    go.release(1);
    // A terminal makes two bytes of a newline.
    let total = lines * if args == ["--pty"] { 14 } else { 13 };
    let (mut most, mut looks) = (0, 0);
    loop {
        let facts: Vec<_> = paths.iter().map(|path| std::fs::metadata(path).unwrap()).collect();
        most = facts.iter().map(|facts| std::os::unix::fs::MetadataExt::blocks(facts) * 512).max().unwrap().max(most);
        looks += 1;
        if facts.last().unwrap().len() == total {
            break;
        }
        let rang = poll(&[(watch.as_fd(), For::Read)], Some(HANG)).unwrap();
        assert_eq!(rang, [true], "nothing is written any more");
        watch.drain().unwrap();
    }
    assert!(looks > 20 && most > cap_bytes / 2, "{args:?}: {looks} looks, {most} bytes at most");
    assert!(most <= cap_bytes + MOVE_BYTES + BLOCKS_BYTES, "{args:?}: {most} bytes on disk");
    let task = world.end(&id);
    assert_eq!(task["output"]["gaps"][0][2], "output_limit", "{args:?}: {task:#}");
    let at_end = paths.iter().map(|path| std::os::unix::fs::MetadataExt::blocks(&path.metadata().unwrap()) * 512);
    assert!(at_end.max().unwrap() <= cap_bytes + MOVE_BYTES + BLOCKS_BYTES, "{args:?}");
}

#[test]
fn while_it_is_written_an_output_is_never_larger_than_its_cap_and_one_move() {
    check_cap(&[], &["output"], 8 << 20, 46_000_000);
}

#[test]
fn while_they_are_written_the_files_of_split_streams_are_never_larger_than_their_cap_and_one_move() {
    check_cap(&["--split"], &["stdout", "output"], 4 << 20, 4_000_000);
}

#[test]
fn while_it_is_written_the_output_of_a_terminal_is_never_larger_than_its_cap_and_one_move() {
    check_cap(&["--pty"], &["output"], 4 << 20, 2_000_000);
}
