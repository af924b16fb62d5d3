//! The arguments of one call: each is taken by name and type; what is left over, too long or of the wrong type is refused
//! in words that a model can mend.

use std::collections::BTreeMap;
use std::time::Duration;

use ringback_host::quantity;
use serde_json::{Map, Value};

use super::message::Rounded;
use crate::exact;
use crate::explain::Failure;
use crate::render::clean;

/// The longest text in an argument, bytes. A longer script belongs into a file; the model would have had to write it.
pub(super) const TEXT_BYTES_MAX: usize = 1 << 20;
/// How much of a wrong value is quoted back.
const QUOTED_CHARS: usize = 60;

/// The arguments that were not taken so far.
#[derive(Debug)]
pub(super) struct Args {
    tool: &'static str,
    values: Map<String, Value>,
    rounded: Option<Rounded>,
}

impl Args {
    /// Takes over what came, if this tool knows all of it. A null is an argument that was left out.
    pub(super) fn new(tool: &'static str, known: &[&str], values: Map<String, Value>) -> Result<Self, Failure> {
        let values: Map<String, Value> = values.into_iter().filter(|(_, value)| !value.is_null()).collect();
        match values.keys().find(|name| !known.contains(&name.as_str())) {
            None => Ok(Self { tool, values, rounded: None }),
            Some(name) => Err(wrong(
                format!("`{tool}` has no argument `{}`", clean::short(name, QUOTED_CHARS)),
                format!("its arguments are {}", known.join(", ")),
            )),
        }
    }

    /// The same arguments of a call in whose text this number stood.
    pub(super) fn rounded(self, rounded: Option<Rounded>) -> Self {
        Self { rounded, ..self }
    }

    /// A text.
    pub(super) fn text(&mut self, name: &str) -> Result<Option<String>, Failure> {
        match self.values.remove(name) {
            None => Ok(None),
            Some(Value::String(text)) => self.short_enough(name, text).map(Some),
            Some(other) => Err(self.wrong_type(name, "a string", &other)),
        }
    }

    /// A list of texts.
    pub(super) fn texts(&mut self, name: &str) -> Result<Option<Vec<String>>, Failure> {
        let Some(value) = self.values.remove(name) else { return Ok(None) };
        let Value::Array(items) = value else { return Err(self.wrong_type(name, "a list of strings", &value)) };
        let mut texts = Vec::with_capacity(items.len());
        for item in items {
            let Value::String(text) = item else { return Err(self.wrong_type(name, "a list of strings", &item)) };
            texts.push(self.short_enough(name, text)?);
        }
        if texts.iter().map(String::len).sum::<usize>() > TEXT_BYTES_MAX {
            return Err(self.too_long(name, texts.iter().map(String::len).sum()));
        }
        Ok(Some(texts))
    }

    /// A list of texts, or one text by itself.
    pub(super) fn texts_or_one(&mut self, name: &str) -> Result<Option<Vec<String>>, Failure> {
        match self.values.get(name) {
            Some(Value::String(_)) => Ok(self.text(name)?.map(|text| vec![text])),
            _ => self.texts(name),
        }
    }

    /// Names and values.
    pub(super) fn pairs(&mut self, name: &str) -> Result<BTreeMap<String, String>, Failure> {
        let expected = "an object of strings";
        let Some(value) = self.values.remove(name) else { return Ok(BTreeMap::new()) };
        let Value::Object(fields) = value else { return Err(self.wrong_type(name, expected, &value)) };
        let mut pairs = BTreeMap::new();
        for (key, value) in fields {
            let Value::String(text) = value else { return Err(self.wrong_type(name, expected, &value)) };
            if key.is_empty() || key.contains(['=', '\0']) {
                let key = clean::short(&key, QUOTED_CHARS);
                return Err(wrong(format!("`{key}` cannot be the name of a variable"), "names have no `=`".into()));
            }
            pairs.insert(key, self.short_enough(name, text)?);
        }
        Ok(pairs)
    }

    /// A whole number.
    pub(super) fn number(&mut self, name: &str) -> Result<Option<u64>, Failure> {
        match self.values.remove(name) {
            None => Ok(None),
            // Some clients write every number as a float.
            Some(Value::Number(number)) => match number.as_u64().or_else(|| whole(number.as_f64())) {
                Some(number) => Ok(Some(number)),
                None => Err(self.wrong_type(name, "a whole number, 0 or more", &Value::Number(number))),
            },
            Some(other) => Err(self.wrong_type(name, "a whole number, 0 or more", &other)),
        }
    }

    /// Yes or no; no where it was left out.
    pub(super) fn flag(&mut self, name: &str) -> Result<bool, Failure> {
        match self.values.remove(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(other) => Err(self.wrong_type(name, "true or false", &other)),
        }
    }

    /// Whether it is given.
    pub(super) fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// A duration: text like `90s`, or a number of seconds.
    pub(super) fn span(&mut self, name: &str) -> Result<Option<Duration>, Failure> {
        let text = match self.values.remove(name) {
            None => return Ok(None),
            Some(Value::String(text)) => text,
            Some(Value::Number(number)) => number.to_string(),
            Some(other) => return Err(self.wrong_type(name, "a duration like \"90s\" or \"5m\"", &other)),
        };
        let span = quantity::duration(&clean::short(&text, QUOTED_CHARS));
        span.map(Some)
            .map_err(|error| wrong(format!("`{name}`: {error}"), "for example \"90s\", \"5m\", \"1h30m\"".into()))
    }

    /// Two durations, the second not below the first: text like `30s..5m`; or one.
    pub(super) fn pace(&mut self, name: &str) -> Result<(Option<Duration>, Option<Duration>), Failure> {
        let halves = match self.values.get(name).and_then(Value::as_str).and_then(|text| text.split_once("..")) {
            None => return Ok((self.span(name)?, None)),
            Some((first, longest)) => [first, longest].map(|half| Value::from(half.trim())),
        };
        let [first, longest] = halves.map(|half| {
            self.values.insert(name.to_owned(), half);
            self.span(name)
        });
        let (first, longest) = (first?, longest?);
        if longest < first {
            let message = format!("`{name}`: the longest pause is below the first");
            return Err(wrong(message, "for example \"30s..5m\"".into()));
        }
        Ok((first, longest))
    }

    /// A size: text like `512MiB`, or a number of bytes.
    pub(super) fn size(&mut self, name: &str) -> Result<Option<u64>, Failure> {
        let text = match self.values.remove(name) {
            None => return Ok(None),
            Some(Value::String(text)) => text,
            Some(Value::Number(number)) => number.to_string(),
            Some(other) => return Err(self.wrong_type(name, "a size like \"512MiB\"", &other)),
        };
        let size = quantity::size(&clean::short(&text, QUOTED_CHARS));
        size.map(Some).map_err(|error| wrong(format!("`{name}`: {error}"), "for example \"512MiB\" or \"2G\"".into()))
    }

    /// One of these words; the empty word where it was left out, which the daemon reads as its default.
    pub(super) fn word(&mut self, name: &str, words: &[&str]) -> Result<String, Failure> {
        match self.text(name)? {
            None => Ok(String::new()),
            Some(word) if words.contains(&word.as_str()) => Ok(word),
            Some(word) => Err(wrong(
                format!("`{}` is not a value of `{name}`", clean::short(&word, QUOTED_CHARS)),
                format!("`{name}` is one of {}", words.join(", ")),
            )),
        }
    }

    /// Anything, bounded, and nothing that would come back as something else.
    pub(super) fn value(&mut self, name: &str) -> Result<Option<Value>, Failure> {
        let Some(value) = self.values.remove(name) else { return Ok(None) };
        if let Some(Rounded(number)) = &self.rounded {
            return Err(wrong(format!("`{name}`: {}", exact::why(number)), exact::CURE.to_owned()));
        }
        let bytes = value.to_string().len();
        if bytes > TEXT_BYTES_MAX { Err(self.too_long(name, bytes)) } else { Ok(Some(value)) }
    }

    /// The error for an argument that must be there.
    pub(super) fn missing(&self, what: &str, example: &str) -> Failure {
        wrong(format!("`{}` needs {what}", self.tool), format!("for example {example}"))
    }

    fn short_enough(&self, name: &str, text: String) -> Result<String, Failure> {
        if text.len() > TEXT_BYTES_MAX { Err(self.too_long(name, text.len())) } else { Ok(text) }
    }

    fn too_long(&self, name: &str, bytes: usize) -> Failure {
        wrong(
            format!("argument `{name}` of `{}` has {bytes} bytes, at most {TEXT_BYTES_MAX} are taken", self.tool),
            "write it to a file and name the file".into(),
        )
    }

    fn wrong_type(&self, name: &str, expected: &str, found: &Value) -> Failure {
        let kind = match found {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::String(_) => "a string",
            Value::Array(_) => "a list",
            Value::Object(_) => "an object",
        };
        let found = clean::short(&found.to_string(), QUOTED_CHARS);
        wrong(
            format!("argument `{name}` of `{}` is {kind} ({found})", self.tool),
            format!("`{name}` must be {expected}"),
        )
    }
}

/// An error that the model can mend.
pub(super) fn wrong(message: String, hint: String) -> Failure {
    Failure::new("bad_argument", message, Some(hint))
}

fn whole(number: Option<f64>) -> Option<u64> {
    let number = number.filter(|number| number.fract() == 0.0 && (0.0..9e15).contains(number))?;
    format!("{number:.0}").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn args(values: &Value) -> Result<Args, Failure> {
        Args::new(
            "run",
            &["command", "wait_ms", "argv", "timeout", "env", "lease"],
            values.as_object().unwrap().clone(),
        )
    }

    #[test]
    fn what_is_unknown_or_of_another_type_is_named() {
        let error = args(&json!({"comand": "x"})).unwrap_err();
        assert!(error.message.contains("`comand`") && error.hint.unwrap().contains("command, wait_ms"));
        let error = args(&json!({"wait_ms": "soon"})).unwrap().number("wait_ms").unwrap_err();
        assert!(error.message.contains("`wait_ms`") && error.message.contains("a string"), "{}", error.message);
        assert!(args(&json!({"argv": ["a", 1]})).unwrap().texts("argv").is_err());
        assert!(args(&json!({"env": {"A=B": "x"}})).unwrap().pairs("env").is_err());
        let error = args(&json!({"lease": "for ever"})).unwrap().word("lease", &["awaited"]).unwrap_err();
        assert!(error.hint.unwrap().contains("awaited"));
    }

    #[test]
    fn values_are_read_as_models_write_them() {
        let mut all = args(&json!({"wait_ms": 2e3, "timeout": 90, "command": null})).unwrap();
        assert_eq!(all.number("wait_ms").unwrap(), Some(2000));
        assert_eq!(all.span("timeout").unwrap(), Some(Duration::from_secs(90)));
        assert_eq!(all.text("command").unwrap(), None);
        assert_eq!(args(&json!({"timeout": "5m"})).unwrap().span("timeout").unwrap(), Some(Duration::from_mins(5)));
        let pace = |text: &str| args(&json!({ "timeout": text })).unwrap().pace("timeout");
        let (first, longest) = (Some(Duration::from_secs(30)), Some(Duration::from_mins(5)));
        assert_eq!((pace("30s").unwrap(), pace("30s..5m").unwrap()), ((first, None), (first, longest)));
        assert!(pace("5m..30s").unwrap_err().message.contains("below the first") && pace("30s..").is_err());
    }

    #[test]
    fn a_text_that_is_too_long_is_refused_with_its_size() {
        let text = "x".repeat(TEXT_BYTES_MAX + 1);
        let error = args(&json!({ "command": text })).unwrap().text("command").unwrap_err();
        assert!(error.message.contains("1048577 bytes") && error.message.len() < 200);
    }
}
