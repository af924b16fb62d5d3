//! The hint that a keeper gives the daemon: "look at my state record again".
//!
//! Frames go into the home's FIFO `news`, which any keeper of the home opens for writing just for the moment; without a
//! daemon the open fails with `ENXIO` and nothing is lost, because the record is already on disk and a new daemon reads
//! them all. A frame is 16 bytes, written whole (pipe(7): up to `PIPE_BUF` is atomic). It is only a hint: the daemon
//! believes the state record, never the frame.

/// Length of one frame, in bytes.
pub const FRAME_BYTES: usize = 16;

const MAGIC: u64 = 0x7377_656e_6b63_6272; // "rbcknews"

/// The frame that names this task.
pub fn frame(task: u64) -> [u8; FRAME_BYTES] {
    let mut out = [0; FRAME_BYTES];
    out[..8].copy_from_slice(&MAGIC.to_le_bytes());
    out[8..].copy_from_slice(&task.to_le_bytes());
    out
}

/// The task that a frame names, or nothing for foreign bytes.
pub fn task(frame: &[u8]) -> Option<u64> {
    let magic: [u8; 8] = frame.get(..8)?.try_into().ok()?;
    let task: [u8; 8] = frame.get(8..FRAME_BYTES)?.try_into().ok()?;
    (u64::from_le_bytes(magic) == MAGIC).then(|| u64::from_le_bytes(task))
}
