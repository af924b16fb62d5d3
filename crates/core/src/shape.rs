//! What a secret looks like in text: by a literal that is searched for, and by what stands around it.
//!
//! A guess, like [`crate::secret`]: what it takes for a secret is hidden from agents, and nothing is decided by it.

use core::ops::Range;

use crate::secret::names_secret;

/// Longest name, and longest run of characters, that is looked at around a literal.
const NAME_BYTES_MAX: usize = 64;
/// Longest secret that is looked for in one line, bytes: a signed token may carry a kilobyte of claims.
pub const SECRET_BYTES_MAX: usize = 4096;
/// A shorter value says little, and stands in many texts that are none.
const VALUE_BYTES_MIN: usize = 8;

/// What stands before the literal of a private key, in the same line, and what ends it.
const KEY_BEGIN: &[u8] = b"-----BEGIN ";
const KEY_END: &[u8] = b"-----END";
/// A shorter token after `Bearer` is a word.
const CREDENTIALS_BYTES_MIN: usize = 16;

/// How a secret continues after its literal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    /// A token of a service: at least this many characters of a token, one of them a digit.
    Token(usize),
    /// `Bearer`, then a token.
    Credentials,
    /// `Authorization: Basic`, then base64.
    Basic,
    /// `scheme://user:SECRET@host`.
    Address,
    /// The end of a name that says so, then `=`, `:` or, after an option, a space, then the secret.
    Named,
    /// `-----BEGIN … PRIVATE KEY-----`, then lines up to `-----END`.
    Key,
}

/// A literal, and how a secret continues after it.
const SHAPES: &[(&str, Rest)] = &[
    ("ghp_", Rest::Token(30)),
    ("gho_", Rest::Token(30)),
    ("ghu_", Rest::Token(30)),
    ("ghs_", Rest::Token(30)),
    ("ghr_", Rest::Token(30)),
    ("github_pat_", Rest::Token(30)),
    ("glpat-", Rest::Token(16)),
    ("sk-", Rest::Token(28)),
    ("sk_live_", Rest::Token(16)),
    ("sk_test_", Rest::Token(16)),
    ("rk_live_", Rest::Token(16)),
    ("xoxb-", Rest::Token(16)),
    ("xoxp-", Rest::Token(16)),
    ("xoxa-", Rest::Token(16)),
    ("xoxr-", Rest::Token(16)),
    ("xoxs-", Rest::Token(16)),
    ("xapp-", Rest::Token(16)),
    ("AKIA", Rest::Token(16)),
    ("ASIA", Rest::Token(16)),
    ("AIza", Rest::Token(30)),
    ("npm_", Rest::Token(30)),
    ("pypi-AgE", Rest::Token(30)),
    ("hf_", Rest::Token(30)),
    ("gsk_", Rest::Token(30)),
    ("xai-", Rest::Token(30)),
    ("dop_v1_", Rest::Token(30)),
    ("SG.", Rest::Token(30)),
    ("ya29.", Rest::Token(20)),
    ("eyJ", Rest::Token(30)),
    ("whsec_", Rest::Token(20)),
    ("dckr_pat_", Rest::Token(20)),
    ("shpat_", Rest::Token(30)),
    ("tskey-", Rest::Token(16)),
    ("Bearer ", Rest::Credentials),
    ("bearer ", Rest::Credentials),
    ("uthorization: Basic ", Rest::Basic),
    ("uthorization: basic ", Rest::Basic),
    ("://", Rest::Address),
    ("TOKEN", Rest::Named),
    ("oken", Rest::Named),
    ("SECRET", Rest::Named),
    ("ecret", Rest::Named),
    ("PASSW", Rest::Named),
    ("assw", Rest::Named),
    ("ASSPHRASE", Rest::Named),
    ("assphrase", Rest::Named),
    ("CREDENTIALS", Rest::Named),
    ("redentials", Rest::Named),
    ("_KEY", Rest::Named),
    ("_key", Rest::Named),
    ("-key", Rest::Named),
    ("piKey", Rest::Named),
    ("apikey", Rest::Named),
    ("PRIVATE KEY-----", Rest::Key),
];

/// What is to be searched for.
pub fn literals() -> impl Iterator<Item = &'static str> {
    SHAPES.iter().map(|(literal, _)| *literal)
}

/// Looks at literals in one text. What one look has gone over the next one need not: a text of nothing but literals would be gone
/// through anew, up to the longest secret, for each.
#[derive(Debug)]
pub struct Looker<'a> {
    text: &'a [u8],
    /// Up to what is no character of a token.
    token: Stretch,
    /// Up to what is no character of a value after its name.
    value: Stretch,
    /// Up to a digit.
    digitless: Stretch,
    /// Up to the end of a private key.
    key: Stretch,
}

/// A part of the text without what is looked for, which is at its end, or the text ends there.
#[derive(Debug, Default)]
struct Stretch(Range<usize>);

impl Stretch {
    /// Where from `from` on the first is, or the text ends.
    fn end(&mut self, from: usize, text: &[u8], first: impl FnOnce(&[u8]) -> Option<usize>) -> usize {
        if self.0.end < from || from < self.0.start || self.0.is_empty() {
            let rest = text.get(from..).unwrap_or_default();
            self.0 = from..from + first(rest).unwrap_or(rest.len());
        }
        self.0.end
    }
}

impl<'a> Looker<'a> {
    /// Nothing was looked at yet.
    pub fn new(text: &'a [u8]) -> Self {
        let none = || Stretch(0..0);
        Self { text, token: none(), value: none(), digitless: none(), key: none() }
    }

    /// The secret that literal `number` announces, where it stands at `at`; nothing if there is none.
    pub fn secret_at(&mut self, number: usize, at: usize) -> Option<Range<usize>> {
        let (literal, rest) = SHAPES.get(number)?;
        let end = at + literal.len();
        match rest {
            Rest::Token(min) => {
                if self.text[..at].last().is_some_and(u8::is_ascii_alphanumeric) {
                    return None;
                }
                let run = self.token(end);
                (run.len() >= *min && self.has_digit(&run)).then_some(run)
            }
            Rest::Credentials => {
                let run = self.token(end);
                (run.len() >= CREDENTIALS_BYTES_MIN && self.has_digit(&run)).then_some(run)
            }
            Rest::Basic => Some(self.token(end)).filter(|run| run.len() >= VALUE_BYTES_MIN),
            Rest::Address => password(self.text, end),
            Rest::Named => {
                let value = self.value(named(self.text, at, end)?);
                let bytes = &self.text[value.clone()];
                let is = value.len() >= VALUE_BYTES_MIN && self.has_digit(&value);
                (is && !is_number(bytes) && !is_reference(bytes)).then_some(value)
            }
            Rest::Key => is_key(self.text, at).then(|| self.key(end)),
        }
    }

    fn token(&mut self, from: usize) -> Range<usize> {
        let end = self.token.end(from, self.text, |rest| rest.iter().position(|byte| !is_token(*byte)));
        from..end.min(from + SECRET_BYTES_MAX)
    }

    fn value(&mut self, from: usize) -> Range<usize> {
        let end = self.value.end(from, self.text, |rest| rest.iter().position(|byte| !is_value(*byte)));
        from..end.min(from + SECRET_BYTES_MAX)
    }

    fn has_digit(&mut self, run: &Range<usize>) -> bool {
        self.digitless.end(run.start, self.text, |rest| rest.iter().position(u8::is_ascii_digit)) < run.end
    }

    /// The lines of a private key, or what of them is there.
    fn key(&mut self, from: usize) -> Range<usize> {
        let end = self.key.end(from, self.text, |rest| rest.windows(KEY_END.len()).position(|bytes| bytes == KEY_END));
        from..end.min(from + SECRET_BYTES_MAX)
    }
}

/// The characters from `from` on that are such, as far as they are looked at.
fn run(text: &[u8], from: usize, is: fn(u8) -> bool) -> Range<usize> {
    let rest = text.get(from..).unwrap_or_default();
    let rest = &rest[..rest.len().min(SECRET_BYTES_MAX)];
    from..from + rest.iter().position(|byte| !is(*byte)).unwrap_or(rest.len())
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-.~+/=".contains(&byte)
}

fn is_value(byte: u8) -> bool {
    byte > b' ' && !b"\"'`,;&<>()[]{}|".contains(&byte)
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

/// Between `user:` and `@`, after the scheme.
fn password(text: &[u8], from: usize) -> Option<Range<usize>> {
    let authority = run(text, from, |byte| byte.is_ascii_graphic() && !b"/\"'`<>\\".contains(&byte));
    let part = &text[authority.clone()];
    let host = part.iter().rposition(|byte| *byte == b'@')?;
    let colon = part.iter().position(|byte| *byte == b':').filter(|colon| *colon < host)?;
    let range = from + colon + 1..from + host;
    (!is_reference(&text[range.clone()])).then_some(range)
}

/// Where a value begins after a name that ends soon after `end`, the end of the literal that begins at `at`.
fn named(text: &[u8], at: usize, end: usize) -> Option<usize> {
    let before = text[..at].iter().rev().take(NAME_BYTES_MAX).take_while(|byte| is_name(**byte)).count();
    let after = text[end..].iter().take(NAME_BYTES_MAX).take_while(|byte| is_name(**byte)).count();
    let mut name = &text[at - before..end + after];
    let is_option = name.starts_with(b"--");
    while let [b'-', rest @ ..] = name {
        name = rest;
    }
    if !names_secret(name) {
        return None;
    }
    let mut next = end + after;
    if let Some(b'"' | b'\'') = text.get(next) {
        next += 1;
    }
    match text.get(next) {
        Some(b'=') => next += 1,
        Some(b':') => next += 1 + text[next + 1..].iter().take(1).filter(|byte| **byte == b' ').count(),
        Some(b' ') if is_option => next += 1,
        _ => return None,
    }
    if let Some(b'"' | b'\'') = text.get(next) {
        next += 1;
    }
    Some(next)
}

/// Whether a private key begins in the line in which this stands.
fn is_key(text: &[u8], at: usize) -> bool {
    // As far as that: a text of nothing but this literal would be gone through anew for each.
    let before = &text[at.saturating_sub(NAME_BYTES_MAX)..at];
    let line = before.iter().rposition(|byte| *byte == b'\n').map_or(before, |newline| &before[newline..]);
    line.windows(KEY_BEGIN.len()).any(|window| window == KEY_BEGIN)
}

fn is_number(value: &[u8]) -> bool {
    value.iter().all(|byte| byte.is_ascii_digit() || b".-+:".contains(byte))
}

/// Whether this only says where a value is, or is hidden already.
fn is_reference(value: &[u8]) -> bool {
    matches!(value, [] | [b'$' | b'%' | b'{' | b'/' | b'.' | b'~', ..]) || value.iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::prelude::rust_2024::*;
    use std::string::String;

    use super::*;

    /// The text with every secret starred, by looking for every literal everywhere.
    fn hidden(text: &str) -> String {
        let mut bytes = text.as_bytes().to_vec();
        for (number, literal) in literals().enumerate() {
            for at in 0..text.len() {
                if text.as_bytes()[at..].starts_with(literal.as_bytes())
                    && let Some(range) = Looker::new(text.as_bytes()).secret_at(number, at)
                {
                    bytes[range].fill(b'*');
                }
            }
        }
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn around_a_literal_no_more_is_looked_at_than_the_bounds_say() {
        // Else a text of nothing but one literal is gone through anew for each.
        let key = |before: usize, after: usize| {
            let text = std::format!("-----BEGIN {}PRIVATE KEY-----\n{}", "x".repeat(before), "y".repeat(after));
            let number = literals().position(|literal| literal == "PRIVATE KEY-----").unwrap();
            Looker::new(text.as_bytes()).secret_at(number, KEY_BEGIN.len() + before).map(|range| range.len())
        };
        assert_eq!(key(0, 9), Some(10));
        assert_eq!(key(NAME_BYTES_MAX - KEY_BEGIN.len(), 9), Some(10));
        assert_eq!(key(NAME_BYTES_MAX, 9), None);
        assert_eq!(key(0, 2 * SECRET_BYTES_MAX), Some(SECRET_BYTES_MAX));
    }

    #[test]
    fn what_was_gone_over_is_not_gone_over_again_and_shows_the_same() {
        let times = if cfg!(miri) { 3 } else { 1000 };
        for pattern in [
            "token=",
            "sk-ghp_",
            "x_key=1token:",
            "-----BEGIN PRIVATE KEY-----",
            "Bearer token=a1b2c3d4 \n",
            "eyJ sk-0123456789-0123456789-0123456789 password=abcd1234,hf_",
        ] {
            let text = pattern.repeat(times);
            // The whole in order, and the first of it by itself each.
            let (mut one, mut found) = (Looker::new(text.as_bytes()), 0_usize);
            for at in 0..text.len() {
                for (number, literal) in literals().enumerate() {
                    if text.as_bytes()[at..].starts_with(literal.as_bytes()) {
                        let secret = one.secret_at(number, at);
                        found += 1;
                        assert!(
                            found > 200 || secret == Looker::new(text.as_bytes()).secret_at(number, at),
                            "{text:.99}"
                        );
                    }
                }
            }
            assert!(found >= times);
        }
    }

    #[test]
    fn secrets_are_hidden_by_their_shape() {
        let digits = "0123456789abcdefghijABCDEFGHIJ0123456789";
        for (text, shown) in [
            (std::format!("token ghp_{digits} end"), std::format!("token ghp_{} end", "*".repeat(40))),
            (std::format!("x=sk-ant-{digits}"), std::format!("x=sk-{}", "*".repeat(44))),
            ("Authorization: Bearer abcdef0123456789".into(), std::format!("Authorization: Bearer {}", "*".repeat(16))),
            ("Authorization: Basic dXNlcjpwYXNz".into(), std::format!("Authorization: Basic {}", "*".repeat(12))),
            ("git clone https://me:hunter2@example.org/x".into(), "git clone https://me:*******@example.org/x".into()),
            ("MY_API_TOKEN=abcd1234 OK=1".into(), "MY_API_TOKEN=******** OK=1".into()),
            ("\"password\": \"hunter22!\",".into(), "\"password\": \"*********\",".into()),
            ("--password hunter22".into(), "--password ********".into()),
            ("--api-key=abcd1234".into(), "--api-key=********".into()),
            ("AWS_SECRET_ACCESS_KEY=abcd/1234+".into(), "AWS_SECRET_ACCESS_KEY=**********".into()),
            (
                "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA".into(),
                "-----BEGIN RSA PRIVATE KEY-----******-----END RSA".into(),
            ),
        ] {
            assert_eq!(hidden(&text), shown);
        }
    }

    #[test]
    fn what_only_speaks_of_secrets_stays() {
        for text in [
            "error: unexpected token: `String`, expected one of `,` or `}`",
            "password: Required",
            "let token: Option<String> = None;",
            "max_tokens=12345678",
            "token=$GITHUB_TOKEN",
            "token: 12345678",
            "cache_key: 3f2a9bc81d",
            "http://localhost:8080/@vite/client",
            "https://example.org:443/a@b",
            "task-force-sk-1 ghp_ eyJ",
            "bearer of bad news 2024-01-01T00:00:00",
            "-----BEGIN PUBLIC KEY-----",
            "PRIVATE KEY-----",
            "secret",
            "secret=",
            "token:",
        ] {
            assert_eq!(hidden(text), text);
        }
    }

    #[test]
    fn a_literal_at_either_end_of_the_text_is_no_harm() {
        for (number, literal) in literals().enumerate() {
            for text in [String::from(literal), std::format!("{literal}\u{fc}"), std::format!("\u{fc}{literal}=")] {
                let at = text.find(literal).unwrap();
                assert_eq!(Looker::new(text.as_bytes()).secret_at(number, at), None, "{text:?}");
            }
        }
    }
}
