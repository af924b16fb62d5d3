//! Reading and writing little-endian fields in a fixed buffer, without a panic on short input.

/// Writes fields one after another; what does not fit is dropped and [`Writer::overflowed`] says so.
pub struct Writer<'a> {
    buffer: &'a mut [u8],
    at: usize,
    overflowed: bool,
}

impl<'a> Writer<'a> {
    /// Starts at the head of `buffer`.
    pub fn new(buffer: &'a mut [u8]) -> Self {
        Self { buffer, at: 0, overflowed: false }
    }

    /// Appends raw bytes.
    pub fn put(&mut self, bytes: &[u8]) {
        let end = self.at + bytes.len();
        match self.buffer.get_mut(self.at..end) {
            Some(place) => {
                place.copy_from_slice(bytes);
                self.at = end;
            }
            None => self.overflowed = true,
        }
    }

    /// Appends one byte.
    pub fn u8(&mut self, value: u8) {
        self.put(&[value]);
    }

    /// Appends a 16-bit number.
    pub fn u16(&mut self, value: u16) {
        self.put(&value.to_le_bytes());
    }

    /// Appends a 32-bit number.
    pub fn u32(&mut self, value: u32) {
        self.put(&value.to_le_bytes());
    }

    /// Appends a signed 32-bit number.
    pub fn i32(&mut self, value: i32) {
        self.put(&value.to_le_bytes());
    }

    /// Appends a 64-bit number.
    pub fn u64(&mut self, value: u64) {
        self.put(&value.to_le_bytes());
    }

    /// Appends a signed 64-bit number.
    pub fn i64(&mut self, value: i64) {
        self.put(&value.to_le_bytes());
    }

    /// How many bytes were written.
    pub fn len(&self) -> usize {
        self.at
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.at == 0
    }

    /// Whether something did not fit.
    pub fn overflowed(&self) -> bool {
        self.overflowed
    }
}

/// Reads fields one after another; past the end it yields zeros and [`Reader::short`] says so.
pub struct Reader<'a> {
    buffer: &'a [u8],
    at: usize,
    short: bool,
}

impl<'a> Reader<'a> {
    /// Starts at the head of `buffer`.
    pub fn new(buffer: &'a [u8]) -> Self {
        Self { buffer, at: 0, short: false }
    }

    /// The next `N` bytes.
    pub fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut out = [0; N];
        match self.buffer.get(self.at..self.at + N) {
            Some(bytes) => {
                out.copy_from_slice(bytes);
                self.at += N;
            }
            None => self.short = true,
        }
        out
    }

    /// The next byte.
    pub fn u8(&mut self) -> u8 {
        self.take::<1>()[0]
    }

    /// The next 16-bit number.
    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.take())
    }

    /// The next 32-bit number.
    pub fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    /// The next signed 32-bit number.
    pub fn i32(&mut self) -> i32 {
        i32::from_le_bytes(self.take())
    }

    /// The next 64-bit number.
    pub fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }

    /// The next signed 64-bit number.
    pub fn i64(&mut self) -> i64 {
        i64::from_le_bytes(self.take())
    }

    /// Whether the input was shorter than what was asked of it.
    pub fn short(&self) -> bool {
        self.short
    }
}
