//! What several notices are about, in one line: each kind has words of its own, and only an end is told as an end.

use ringback_core::notice::Kind;
use ringback_host::wire::Notice;

/// A kind, with its words for one notice and for several.
type Words = (Kind, fn(&str) -> String, fn(&str, usize) -> String);
/// In the order they are told.
const KINDS: [Words; 5] = [
    (
        Kind::ToolResult,
        |whose| format!("a background task of {whose} has ended"),
        |whose, count| format!("{count} background tasks of {whose} have ended"),
    ),
    (
        Kind::ToolReady,
        |whose| format!("a background task of {whose} is ready"),
        |whose, count| format!("{count} background tasks of {whose} are ready"),
    ),
    (
        Kind::ToolMatch,
        |whose| format!("a background task of {whose} has printed a line that is watched for"),
        |whose, count| format!("background tasks of {whose} have printed {count} lines that are watched for"),
    ),
    (
        Kind::ToolStalled,
        |whose| format!("a background task of {whose} is silent and runs on"),
        |whose, count| format!("{count} background tasks of {whose} are silent and run on"),
    ),
    (
        Kind::ToolProgress,
        |whose| format!("a background task of {whose} runs on"),
        |whose, count| format!("background tasks of {whose} run on ({count} reports)"),
    ),
];

/// The line; `whose` tasks, for example "this session".
pub(crate) fn headline(notices: &[Notice], whose: &str) -> String {
    let known = KINDS.iter().filter_map(|(kind, one, several)| {
        match notices.iter().filter(|notice| notice.about() == Some(*kind)).count() {
            0 => None,
            1 => Some(one(whose)),
            count => Some(several(whose, count)),
        }
    });
    let parts: Vec<String> = known.collect();
    // A newer daemon may have kinds that we have no words for.
    if parts.is_empty() { format!("news about background tasks of {whose}") } else { parts.join("; ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_end_is_told_as_an_end() {
        let check = |kinds: &[&str]| {
            let notice = |kind: &&str| Notice { kind: (*kind).to_owned(), ..Notice::default() };
            headline(&kinds.iter().map(notice).collect::<Vec<_>>(), "this thread")
        };
        assert_eq!(check(&["tool_result"]), "a background task of this thread has ended");
        assert_eq!(check(&["tool_result"; 3]), "3 background tasks of this thread have ended");
        for kind in ["tool_ready", "tool_match", "tool_stalled", "tool_progress", "tool_new"] {
            for line in [check(&[kind]), check(&[kind; 2])] {
                assert!(!line.contains("ended") && line.contains("this thread"), "{line}");
            }
        }
        assert_eq!(
            check(&["tool_stalled", "tool_result", "tool_ready", "tool_ready"]),
            "a background task of this thread has ended; 2 background tasks of this thread are ready; \
             a background task of this thread is silent and runs on"
        );
    }
}
