//! Edits TOML as text: what is not ours stays byte for byte.

use serde_json::Value;
use toml_edit::{Array, DocumentMut, Item, Table, TableLike};

/// Puts a table in, if it is missing.
pub(super) fn put(text: &str, path: &[&str], values: &Value) -> Result<String, String> {
    let mut document = parse(text)?;
    let Some((last, before)) = path.split_last() else { return Err("no table is meant".to_owned()) };
    let mut table: &mut dyn TableLike = document.as_table_mut();
    for name in before {
        let item = table.entry(name).or_insert_with(|| Item::Table(implicit()));
        table = item.as_table_like_mut().ok_or_else(|| format!("`{name}` in it is not a table"))?;
    }
    match table.get(last) {
        Some(there) if is_ours(there) => return Ok(text.to_owned()),
        Some(_) => return Err(format!("`{}` is another server", path.join("."))),
        None => {}
    }
    let mut ours = Table::new();
    for (name, value) in values.as_object().into_iter().flatten() {
        ours.insert(name, item(value)?);
    }
    if !text.is_empty() {
        // One empty line before it.
        ours.decor_mut().set_prefix("\n");
    }
    table.insert(last, Item::Table(ours));
    Ok(document.to_string())
}

/// Takes our table out.
pub(super) fn take(text: &str, path: &[&str]) -> Result<String, String> {
    let mut document = parse(text)?;
    let Some((last, before)) = path.split_last() else { return Ok(text.to_owned()) };
    let mut table: &mut dyn TableLike = document.as_table_mut();
    for name in before {
        match table.get_mut(name).and_then(Item::as_table_like_mut) {
            Some(inner) => table = inner,
            None => return Ok(text.to_owned()),
        }
    }
    if !table.get(last).is_some_and(is_ours) {
        return Ok(text.to_owned());
    }
    table.remove(last);
    Ok(document.to_string())
}

/// Whether nothing is in it.
pub(super) fn is_bare(text: &str) -> bool {
    text.trim().is_empty()
}

fn parse(text: &str) -> Result<DocumentMut, String> {
    text.parse().map_err(|error: toml_edit::TomlError| {
        let message = error.to_string();
        // Its first lines are the place and the line itself, which may hold a secret.
        let place = message.lines().next().unwrap_or_default().to_owned();
        format!("it is not valid TOML: {place}: {}", error.message().lines().next().unwrap_or_default())
    })
}

/// A table that needs no line of its own.
fn implicit() -> Table {
    let mut table = Table::new();
    table.set_implicit(true);
    table
}

fn is_ours(item: &Item) -> bool {
    let command = item.as_table_like().and_then(|table| table.get("command")).and_then(Item::as_str);
    command.is_some_and(|program| program == super::agents::SERVER || program.ends_with("/ringback"))
}

fn item(value: &Value) -> Result<Item, String> {
    Ok(match value {
        Value::String(text) => toml_edit::value(text),
        Value::Bool(bool) => toml_edit::value(*bool),
        Value::Number(number) => toml_edit::value(number.as_i64().ok_or("a number is too large for TOML")?),
        Value::Array(all) => toml_edit::value(all.iter().filter_map(Value::as_str).collect::<Array>()),
        Value::Null | Value::Object(_) => return Err("a value has no form in TOML".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const PATH: [&str; 2] = ["mcp_servers", "ringback"];

    #[test]
    fn a_table_comes_and_goes_and_the_rest_stays() {
        let values = json!({ "command": "ringback", "args": ["mcp"], "tool_timeout_sec": 3600 });
        let before = "# mine\nmodel = \"o\"   # why\n\n[mcp_servers.other]\ncommand = \"x\"\n\n[tui]\n# last\n";
        let after = put(before, &PATH, &values).unwrap();
        assert!(
            after.starts_with("# mine\nmodel = \"o\"   # why\n") && after.contains("[mcp_servers.ringback]\n"),
            "{after}"
        );
        assert_eq!(put(&after, &PATH, &values).unwrap(), after);
        assert_eq!(take(&after, &PATH).unwrap(), before);
        let alone = put("", &PATH, &values).unwrap();
        assert!(alone.starts_with("[mcp_servers.ringback]\ncommand = \"ringback\"\nargs = [\"mcp\"]"), "{alone}");
    }

    #[test]
    fn a_foreign_table_and_a_broken_file_are_left_alone() {
        let values = json!({ "command": "ringback" });
        assert!(put("[mcp_servers.ringback]\ncommand = \"bell\"\n", &PATH, &values).unwrap_err().contains("another"));
        assert!(put("mcp_servers = 3\n", &PATH, &values).unwrap_err().contains("not a table"));
        let error = put("token = \"s3cret\nx = ", &PATH, &values).unwrap_err();
        assert!(error.contains("line 1") && !error.contains("s3cret"), "{error}");
        assert_eq!(
            take("[mcp_servers.ringback]\ncommand = \"bell\"\n", &PATH).unwrap(),
            "[mcp_servers.ringback]\ncommand = \"bell\"\n"
        );
    }
}
