//! One frame: four bytes of length (little endian), then one `MessagePack` value.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The longest frame that is read or written, in bytes.
///
/// A run request carries the environment and a script; both fit Linux's own limits many times over. A stranger's bytes
/// must not make us allocate more.
pub const FRAME_BYTES_MAX: usize = 32 << 20;

/// Length of the prefix, in bytes.
pub const PREFIX_BYTES: usize = 4;

/// Why a frame is not one.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// Longer than [`FRAME_BYTES_MAX`].
    #[error("frame of {0} bytes is over the limit of {FRAME_BYTES_MAX}")]
    TooLong(usize),
    /// The bytes are not the value that was expected.
    #[error("frame cannot be read")]
    Decode(#[from] rmp_serde::decode::Error),
    /// The value cannot be written.
    #[error("frame cannot be written")]
    Encode(#[from] rmp_serde::encode::Error),
}

/// Appends `value` as one frame.
pub fn encode<T: Serialize>(value: &T, out: &mut Vec<u8>) -> Result<(), FrameError> {
    let start = out.len();
    out.extend_from_slice(&[0; PREFIX_BYTES]);
    let mut serializer = rmp_serde::Serializer::new(&mut *out).with_struct_map();
    let done = value.serialize(&mut serializer);
    let length = out.len() - start - PREFIX_BYTES;
    if let Err(error) = done {
        out.truncate(start);
        return Err(error.into());
    }
    match u32::try_from(length) {
        Ok(prefix) if length <= FRAME_BYTES_MAX => {
            out[start..start + PREFIX_BYTES].copy_from_slice(&prefix.to_le_bytes());
            Ok(())
        }
        _ => {
            out.truncate(start);
            Err(FrameError::TooLong(length))
        }
    }
}

/// The length of the body that follows this prefix.
pub fn body_length(prefix: [u8; PREFIX_BYTES]) -> Result<usize, FrameError> {
    let length = u32::from_le_bytes(prefix) as usize;
    if length > FRAME_BYTES_MAX { Err(FrameError::TooLong(length)) } else { Ok(length) }
}

/// Reads the value of one frame's body.
pub fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, FrameError> {
    Ok(rmp_serde::from_slice(body)?)
}
