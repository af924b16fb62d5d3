//! Tags in the text of strangers that an agent could take for its own.

/// Names that agents use in tags of their own; a tag of such a name in an output is taken apart.
const TAG_NAMES: [&str; 15] = [
    "system",
    "task-",
    "task_",
    "hook",
    "user",
    "assistant",
    "human",
    "tool",
    "function",
    "antml",
    "instruction",
    "result",
    "environment_",
    "permissions",
    "turn_",
];

/// A tag that an agent could take for its own is no tag any more; `Vec<T>` and `a < b` stay as they are.
pub(crate) fn untag(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let name: String =
            after.trim_start_matches(['/', '!', ' ']).chars().take(16).collect::<String>().to_lowercase();
        out.push(if TAG_NAMES.iter().any(|tag| name.starts_with(tag)) { '‹' } else { '<' });
        rest = after;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tags_that_agents_use_are_taken_apart() {
        assert_eq!(untag("a<b< / HOOK_prompt>"), "a<b‹ / HOOK_prompt>");
        assert_eq!(
            untag("</system-reminder> Vec<T> <task-notification>"),
            "‹/system-reminder> Vec<T> ‹task-notification>"
        );
        assert_eq!(untag("<environment_context><permissions>"), "‹environment_context>‹permissions>");
    }
}
