//! Which hooks there are, and the exact words in which each agent is answered.

use serde_json::{Value, json};

/// One hook of one agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hook {
    pub(crate) name: &'static str,
    act: Act,
    answer: Answer,
}

/// What a hook does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Holds the end of a turn while there is something to hear.
    Hold,
    /// Adds what is unheard to what the person says.
    Add,
    /// Adds what is unheard and what runs to a session that begins anew.
    Recap,
    /// Hands the end of the session on.
    Leave,
    /// Waits for the end of one task.
    Await,
    /// Waits for whatever the session is to hear next.
    Watch,
}

/// How the agent reads what a hook says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// `{"decision": WORD, "reason": TEXT}`
    Decision(&'static str),
    /// `{"hookSpecificOutput": {"hookEventName": EVENT, "additionalContext": TEXT}}`
    Context(&'static str),
    /// `{"followup_message": TEXT}`
    FollowUp,
    /// It is not read.
    Nothing,
}

const HOOKS: [Hook; 14] = [
    Hook { name: "claude-wait", act: Act::Await, answer: Answer::Nothing },
    Hook { name: "claude-watch", act: Act::Watch, answer: Answer::Nothing },
    Hook { name: "claude-stop", act: Act::Hold, answer: Answer::Decision("block") },
    Hook { name: "claude-prompt", act: Act::Add, answer: Answer::Context("UserPromptSubmit") },
    Hook { name: "claude-start", act: Act::Recap, answer: Answer::Context("SessionStart") },
    Hook { name: "claude-end", act: Act::Leave, answer: Answer::Nothing },
    Hook { name: "codex-stop", act: Act::Hold, answer: Answer::Decision("block") },
    Hook { name: "codex-prompt", act: Act::Add, answer: Answer::Context("UserPromptSubmit") },
    Hook { name: "codex-start", act: Act::Recap, answer: Answer::Context("SessionStart") },
    Hook { name: "codex-end", act: Act::Leave, answer: Answer::Nothing },
    Hook { name: "gemini-after", act: Act::Hold, answer: Answer::Decision("deny") },
    Hook { name: "gemini-before", act: Act::Add, answer: Answer::Context("BeforeAgent") },
    Hook { name: "opencode-wait", act: Act::Await, answer: Answer::Nothing },
    Hook { name: "cursor-stop", act: Act::Hold, answer: Answer::FollowUp },
];

impl Hook {
    /// The hook of this name.
    pub(crate) fn find(name: &str) -> Option<Self> {
        HOOKS.into_iter().find(|hook| hook.name == name)
    }

    /// All names.
    pub(crate) fn names() -> impl Iterator<Item = &'static str> {
        HOOKS.into_iter().map(|hook| hook.name)
    }

    pub(super) fn act(self) -> Act {
        self.act
    }

    /// What is written on stdout to say this. The text is one JSON string, whatever is in it.
    pub(super) fn answer(self, text: &str) -> Value {
        match self.answer {
            Answer::Decision(word) => json!({ "decision": word, "reason": text }),
            Answer::Context(event) => {
                json!({ "hookSpecificOutput": { "hookEventName": event, "additionalContext": text } })
            }
            Answer::FollowUp => json!({ "followup_message": text }),
            Answer::Nothing => Value::Null,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_agent_is_answered_in_its_own_words() {
        let say = |name: &str| Hook::find(name).unwrap().answer("x");
        assert_eq!(say("claude-stop"), json!({ "decision": "block", "reason": "x" }));
        assert_eq!(say("codex-stop"), json!({ "decision": "block", "reason": "x" }));
        assert_eq!(say("gemini-after"), json!({ "decision": "deny", "reason": "x" }));
        assert_eq!(say("cursor-stop"), json!({ "followup_message": "x" }));
        let context =
            |event: &str| json!({ "hookSpecificOutput": { "hookEventName": event, "additionalContext": "x" } });
        assert_eq!(say("codex-prompt"), context("UserPromptSubmit"));
        assert_eq!(say("claude-start"), context("SessionStart"));
        assert_eq!(say("gemini-before"), context("BeforeAgent"));
        assert_eq!(Hook::find("claude"), None);
    }
}
