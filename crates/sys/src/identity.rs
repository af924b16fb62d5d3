//! Which process is meant: a pid together with its start time, never a bare pid.

use std::{fs, io, io::Read as _, os::unix::fs::MetadataExt as _};

pub use crate::form::record::Who;

/// How many bytes of a command line are read: enough to recognise a command, little enough to show.
pub const COMMAND_LINE_BYTES_MAX: usize = 4096;

/// What `/proc/PID/stat` says of a process (proc(5)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcStat {
    /// Process id.
    pub pid: i32,
    /// Its parent.
    pub ppid: i32,
    /// Its process group.
    pub pgrp: i32,
    /// Its session.
    pub session: i32,
    /// The state letter: `R`, `S`, `D`, `T`, `t`, `Z`, `X`, `I`.
    pub state: u8,
    /// When it started, in clock ticks after boot.
    pub start_ticks: u64,
    /// The name of its executable, at most 15 bytes, with invalid UTF-8 replaced.
    pub comm: String,
}

impl ProcStat {
    /// The identity of this process.
    pub fn who(&self) -> Who {
        Who { pid: self.pid, start_ticks: self.start_ticks }
    }

    /// Whether it can still run: neither a zombie nor dead.
    pub fn is_alive(&self) -> bool {
        !matches!(self.state, b'Z' | b'X')
    }
}

/// The id of this boot of the machine; a pid and a start time mean something only within one boot.
pub fn boot_id() -> io::Result<[u8; 16]> {
    parse_uuid(&fs::read_to_string("/proc/sys/kernel/random/boot_id")?).ok_or_else(|| invalid("boot id"))
}

/// The identity of the process that has this pid now.
pub fn who(pid: i32) -> io::Result<Who> {
    Ok(stat(pid)?.who())
}

/// Whether this very process is there and can still run.
pub fn is_alive(who: Who) -> bool {
    stat(who.pid).is_ok_and(|now| now.who() == who && now.is_alive())
}

/// Reads `/proc/PID/stat`; a process that is gone is [`io::ErrorKind::NotFound`].
pub fn stat(pid: i32) -> io::Result<ProcStat> {
    parse_stat(&read_stat(pid)?).ok_or_else(|| invalid("/proc/PID/stat"))
}

/// The command line of a process with spaces between its arguments, or nothing for a zombie or a kernel thread.
pub fn command_line(pid: i32) -> io::Result<Option<String>> {
    let mut bytes = Vec::with_capacity(256);
    let file = fs::File::open(format!("/proc/{pid}/cmdline")).map_err(gone)?;
    file.take(COMMAND_LINE_BYTES_MAX as u64).read_to_end(&mut bytes).map_err(gone)?;
    while bytes.last() == Some(&0) {
        bytes.pop();
    }
    for byte in &mut bytes {
        if *byte == 0 {
            *byte = b' ';
        }
    }
    Ok((!bytes.is_empty()).then(|| String::from_utf8_lossy(&bytes).into_owned()))
}

/// The value of a variable in the environment that this process was executed with, if it has it and we may see it.
pub fn variable(pid: i32, name: &str) -> Option<Vec<u8>> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let value = |entry: &[u8]| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=").map(<[u8]>::to_vec);
    environment.split(|&byte| byte == 0).find_map(value)
}

/// Whether this is ringback itself at work: a daemon, or a keeper. The keeper's own rule is the same (`keeper/procfs.rs`).
pub fn is_ringback(pid: i32, comm: &str) -> bool {
    let keeps_nothing = || fs::read(format!("/proc/{pid}/environ")).is_ok_and(|environment| environment.is_empty());
    comm.starts_with("ringback")
        && (variable(pid, "RINGBACK_DAEMON").is_some_and(|value| value == b"1") || keeps_nothing() && keeps_a_task(pid))
}

/// Whether the record in the folder that this process stands in names it as the keeper, or nobody who lives.
fn keeps_a_task(pid: i32) -> bool {
    let folder = std::path::PathBuf::from(format!("/proc/{pid}/cwd"));
    let Ok(Some(record)) = crate::task_files::read_state(&folder) else { return false };
    record.keeper.pid == pid || !is_alive(record.keeper)
}

/// Whether this process has something in that folder open, as far as we may see.
pub fn holds_file_in(pid: i32, folder: &std::path::Path) -> bool {
    let Ok(open) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    open.flatten().any(|fd| fs::read_link(fd.path()).is_ok_and(|target| target.starts_with(folder)))
}

/// Whether this very process has that file open, as far as we may see; one that is ending has let go of all its files before it
/// is seen to be gone (`do_exit`, kernel/exit.c).
pub fn has_open(who: Who, file: &fs::File) -> bool {
    let (Ok(wanted), Ok(open)) = (file.metadata(), fs::read_dir(format!("/proc/{}/fd", who.pid))) else { return false };
    let is_it = |found: fs::Metadata| (found.dev(), found.ino()) == (wanted.dev(), wanted.ino());
    open.flatten().any(|fd| fs::metadata(fd.path()).is_ok_and(is_it)) && is_alive(who)
}

/// The bytes of `/proc/PID/stat`.
pub(crate) fn read_stat(pid: i32) -> io::Result<Vec<u8>> {
    read_entry(&format!("/proc/{pid}/stat"))
}

/// How much of a file of `/proc` is read at once: more than any line of it that we look at. Such a file has no length,
/// so reading it with growing buffers costs a system call and a new rendering by the kernel for each size.
const ENTRY_BYTES: usize = 4096;

/// The bytes of a file of a process in `/proc`; a process that is gone is [`io::ErrorKind::NotFound`].
pub(crate) fn read_entry(path: &str) -> io::Result<Vec<u8>> {
    let mut file = fs::File::open(path).map_err(gone)?;
    let mut bytes = vec![0; ENTRY_BYTES];
    let mut length = 0;
    loop {
        match file.read(&mut bytes[length..]).map_err(gone)? {
            0 => break,
            more => length += more,
        }
        if length < bytes.len() {
            break;
        }
        bytes.resize(2 * length, 0);
    }
    bytes.truncate(length);
    Ok(bytes)
}

/// The fields of a stat line from the third one (the state) on.
///
/// The second field is the name in parentheses, and a name may itself hold `) `, so the last parenthesis counts.
pub(crate) fn fields(line: &[u8]) -> Option<impl Iterator<Item = &str>> {
    let close = line.iter().rposition(|&byte| byte == b')')?;
    Some(std::str::from_utf8(line.get(close + 1..)?).ok()?.split_ascii_whitespace())
}

pub(crate) fn parse_stat(line: &[u8]) -> Option<ProcStat> {
    let open = line.iter().position(|&byte| byte == b'(')?;
    let close = line.iter().rposition(|&byte| byte == b')')?;
    let mut fields = fields(line)?;
    Some(ProcStat {
        pid: std::str::from_utf8(&line[..open]).ok()?.trim().parse().ok()?,
        comm: String::from_utf8_lossy(line.get(open + 1..close)?).into_owned(),
        state: *fields.next()?.as_bytes().first()?,
        ppid: fields.next()?.parse().ok()?,
        pgrp: fields.next()?.parse().ok()?,
        session: fields.next()?.parse().ok()?,
        // Field 22; after the session (field 6) fifteen are passed over.
        start_ticks: fields.nth(15)?.parse().ok()?,
    })
}

fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let digits: Vec<u8> = text.trim().bytes().filter(|&byte| byte != b'-').collect();
    let mut id = [0; 16];
    if digits.len() != 2 * id.len() {
        return None;
    }
    for (byte, pair) in id.iter_mut().zip(digits.chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(id)
}

/// A process that ends between open and read gives `ESRCH` (proc(5)); to the caller it is as gone as with `ENOENT`.
pub(crate) fn gone(error: io::Error) -> io::Error {
    if error.raw_os_error() == Some(libc::ESRCH) { io::ErrorKind::NotFound.into() } else { error }
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{what} is not as proc(5) describes it"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    fn own_pid() -> i32 {
        i32::try_from(std::process::id()).unwrap()
    }

    #[test]
    fn a_name_with_parentheses_and_spaces_does_not_shift_the_fields() {
        let line = b"42 (a) R 9 (b) S 1 40 41 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 10 11\n";
        let stat = parse_stat(line).unwrap();
        assert_eq!(stat.comm, "a) R 9 (b");
        assert_eq!((stat.pid, stat.ppid, stat.pgrp, stat.session, stat.state), (42, 1, 40, 41, b'S'));
        assert_eq!(stat.start_ticks, 987_654);
        assert_eq!(parse_stat(b"42 (cut off) S 1"), None);
        assert_eq!(parse_stat(b""), None);
    }

    #[test]
    fn we_are_alive_and_another_start_time_is_not_us() {
        let us = who(own_pid()).unwrap();
        assert!(is_alive(us));
        assert!(!is_alive(Who { start_ticks: us.start_ticks + 1, ..us }));
        assert!(!is_alive(Who::default()));
    }

    #[test]
    fn a_file_is_open_in_whoever_has_it_until_he_ends() {
        let (first, second) = (fs::File::open("/dev/null").unwrap(), tempfile::tempfile().unwrap());
        let us = who(own_pid()).unwrap();
        assert!(has_open(us, &first) && has_open(us, &second));
        assert!(!has_open(Who { start_ticks: us.start_ticks + 1, ..us }, &first));
        let mut child = Command::new("/bin/cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let cat = who(i32::try_from(child.id()).unwrap()).unwrap();
        assert!(has_open(cat, &first) && !has_open(cat, &second));
        drop(child.stdin.take());
        let pidfd = crate::pidfd::PidFd::open(cat).unwrap();
        crate::watch::poll(&[(std::os::fd::AsFd::as_fd(&pidfd), crate::watch::For::Read)], None).unwrap();
        assert!(!has_open(cat, &first));
        child.wait().unwrap();
    }

    #[test]
    fn a_zombie_is_not_alive_and_a_missing_process_is_not_found() {
        let mut child = Command::new("/bin/cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let cat = who(pid).unwrap();
        assert!(is_alive(cat));
        let pidfd = crate::pidfd::PidFd::open(cat).unwrap();
        drop(child.stdin.take());
        crate::watch::poll(&[(std::os::fd::AsFd::as_fd(&pidfd), crate::watch::For::Read)], None).unwrap();
        assert_eq!(stat(pid).unwrap().state, b'Z');
        assert!(!is_alive(cat));
        assert_eq!(command_line(pid).unwrap(), None);
        child.wait().unwrap();
        assert_eq!(stat(pid).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_command_line_is_bounded_and_readable() {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "echo ready; read x", "long"]).arg("x".repeat(9000));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // Until the new program runs, its command line may still read as empty.
        io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0; 6]).unwrap();
        let line = command_line(i32::try_from(child.id()).unwrap()).unwrap().unwrap();
        assert!(line.starts_with("/bin/sh -c echo ready; read x long xxx"), "{line:.60}");
        assert_eq!(line.len(), COMMAND_LINE_BYTES_MAX);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_boot_id_is_sixteen_bytes_that_stay() {
        assert_eq!(boot_id().unwrap(), boot_id().unwrap());
        assert_eq!(parse_uuid("00010203-0405-0607-0809-0a0b0c0d0e0f\n").unwrap()[15], 15);
        assert_eq!(parse_uuid("00010203"), None);
        assert_eq!(parse_uuid("zz010203-0405-0607-0809-0a0b0c0d0e0f"), None);
    }
}
