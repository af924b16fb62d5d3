//! The keeper program, as bytes.

/// The program; empty where it could not be built.
pub fn bytes() -> &'static [u8] {
    &[]
}
