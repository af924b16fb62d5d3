//! What looks like a secret, by its name and value.

/// Families of services whose variables hold keys.
const FAMILIES: &[&str] = &["ANTHROPIC_", "OPENAI_", "OPENROUTER_", "FIREWORKS_", "TOGETHER_", "XAI_", "GROQ_"];

/// Whether a variable of this name probably holds a secret. A guess: it is a courtesy, not a boundary.
pub fn looks_secret(name: &str) -> bool {
    let starts = |family: &&str| name.get(..family.len()).is_some_and(|head| head.eq_ignore_ascii_case(family));
    FAMILIES.iter().any(starts) || names_any_key(name.as_bytes())
}

/// Names whose value is a secret wherever it stands. Narrower than [`looks_secret`]: the whole family of a service, and
/// keys of every kind, may hold what is no secret and stands in many an output.
const SECRET_ENDS: &[&str] = &[
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "CREDENTIALS",
    "API_KEY",
    "APIKEY",
    "ACCESS_KEY",
    "SECRET_KEY",
    "PRIVATE_KEY",
    "AUTH_KEY",
    "ENCRYPTION_KEY",
    "SIGNING_KEY",
];

/// Whether what is called this holds a secret and nothing else: a variable, an option, a field.
pub fn names_secret(name: &[u8]) -> bool {
    SECRET_ENDS.iter().any(|end| ends(name, end))
}

/// The same, or a key of whatever kind.
fn names_any_key(name: &[u8]) -> bool {
    names_secret(name) || ends(name, "_KEY")
}

/// Whether a name ends so. `-` counts as `_`.
fn ends(name: &[u8], end: &str) -> bool {
    let same = |a: &u8, b: &u8| a.eq_ignore_ascii_case(b) || (*a == b'-' && *b == b'_');
    let tail = name.len().checked_sub(end.len()).and_then(|at| name.get(at..));
    tail.is_some_and(|tail| tail.iter().zip(end.as_bytes()).all(|(a, b)| same(a, b)))
}

/// A value is hidden from this many bytes on; a shorter one stands in many a text.
pub const VALUE_BYTES_MIN: usize = 8;
/// A plain word is hidden from this many bytes on: `postgres` is a password and a name.
const WORD_BYTES_MIN: usize = 16;

/// Whether an environment variable of this name and value is hidden wherever its value appears.
pub fn is_secret_value(name: &[u8], value: &[u8]) -> bool {
    let is_address = value.windows(3).any(|window| window == b"://") && !value.contains(&b'@');
    let is_path = matches!(value, [b'/' | b'~' | b'.', ..]);
    let is_plain = |of: fn(&u8) -> bool| value.iter().all(of);
    let is_word = is_plain(u8::is_ascii_lowercase) || is_plain(u8::is_ascii_uppercase) || is_plain(u8::is_ascii_digit);
    let min = if is_word { WORD_BYTES_MIN } else { VALUE_BYTES_MIN };
    names_any_key(name) && !is_address && !is_path && value.len() >= min
}

#[cfg(test)]
mod tests {
    use super::{is_secret_value, looks_secret, names_secret};

    #[test]
    fn secrets_are_guessed_by_name_and_paths_are_not() {
        for name in ["GITHUB_TOKEN", "gh_token", "MY_api_key", "SOME_KEY", "ANTHROPIC_BASE", "PGPASSWORD"] {
            assert!(looks_secret(name), "{name}");
        }
        for name in ["GITHUB_TOKEN", "db-password", "apiKey", "x-api-key", "client_secret", "AWS_SECRET_ACCESS_KEY"] {
            assert!(names_secret(name.as_bytes()), "{name}");
        }
        for name in ["max_tokens", "token_type", "primary_key", "ANTHROPIC_MODEL", "tokenizer", ""] {
            assert!(!names_secret(name.as_bytes()), "{name}");
        }
        for name in ["PATH", "HOME", "KEYBOARD", "TOKENIZERS_PARALLELISM", "é", ""] {
            assert!(!looks_secret(name), "{name}");
        }
    }

    #[test]
    fn a_value_that_says_nothing_or_is_a_place_is_no_secret() {
        let is = |name: &str, value: &str| is_secret_value(name.as_bytes(), value.as_bytes());
        assert!(is("GH_TOKEN", "abcd1234") && is("DB_PASSWORD", "swordfishswordfish") && is("SOME_KEY", "aB3-xyz0"));
        assert!(is("DATABASE_PASSWORD", "https://me:x@y"));
        for (name, value) in [
            ("POSTGRES_PASSWORD", "postgres"),
            ("PIN_TOKEN", "12345678"),
            ("A_TOKEN", "short1"),
            ("SSH_KEY", "~/.ssh/id_ed25519"),
            ("ANTHROPIC_MODEL", "claude-model-4"),
            ("OPENAI_API_KEY", "https://example.org"),
            ("PATH", "/usr/bin:/bin"),
        ] {
            assert!(!is(name, value), "{name}={value}");
        }
    }
}
