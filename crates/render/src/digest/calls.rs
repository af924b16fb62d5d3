//! How the reader of a digest asks for more: on the command line, or by a tool.

/// By which door the digest is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Calls {
    /// `ringback logs …`
    #[default]
    CommandLine,
    /// `output {"id": …}`
    Tools,
}

impl Calls {
    pub(super) fn whole(self, id: &str) -> String {
        match self {
            Self::CommandLine => format!("ringback logs {id}"),
            Self::Tools => format!("output {{\"id\":\"{id}\",\"offset\":0}}"),
        }
    }

    pub(super) fn lines(self, id: &str, (from, to): (u64, u64)) -> String {
        match self {
            Self::CommandLine => format!("ringback logs {id} --lines {from}:{to}"),
            Self::Tools => format!("output {{\"id\":\"{id}\",\"lines\":\"{from}:{to}\"}}"),
        }
    }

    pub(super) fn answer(self, id: &str) -> String {
        match self {
            Self::CommandLine => format!("ringback send {id}"),
            Self::Tools => format!("send {{\"id\":\"{id}\", …}}"),
        }
    }
}
