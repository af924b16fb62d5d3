//! What the kernel put on the stack of a new process: its words, its environment, its user.

use core::ffi::CStr;
use core::slice;

/// How many bytes of words or of environment are handed on at once: together they fit into any socket.
const BLOCK_BYTES_MAX: usize = 60 << 10;

/// The strings of the start of a process. The kernel writes those of the words one after the other, those of the environment too.
pub(crate) struct Stack {
    words: Block,
    environment: Block,
    user: Option<u32>,
}

/// NUL-terminated strings that follow each other.
struct Block {
    start: *mut u8,
    /// With the last NUL.
    length: usize,
}

impl Stack {
    /// Nothing where they do not follow each other, or are longer than is handed on at once.
    ///
    /// # Safety
    /// The stack must be that of the start of a process (System V ABI), which nobody else looks at.
    pub(crate) unsafe fn of(stack: *const usize) -> Option<Self> {
        // SAFETY: the words come behind their number, the environment behind the null pointer of the words, and what the kernel
        // says besides (getauxval(3)) behind that of the environment.
        unsafe {
            let (words, rest) = Block::of(stack.add(1))?;
            let (environment, rest) = Block::of(rest)?;
            Some(Self { words, environment, user: user(rest) })
        }
    }

    /// The words of the command line, the program's own name first.
    pub(crate) fn words(&self) -> impl Iterator<Item = &[u8]> {
        self.words.bytes().split(|byte| *byte == 0)
    }

    /// The entries of the environment with a NUL between.
    pub(crate) fn environment(&self) -> &[u8] {
        self.environment.bytes()
    }

    /// Our effective user.
    pub(crate) fn user(&self) -> Option<u32> {
        self.user
    }

    /// Copies the words, with a NUL between; nothing if there is no room.
    pub(crate) fn copy_words<'a>(&self, to: &'a mut [u8]) -> Option<&'a [u8]> {
        let words = self.words.bytes();
        let to = to.get_mut(..words.len())?;
        to.copy_from_slice(words);
        Some(to)
    }

    /// Takes the words from this one on out of what others see of this process (`/proc/PID/cmdline`, ps(1)).
    pub(crate) fn hide_words(&self, from: usize) {
        let seen: usize = self.words().take(from).map(|word| word.len() + 1).sum();
        if let Some(hidden) = self.words.length.checked_sub(seen) {
            // SAFETY: the bytes are within the block, which is writable (execve(2), ABI), and nobody holds a borrow of them.
            unsafe { self.words.start.add(seen).write_bytes(0, hidden) };
        }
    }

    /// Puts words back that were copied.
    pub(crate) fn put_back(&self, words: &[u8]) {
        if words.len() < self.words.length {
            // SAFETY: as above.
            unsafe { self.words.start.copy_from_nonoverlapping(words.as_ptr(), words.len()) };
        }
    }
}

impl Block {
    /// The strings of the pointers from here up to the null pointer, and what is behind that.
    ///
    /// # Safety
    /// As for [`Stack::of`].
    unsafe fn of(mut entry: *const usize) -> Option<(Self, *const usize)> {
        // SAFETY: each pointer up to the null pointer is that of a string.
        unsafe {
            let start = *entry;
            let mut end = start;
            while *entry != 0 {
                if *entry != end || end - start > BLOCK_BYTES_MAX {
                    return None;
                }
                end += CStr::from_ptr(end as *const _).to_bytes_with_nul().len();
                entry = entry.add(1);
            }
            let length = end - start;
            (length <= BLOCK_BYTES_MAX).then(|| (Self { start: start as *mut u8, length }, entry.add(1)))
        }
    }

    /// Without the last NUL.
    fn bytes(&self) -> &[u8] {
        match self.length.checked_sub(1) {
            // SAFETY: the strings are there for as long as the process; who writes there holds no borrow.
            Some(length) => unsafe { slice::from_raw_parts(self.start, length) },
            None => &[],
        }
    }
}

/// The effective user (`AT_EUID`).
///
/// # Safety
/// The place must be that of the pairs that end with a zero (`AT_NULL`).
unsafe fn user(mut pair: *const usize) -> Option<u32> {
    const AT_EUID: usize = 12;
    // SAFETY: the caller answers for the place.
    unsafe {
        while *pair != 0 {
            if *pair == AT_EUID {
                return u32::try_from(*pair.add(1)).ok();
            }
            pair = pair.add(2);
        }
    }
    None
}
