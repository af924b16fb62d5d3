//! Colour, where a person looks and has not said no.

use std::env;
use std::io::IsTerminal as _;

/// What a colour means here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    /// It went well.
    Good,
    /// It failed.
    Bad,
    /// It was ended on purpose, or needs a look.
    Warn,
    /// It is going on.
    Busy,
    /// It matters less.
    Dim,
}

/// Whether to use colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Style {
    colour: bool,
}

impl Style {
    /// For stdout, by the terminal, `NO_COLOR`, `CLICOLOR_FORCE` and `TERM`.
    pub(crate) fn of_stdout() -> Self {
        Self::decide(std::io::stdout().is_terminal(), |name| env::var(name).unwrap_or_default())
    }

    /// For stderr, by the same rules.
    pub(crate) fn of_stderr() -> Self {
        Self::decide(std::io::stderr().is_terminal(), |name| env::var(name).unwrap_or_default())
    }

    fn decide(terminal: bool, var: impl Fn(&str) -> String) -> Self {
        let set = |name: &str| !matches!(var(name).as_str(), "" | "0");
        // <https://no-color.org>: present and not empty, whatever the value.
        let forbidden = !var("NO_COLOR").is_empty();
        Self { colour: !forbidden && (set("CLICOLOR_FORCE") || (terminal && var("TERM") != "dumb")) }
    }

    /// Whether nothing is coloured.
    pub(crate) fn is_plain(self) -> bool {
        !self.colour
    }

    /// The text in this tone.
    pub(crate) fn paint(self, tone: Tone, text: &str) -> String {
        if !self.colour {
            return text.to_owned();
        }
        let code = match tone {
            Tone::Good => "32",
            Tone::Bad => "31",
            Tone::Warn => "33",
            Tone::Busy => "36",
            Tone::Dim => "2",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_follows_the_usual_rules() {
        let check = |terminal, vars: &[(&str, &str)]| {
            let var = |name: &str| vars.iter().find(|(n, _)| *n == name).map_or("", |(_, value)| value).to_owned();
            Style::decide(terminal, var).colour
        };
        assert!(check(true, &[]) && !check(false, &[]));
        assert!(!check(true, &[("NO_COLOR", "1")]) && !check(true, &[("TERM", "dumb")]));
        assert!(check(false, &[("CLICOLOR_FORCE", "1")]) && !check(false, &[("CLICOLOR_FORCE", "0")]));
        assert!(!check(true, &[("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")]));
    }
}
