//! `run --env-file`: variables from a file, in the form that docker reads.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use clap::Args;

use super::value;
use crate::explain::Failure;
use crate::render::clean;

/// The longest file that is read: an environment may be of some megabytes (execve(2)).
const FILE_BYTES_MAX: u64 = 8 << 20;

/// Files with variables.
#[derive(Debug, Default, Args)]
pub(super) struct EnvFiles {
    /// Set the variables of this file: NAME=VALUE lines, NAME alone takes the value from here if there is one, # begins a comment
    /// (can be repeated; -e wins)
    #[arg(long, value_name = "FILE")]
    env_file: Vec<PathBuf>,
}

impl EnvFiles {
    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.env_file.is_empty()
    }

    /// What the files set, then `env`: the last value of a name counts.
    pub(super) fn with(&self, env: &[(OsString, OsString)]) -> Result<Vec<(OsString, OsString)>, Failure> {
        let mut all = Vec::new();
        for path in &self.env_file {
            all.extend(read(path)?);
        }
        all.extend_from_slice(env);
        Ok(all)
    }
}

fn read(path: &Path) -> Result<Vec<(OsString, OsString)>, Failure> {
    let shown = clean::line(&path.to_string_lossy());
    let failed = |error: &dyn std::error::Error, hint: &str| {
        Failure::new("env_file", format!("cannot read the variables of {shown}: {error}"), Some(hint.to_owned()))
    };
    let text = fs::metadata(path).and_then(|about| {
        if about.len() > FILE_BYTES_MAX {
            return Err(std::io::Error::other(format!("it has more than {FILE_BYTES_MAX} bytes")));
        }
        fs::read(path)
    });
    let text = text.map_err(|error| failed(&error, "pass --env-file a file with a NAME=VALUE in each line"))?;
    parse(&text, |name| std::env::var_os(name)).map_err(|(number, why)| {
        let hint = "a line is NAME=VALUE, NAME, a # comment, or empty".to_owned();
        Failure::new("env_file", format!("cannot read line {number} of {shown}: {why}"), Some(hint))
    })
}

/// The variables of a file; an error is the number of a line, and what is wrong with it.
fn parse(text: &[u8], here: impl Fn(&OsStr) -> Option<OsString>) -> Result<Vec<(OsString, OsString)>, (usize, String)> {
    let mut all = Vec::new();
    for (at, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line).trim_ascii_start();
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let wrong = |why: &str| (at + 1, why.to_owned());
        let name = line.split(|byte| *byte == b'=').next().unwrap_or_default();
        if line.contains(&0) {
            return Err(wrong("it has a NUL byte"));
        }
        if name.iter().any(u8::is_ascii_whitespace) {
            return Err(wrong("the name of a variable has a space"));
        }
        if name.len() == line.len() {
            // As docker does it: what is not set here is not set there.
            all.extend(here(OsStr::from_bytes(name)).map(|found| (OsStr::from_bytes(name).to_owned(), found)));
        } else {
            all.push(value::pair(OsStr::from_bytes(line)).map_err(|why| (at + 1, why))?);
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Result<Vec<String>, (usize, String)> {
        let here = |name: &OsStr| (name == "HERE").then(|| "h".into());
        let pairs = parse(text.as_bytes(), here)?;
        Ok(pairs.into_iter().map(|(name, value)| format!("{}={}", name.display(), value.display())).collect())
    }

    #[test]
    fn a_file_is_read_as_docker_reads_it() {
        let text = "# a comment\n\nA=1\r\n  B=two words # and this\nC=\"quoted\"\nD=\nHERE\nNOT_HERE\nA=2";
        assert_eq!(check(text).unwrap(), ["A=1", "B=two words # and this", "C=\"quoted\"", "D=", "HERE=h", "A=2"]);
        assert_eq!(check("").unwrap(), Vec::<String>::new());
    }

    #[test]
    fn a_line_that_is_none_is_named_by_its_number() {
        for (text, number) in [("A=1\n=x", 2), ("export A=1", 1), ("A=1\nB=\0", 2)] {
            assert_eq!(check(text).unwrap_err().0, number, "{text:?}");
        }
    }
}
