//! The spec, mapped: its head, and pointers to its strings as execve(2) wants them.

use core::ffi::CStr;

use crate::form::spec::{HEAD_BYTES, Head};
use crate::raw::file;
use crate::raw::memory::{Mapping, Table};

/// Most arguments and environment entries together; execve(2) stops long before.
const STRINGS_MAX: usize = 1 << 20;

/// A spec, for as long as the child needs it.
pub(super) struct Spec {
    /// The head.
    pub(super) head: Head,
    mapping: Mapping,
    /// One free place (for `sh`, when a script has no `#!`), the arguments, 0, the environment, 0.
    pointers: Table<usize>,
    args: usize,
}

impl Spec {
    /// Reads the file `spec`; nothing if it is torn or not what its head says.
    pub(super) fn read() -> Option<Self> {
        let file = file::open_to_read(c"spec").ok()?;
        let length = usize::try_from(file::seek_end(&file).ok()?).ok()?;
        let mapping = Mapping::of_file(&file, length).ok()?;
        let head = Head::decode(mapping.bytes())?;
        let (args, vars) = (usize::try_from(head.args).ok()?, usize::try_from(head.vars).ok()?);
        if args == 0 || args + vars > STRINGS_MAX || length as u64 != HEAD_BYTES as u64 + head.strings {
            return None;
        }
        let pointers = Table::new(1 + args + 1 + vars + 1).ok()?;
        let mut spec = Self { head, mapping, pointers, args };
        spec.point(args, vars)?;
        Some(spec)
    }

    fn point(&mut self, args: usize, vars: usize) -> Option<()> {
        let mut rest = self.mapping.bytes().get(HEAD_BYTES..)?;
        let pointers = self.pointers.values_mut();
        for at in 0..=args + vars {
            let length = rest.iter().position(|&b| b == 0)? + 1;
            let place = match at {
                0 => None,
                _ if at <= args => Some(at),
                _ => Some(at + 1),
            };
            if let Some(pointer) = place.and_then(|place| pointers.get_mut(place)) {
                *pointer = rest.as_ptr() as usize;
            }
            rest = rest.get(length..)?;
        }
        Some(())
    }

    /// The working directory.
    pub(super) fn directory(&self) -> &CStr {
        self.mapping.bytes().get(HEAD_BYTES..).and_then(|s| CStr::from_bytes_until_nul(s).ok()).unwrap_or(c"")
    }

    /// The first argument: the program.
    pub(super) fn program(&self) -> &CStr {
        self.string(1)
    }

    /// The value of an environment variable of the task.
    pub(super) fn variable(&self, name: &[u8]) -> Option<&CStr> {
        let vars = self.pointers.values().get(self.args + 2..)?;
        let places = (self.args + 2..).take(vars.len().saturating_sub(1));
        places.map(|place| self.string(place)).find_map(|entry| {
            let value = entry.to_bytes_with_nul().strip_prefix(name)?.strip_prefix(b"=")?;
            CStr::from_bytes_with_nul(value).ok()
        })
    }

    /// The arguments for execve(2); the place before them is free to write.
    pub(super) fn arguments(&self) -> *const usize {
        self.pointers.values().as_ptr().wrapping_add(1)
    }

    /// The environment for execve(2).
    pub(super) fn environment(&self) -> *const usize {
        self.pointers.values().as_ptr().wrapping_add(self.args + 2)
    }

    /// All pointers, to put `sh` before the arguments.
    pub(super) fn pointers_mut(&mut self) -> &mut [usize] {
        self.pointers.values_mut()
    }

    fn string(&self, place: usize) -> &CStr {
        let start = self.mapping.bytes().as_ptr() as usize;
        let pointer = self.pointers.values().get(place).copied().unwrap_or(0);
        let tail = pointer.checked_sub(start).and_then(|at| self.mapping.bytes().get(at..));
        tail.and_then(|tail| CStr::from_bytes_until_nul(tail).ok()).unwrap_or(c"")
    }
}
