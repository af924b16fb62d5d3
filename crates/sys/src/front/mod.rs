//! The front: the plain `run` and `--version`, answered before the C library has begun.
//!
//! It knows no rule. It looks whether a command line may be plain, hands it as it is to a daemon that runs, and writes what that
//! says. Whatever is not as usual is left to the main program, which then starts as if nobody had been here; a request that was
//! sent is left to it with its connection, for it is never sent twice.

mod call;
mod place;
mod stack;
mod words;

use crate::raw::caller::{self, Follow, Kind};
use crate::raw::{Errno, Fd, poll, process, socket};
use call::{Answer, Facts};
use stack::Stack;
use words::Wish;

/// How long is waited for an answer before the main program goes on waiting, milliseconds.
const ANSWER_MS: u64 = 1000;
/// How much of an answer is read at most; that to the plain forms is well below it.
const ANSWER_BYTES: usize = 8 << 10;
/// As long as a path may be (`PATH_MAX`).
const PATH_BYTES: usize = 4096;
/// How many bytes a command line has at most whose words are put back if the main program is to read them.
const WORDS_BYTES: usize = 4096;
const STDOUT: i32 = 1;
const STDERR: i32 = 2;

/// What the main program finds of us.
#[repr(C)]
pub(crate) struct Left {
    /// The connection on which the request was sent; 0 is none.
    pub(crate) connection: usize,
    /// How much of the answer stands on stdout already.
    pub(crate) written: usize,
}

/// Does what is plain, and ends the process; comes back if the main program is to do it.
///
/// # Safety
/// The stack must be that of the start of a process (System V ABI).
pub(crate) unsafe fn run(stack: *const usize, left: &mut Left) {
    // SAFETY: the caller answers for the stack.
    let Some(stack) = (unsafe { Stack::of(stack) }) else { return };
    match words::wish(stack.words()) {
        Some(Wish::Version) if are_open() => say_version(),
        Some(Wish::Run(program)) if are_open() => {
            // Nothing is left to be said in the middle.
            let _main_goes_on = ask(&stack, program, left);
        }
        _ => {}
    }
}

/// Whether the standard descriptors are there: the main program says what does not work without.
fn are_open() -> bool {
    const NOT_OPEN: i16 = 0x20;
    let mut slots = [0, 1, 2].map(|fd| poll::Slot::new(fd, 0));
    poll::wait(&mut slots, Some(0)).is_ok() && slots.iter().all(|slot| slot.ready & NOT_OPEN == 0)
}

fn say_version() {
    caller::ignore_broken_pipes();
    if caller::say(STDOUT, concat!("ringback ", env!("CARGO_PKG_VERSION"), "\n").as_bytes()).is_ok() {
        process::exit(0);
    }
}

/// Hands the command line to the daemon. Comes back with nothing, or with a connection left, if the main program is to go on.
fn ask(stack: &Stack, program: Option<&[u8]>, left: &mut Left) -> Option<()> {
    let mut saved = [0; WORDS_BYTES];
    let words = stack.copy_words(&mut saved)?;
    let mut path = [0; PATH_BYTES];
    let mut cwd = [0; PATH_BYTES];
    let cwd = caller::directory(&mut cwd).ok()?;
    if caller::kind(cwd, Follow::Yes) != Ok(Kind::Directory) {
        return None;
    }
    if let Some(program) = program {
        place::find(program, stack.environment(), &mut path)?;
    }
    let home = place::socket(stack.environment(), &mut path)?;
    // A link to a socket would be that of another home.
    if caller::kind(home, Follow::No) != Ok(Kind::Socket) {
        return None;
    }
    let connection = socket::connect(home.to_bytes()).ok()?;
    if !is_there(&connection, stack.user()?) {
        return None;
    }
    let facts = Facts {
        words,
        environment: stack.environment(),
        directory: cwd.to_bytes(),
        umask: caller::umask(),
        nice: caller::nice(),
    };
    // The command may look for itself by its text (`pkill -f`), and what is in it is nobody else's business.
    stack.hide_words(words::VISIBLE);
    let Some(()) = call::send(&connection, &facts) else {
        // It has not the whole of it, so it will not do it.
        stack.put_back(words);
        return None;
    };
    let mut buffer = [0; ANSWER_BYTES];
    match answer(&connection, &mut buffer) {
        Some(Answer::Said { stdout, stderr }) => match say(stdout, stderr) {
            Ok(()) => process::exit(0),
            Err(written) => left.written = written,
        },
        Some(Answer::OldWay) => {
            stack.put_back(words);
            return None;
        }
        None => {}
    }
    stack.put_back(words);
    left.connection = usize::try_from(connection.number()).unwrap_or(0);
    core::mem::forget(connection);
    None
}

/// Whether a living process of our user listens. Who is killed while it starts another program leaves that one its socket for a
/// moment (`reach.rs` of the client): what is sent there is never read.
fn is_there(connection: &Fd, user: u32) -> bool {
    let Ok(peer) = socket::peer(connection) else { return false };
    let mut ended = [poll::Slot::new(peer.hold.number(), poll::IN)];
    peer.uid == user && poll::wait(&mut ended, Some(0)) == Ok(0)
}

/// The answer if it came whole and is one that we know; it is left in the socket, for whoever knows more.
fn answer<'a>(connection: &Fd, buffer: &'a mut [u8]) -> Option<Answer<'a>> {
    let mut slots = [poll::Slot::new(connection.number(), poll::IN)];
    if poll::wait(&mut slots, Some(ANSWER_MS)) != Ok(1) {
        return None;
    }
    match socket::peek(connection, buffer) {
        Ok(bytes) => Answer::read(bytes),
        // The kernel says so, and only once, where the daemon left before it had read everything: so it has not done it.
        Err(Errno::ECONNRESET) => Some(Answer::OldWay),
        Err(_) => None,
    }
}

/// Writes the answer; an error is how much of stdout was written. A stderr that is gone is no reason to fail.
fn say(stdout: &[u8], stderr: &[u8]) -> Result<(), usize> {
    caller::ignore_broken_pipes();
    caller::say(STDOUT, stdout)?;
    let _unheard = caller::say(STDERR, stderr);
    Ok(())
}
