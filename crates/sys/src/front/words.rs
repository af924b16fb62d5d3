//! Whether a command line may be plain. That it is, and what it means, is the daemon's word (`cli/plain.rs` of the doors).

/// What of our own command line stays visible to others: `ringback run`.
pub(crate) const VISIBLE: usize = 2;

/// What may be done here.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wish<'a> {
    /// Say which version this is.
    Version,
    /// Have this program run, or a script if there is none.
    Run(Option<&'a [u8]>),
}

/// What these words wish for, the program's own name first; nothing if that is not for us.
pub(crate) fn wish<'a>(words: impl Iterator<Item = &'a [u8]>) -> Option<Wish<'a>> {
    let mut words = words.skip(1);
    match words.next()? {
        b"--version" | b"-V" => words.next().is_none().then_some(Wish::Version),
        b"run" => run(words),
        _ => None,
    }
}

fn run<'a>(mut words: impl Iterator<Item = &'a [u8]>) -> Option<Wish<'a>> {
    let mut is_script = false;
    loop {
        match words.next() {
            None => return is_script.then_some(Wish::Run(None)),
            Some(b"-q" | b"--quiet" | b"--json") => {}
            Some(b"-n" | b"--name" | b"-s" | b"--session" | b"--timeout") => _ = words.next()?,
            // `-` is read from stdin.
            Some(b"-c") if words.next()? != b"-" => is_script = true,
            Some(b"--") => break,
            Some(word) if word.is_empty() || word.starts_with(b"-") => return None,
            Some(word) => return Some(Wish::Run(Some(word))),
        }
    }
    words.next().filter(|program| !program.is_empty()).map(|program| Wish::Run(Some(program)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(words: &str) -> Option<Wish<'_>> {
        wish(words.as_bytes().split(|byte| *byte == b' '))
    }

    #[test]
    fn only_what_may_be_plain_is_for_the_front() {
        let runs = |program: &'static str| Some(Wish::Run(Some(program.as_bytes())));
        assert_eq!(check("ringback run true"), runs("true"));
        assert_eq!(check("ringback run -q --json -n x -s y --timeout 5s -- cargo test -f"), runs("cargo"));
        assert_eq!(check("ringback run -c exit"), Some(Wish::Run(None)));
        assert_eq!(check("ringback -V"), Some(Wish::Version));
        for other in [
            "ringback",
            "ringback run",
            "ringback run --",
            "ringback run -f true",
            "ringback run -qq true",
            "ringback run --name=x true",
            "ringback run -c -",
            "ringback run -C / true",
            "ringback run -n",
            "ringback -q run true",
            "ringback ps",
            "ringback --version --json",
        ] {
            assert_eq!(check(other), None, "{other}");
        }
    }
}
