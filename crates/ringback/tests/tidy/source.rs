//! A file as lines, and a Rust file also as lines of code without its comments and strings.

/// One file of the project.
pub(crate) struct File {
    /// From the root of the workspace, with `/`.
    pub(crate) path: String,
    /// The lines as they are.
    pub(crate) lines: Vec<String>,
    /// For Rust: the same lines with comments, strings and character literals blanked; else empty.
    pub(crate) code: Vec<String>,
    /// How many of the lines are product: up to the tests at the end of the file.
    pub(crate) product_lines: usize,
}

impl File {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let lines: Vec<String> = text.lines().map(String::from).collect();
        let code: Vec<String> =
            if has_extension(path, "rs") { blank(text).lines().map(String::from).collect() } else { Vec::new() };
        let product_lines = code
            .windows(2)
            .position(|pair| pair[0].trim() == "#[cfg(test)]" && pair[1].starts_with("mod tests {"))
            .unwrap_or(lines.len());
        Self { path: path.into(), lines, code, product_lines }
    }

    pub(crate) fn is_rust(&self) -> bool {
        has_extension(&self.path, "rs")
    }

    /// The crate it belongs to: `core` for `crates/core/src/task.rs`.
    pub(crate) fn house_crate(&self) -> Option<&str> {
        self.path.strip_prefix("crates/")?.split('/').next()
    }

    /// Whether it is part of what we ship (build scripts count), and not a test, an example or a bench.
    pub(crate) fn is_product(&self) -> bool {
        let shipped = |rest: &str| rest.starts_with("src/") || rest == "build.rs" || rest.starts_with("keeper/");
        let inside = self.house_crate().and_then(|name| self.path.strip_prefix(&format!("crates/{name}/")));
        self.is_rust() && inside.is_some_and(shipped)
    }

    /// The product lines of code, numbered from 1.
    pub(crate) fn product_code(&self) -> impl Iterator<Item = (usize, &str)> {
        let shown = if self.is_product() { self.product_lines } else { 0 };
        self.numbered_code().take(shown)
    }

    /// All lines of code, numbered from 1.
    pub(crate) fn numbered_code(&self) -> impl Iterator<Item = (usize, &str)> {
        self.code.iter().enumerate().map(|(index, line)| (index + 1, line.as_str()))
    }
}

/// Whether a path ends in this extension.
pub(crate) fn has_extension(path: &str, extension: &str) -> bool {
    std::path::Path::new(path).extension().is_some_and(|found| found == extension)
}

/// Blanks comments, strings and character literals with spaces, and leaves every line break where it is.
pub(crate) fn blank(text: &str) -> String {
    let mut lexer = Lexer { chars: text.chars().collect(), at: 0, out: String::with_capacity(text.len()) };
    while lexer.at < lexer.chars.len() {
        lexer.step();
    }
    lexer.out
}

struct Lexer {
    chars: Vec<char>,
    at: usize,
    out: String,
}

impl Lexer {
    fn step(&mut self) {
        let (now, next) = (self.peek(0), self.peek(1));
        match (now, next) {
            ('/', '/') => self.skip_while(|lexer| lexer.peek(0) != '\n'),
            ('/', '*') => self.block_comment(),
            ('"', _) => self.string(),
            ('\'', _) => self.quote(),
            ('r', '"' | '#') if !self.after_word() || self.after_prefix() => self.raw_string(),
            _ => self.keep(),
        }
    }

    fn peek(&self, ahead: usize) -> char {
        self.chars.get(self.at + ahead).copied().unwrap_or('\0')
    }

    fn more(&self) -> bool {
        self.at < self.chars.len()
    }

    /// Whether the character before this one belongs to a word, as in `for"` or `bar#`.
    fn after_word(&self) -> bool {
        self.at
            .checked_sub(1)
            .and_then(|before| self.chars.get(before))
            .is_some_and(|c| c.is_alphanumeric() || *c == '_')
    }

    /// Whether this `r` is the second letter of `br"` or `cr"`.
    fn after_prefix(&self) -> bool {
        let back = |n: usize| self.at.checked_sub(n).and_then(|at| self.chars.get(at)).copied().unwrap_or(' ');
        matches!(back(1), 'b' | 'c') && !(back(2).is_alphanumeric() || back(2) == '_')
    }

    fn keep(&mut self) {
        self.out.push(self.peek(0));
        self.at += 1;
    }

    fn blank_one(&mut self) {
        self.out.push(if self.peek(0) == '\n' { '\n' } else { ' ' });
        self.at += 1;
    }

    fn skip_while(&mut self, go_on: impl Fn(&Self) -> bool) {
        while self.more() && go_on(self) {
            self.blank_one();
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0;
        while self.more() {
            let step = match (self.peek(0), self.peek(1)) {
                ('/', '*') => 1,
                ('*', '/') => -1,
                _ => 0,
            };
            depth += step;
            self.blank_one();
            if step != 0 {
                self.blank_one();
            }
            if depth == 0 {
                return;
            }
        }
    }

    fn string(&mut self) {
        self.blank_one();
        while self.more() && self.peek(0) != '"' {
            if self.peek(0) == '\\' {
                self.blank_one();
            }
            self.blank_one();
        }
        self.blank_one();
    }

    fn raw_string(&mut self) {
        let hashes = self.chars[self.at + 1..].iter().take_while(|c| **c == '#').count();
        if self.peek(1 + hashes) != '"' {
            // A raw identifier: `r#type`.
            return self.keep();
        }
        let close: Vec<char> = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
        (0..hashes + 2).for_each(|_| self.blank_one());
        self.skip_while(|lexer| !lexer.chars[lexer.at..].starts_with(&close));
        let end = (self.at + close.len()).min(self.chars.len());
        (self.at..end).for_each(|_| self.blank_one());
    }

    /// A character literal, or a lifetime, which stays.
    fn quote(&mut self) {
        let literal = self.peek(1) == '\\' || self.peek(2) == '\'';
        if !literal {
            return self.keep();
        }
        self.blank_one();
        if self.peek(0) == '\\' {
            self.blank_one();
        }
        self.blank_one();
        self.skip_while(|lexer| lexer.peek(0) != '\'');
        self.blank_one();
    }
}
