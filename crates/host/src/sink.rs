//! Where notices are sent besides the inbox: the `[[sink]]` tables of the config.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use ringback_core::notice::Kind;
use serde::Deserialize;

use crate::quantity;

/// How many sinks there may be: each may have a process of ours running.
pub const SINKS_MAX: usize = 16;

/// How long one delivery may take when nobody says otherwise.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The longest a delivery may take: the claim on its notice holds for so long.
const TIMEOUT_MAX: Duration = Duration::from_mins(5);

/// How long after a failed delivery it is tried again, when nobody says otherwise; then after pauses that double.
const RETRY: Duration = Duration::from_secs(5);

/// One sink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sink {
    /// What its undelivered notices are kept under.
    pub name: String,
    /// Where to.
    pub to: Destination,
    /// Only notices of these sessions; none is all.
    pub sessions: Vec<String>,
    /// Only notices of these kinds.
    pub kinds: Vec<Kind>,
    /// Also what somebody else has heard or is about to speak of.
    pub always: bool,
    /// What was delivered counts as heard by its session.
    pub acknowledge: bool,
    /// How long one delivery may take.
    pub timeout: Duration,
    /// How long after a first failure it is tried again.
    pub retry: Duration,
}

/// Where to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// A program with its arguments, which reads one JSON line from stdin and returns 0.
    Exec(Vec<String>),
    /// A socket to which one JSON line is written.
    Unix(PathBuf),
    /// An address to which a signed JSON document is posted.
    Webhook {
        /// `http://…` or `https://…`.
        url: String,
        /// What it is signed with.
        secret: Option<Secret>,
    },
}

/// A secret: it is not shown by accident.
#[derive(Clone, PartialEq, Eq, Deserialize)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret(…)")
    }
}

/// A table as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawSink {
    name: Option<String>,
    exec: Option<Vec<String>>,
    unix: Option<PathBuf>,
    webhook: Option<String>,
    secret: Option<Secret>,
    sessions: Vec<String>,
    kinds: Option<Vec<String>>,
    always: bool,
    acknowledge: bool,
    timeout: Option<String>,
    retry: Option<String>,
}

impl Sink {
    /// What this build lacks to deliver there.
    pub fn lack(&self) -> Option<&'static str> {
        let Destination::Webhook { url, .. } = &self.to else { return None };
        if !cfg!(feature = "webhook") {
            return Some("this ringback was built without webhooks");
        }
        (url.starts_with("https://") && !cfg!(feature = "https")).then_some(
            "this ringback was built without https (`cargo install --locked --path crates/ringback --features https`)",
        )
    }

    /// Whether a notice of this kind and session goes there.
    pub fn wants(&self, session: &str, kind: Kind) -> bool {
        self.kinds.contains(&kind) && (self.sessions.is_empty() || self.sessions.iter().any(|name| name == session))
    }
}

/// Reads all tables; what cannot be read is explained.
pub(crate) fn read(raw: Vec<RawSink>) -> Result<Vec<Sink>, String> {
    if raw.len() > SINKS_MAX {
        return Err(format!("{} sinks are too many, at most {SINKS_MAX}", raw.len()));
    }
    let mut sinks: Vec<Sink> = Vec::new();
    for one in raw {
        let sink = read_one(one)?;
        if sinks.iter().any(|other| other.name == sink.name) {
            return Err(format!("two sinks have the name `{}`; give one of them another `name`", sink.name));
        }
        sinks.push(sink);
    }
    Ok(sinks)
}

fn read_one(raw: RawSink) -> Result<Sink, String> {
    let has_secret = raw.secret.is_some();
    let to = match (raw.exec, raw.unix, raw.webhook) {
        (Some(words), None, None) if words.first().is_some_and(|word| !word.is_empty()) => Destination::Exec(words),
        (None, Some(path), None) if path.is_absolute() => Destination::Unix(path),
        (None, None, Some(url)) if url.starts_with("http://") || url.starts_with("https://") => {
            Destination::Webhook { url, secret: raw.secret }
        }
        _ => {
            let wanted = "exec = [\"PROGRAM\", …], unix = \"/PATH\" or webhook = \"https://…\"";
            return Err(format!("a sink needs one of {wanted}"));
        }
    };
    if has_secret && !matches!(to, Destination::Webhook { .. }) {
        return Err("only a webhook is signed with a `secret`".to_owned());
    }
    let name = raw.name.unwrap_or_else(|| match &to {
        Destination::Exec(words) => format!("exec {}", words.join(" ")),
        Destination::Unix(path) => format!("unix {}", path.display()),
        Destination::Webhook { url, .. } => format!("webhook {url}"),
    });
    let time = |text: Option<String>, default| match text {
        Some(text) => quantity::duration(&text).map_err(|error| error.to_string()),
        None => Ok(default),
    };
    let kinds = match raw.kinds {
        None => vec![Kind::ToolResult],
        Some(words) => words.iter().map(|word| kind(word)).collect::<Result<_, _>>()?,
    };
    Ok(Sink {
        name,
        to,
        sessions: raw.sessions,
        kinds,
        always: raw.always,
        acknowledge: raw.acknowledge,
        timeout: time(raw.timeout, TIMEOUT)?.clamp(Duration::from_millis(1), TIMEOUT_MAX),
        retry: time(raw.retry, RETRY)?.max(Duration::from_millis(1)),
    })
}

fn kind(word: &str) -> Result<Kind, String> {
    Kind::parse(word).ok_or_else(|| format!("`{word}` is no kind; known: {}", Kind::WORDS.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Result<Vec<Sink>, String> {
        #[derive(Deserialize)]
        struct All {
            sink: Vec<RawSink>,
        }
        toml::from_str::<All>(text).map_err(|error| error.message().to_owned()).and_then(|all| read(all.sink))
    }

    #[test]
    fn a_sink_says_where_to_and_what() {
        let sinks = check(
            "[[sink]]\nexec = ['notify', 'me']\n[[sink]]\nname = 'w'\nwebhook = 'https://x.test/h'\nsecret = 'whsec_AA=='\n
             kinds = ['tool_ready']\nsessions = ['s']\nalways = true\nacknowledge = true\ntimeout = '2s'\nretry = '1m'",
        )
        .unwrap();
        assert_eq!((sinks[0].name.as_str(), sinks[0].timeout), ("exec notify me", TIMEOUT));
        assert!(sinks[0].wants("any", Kind::ToolResult) && !sinks[0].wants("any", Kind::ToolReady));
        assert!(sinks[1].wants("s", Kind::ToolReady) && !sinks[1].wants("t", Kind::ToolReady));
        assert!(sinks[1].always && sinks[1].acknowledge);
        assert!(!format!("{sinks:?}").contains("whsec"), "a secret is not shown");
    }

    #[test]
    fn what_this_build_cannot_deliver_to_is_known_before_it_is_tried() {
        let lacks = |text: &str| check(&format!("[[sink]]\n{text}")).unwrap()[0].lack().is_some();
        assert!(!lacks("exec = ['a']") && !lacks("unix = '/a'"));
        assert_eq!(lacks("webhook = 'http://x.test'"), !cfg!(feature = "webhook"));
        assert_eq!(lacks("webhook = 'https://x.test'"), !cfg!(feature = "https"));
    }

    #[test]
    fn what_is_wrong_with_a_sink_is_said() {
        let wrong = |text: &str| check(&format!("[[sink]]\n{text}")).unwrap_err();
        assert!(wrong("name = 'x'").contains("needs one of"));
        assert!(wrong("exec = []").contains("needs one of"));
        assert!(wrong("unix = 'rel'").contains("needs one of"));
        assert!(wrong("webhook = 'ftp://x'").contains("needs one of"));
        assert!(wrong("exec = ['a']\nunix = '/b'").contains("needs one of"));
        assert!(wrong("exec = ['a']\nsecret = 's'").contains("only a webhook"));
        assert!(wrong("exec = ['a']\nkinds = ['end']").contains("tool_result"));
        assert!(wrong("exec = ['a']\n[[sink]]\nexec = ['a']").contains("two sinks"));
        assert!(wrong("exec = ['a']\ncolour = 1").contains("colour"));
    }
}
