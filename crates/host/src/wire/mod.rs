//! What clients and the daemon say to each other: length-prefixed frames of named-field `MessagePack`.
//!
//! Additive: an unknown field is ignored, a missing one has a default, an unknown request is refused by name. Every frame
//! carries its sender's protocol number and version, so either side can tell a stranger at the first frame.

pub mod frame;
pub mod refusal;
pub mod reply;
pub mod request;
pub mod task;

pub use serde_bytes::ByteBuf;

pub use frame::{FRAME_BYTES_MAX, FrameError, decode, encode};
pub use reply::{Answer, Fault, Notice, Reply, SessionObject, Sighting, Span, StatusObject};
pub use request::{ACK_ALL, Call, Caller, Command, Request, RunRequest, Spoken, Until};
pub use task::{ProgressObject, TaskObject, TerminalSize};

/// The protocol number: rises only when an old peer could misunderstand a frame.
pub const PROTOCOL: u16 = 1;
/// The version of this build, as the package has it.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
