//! What can be said of an ended output as a whole: how many lines, and its hash.

use std::io;

use sha2::{Digest as _, Sha256};

use super::{Output, Piece};
use crate::wire::TaskObject;

/// Larger outputs are not read only to be counted.
const FACTS_BYTES_MAX: u64 = 64 << 20;

/// Line count and hash of a whole output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Lines; a last one without a newline counts.
    pub lines: u64,
    /// SHA-256, in hexadecimal.
    pub sha256: String,
}

/// The facts of this task's output; nothing where it can still grow, has gaps, or is too large.
pub fn facts(task: &TaskObject) -> io::Result<Option<Facts>> {
    if !task.output.complete || !task.output.gaps.is_empty() || task.output.bytes > FACTS_BYTES_MAX {
        return Ok(None);
    }
    let Some(mut output) = Output::open(task)? else { return Ok(None) };
    let length = output.len()?;
    if length > FACTS_BYTES_MAX {
        return Ok(None);
    }
    let (mut hash, mut lines, mut last) = (Sha256::new(), 0, b'\n');
    output.scan(0..length, false, &mut |piece| {
        if let Piece::Bytes { bytes, .. } = piece {
            hash.update(bytes);
            lines += bytes.split(|byte| *byte == b'\n').count() as u64 - 1;
            last = bytes.last().copied().unwrap_or(last);
        }
        Ok(())
    })?;
    if last != b'\n' {
        lines += 1;
    }
    let sha256 = hash.finalize().iter().fold(String::with_capacity(64), |mut text, byte| {
        for half in [byte >> 4, byte & 15] {
            text.push(char::from_digit(u32::from(half), 16).unwrap_or('0'));
        }
        text
    });
    Ok(Some(Facts { lines, sha256 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complete_output_is_counted_and_hashed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("output");
        let mut task = TaskObject::default();
        task.output.path = path.to_str().unwrap().to_owned();
        let mut check = |bytes: &[u8], complete| {
            std::fs::write(&path, bytes).unwrap();
            task.output.complete = complete;
            facts(&task).unwrap()
        };
        assert_eq!(check(b"a\nb", false), None);
        let two = check(b"a\nb", true).unwrap();
        assert_eq!((two.lines, two.sha256.len()), (2, 64));
        assert_eq!(check(b"a\nb\n", true).unwrap().lines, 2);
        let empty = check(b"", true).unwrap();
        assert_eq!(empty.lines, 0);
        assert_eq!(empty.sha256, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }
}
