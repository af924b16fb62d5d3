//! Which environment variables look like secrets, by their names.

const PREFIXES: &[&str] = &["ANTHROPIC_", "OPENAI_", "OPENROUTER_", "FIREWORKS_", "TOGETHER_", "XAI_", "GROQ_"];
const SUFFIXES: &[&str] =
    &["_API_KEY", "_TOKEN", "_SECRET", "_KEY", "_PASSWORD", "_PASSWD", "_CREDENTIALS", "_PASSPHRASE"];
const WHOLE: &[&str] = &["TOKEN", "PASSWORD", "SECRET", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "PGPASSWORD"];

/// Whether a variable of this name probably holds a secret. A guess: it is a courtesy, not a boundary.
pub fn looks_secret(name: &str) -> bool {
    let starts = |p: &&str| name.get(..p.len()).is_some_and(|head| head.eq_ignore_ascii_case(p));
    let ends = |s: &&str| {
        let at = name.len().wrapping_sub(s.len());
        name.get(at..).is_some_and(|tail| tail.eq_ignore_ascii_case(s))
    };
    PREFIXES.iter().any(starts) || SUFFIXES.iter().any(ends) || WHOLE.iter().any(|w| name.eq_ignore_ascii_case(w))
}

#[cfg(test)]
mod tests {
    use super::looks_secret;

    #[test]
    fn secrets_are_guessed_by_name_and_paths_are_not() {
        for name in ["GITHUB_TOKEN", "gh_token", "MY_api_key", "ANTHROPIC_BASE", "PGPASSWORD"] {
            assert!(looks_secret(name), "{name}");
        }
        for name in ["PATH", "HOME", "KEYBOARD", "TOKENIZERS_PARALLELISM", "é", ""] {
            assert!(!looks_secret(name), "{name}");
        }
    }
}
