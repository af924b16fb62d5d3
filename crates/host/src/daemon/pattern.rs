//! What an output is searched for: the patterns of a request, compiled, and the port that makes a task ready.

use std::cell::OnceCell;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use regex::bytes::Regex;
use ringback_core::notice;

use crate::mask::Mask;
use crate::store::Asked;
use crate::wire::Fault;

/// How many patterns one task may have: each line of its output is held against all of them.
pub(super) const PATTERNS_MAX: usize = 16;

/// The longest pattern, in bytes.
pub(super) const PATTERN_BYTES_MAX: usize = 1024;

/// How much of a line that matched is told, in bytes.
const LINE_SHOWN_BYTES: usize = 400;

/// A port that makes a task ready when it listens there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Port {
    /// Only at this address.
    pub host: Option<IpAddr>,
    /// The port.
    pub port: u16,
}

/// A line that matched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Hit {
    /// Where the line begins.
    pub offset: u64,
    /// The pattern, as it was asked for.
    pub pattern: String,
    /// The line, shortened, without control characters.
    pub line: String,
}

struct Pattern {
    text: String,
    regex: Regex,
}

/// All patterns of one task.
#[derive(Default)]
pub(super) struct Patterns {
    watch: Vec<Pattern>,
    ready: Option<Pattern>,
    port: Option<Port>,
}

impl Patterns {
    /// Compiles what was asked for; what cannot be is explained.
    pub(super) fn new(asked: &Asked) -> Result<Self, Fault> {
        let mut watch = Vec::new();
        for text in &asked.watch {
            watch.push(compile("watch", text, text)?);
        }
        for text in &asked.watch_literal {
            watch.push(compile("watch-literal", text, &regex::escape(text))?);
        }
        if watch.len() > PATTERNS_MAX {
            let message = format!("{} patterns are too many", watch.len());
            return Err(bad(message, format!("at most {PATTERNS_MAX}; join some of them with `|`")));
        }
        let (ready, port) = match asked.ready.as_deref().map(|ready| (ready, ready.strip_prefix("tcp:"))) {
            None => (None, None),
            Some((_, Some(place))) => (None, Some(port(place)?)),
            Some((text, None)) => (Some(compile("ready", text, text)?), None),
        };
        Ok(Self { watch, ready, port })
    }

    /// Whether lines have to be searched.
    pub(super) fn has_any(&self) -> bool {
        !self.watch.is_empty() || self.ready.is_some()
    }

    /// The port to look at.
    pub(super) fn port(&self) -> Option<Port> {
        self.port
    }

    /// The first pattern to watch for that this line matches.
    pub(super) fn watched(&self, offset: u64, line: &[u8], mask: &LazyMask<'_>) -> Option<Hit> {
        self.watch.iter().find_map(|pattern| pattern.hit(offset, line, mask))
    }

    /// Whether this line says that the task is ready.
    pub(super) fn ready(&self, offset: u64, line: &[u8], mask: &LazyMask<'_>) -> Option<Hit> {
        self.ready.as_ref()?.hit(offset, line, mask)
    }
}

/// What is hidden of the task in this folder, read when a line is to be shown.
pub(super) struct LazyMask<'a> {
    folder: Option<&'a Path>,
    mask: OnceCell<Mask>,
}

impl<'a> LazyMask<'a> {
    /// For the task that writes this output.
    pub(super) fn of_output(output: &'a Path) -> Self {
        Self { folder: output.parent(), mask: OnceCell::new() }
    }

    fn get(&self) -> &Mask {
        self.mask.get_or_init(|| self.folder.map(Mask::of_folder).unwrap_or_default())
    }
}

impl Pattern {
    /// Held against the line as it is, and as it would stand on a screen: colours are not part of what is meant.
    fn hit(&self, offset: u64, line: &[u8], mask: &LazyMask<'_>) -> Option<Hit> {
        let shown = |line: &[u8]| {
            let at = self.regex.find(line)?.start();
            let mut line = line.to_vec();
            mask.get().hide(&mut line);
            Some(notice::quote_line(&line, at, LINE_SHOWN_BYTES))
        };
        let coloured = || line.contains(&0x1b).then(|| shown(&notice::without_escapes(line))).flatten();
        let line = shown(line).or_else(coloured)?;
        Some(Hit { offset, pattern: self.text.clone(), line })
    }
}

fn compile(option: &str, text: &str, regex: &str) -> Result<Pattern, Fault> {
    if text.is_empty() || text.len() > PATTERN_BYTES_MAX {
        let message = format!("a pattern of {} bytes cannot be searched for", text.len());
        return Err(bad(message, format!("--{option} takes 1 to {PATTERN_BYTES_MAX} bytes")));
    }
    let regex = crate::pattern::of_line(regex).map_err(|why| {
        let hint = "see https://docs.rs/regex for the syntax; --watch-literal takes plain text".to_owned();
        bad(format!("{text:?} is not a regular expression: {why}"), hint)
    })?;
    Ok(Pattern { text: text.to_owned(), regex })
}

/// `PORT` or `HOST:PORT`; the host is an address, because asking for a name could block.
fn port(place: &str) -> Result<Port, Fault> {
    let wrong = || {
        let hint = "write it like tcp:8080, tcp:127.0.0.1:8080 or tcp:[::1]:8080".to_owned();
        bad(format!("{:?} is not a port", format!("tcp:{place}")), hint)
    };
    let (host, port) = match place.rsplit_once(':') {
        Some((host, port)) => (Some(host), port),
        None => (None, place),
    };
    let host = match host {
        None | Some("") => None,
        Some("localhost") => Some(IpAddr::from(Ipv4Addr::LOCALHOST)),
        Some(host) => Some(host.trim_matches(['[', ']']).parse().map_err(|_| wrong())?),
    };
    match port.parse() {
        Ok(port) if port > 0 => Ok(Port { host, port }),
        _ => Err(wrong()),
    }
}

fn bad(message: String, hint: String) -> Fault {
    Fault { code: "bad_pattern".into(), message, hint: Some(hint) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(watch: &[&str], ready: Option<&str>) -> Result<Patterns, Fault> {
        let watch = watch.iter().map(|text| (*text).to_owned()).collect();
        Patterns::new(&Asked { watch, ready: ready.map(str::to_owned), ..Asked::default() })
    }

    fn place(ready: &str) -> Option<Port> {
        patterns(&[], Some(ready)).ok().and_then(|patterns| patterns.port())
    }

    #[test]
    fn a_place_is_a_port_with_or_without_an_address() {
        assert_eq!(place("tcp:80"), Some(Port { host: None, port: 80 }));
        assert_eq!(place("tcp:127.0.0.1:80"), Some(Port { host: Some([127, 0, 0, 1].into()), port: 80 }));
        assert_eq!(place("tcp:localhost:80"), place("tcp:127.0.0.1:80"));
        assert_eq!(place("tcp:[::1]:80").and_then(|port| port.host), Some("::1".parse().unwrap()));
        for wrong in ["tcp:", "tcp:0", "tcp:70000", "tcp:example.org:80"] {
            assert!(patterns(&[], Some(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_line_matches_as_it_is_or_as_it_would_be_seen() {
        let found = patterns(&["^ready in \\d+ ms$", "(?i)error"], None).unwrap();
        let mask = LazyMask::of_output(Path::new("/nowhere/output"));
        let hit = found.watched(7, b"\x1b[32mready\x1b[0m in \x1b[1m30\x1b[22m ms", &mask).unwrap();
        assert_eq!((hit.offset, hit.line.as_str()), (7, "ready in 30 ms"));
        assert_eq!(found.watched(0, b"an ERROR", &mask).unwrap().pattern, "(?i)error");
        let secret = found.watched(0, b"error: Authorization: Bearer abcdef0123456789", &mask).unwrap();
        assert_eq!(secret.line, format!("error: Authorization: Bearer {}", "*".repeat(16)));
        assert_eq!(found.watched(0, b"ready in 30 ms or so", &mask), None);
        assert!(!patterns(&[], None).unwrap().has_any());
    }

    #[test]
    fn what_cannot_be_searched_for_is_explained() {
        let message = |watch: &[&str]| patterns(watch, None).err().unwrap().message;
        assert!(message(&["a("]).contains("unclosed group"), "{}", message(&["a("]));
        assert!(message(&[""]).contains("0 bytes"));
        assert!(message(&["(a{1000}){1000}"]).contains("size limit"), "{}", message(&["(a{1000}){1000}"]));
        assert!(message(&["x"; PATTERNS_MAX + 1]).contains("too many"));
    }
}
