//! The daemon's side of the files in a task folder; their layouts are in [`crate::form`].

use std::{
    fs::File,
    io::{self, Read as _, Write as _},
    os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::Path,
};

use crate::{
    files,
    form::{
        receipt::{self, Entry},
        record::{self, Record},
        request::{self, Request},
        spec,
    },
};

/// The record of a task's keeper.
pub const STATE: &str = "state";
/// What a command needs, and its environment.
pub const SPEC: &str = "spec";
/// The script of a command that is one.
pub const SCRIPT: &str = "script";
/// The FIFO that a command reads, or what is typed into its terminal.
pub const STDIN: &str = "stdin";
/// The FIFO that a command reports its progress to; a keeper that finds it gives it to the command.
pub const REPORTS: &str = "progress";
/// What its keeper is asked for.
pub const REQUESTS: &str = "requests";
/// What a command wrote.
pub const OUTPUT: &str = "output";
/// When it wrote what.
pub const INDEX: &str = "output.idx";
/// Where its lines begin.
pub const LINES: &str = "output.lines";
/// What it wrote to stdout alone, and to stderr.
pub const STREAMS: [&str; 2] = ["stdout", "stderr"];
/// What its report files said when it ended.
pub const FINDINGS: &str = "findings";

/// How large a spec may be. Linux takes at most 6 MiB of arguments and environment (execve(2)), so more cannot run.
pub const SPEC_BYTES_MAX: usize = 8 << 20;

/// What is written into a spec. The counts in `head` are filled in from the lists.
#[derive(Clone, Debug)]
pub struct SpecIn<'a> {
    /// Numbers and flags.
    pub head: spec::Head,
    /// Working directory.
    pub cwd: &'a [u8],
    /// Program and arguments; at least one.
    pub args: &'a [Vec<u8>],
    /// Environment entries, `KEY=VALUE`.
    pub vars: &'a [Vec<u8>],
}

/// A spec as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Numbers and flags.
    pub head: spec::Head,
    /// Working directory.
    pub cwd: Vec<u8>,
    /// Program and arguments.
    pub args: Vec<Vec<u8>>,
    /// Environment entries, `KEY=VALUE`.
    pub vars: Vec<Vec<u8>>,
}

/// Writes `spec`, which must not be there yet. No arguments, a NUL inside a string, or more than [`SPEC_BYTES_MAX`] is
/// [`io::ErrorKind::InvalidInput`]: such a command cannot be run by any kernel.
pub fn write_spec(dir: &Path, spec: &SpecIn<'_>) -> io::Result<()> {
    // Not renamed into place: a folder counts only once its task is recorded, and a torn spec has a wrong checksum.
    let bytes = encode_spec(spec)?;
    files::create_new(&dir.join(SPEC))?.write_all(&bytes)
}

/// Writes it into one that was made ahead, and is empty.
pub fn fill_spec(mut file: File, spec: &SpecIn<'_>) -> io::Result<()> {
    file.write_all(&encode_spec(spec)?)
}

fn encode_spec(spec: &SpecIn<'_>) -> io::Result<Vec<u8>> {
    if spec.args.is_empty() {
        return Err(refused("there is no program to run"));
    }
    let strings = || std::iter::once(spec.cwd).chain(spec.args.iter().chain(spec.vars).map(Vec::as_slice));
    if strings().any(|string| string.contains(&0)) {
        return Err(refused("there is a NUL byte in the directory, an argument or the environment"));
    }
    let len: usize = strings().map(|string| string.len() + 1).sum();
    if len > SPEC_BYTES_MAX {
        return Err(refused("arguments and environment are larger than 8 MiB"));
    }
    let head = spec::Head {
        args: u32::try_from(spec.args.len()).map_err(|_| refused("there are too many arguments"))?,
        vars: u32::try_from(spec.vars.len()).map_err(|_| refused("there are too many environment entries"))?,
        strings: len as u64,
        ..spec.head
    };
    let mut bytes = Vec::with_capacity(spec::HEAD_BYTES + len);
    bytes.extend_from_slice(&head.encode());
    for string in strings() {
        bytes.extend_from_slice(string);
        bytes.push(0);
    }
    Ok(bytes)
}

/// Reads `spec`; a torn or foreign one is [`io::ErrorKind::InvalidData`].
pub fn read_spec(dir: &Path) -> io::Result<Spec> {
    let bytes = read_bounded(&dir.join(SPEC), spec::HEAD_BYTES + SPEC_BYTES_MAX)?;
    decode_spec(&bytes).ok_or_else(|| damaged("spec"))
}

fn decode_spec(bytes: &[u8]) -> Option<Spec> {
    let head = spec::Head::decode(bytes)?;
    let strings = bytes.get(spec::HEAD_BYTES..)?;
    if strings.len() as u64 != head.strings {
        return None;
    }
    let mut strings = strings.strip_suffix(&[0])?.split(|&byte| byte == 0).map(<[u8]>::to_vec);
    let cwd = strings.next()?;
    let mut list = |count: u32| (0..count).map(|_| strings.next()).collect::<Option<Vec<_>>>();
    let (args, vars) = (list(head.args)?, list(head.vars)?);
    (strings.next().is_none() && !args.is_empty()).then_some(Spec { head, cwd, args, vars })
}

/// Makes `state` with a first record that says: nothing was started. It must not be there yet.
pub fn init_state(dir: &Path) -> io::Result<()> {
    if dir.join(STATE).try_exists()? {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    write_state_anew(dir, &Record::default())
}

/// How many requests fit without more disk space: a stop must reach its keeper also when the disk is full.
const REQUESTS_RESERVED: u64 = 64;

/// Makes `requests` with disk space for the first of them; one that is there already keeps what it holds. Something else in its
/// place is [`io::ErrorKind::AlreadyExists`].
pub fn init_requests(dir: &Path) -> io::Result<()> {
    let path = dir.join(REQUESTS);
    match std::fs::symlink_metadata(&path) {
        Ok(found) if !found.is_file() => return Err(io::ErrorKind::AlreadyExists.into()),
        // The file is somebody's elsewhere, and not to be written to; what it says counts.
        Ok(found) if found.nlink() > 1 => files::write_whole(&path, &std::fs::read(&path)?)?,
        _ => {}
    }
    let file = files::append(&path)?;
    match files::reserve(&file, REQUESTS_RESERVED * request::ENTRY_BYTES as u64) {
        // A file system that cannot reserve (fallocate(2)) still takes requests while it has space.
        Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(()),
        answer => answer,
    }
}

/// Writes `state` anew with this record, where what it held cannot be read and no keeper lives.
pub fn write_state_anew(dir: &Path, record: &Record) -> io::Result<()> {
    let mut bytes = [0; record::FILE_BYTES];
    bytes[..record::SLOT_BYTES].copy_from_slice(&record.encode());
    files::write_whole(&dir.join(STATE), &bytes)
}

/// The newest whole record of `state`; nothing if the file holds none, an error if there is no file.
pub fn read_state(dir: &Path) -> io::Result<Option<Record>> {
    Ok(newest(&open_bounded(&dir.join(STATE))?)?.1)
}

/// What `state` shows to a daemon that takes a task up.
#[derive(Clone, Debug)]
pub struct Found {
    /// Whether somebody has its lock: its keeper, or for a moment the child of one that was killed.
    pub held: bool,
    /// Whether the file is there and not empty.
    pub written: bool,
    /// The newest whole record.
    pub record: Option<Record>,
}

/// Looks for the lock and the record of `state` at once; a file that is not there is neither.
///
/// The lock first: a keeper that ends between the two looks leaves its last word in the record. The look is itself a
/// shared lock for a moment, as in [`crate::lock::is_held`].
pub fn find_state(dir: &Path) -> io::Result<Found> {
    let file = match open_bounded(&dir.join(STATE)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Found { held: false, written: false, record: None });
        }
        opened => opened?,
    };
    let held = !crate::lock::try_shared(&file)?;
    let (written, record) = match newest(&file) {
        Err(error) if error.kind() == io::ErrorKind::InvalidData => (true, None),
        read => read?,
    };
    Ok(Found { held, written, record })
}

/// Whether the same read may give something else soon (open(2), read(2)).
pub fn may_be_read_later(error: &io::Error) -> bool {
    let passing = [libc::EIO, libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::EAGAIN, libc::EINTR, libc::ESTALE];
    error.raw_os_error().is_some_and(|errno| passing.contains(&errno))
}

/// Whether anything is written in an open `state`, and the newest whole record of it.
///
/// One read as a rule: the file has always the same length, which is not asked for. A disk that gives less at once is asked for
/// the rest, since an older record is in front of the newest one half of the time.
fn newest(file: &File) -> io::Result<(bool, Option<Record>)> {
    let mut bytes = [0; record::FILE_BYTES + 1];
    let mut length = 0;
    while length < record::FILE_BYTES {
        match file.read_at(&mut bytes[length..], length as u64) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    if length > record::FILE_BYTES {
        return Err(damaged("file, longer than it can be"));
    }
    Ok((length > 0, Record::newest(&bytes[..length])))
}

/// Appends a request to `requests`, and says how many the file now holds.
///
/// What an earlier write left unfinished (a full disk) is cut off, so that every entry lies where its number says.
pub fn append_request(dir: &Path, request: &Request) -> io::Result<u64> {
    const ENTRY: u64 = request::ENTRY_BYTES as u64;
    let mut file = files::append(&dir.join(REQUESTS))?;
    let len = file.metadata()?.len();
    let whole = len - len % ENTRY;
    if whole != len {
        file.set_len(whole)?;
    }
    if let Err(error) = file.write_all(&request.encode()) {
        // Best effort; the next request cuts it off otherwise.
        let _ = file.set_len(whole);
        return Err(error);
    }
    Ok(whole / ENTRY + 1)
}

/// The receipt, if there is one; a damaged one is [`io::ErrorKind::InvalidData`].
pub fn read_receipt(dir: &Path) -> io::Result<Option<(receipt::Head, Vec<Entry>)>> {
    let bytes =
        match read_bounded(&dir.join("receipt"), receipt::HEAD_BYTES + receipt::ENTRIES_MAX * receipt::ENTRY_BYTES) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            answer => answer?,
        };
    decode_receipt(&bytes).map(Some).ok_or_else(|| damaged("receipt"))
}

fn decode_receipt(bytes: &[u8]) -> Option<(receipt::Head, Vec<Entry>)> {
    let head = receipt::Head::decode(bytes)?;
    let mut entries = bytes.get(receipt::HEAD_BYTES..)?.chunks_exact(receipt::ENTRY_BYTES);
    let list = entries.by_ref().map(Entry::decode).collect::<Option<Vec<_>>>()?;
    (entries.remainder().is_empty() && list.len() == head.entries as usize).then_some((head, list))
}

/// Reads a file that is never longer than `limit`; a longer one is damaged, not memory that we must find.
fn read_bounded(path: &Path, limit: usize) -> io::Result<Vec<u8>> {
    let file = open_bounded(path)?;
    // One byte more than there should be, so that the end is seen without a second, larger buffer.
    let mut bytes = Vec::with_capacity(usize::try_from(file.metadata()?.len()).unwrap_or(0).min(limit) + 32);
    file.take(limit as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > limit { Err(damaged("file, longer than it can be")) } else { Ok(bytes) }
}

/// Opens a file of a task folder for reading; non-blocking, so that a FIFO in its place cannot hold us up.
fn open_bounded(path: &Path) -> io::Result<File> {
    File::options().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)
}

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("damaged {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        form::{
            record::{Cause, Phase},
            request::Ask,
        },
        scratch::Scratch,
    };
    use std::fs;

    fn head() -> spec::Head {
        spec::Head {
            task: 7,
            leftovers: spec::Leftovers::Kill,
            split: true,
            stdin: false,
            term_main_only: true,
            kill_at_output_max: false,
            stop_at_output_max: true,
            umask: 0o27,
            nice: -3,
            wall_ms: 1,
            idle_ms: 2,
            grace_ms: 3,
            output_max: 4,
            limits: [spec::LIMIT_KEEP; spec::LIMITS],
            args: 0,
            vars: 0,
            strings: 0,
            free_min: 5,
            pty: spec::Size::new(80, 24),
            tree: spec::TreeLimits { memory: 6, processes: 7, limits_user: true, cpu_percent: 9 },
            sandbox: spec::Sandbox::ReadOnly,
            sandbox_optional: false,
        }
    }

    fn list(items: &[&str]) -> Vec<Vec<u8>> {
        items.iter().map(|item| item.as_bytes().to_vec()).collect()
    }

    #[test]
    fn a_spec_comes_back_as_it_went_with_empty_and_strange_strings() {
        let scratch = Scratch::new();
        let (args, vars) = (list(&["printf", "", "%s\n", ""]), vec![b"A=".to_vec(), b"B=\xff\xfe\n".to_vec()]);
        write_spec(scratch.path(), &SpecIn { head: head(), cwd: b"/tmp", args: &args, vars: &vars }).unwrap();
        let spec = read_spec(scratch.path()).unwrap();
        assert_eq!((spec.cwd.as_slice(), &spec.args, &spec.vars), (b"/tmp".as_slice(), &args, &vars));
        assert!(spec.head.stop_at_output_max && !spec.head.kill_at_output_max);
        assert_eq!((spec.head.task, spec.head.nice, spec.head.args, spec.head.vars), (7, -3, 4, 2));
        let again = SpecIn { head: head(), cwd: b"", args: &args, vars: &[] };
        assert_eq!(write_spec(scratch.path(), &again).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        fs::remove_file(scratch.path().join("spec")).unwrap();
        write_spec(scratch.path(), &again).unwrap();
        assert_eq!(read_spec(scratch.path()).unwrap().vars, Vec::<Vec<u8>>::new());
    }

    #[test]
    fn what_no_kernel_could_run_is_refused() {
        let scratch = Scratch::new();
        let (nul, good) = (vec![b"a\0b".to_vec()], list(&["true"]));
        let large = vec![vec![b'x'; SPEC_BYTES_MAX]];
        for (cwd, args, vars) in [
            (b"/".as_slice(), &vec![], &good),
            (b"/\0", &good, &good),
            (b"/", &nul, &good),
            (b"/", &good, &nul),
            (b"/", &good, &large),
        ] {
            let error = write_spec(scratch.path(), &SpecIn { head: head(), cwd, args, vars }).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_damaged_spec_is_not_believed() {
        let scratch = Scratch::new();
        let args = list(&["a", "b"]);
        write_spec(scratch.path(), &SpecIn { head: head(), cwd: b"/", args: &args, vars: &[] }).unwrap();
        let whole = fs::read(scratch.path().join("spec")).unwrap();
        let mut flipped = whole.clone();
        flipped[40] ^= 1;
        for bytes in [&whole[..whole.len() - 1], &whole[..100], &[whole.as_slice(), b"x\0"].concat(), &flipped] {
            fs::write(scratch.path().join("spec"), bytes).unwrap();
            assert_eq!(read_spec(scratch.path()).unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
    }

    #[test]
    fn a_new_state_says_that_nothing_was_started() {
        let scratch = Scratch::new();
        assert_eq!(read_state(scratch.path()).unwrap_err().kind(), io::ErrorKind::NotFound);
        init_state(scratch.path()).unwrap();
        let record = read_state(scratch.path()).unwrap().unwrap();
        assert_eq!((record.phase, record.seq), (Phase::New, 0));
        assert_eq!(fs::metadata(scratch.path().join("state")).unwrap().len(), record::FILE_BYTES as u64);
        // A second one would forget what the first has come to.
        assert_eq!(init_state(scratch.path()).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        fs::write(scratch.path().join("state"), b"not a record").unwrap();
        assert_eq!(read_state(scratch.path()).unwrap(), None);
        fs::write(scratch.path().join("state"), vec![0; record::FILE_BYTES + 1]).unwrap();
        assert_eq!(read_state(scratch.path()).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn requests_keep_their_places_after_a_torn_write() {
        let scratch = Scratch::new();
        let stop = Request { ask: Ask::Stop, cause: Cause::Request, grace_ms: 10_000, ..Request::default() };
        let signal = Request { ask: Ask::Signal, signal: 10, ..Request::default() };
        assert_eq!(append_request(scratch.path(), &stop).unwrap(), 1);
        files::append(&scratch.path().join("requests")).unwrap().write_all(b"torn").unwrap();
        assert_eq!(append_request(scratch.path(), &signal).unwrap(), 2);
        let bytes = fs::read(scratch.path().join("requests")).unwrap();
        assert_eq!(bytes.len(), 2 * request::ENTRY_BYTES);
        assert_eq!(Request::decode(&bytes), Some(stop));
        assert_eq!(Request::decode(&bytes[request::ENTRY_BYTES..]), Some(signal));
    }

    #[test]
    fn a_receipt_is_there_whole_or_damaged_or_not() {
        let scratch = Scratch::new();
        assert_eq!(read_receipt(scratch.path()).unwrap(), None);
        let head = receipt::Head { verified_empty: true, observed: 1, entries: 1, ..receipt::Head::default() };
        let entry = Entry { pid: 5, how: 9, ..Entry::default() };
        let bytes = [head.encode().as_slice(), &entry.encode()].concat();
        fs::write(scratch.path().join("receipt"), &bytes).unwrap();
        assert_eq!(read_receipt(scratch.path()).unwrap(), Some((head, vec![entry])));
        fs::write(scratch.path().join("receipt"), &bytes[..bytes.len() - 1]).unwrap();
        assert_eq!(read_receipt(scratch.path()).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
