//! What may be asked of a task, as closed sets of words, and the limits of free text.

/// How a task is tied to its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Lease {
    /// Its end is waited for, so its silence is told; stopped when the session ends.
    #[default]
    Awaited,
    /// Runs until the session ends.
    Service,
    /// Outlives the session.
    Detached,
}

/// What a second task of the same key does while the first one lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum IfRunning {
    /// Answers with the first one and starts nothing.
    #[default]
    Reuse,
    /// Stops the first one, and starts when its tree is gone.
    Replace,
    /// Is refused.
    Reject,
}

/// What happens to processes that outlive the main process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Leftovers {
    /// They run on.
    #[default]
    Keep,
    /// They are stopped.
    Kill,
    /// The task ends when they have ended.
    Wait,
}

/// What happens when an output reaches its cap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum OutputPolicy {
    /// Its head and a tail that moves on are kept, and the middle is freed.
    #[default]
    HeadTail,
    /// The task is stopped.
    Kill,
    /// Nothing more is kept; the task runs on.
    StopRecording,
}

/// Where a command may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SandboxMode {
    /// Everywhere that its user may.
    #[default]
    None,
    /// To its output, its own folder for temporary files, and devices that keep nothing.
    ReadOnly,
    /// The same, and below its working directory.
    Directory,
}

/// What keeps a command from writing elsewhere, and what happens where the kernel cannot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Sandbox {
    /// Where it may write.
    pub mode: SandboxMode,
    /// It is started without a sandbox where there can be none; else it is not started there.
    pub is_optional: bool,
}

impl Sandbox {
    /// All words, for messages.
    pub const WORDS: &'static [&'static str] = &["none", "ro", "cwd", "ro-if-possible", "cwd-if-possible"];

    /// The sandbox that this word means.
    pub fn parse(word: &str) -> Option<Self> {
        let optional = word.strip_suffix("-if-possible");
        let sandbox = Self { mode: SandboxMode::parse(optional.unwrap_or(word))?, is_optional: optional.is_some() };
        // Nothing is always possible.
        (sandbox.is_some() || !sandbox.is_optional).then_some(sandbox)
    }

    /// Its word.
    pub fn word(self) -> &'static str {
        match (self.mode, self.is_optional) {
            (SandboxMode::ReadOnly, true) => "ro-if-possible",
            (SandboxMode::Directory, true) => "cwd-if-possible",
            (mode, _) => mode.word(),
        }
    }

    /// Whether there is to be one.
    pub fn is_some(self) -> bool {
        self.mode != SandboxMode::None
    }
}

macro_rules! words {
    ($name:ident: $($word:literal = $variant:ident),+) => {
        impl $name {
            /// All words, for messages.
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            /// The variant that this word means.
            pub fn parse(word: &str) -> Option<Self> {
                match word {
                    $($word => Some(Self::$variant),)+
                    _ => None,
                }
            }

            /// Its word.
            pub fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }
    };
}

pub(crate) use words;

words!(Lease: "awaited" = Awaited, "service" = Service, "detached" = Detached);
words!(IfRunning: "reuse" = Reuse, "replace" = Replace, "reject" = Reject);
words!(Leftovers: "keep" = Keep, "kill" = Kill, "wait" = Wait);
words!(SandboxMode: "none" = None, "ro" = ReadOnly, "cwd" = Directory);
words!(OutputPolicy: "head-tail" = HeadTail, "kill" = Kill, "stop-recording" = StopRecording);

/// The longest session name, task name or key, in bytes: they stand in every list and notice.
pub const LABEL_BYTES_MAX: usize = 256;

/// Whether `text` may be a session name, a task name or a key: not empty, not long, no control characters.
pub fn is_label(text: &str) -> bool {
    !text.is_empty() && text.len() <= LABEL_BYTES_MAX && !text.chars().any(char::is_control)
}

/// From TERM to KILL when nobody says otherwise, milliseconds: long enough for a database to close its files.
pub const GRACE_MS: u64 = 10_000;

/// Cap of one output when nobody says otherwise, bytes.
pub const OUTPUT_BYTES_MAX: u64 = 1 << 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_are_written() {
        for word in Lease::WORDS {
            assert_eq!(Lease::parse(word).map(Lease::word), Some(*word));
        }
        assert_eq!(IfRunning::parse("Replace"), None);
        for word in Sandbox::WORDS {
            let sandbox = Sandbox::parse(word).unwrap();
            assert_eq!((sandbox.word(), sandbox.is_optional), (*word, word.contains("possible")));
            assert!(word.starts_with(sandbox.mode.word()));
        }
        for word in ["none-if-possible", "-if-possible", "ro-if-possible-if-possible", ""] {
            assert_eq!(Sandbox::parse(word), None, "{word}");
        }
    }

    #[test]
    fn a_label_is_one_line_of_sane_length() {
        assert!(is_label("build & test"));
        for bad in ["", "two\nlines", "esc\u{1b}[2J"] {
            assert!(!is_label(bad), "{bad:?}");
        }
        assert!(!is_label(core::str::from_utf8(&[b'x'; LABEL_BYTES_MAX + 1]).unwrap()));
    }
}
