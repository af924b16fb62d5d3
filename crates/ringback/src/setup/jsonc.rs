//! Edits JSON with comments as text: what is not ours stays byte for byte.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstArray, CstInputValue, CstNode, CstObject, CstRootNode};
use serde_json::Value;

use super::agents::{Entry, SERVER};

/// An edited text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Edited {
    pub(super) text: String,
    /// Objects and lists that were not there before, each by its path.
    pub(super) made: Vec<Vec<String>>,
}

/// Puts the entries in that are missing.
pub(super) fn put(text: &str, entries: &[Entry]) -> Result<Edited, String> {
    let root = parse(text)?;
    let top = root.object_value_or_create().ok_or("it is not a JSON object")?;
    let mut made = Vec::new();
    for entry in entries {
        match entry {
            Entry::Field { name, value } => {
                if top.get(name).is_none() {
                    top.append(name, input(value));
                    made.push(vec![(*name).to_owned()]);
                }
            }
            Entry::Server { path, value } => {
                let object = open_object(&top, path, &mut made)?;
                match object.get(SERVER) {
                    Some(there) if !is_our_server(there.value().as_ref()) => {
                        return Err(format!("`{}.{SERVER}` is another server", path.join(".")));
                    }
                    Some(_) => {}
                    None => drop(object.append(SERVER, input(value))),
                }
            }
            Entry::Hook { path, hook, value } => {
                let list = open_list(&top, path, &mut made)?;
                if !list.elements().iter().any(|element| runs(element, hook)) {
                    list.append(input(value));
                }
            }
        }
    }
    Ok(Edited { text: root.to_string(), made })
}

/// Takes the entries out that are ours, and what was `made` for them and is empty now.
pub(super) fn take(text: &str, entries: &[Entry], made: &[Vec<String>]) -> Result<String, String> {
    let root = parse(text)?;
    let Some(top) = root.object_value() else { return Ok(text.to_owned()) };
    for entry in entries {
        match entry {
            Entry::Field { .. } => {}
            Entry::Server { path, .. } => {
                let server = find(&top, path).and_then(|node| node.as_object()).and_then(|object| object.get(SERVER));
                if let Some(server) = server.filter(|server| is_our_server(server.value().as_ref())) {
                    server.remove();
                }
            }
            Entry::Hook { path, hook, .. } => {
                if let Some(list) = find(&top, path).and_then(|node| node.as_array()) {
                    take_hook(&list, hook);
                }
            }
        }
    }
    // The inner ones were made last.
    for path in made.iter().rev() {
        remove_if_spent(&top, path, entries);
    }
    Ok(root.to_string())
}

/// Whether nothing is in it.
pub(super) fn is_bare(text: &str) -> bool {
    parse(text)
        .is_ok_and(|root| root.to_serde_value().is_none_or(|value| value == Value::Object(serde_json::Map::new())))
}

fn parse(text: &str) -> Result<CstRootNode, String> {
    // What agents themselves read: comments and trailing commas at most.
    let options = ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    CstRootNode::parse(text, &options).map_err(|error| format!("it is not valid JSON: {error}"))
}

fn open_object(top: &CstObject, path: &[&str], made: &mut Vec<Vec<String>>) -> Result<CstObject, String> {
    let mut object = top.clone();
    for (at, name) in path.iter().enumerate() {
        if object.get(name).is_none() {
            made.push(path[..=at].iter().map(|name| (*name).to_owned()).collect());
        }
        object = object
            .object_value_or_create(name)
            .ok_or_else(|| format!("`{}` in it is not an object", path[..=at].join(".")))?;
    }
    Ok(object)
}

fn open_list(top: &CstObject, path: &[&str], made: &mut Vec<Vec<String>>) -> Result<CstArray, String> {
    let Some((last, before)) = path.split_last() else { return Err("no list is meant".to_owned()) };
    let object = open_object(top, before, made)?;
    if object.get(last).is_none() {
        made.push(path.iter().map(|name| (*name).to_owned()).collect());
    }
    object.array_value_or_create(last).ok_or_else(|| format!("`{}` in it is not a list", path.join(".")))
}

fn find(top: &CstObject, path: &[impl AsRef<str>]) -> Option<CstNode> {
    let (last, before) = path.split_last()?;
    let mut object = top.clone();
    for name in before {
        object = object.object_value(name.as_ref())?;
    }
    object.get(last.as_ref())?.value()
}

fn remove_if_spent(top: &CstObject, path: &[String], entries: &[Entry]) {
    let is_field = |entry: &Entry| matches!(entry, Entry::Field { name, .. } if path.len() == 1 && path[0] == *name);
    let spent = match find(top, path) {
        None => false,
        // A field that only makes sense beside others goes when nothing else is left.
        Some(_) if entries.iter().any(is_field) => top.properties().len() == 1,
        Some(node) => node.children_exclude_trivia_and_tokens().is_empty(),
    };
    let Some((last, before)) = path.split_last().filter(|_| spent) else { return };
    let owner = if before.is_empty() { Some(top.clone()) } else { find(top, before).and_then(|node| node.as_object()) };
    if let Some(field) = owner.and_then(|owner| owner.get(last)) {
        field.remove();
    }
}

/// Our hook in a list of hooks, or in one of its groups; a group that has others too keeps them.
fn take_hook(list: &CstArray, hook: &str) {
    for element in list.elements().into_iter().filter(|element| runs(element, hook)) {
        let inner = element.as_object().and_then(|group| group.array_value("hooks")).map(|inner| inner.elements());
        let (ours, others): (Vec<CstNode>, Vec<CstNode>) =
            inner.unwrap_or_default().into_iter().partition(|inner| runs(inner, hook));
        if others.is_empty() {
            element.remove();
        } else {
            ours.into_iter().for_each(CstNode::remove);
        }
    }
}

/// Whether a hook, or one of a group, runs this hook of ours.
fn runs(element: &CstNode, hook: &str) -> bool {
    fn is_command(value: &Value, hook: &str) -> bool {
        match value {
            Value::Object(fields) => {
                let own = fields.get("command").and_then(Value::as_str).is_some_and(|line| is_our_line(line, hook));
                own || fields.get("hooks").is_some_and(|inner| is_command(inner, hook))
            }
            Value::Array(all) => all.iter().any(|one| is_command(one, hook)),
            _ => false,
        }
    }
    element.to_serde_value().is_some_and(|value| is_command(&value, hook))
}

fn is_our_line(line: &str, hook: &str) -> bool {
    let words = shlex::split(line).unwrap_or_default();
    matches!(words.as_slice(), [program, verb, name, ..] if is_our_program(program) && verb == "hook" && name == hook)
}

fn is_our_program(program: &str) -> bool {
    program == SERVER || program.ends_with("/ringback")
}

fn is_our_server(value: Option<&CstNode>) -> bool {
    let command = value.and_then(CstNode::to_serde_value).map(|value| value["command"].clone()).unwrap_or_default();
    let program = command.as_array().and_then(|words| words.first()).cloned().unwrap_or(command);
    program.as_str().is_some_and(is_our_program)
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(bool) => CstInputValue::Bool(*bool),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(all) => CstInputValue::Array(all.iter().map(input).collect()),
        Value::Object(fields) => {
            CstInputValue::Object(fields.iter().map(|(name, value)| (name.clone(), input(value))).collect())
        }
    }
}
