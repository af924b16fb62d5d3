//! The files that daemon and keeper speak through: fixed little-endian layouts, frozen at version 1.
//!
//! `no_std` and free of allocation, because the keeper compiles these very files into its own binary.
//! A keeper outlives the daemon that started it and may meet a newer one, so a layout is never changed:
//! a new need gets a new version number and the old reader stays.
//!
//! | file in the task folder | written by | read by | module |
//! |---|---|---|---|
//! | `spec`       | daemon, once, before the keeper exists | keeper | [`spec`] |
//! | `state`      | keeper (two slots, checksummed; its `flock` is the keeper's liveness) | daemon | [`record`] |
//! | `requests`   | daemon, append only | keeper, when poked with `SIGUSR1` | [`request`] |
//! | `receipt`    | keeper, whole or not at all (rename) | daemon | [`receipt`] |
//! | `output.idx` | keeper, append only | readers | [`index`] |
//! | `output.sizes` | keeper of a terminal, append only | readers | [`sizes`] |
//! | `../../../news` | keepers, one hint per frame | daemon | [`news`] |

pub mod bytes;
pub mod crc;
pub mod index;
pub mod news;
pub mod receipt;
pub mod record;
pub mod request;
pub mod sizes;
pub mod spec;
