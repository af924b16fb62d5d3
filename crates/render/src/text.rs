//! Small cuts of text that never break a character.

/// The longest prefix of at most this many bytes.
pub fn clip(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes.min(text.len()))]
}

/// The text in at most this many bytes, with `…` where something was left out.
pub fn shorten(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    format!("{}…", clip(text, bytes.saturating_sub('…'.len_utf8())))
}

/// A place in a file, as tools write it: `src/lib.rs:9:26`, `src/lib.rs:9`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub path: String,
    /// The line in it.
    pub line: Option<u32>,
    /// The column.
    pub column: Option<u32>,
}

impl Place {
    /// Reads `path:line:column` or `path:line`.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim().trim_end_matches(':');
        let (rest, last) = text.rsplit_once(':')?;
        let last = last.parse().ok()?;
        let (path, line, column) = match rest.rsplit_once(':').map(|(path, line)| (path, line.parse())) {
            Some((path, Ok(line))) => (path, line, Some(last)),
            _ => (rest, last, None),
        };
        is_path(path).then(|| Self { path: path.to_owned(), line: Some(line), column })
    }

    /// Whether the file has this extension.
    pub fn is_of(&self, extension: &str) -> bool {
        has_extension(&self.path, extension)
    }

    /// Reads `path(line,column)` or `path(line)`.
    pub fn parse_bracketed(text: &str) -> Option<Self> {
        let (path, inside) = text.trim().strip_suffix(')')?.rsplit_once('(')?;
        let (line, column) = inside.split_once(',').unwrap_or((inside, ""));
        let line = line.parse().ok()?;
        is_path(path).then(|| Self { path: path.to_owned(), line: Some(line), column: column.trim().parse().ok() })
    }
}

/// Whether a path ends in this extension.
pub fn has_extension(path: &str, extension: &str) -> bool {
    path.rsplit_once('.').is_some_and(|(_, found)| found == extension)
}

fn is_path(text: &str) -> bool {
    let is_short = !text.is_empty() && text.len() <= 512;
    is_short && !text.contains([' ', '\t', '"', '\'', '<', '>', '|', '=']) && text.contains(|c: char| c.is_alphabetic())
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.path)?;
        for number in [self.line, self.column].into_iter().flatten() {
            write!(f, ":{number}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_is_on_a_character_border() {
        assert_eq!(clip("aä", 2), "a");
        assert_eq!(shorten("abcdef", 5), "ab…");
        assert_eq!(shorten("abc", 3), "abc");
        assert_eq!(shorten("äää", 2), "…");
    }

    #[test]
    fn places_are_read_in_the_usual_forms() {
        let place = |path: &str, line, column| Some(Place { path: path.into(), line: Some(line), column });
        assert_eq!(Place::parse("src/lib.rs:9:26"), place("src/lib.rs", 9, Some(26)));
        assert_eq!(Place::parse("src/lib.rs:9:"), place("src/lib.rs", 9, None));
        assert_eq!(Place::parse_bracketed("a/b.ts(12,5)"), place("a/b.ts", 12, Some(5)));
        assert_eq!(Place::parse("12:30"), None);
        assert_eq!(Place::parse("some words:3"), None);
        assert_eq!(place("a.c", 1, Some(2)).unwrap().to_string(), "a.c:1:2");
    }
}
