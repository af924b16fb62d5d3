//! The answer to a call, once in words and once as fields: what a client shows of it differs, so both say the same.

use ringback_core::notice::Kind;
use ringback_host::wire::{Fault, Notice, TaskObject};
use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::{Map, Value, json};

use super::excerpt::{self, Excerpt};
use super::link::{Line, Shown};
use crate::explain::Failure;
use crate::render::{clean, receipt, task as render};

/// How many unheard endings a result lists; the inbox has them all.
const UNHEARD_MAX: usize = 5;
/// How many notices are read at most to find those: each costs the daemon a look at its task.
const NOTICES_READ_MAX: usize = 1000;
/// Longest label of a task.
const LABEL_CHARS: usize = 60;

/// What one call is answered.
#[derive(Debug, Default)]
pub(super) struct Answer {
    /// What happened, in one line.
    verdict: String,
    /// Quoted output.
    tail: String,
    /// What to do next; empty where nothing needs to be done.
    next: String,
    fields: Map<String, Value>,
    lines: Vec<String>,
    unheard: Vec<String>,
    is_error: bool,
    /// Whether there is more output than the tail shows.
    is_cut: bool,
    shown: Vec<String>,
    session: String,
    /// The task of a `run` that goes on.
    pub(super) unfinished: Option<Box<TaskObject>>,
}

impl Answer {
    /// Only a verdict and what to do next.
    pub(super) fn plain(verdict: impl Into<String>, next: impl Into<String>) -> Self {
        Self { verdict: verdict.into(), next: next.into(), ..Self::default() }
    }

    /// A call that failed.
    pub(super) fn error(failure: &Failure) -> Self {
        let next = next_step(failure);
        Self { verdict: format!("error: {}", clean::line(&failure.message)), next, is_error: true, ..Self::default() }
    }

    /// A task that has ended, with the end of its output; next is the rest of it, if there is more.
    pub(super) fn of_ended(task: &TaskObject) -> Self {
        let mut answer = Self::of_task(task, "");
        if answer.is_cut {
            answer.next = format!("output {{\"id\":\"{}\"}} shows more of its {} bytes", task.id, task.output.bytes);
        }
        answer
    }

    /// One task with the end of its output.
    pub(super) fn of_task(task: &TaskObject, next: impl Into<String>) -> Self {
        let Excerpt { text, cursor, whole } = excerpt::tail(task, excerpt::TAIL_BYTES);
        let mut answer = Self::plain(line(task), next);
        answer.is_cut = !whole;
        answer.tail = text;
        answer.fields = summary(task);
        answer.field("cursor", cursor);
        answer.take_in(task);
        answer
    }

    /// One task with a piece of its output.
    pub(super) fn of_output(task: &TaskObject, text: String, next: impl Into<String>) -> Self {
        let mut answer = Self::plain(line(task), next);
        answer.tail = text;
        answer.fields = summary(task);
        answer
    }

    /// Several tasks, a line each, with the output of those that ended within a shared budget.
    pub(super) fn of_tasks(verdict: String, tasks: &[TaskObject], with_tails: bool, next: impl Into<String>) -> Self {
        let mut answer = Self::plain(verdict, next);
        let budget = (2 * excerpt::TAIL_BYTES / tasks.len().max(1)).max(200);
        let mut rows = Vec::new();
        for task in tasks {
            let mut row = summary(task);
            row.insert("verdict".to_owned(), render::verdict(task).into());
            row.insert("label".to_owned(), render::label(task, LABEL_CHARS).into());
            if !matches!(task.lease.as_str(), "" | "awaited") {
                row.insert("lease".to_owned(), task.lease.clone().into());
            }
            answer.lines.push(line(task));
            if with_tails && task.has_ended() {
                let tail = excerpt::tail(task, budget).text;
                answer.lines.extend((!tail.is_empty()).then(|| tail.clone()));
                row.insert("tail".to_owned(), tail.into());
            }
            rows.push(Value::Object(row));
            answer.take_in(task);
        }
        answer.field("tasks", rows);
        answer
    }

    /// With more lines of its own.
    pub(super) fn with_lines(mut self, lines: impl IntoIterator<Item = String>) -> Self {
        self.lines.extend(lines);
        self
    }

    /// Names the session of each task, where there may be several.
    pub(super) fn with_sessions(mut self, tasks: &[TaskObject]) -> Self {
        for (at, task) in tasks.iter().enumerate() {
            let session = clean::short(&task.session, LABEL_CHARS);
            if let Some(row) = self.fields.get_mut("tasks").and_then(|rows| rows.get_mut(at)) {
                row["session"] = session.clone().into();
            }
            self.lines.push(format!("{} is of session {session}", task.id));
        }
        self
    }

    /// Unheard notices in full.
    pub(super) fn of_notices(verdict: String, notices: &[Notice], next: impl Into<String>) -> Self {
        let mut answer = Self::plain(verdict, next);
        let rows = notices.iter().map(|notice| {
            let mut row = summary(&notice.task);
            row.insert("seq".to_owned(), notice.seq.into());
            row.insert("kind".to_owned(), clean::line(&notice.kind).into());
            row.insert("text".to_owned(), clean::block(&notice.text).into());
            Value::Object(row)
        });
        answer.fields.insert("tasks".to_owned(), rows.collect());
        answer.lines = notices
            .iter()
            .map(|notice| format!("#{} {}: {}", notice.seq, notice.task.id, clean::block(notice.text.trim_end())))
            .collect();
        answer
    }

    /// Adds a field.
    pub(super) fn field(&mut self, name: &str, value: impl Into<Value>) {
        self.fields.insert(name.to_owned(), value.into());
    }

    /// Adds a line of words.
    pub(super) fn line(&mut self, line: String) {
        self.lines.push(line);
    }

    /// Sets the quoted output.
    pub(super) fn set_tail(&mut self, tail: String) {
        self.tail = tail;
    }

    /// Names what could not be done where the rest could.
    pub(super) fn with_faults(mut self, faults: Vec<Fault>) -> Self {
        let failures: Vec<Failure> = faults.into_iter().map(Failure::from).collect();
        let Some(last) = failures.last() else { return self };
        self.next = next_step(last);
        self.is_error = true;
        let said: Vec<String> =
            failures.iter().map(|failure| format!("error: {}", clean::line(&failure.message))).collect();
        self.field("faults", said.clone());
        self.lines.extend(said);
        self
    }

    /// A command that was asked for and did not succeed is an error to the one who asked.
    pub(super) fn mark_error(mut self, is_error: bool) -> Self {
        self.is_error = is_error;
        self
    }

    /// Adds what the session has not heard, without what this answer shows. Only own endings count as heard.
    pub(super) fn complete(self, line: &mut Line, told: &[TaskObject]) -> Self {
        let unheard = look(line, told.len());
        self.complete_with(line.session(), told, &unheard)
    }

    /// The same where it was looked up a moment ago what that is.
    pub(super) fn complete_with(mut self, session: &str, told: &[TaskObject], unheard: &Unheard) -> Self {
        let own = |task: &&TaskObject| task.has_ended() && task.session == session;
        self.shown = told.iter().filter(own).map(|task| task.id.clone()).collect();
        let shown = self.shown.clone();
        self.list(session, &shown, unheard)
    }

    /// Adds what the session has not heard, without these tasks.
    pub(super) fn complete_without(self, line: &mut Line, ids: &[String]) -> Self {
        let unheard = look(line, ids.len());
        self.list(line.session(), ids, &unheard)
    }

    fn list(mut self, session: &str, ids: &[String], (notices, more): &Unheard) -> Self {
        session.clone_into(&mut self.session);
        let others: Vec<&Notice> = notices.iter().filter(|notice| !ids.contains(&notice.task.id)).collect();
        self.unheard = others.iter().take(UNHEARD_MAX).map(|notice| unheard_line(notice)).collect();
        if others.len() > UNHEARD_MAX || *more {
            let count = others.len().saturating_sub(UNHEARD_MAX);
            let count = if *more { "more".to_owned() } else { format!("{count} more") };
            self.unheard.push(format!("and {count}: inbox {{}} shows all"));
        }
        self
    }

    /// What the reader will have been shown once this is written.
    pub(super) fn shown(&self) -> Shown {
        Shown { session: self.session.clone(), tasks: self.shown.clone() }
    }

    /// The words.
    pub(super) fn text(&self) -> String {
        let mut parts = vec![self.verdict.clone()];
        parts.extend((!self.tail.is_empty()).then(|| self.tail.clone()));
        parts.extend(self.lines.iter().cloned());
        parts.extend((!self.next.is_empty()).then(|| format!("next: {}", self.next)));
        if !self.unheard.is_empty() {
            parts.push(format!("not heard so far by this session:\n- {}", self.unheard.join("\n- ")));
        }
        parts.join("\n")
    }

    /// As the protocol wants it.
    pub(super) fn result(&self) -> CallToolResult {
        let mut result = CallToolResult::success(vec![ContentBlock::text(self.text())]);
        let mut fields = self.told_fields();
        fields.insert("next".to_owned(), self.next.clone().into());
        fields.insert("unheard".to_owned(), self.unheard.clone().into());
        result.structured_content = Some(Value::Object(fields));
        result.is_error = Some(self.is_error);
        result
    }

    /// What is known, as fields; without what to do next and what else there is to hear.
    pub(super) fn told_fields(&self) -> Map<String, Value> {
        let mut fields = self.fields.clone();
        fields.insert("verdict".to_owned(), self.verdict.clone().into());
        if !self.tail.is_empty() {
            fields.insert("tail".to_owned(), self.tail.clone().into());
        }
        fields
    }

    /// What else there is to say of a task: the receipt of a stop, and what lives on.
    fn take_in(&mut self, task: &TaskObject) {
        if let Some(cleanup) = &task.cleanup {
            self.lines.push(format!("stopped: {}", receipt::summary(cleanup)));
            self.lines.extend(cleanup.survivors.iter().map(receipt::survivor));
        }
        if task.has_ended() && !task.leftovers.is_empty() {
            let named = task.leftovers.iter().map(|left| format!("{} {}", left.pid, clean::short(&left.command, 40)));
            self.lines.push(format!("still running, started by it: {}", named.collect::<Vec<_>>().join(", ")));
        }
    }
}

/// Notices that a session has not heard, and whether there are more.
pub(super) type Unheard = (Vec<Notice>, bool);

/// How many unheard notices are enough for an answer that tells of so many tasks itself.
pub(super) fn enough(told: usize) -> u32 {
    u32::try_from((told + UNHEARD_MAX + 1).min(NOTICES_READ_MAX)).unwrap_or(u32::MAX)
}

/// What the session has not heard. What cannot be listed now is listed with the next answer; this one must not be lost for it.
fn look(line: &mut Line, told: usize) -> Unheard {
    line.unheard(enough(told)).unwrap_or_default()
}

/// Id, verdict and label in one line.
fn line(task: &TaskObject) -> String {
    let verdict = render::verdict(task);
    format!("{verdict} · {} · {}", task.id, render::label(task, LABEL_CHARS))
}

fn unheard_line(notice: &Notice) -> String {
    // A task that was removed, or one that runs: then the notice says what there is to say.
    if notice.task.state.is_empty() || notice.about() != Some(Kind::ToolResult) {
        let first = notice.text.lines().next().unwrap_or_default();
        return format!("{} {}", notice.task.id, clean::short(first, 2 * LABEL_CHARS));
    }
    line(&notice.task)
}

/// The fields that every summary of a task has.
fn summary(task: &TaskObject) -> Map<String, Value> {
    let mut fields = Map::new();
    fields.insert("id".to_owned(), task.id.clone().into());
    fields.insert("state".to_owned(), task.state.clone().into());
    fields.insert("exit".to_owned(), json!(task.exit_code));
    if let Some(binding) = &task.binding {
        fields.insert("binding".to_owned(), binding.clone());
    }
    if let Some(cleanup) = &task.cleanup {
        fields.insert("stopped".to_owned(), receipt::summary(cleanup).into());
    }
    if task.has_ended() && !task.leftovers.is_empty() {
        let pids: Vec<i32> = task.leftovers.iter().map(|left| left.pid).collect();
        fields.insert("leftovers".to_owned(), pids.into());
    }
    fields
}

/// What can be called next; hints of the command line are put into the words of the tools where there is a tool.
fn next_step(failure: &Failure) -> String {
    match failure.code.as_str() {
        "unknown_id" | "bad_id" | "expired_id" => "list {\"ended\":true} shows the ids of this session".to_owned(),
        "cursor_ahead" => "inbox {} shows what is unheard; its cursor is the next `after`".to_owned(),
        "ambiguous_id" => "give the whole id; list {\"ended\":true} shows it".to_owned(),
        "no_id" => "list {} shows what runs".to_owned(),
        "stdin_closed" => "only a running task that was run with \"stdin\":true takes input".to_owned(),
        "key_taken" => "wait for that task, or run with \"if_running\":\"replace\"".to_owned(),
        "daemon_gone" => "list {\"ended\":true} shows whether it was done, before you try again".to_owned(),
        _ => failure.hint.clone().unwrap_or_else(|| "try again".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_fields_say_the_same() {
        let task = TaskObject {
            id: "abc".to_owned(),
            state: "exited".to_owned(),
            exit_code: Some(3),
            name: Some("build\x1b[2J".to_owned()),
            ..TaskObject::default()
        };
        let mut answer = Answer::of_task(&task, "read on");
        answer.set_tail("| why".to_owned());
        answer.unheard = vec!["other".to_owned()];
        let result = serde_json::to_value(answer.result()).unwrap();
        let (text, fields) = (result["content"][0]["text"].as_str().unwrap(), &result["structuredContent"]);
        for part in ["FAILED exit 3", "| why", "read on", "other", "abc"] {
            assert!(text.contains(part), "{text}");
            assert!(fields.to_string().contains(part), "{fields}");
        }
        assert!(!text.contains('\x1b'));
        assert_eq!((&fields["exit"], &fields["state"]), (&3.into(), &"exited".into()));
    }

    #[test]
    fn an_error_says_what_can_be_called_next() {
        let failure = Failure::new("unknown_id", "no task has the id x", Some("`ringback ps` lists".to_owned()));
        let result = Answer::error(&failure).result();
        let text = serde_json::to_value(&result).unwrap()["content"][0]["text"].to_string();
        assert_eq!(result.is_error, Some(true));
        assert!(text.contains("no task has the id x") && text.contains("list {") && !text.contains("ringback ps"));
    }
}
