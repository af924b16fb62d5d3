//! The rules: each looks at one file (or at all) and complains with the line, what is wrong, and what to do.

use std::fmt;

use crate::source::{File, has_extension};

/// Product lines of one file: more than this and it has two jobs.
const FILE_LINES_MAX: usize = 500;
/// Lines of one function: more than this and it does not fit on a screen.
const FUNCTION_LINES_MAX: usize = 70;

/// What a crate of ours may depend on: the layers, in one table. A new name here is a decision.
const LAYERS: [(&str, &[&str]); 5] = [
    ("core", &[]),
    ("sys", &["libc", "rustix"]),
    (
        "host",
        &[
            "aho-corasick",
            "bytesize",
            "humantime",
            "jiff",
            "mio",
            "regex",
            "ringback-core",
            "ringback-sys",
            "rmp-serde",
            "rusqlite",
            "serde",
            "serde_bytes",
            "serde_json",
            "sha2",
            "shlex",
            "thiserror",
            "toml",
        ],
    ),
    ("render", &["aho-corasick", "memchr", "quick-xml", "serde", "serde_json", "unicode-width", "vte"]),
    (
        "ringback",
        &[
            "base64",
            "bytesize",
            "clap",
            "clap_complete",
            "clap_mangen",
            "http-body-util",
            "hmac",
            "humantime",
            "hyper",
            "hyper-util",
            "indicatif",
            "jiff",
            "jsonc-parser",
            "regex",
            "ringback-core",
            "ringback-host",
            "ringback-render",
            "ringback-sys",
            "rmcp",
            "serde",
            "serde_json",
            "sha2",
            "shlex",
            "similar",
            "thiserror",
            "tokio",
            "toml",
            "toml_edit",
            "ureq",
        ],
    ),
];

/// Words that say nothing about what a thing does, with what to say instead.
const BANNED_NAMES: [(&str, &str); 7] = [
    ("manager", "name what it keeps or does (`board`, `store`, `keeper`)"),
    ("helper", "name what it does"),
    ("helpers", "name what it does"),
    ("util", "name what is in it"),
    ("utils", "name what is in it"),
    ("imp", "name what it is"),
    ("misc", "give each thing its own file"),
];

/// Getters that are named by somebody else's trait (rmcp's `ServerHandler`).
const FOREIGN_GETTERS: [&str; 2] = ["get_info", "get_task"];

/// One complaint.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Complaint {
    path: String,
    line: usize,
    text: String,
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.text)
    }
}

/// Everything that is wrong with these files.
pub(crate) fn check(files: &[File]) -> Vec<Complaint> {
    let mut found = Vec::new();
    for file in files {
        let mut say = |line: usize, text: String| found.push(Complaint { path: file.path.clone(), line, text });
        foreign_places(file, &mut say);
        manifest(file, &mut say);
        if file.is_rust() {
            first_sentence(file, &mut say);
            lengths(file, &mut say);
            layers(file, &mut say);
            attributes(file, &mut say);
            names(file, &mut say);
        }
    }
    decisions(files, &mut found);
    found
}

/// Every file says its job in its first sentence.
fn first_sentence(file: &File, say: &mut impl FnMut(usize, String)) {
    let paragraph: Vec<&str> =
        file.lines.iter().map_while(|line| line.strip_prefix("//! ")).map(str::trim_end).collect();
    let sentence = paragraph.join(" ");
    if sentence.len() < 3 || !sentence.ends_with('.') {
        say(1, "no first sentence; begin with `//! What this file is for.`".into());
    }
}

fn lengths(file: &File, say: &mut impl FnMut(usize, String)) {
    if file.is_product() && file.product_lines > FILE_LINES_MAX {
        let lines = file.product_lines;
        say(FILE_LINES_MAX + 1, format!("{lines} product lines, at most {FILE_LINES_MAX}; give its second job a file"));
    }
    for function in functions(file) {
        if function.lines > FUNCTION_LINES_MAX {
            let Function { name, lines, .. } = &function;
            say(function.line, format!("`{name}` has {lines} lines, at most {FUNCTION_LINES_MAX}; name its parts"));
        }
    }
}

struct Function {
    name: String,
    line: usize,
    lines: usize,
}

/// The functions with a body in a file's product code, outer and inner ones.
fn functions(file: &File) -> Vec<Function> {
    let mut done = Vec::new();
    let mut open: Vec<(Function, usize)> = Vec::new();
    let mut awaiting: Option<(String, usize)> = None;
    let (mut depth, mut brackets) = (0, 0);
    for (number, line) in file.product_code() {
        for (at, character) in line.char_indices() {
            match character {
                'f' => awaiting = function_name(line, at).map(|name| (name, number)).or(awaiting),
                '(' | '[' => brackets += 1,
                ')' | ']' => brackets -= 1,
                // A declaration without a body: a trait's method, an extern function.
                ';' if brackets == 0 => awaiting = None,
                '{' => {
                    depth += 1;
                    if let Some((name, line)) = awaiting.take() {
                        open.push((Function { name, line, lines: 0 }, depth));
                    }
                }
                '}' => {
                    if let Some((mut function, _)) = open.pop_if(|(_, at)| *at == depth) {
                        function.lines = number - function.line + 1;
                        done.push(function);
                    }
                    depth -= 1;
                }
                _ => {}
            }
        }
    }
    done
}

/// The name after `fn ` at this place, if a function is declared here.
fn function_name(line: &str, at: usize) -> Option<String> {
    let before = line[..at].chars().next_back();
    let rest = line[at..].strip_prefix("fn ")?;
    let name: String = rest.chars().take_while(|c| is_word(*c)).collect();
    (!before.is_some_and(is_word) && !name.is_empty()).then_some(name)
}

/// Who may name whom, who may print, and where `unsafe` lives.
fn layers(file: &File, say: &mut impl FnMut(usize, String)) {
    let crate_name = file.house_crate().unwrap_or_default();
    for (number, line) in file.product_code() {
        let mut ban = |word: &str, advice: &str| {
            if has_word(line, word) {
                say(number, format!("`{word}` in {crate_name}; {advice}"));
            }
        };
        match crate_name {
            "core" => {
                ban("std", "the rules have no machine: use `core` or `alloc`, and take time and chance as arguments");
                ban("ringback_sys", "the rules do not know the machine; return an effect");
                ban("ringback_host", "nothing calls upward");
            }
            "sys" => {
                ban("ringback_core", "the machine knows none of our words; the host translates");
                ban("ringback_host", "nothing calls upward");
            }
            "render" => {
                ban("ringback_core", "text from bytes needs none of our words; hand them in");
                ban("ringback_sys", "rendering touches no machine: it is given bytes");
                ban("ringback_host", "nothing calls upward");
                ban("File", "rendering opens no file: it is given bytes");
                ban("Instant", "rendering has no clock; hand the time in");
            }
            "host" => {
                ban("clap", "only the doors read arguments");
                ban("ringback", "nothing calls upward");
            }
            _ => {}
        }
        if crate_name != "ringback" && file.path != format!("crates/{crate_name}/build.rs") {
            for word in ["println!", "eprintln!", "print!", "eprint!"] {
                ban(word, "only the doors (crates/ringback) print; return it, or write it to the daemon's log");
            }
        }
        if crate_name != "sys" {
            ban("unsafe", "only crates/sys touches memory by hand; give it a safe verb there");
        }
    }
    for (number, line) in file.numbered_code() {
        for word in ["todo!", "unimplemented!", "dbg!"] {
            if has_word(line, word) {
                say(number, format!("`{word}`; finish it or take it out"));
            }
        }
    }
}

/// Exceptions to a lint have a reason, and no test is left out.
fn attributes(file: &File, say: &mut impl FnMut(usize, String)) {
    for (number, line) in file.numbered_code() {
        let line = line.replace("#!", "#").replace(' ', "");
        if line.contains("#[ignore") {
            say(number, "an ignored test; repair it or delete it".into());
        }
        for (exception, advice) in [
            ("allow", "write `#[expect(lint, reason = \"…\")]`, which tells when it is over"),
            ("expect", "add `reason = \"…\"`"),
        ] {
            // A long attribute is broken over some lines; the reason comes before it closes.
            let attribute = file.code[number - 1..].iter().take(8).map(String::as_str).collect::<String>();
            let inside = attribute.split(']').next().unwrap_or_default();
            if line.contains(&format!("#[{exception}(")) && !has_word(inside, "reason") {
                say(number, format!("an `{exception}` without a reason; {advice}"));
            }
        }
    }
}

/// Names say what a thing is or does.
fn names(file: &File, say: &mut impl FnMut(usize, String)) {
    let stem = file.path.rsplit('/').next().unwrap_or_default().trim_end_matches(".rs");
    let mut judge = |line: usize, name: &str| {
        let words = words_of(name);
        for (banned, advice) in BANNED_NAMES {
            if words.iter().any(|word| word == banned) {
                say(line, format!("`{name}` says nothing (`{banned}`); {advice}"));
            }
        }
        if let Some(given) = name.strip_prefix("get_").filter(|_| !FOREIGN_GETTERS.contains(&name)) {
            say(line, format!("`{name}`; a getter has the name of what it gives (`{given}`)"));
        }
    };
    judge(1, stem);
    for (number, line) in file.numbered_code() {
        let mut words = line.split(|c| !is_word(c)).filter(|word| !word.is_empty()).peekable();
        while let Some(word) = words.next() {
            let declares = ["fn", "mod", "struct", "enum", "trait", "type", "const", "static"].contains(&word);
            if let (true, Some(name)) = (declares, words.peek()) {
                judge(number, name);
            }
        }
    }
}

/// `KeeperImage` and `keeper_image` are both the words keeper, image.
fn words_of(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for character in name.chars() {
        let begins = character == '_' || character == '-' || character.is_uppercase();
        if begins && words.last().is_some_and(|word| !word.is_empty()) && !is_upper(name) || character == '_' {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| character.is_alphanumeric()) {
            word.extend(character.to_lowercase());
        }
    }
    words
}

fn is_upper(name: &str) -> bool {
    !name.chars().any(char::is_lowercase)
}

/// Nothing in the project knows the machine it was written on.
fn foreign_places(file: &File, say: &mut impl FnMut(usize, String)) {
    const LOCK_SOURCE: &str = "source = \"registry+https://github.com/rust-lang/crates.io-index\"";
    // How the database is compiled is ours; where crates come from and how they are linked is the machine's.
    let ours = |line: &str| !line.starts_with('[') || ["[alias]", "[env]"].contains(&line);
    if file.path.contains(".cargo/config") && !file.lines.iter().all(|line| ours(line)) {
        say(
            1,
            "a cargo configuration belongs to a machine, not to the project; only `[alias]` and `[env]` may stay"
                .into(),
        );
    }
    // What tools printed on other machines is data, and what is made of it too.
    if file.path.contains("/tests/captures/") || has_extension(&file.path, "snap") {
        return;
    }
    let places = [["/wo", "rk/"], ["/ro", "ot/"], ["/ho", "me/"], ["/bu", "ild/"], ["/Us", "ers/"]].map(|p| p.concat());
    for (index, line) in file.lines.iter().enumerate() {
        for place in &places {
            let starts = |at: usize| !line[..at].ends_with(|c: char| is_word(c) || "./-}~*$".contains(c));
            if line.match_indices(place).any(|(at, _)| starts(at)) {
                say(index + 1, format!("a path of one machine (`{place}`); name it from the project or from `$HOME`"));
            }
        }
        let locked = file.path.ends_with("Cargo.lock") && line.starts_with("source = ");
        if locked && line != LOCK_SOURCE {
            say(index + 1, "a crate from somewhere else than crates.io; lock it anew without a local registry".into());
        }
    }
}

/// A crate depends on what its layer may know.
fn manifest(file: &File, say: &mut impl FnMut(usize, String)) {
    let layer = LAYERS.iter().find(|(name, _)| file.path == format!("crates/{name}/Cargo.toml"));
    let Some((name, allowed)) = layer else { return };
    let mut section = "";
    for (index, line) in file.lines.iter().enumerate() {
        if line.starts_with('[') {
            section = line.trim();
        }
        let dependency = line.split(['.', '=', ' ']).next().unwrap_or_default();
        let counts = section.ends_with("dependencies]") && !section.contains("dev-dependencies");
        let is_entry = counts && !dependency.is_empty() && !dependency.starts_with(['[', '#']);
        if is_entry && !section.contains("build-") && !allowed.contains(&dependency) {
            say(
                index + 1,
                format!("{name} may not depend on `{dependency}`; ask which fact it buys, then add it to LAYERS"),
            );
        }
    }
}

/// Decisions are numbered from 1 without a gap, and say what was chosen.
fn decisions(files: &[File], found: &mut Vec<Complaint>) {
    let pages = files.iter().filter_map(|file| Some((file, file.path.strip_prefix("docs/decisions/")?)));
    for (expected, (file, name)) in (1..).zip(pages) {
        let mut say = |text: String| found.push(Complaint { path: file.path.clone(), line: 1, text });
        if !name.starts_with(&format!("{expected:04}-")) || !has_extension(name, "md") {
            say(format!("a decision out of order; name it {expected:04}-what-was-chosen.md"));
        }
        for heading in ["## Chosen", "## Not chosen", "## What would change our mind"] {
            if !file.lines.iter().any(|line| line == heading) {
                say(format!("no `{heading}`; a decision without it cannot be taken up again"));
            }
        }
    }
}

/// Whether `word` stands in `line` on its own, and not as part of another name.
fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let after = line[at + word.len()..].chars().next();
        let closed = word.ends_with('!') || !after.is_some_and(is_word);
        closed && !line[..at].chars().next_back().is_some_and(is_word)
    })
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}
