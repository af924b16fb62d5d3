//! Memory that is there only while it is needed.

use core::slice;

use super::{Fd, Result, arch, call, nr};

const PROT_READ: usize = 1;
const PROT_WRITE: usize = 2;
const MAP_PRIVATE: usize = 2;
const MAP_ANONYMOUS_NORESERVE: usize = 0x20 | 0x4000;

/// A mapping, unmapped when dropped.
pub(crate) struct Mapping {
    start: *mut u8,
    length: usize,
}

impl Mapping {
    /// Zeroed memory; pages cost only when touched.
    pub(crate) fn scratch(length: usize) -> Result<Self> {
        let length = length.max(1);
        let how = MAP_PRIVATE | MAP_ANONYMOUS_NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice disturbs nothing.
        let start = unsafe { call(nr::MMAP, [0, length, PROT_READ | PROT_WRITE, how, usize::MAX, 0]) }?;
        Ok(Self { start: start as *mut u8, length })
    }

    /// The first `length` bytes of a file that nobody writes any more.
    pub(crate) fn of_file(fd: &Fd, length: usize) -> Result<Self> {
        // SAFETY: a new mapping at an address of the kernel's choice disturbs nothing.
        let start = unsafe { call(nr::MMAP, [0, length, PROT_READ, MAP_PRIVATE, fd.number() as usize, 0]) }?;
        Ok(Self { start: start as *mut u8, length })
    }

    /// The bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: mapped readable for this length until dropped.
        unsafe { slice::from_raw_parts(self.start, self.length) }
    }

    /// The bytes of scratch memory, to write.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: scratch memory is mapped writable for this length until dropped, and `self` is borrowed alone.
        unsafe { slice::from_raw_parts_mut(self.start, self.length) }
    }

    /// The address after the last byte.
    pub(crate) fn end(&self) -> *mut u8 {
        self.start.wrapping_add(self.length)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and all borrows of it are over.
        let _ = unsafe { call(nr::MUNMAP, [self.start as usize, self.length]) };
    }
}

/// A fixed number of plain values in memory of their own, zero at first.
pub(crate) struct Table<T: Plain> {
    mapping: Mapping,
    values: core::marker::PhantomData<T>,
}

/// Values for which all-zero bytes are a value, and that own nothing.
///
/// # Safety
/// Zeroed memory must be a valid value of the type.
pub(crate) unsafe trait Plain: Copy {}

// SAFETY: any bytes are a number.
unsafe impl Plain for u32 {}
// SAFETY: any bytes are a number.
unsafe impl Plain for usize {}

impl<T: Plain> Table<T> {
    /// Room for `count` values.
    pub(crate) fn new(count: usize) -> Result<Self> {
        let mapping = Mapping::scratch(count * size_of::<T>())?;
        Ok(Self { mapping, values: core::marker::PhantomData })
    }

    /// The values.
    pub(crate) fn values(&self) -> &[T] {
        let count = self.mapping.length / size_of::<T>();
        // SAFETY: page-aligned, `count` values long, zero or written as `T`.
        unsafe { slice::from_raw_parts(self.mapping.start.cast::<T>(), count) }
    }

    /// The values, to change.
    pub(crate) fn values_mut(&mut self) -> &mut [T] {
        let count = self.mapping.length / size_of::<T>();
        // SAFETY: page-aligned, `count` values long, zero or written as `T`, and `self` is borrowed alone.
        unsafe { slice::from_raw_parts_mut(self.mapping.start.cast::<T>(), count) }
    }
}

/// Gives back the pages of the stack below the caller, which earlier work has touched; they are zero when touched again.
#[inline(never)]
pub(crate) fn forget_stack() {
    const DONTNEED: usize = 4;
    const PAGE: usize = 4096;
    /// How deep the work of the keeper goes, at most.
    const DEPTH: usize = 16 * PAGE;
    /// Memory below the stack pointer that a function may still use (System V ABI).
    const RED_ZONE: usize = 128;
    let to = arch::stack_pointer().saturating_sub(RED_ZONE) & !(PAGE - 1);
    if to < DEPTH {
        return;
    }
    // SAFETY: nothing lives below the stack pointer, and no signal handler can run there: all signals are blocked.
    let _ = unsafe { call(nr::MADVISE, [to - DEPTH, DEPTH, DONTNEED]) };
}
