//! A task in words: its verdict, its exit code, its row and its page.

use std::fmt::Write as _;

use jiff::Timestamp;
use ringback_host::quantity::{duration_text, size_text};
use ringback_host::wire::{ProgressObject, TaskObject};

use super::age::ago;
use super::style::{Style, Tone};
use super::table::{Cell, table};
use super::{clean, held};

/// Longest words of progress in a table.
const PROGRESS_CHARS: usize = 24;
/// Longest command in a table.
const COMMAND_CHARS: usize = 60;

/// The task's end as an exit code: its own, 128 + N for signal N, 127 and 126 where it could not start, 125 for lost, 124
/// while it runs. Never 0 for killed, timed out or lost.
pub(crate) fn exit_code(task: &TaskObject) -> u8 {
    let code = |code: i32| u8::try_from(code).unwrap_or(125);
    let signal = task.signal.as_deref().and_then(ringback_sys::signals::number).map(|number| code(128 + number));
    match task.state.as_str() {
        "exited" => task.exit_code.map_or(125, code),
        "signaled" => signal.unwrap_or(125),
        // It may have answered TERM with an exit of its own; a zero there is no success.
        "killed" | "timed_out" => signal.or(task.final_exit_code.map(code).filter(|code| *code != 0)).unwrap_or(143),
        "start_failed" if task.reason.as_deref() == Some("not_found") => 127,
        "start_failed" => 126,
        "lost" => 125,
        _ => 124,
    }
}

/// How it stands or ended, in words that cannot be mistaken for success: `FAILED exit 1 after 3.2s`.
pub(crate) fn verdict(task: &TaskObject) -> String {
    let after = task.duration_ms.map(|ms| format!(" after {}", duration_text(ms))).unwrap_or_default();
    let reason = task.reason.as_deref().unwrap_or("");
    let how = match (task.signal.as_deref(), task.final_exit_code) {
        (Some(signal), _) => format!(" ({signal})"),
        (None, Some(code)) => format!(" (it then exited {code})"),
        (None, None) => String::new(),
    };
    match task.state.as_str() {
        "exited" if task.exit_code == Some(0) => format!("SUCCEEDED exit 0{after}"),
        "exited" => format!("FAILED exit {}{after}", task.exit_code.unwrap_or(-1)),
        "signaled" => {
            let core = if task.core_dumped { ", core dumped" } else { "" };
            let limit = task.limits.as_ref().and_then(|limits| limits.mem.as_ref());
            let at_limit = limit.filter(|mem| mem.oom_kills.is_some_and(|kills| kills > 0));
            let oom = match (reason, at_limit) {
                ("oom", Some(mem)) => format!(", out of memory (its limit is {})", size_text(mem.bytes)),
                ("oom", None) => ", out of memory".to_owned(),
                _ => String::new(),
            };
            format!("FAILED killed by {}{oom}{core}{after}", task.signal.as_deref().unwrap_or("a signal"))
        }
        "timed_out" => {
            let what = match (reason, task.timeouts.idle_ms, task.timeouts.wall_ms) {
                ("idle", Some(limit), _) => format!(", silent for {}", duration_text(limit)),
                ("idle", None, _) => ", silent for too long".to_owned(),
                (_, _, Some(limit)) => format!(", limit {}", duration_text(limit)),
                _ => String::new(),
            };
            format!("TIMED OUT{after}{what}{how}")
        }
        "killed" => {
            let why = match reason {
                "session_end" => " at the end of its session",
                "output_limit" => " at its output limit",
                "replaced" => " for a newer task of its key",
                _ => "",
            };
            let by = task.by.as_deref().map(|by| format!(" by {}", clean::short(by, 40))).unwrap_or_default();
            format!("KILLED{by}{why}{after}{how}")
        }
        "start_failed" => format!("NOT STARTED: {}", start_failure(task)),
        "lost" => format!("LOST, outcome unknown: {}", lost_reason(reason)),
        "running" => {
            let so_far = task.duration_ms.map(|ms| format!(" for {}", duration_text(ms))).unwrap_or_default();
            format!("running{so_far}, NOT finished")
        }
        "queued" => "queued, NOT started yet".to_owned(),
        state => clean::line(state),
    }
}

fn start_failure(task: &TaskObject) -> String {
    match task.reason.as_deref() {
        Some("not_found") => "program not found".to_owned(),
        Some("permission") => "permission denied (is it a file that may be executed?)".to_owned(),
        Some("cwd_missing") => format!("folder {} is missing or cannot be entered", clean::line(&task.cwd)),
        Some("exec_format") => "the file is not a program (is its first line missing?)".to_owned(),
        Some("too_long") => "arguments and environment are too long".to_owned(),
        Some("sandbox") => "its sandbox could not be put around it".to_owned(),
        Some("resources") => "the machine had no process, memory or descriptor to give".to_owned(),
        Some("reboot") => "the machine went down before its turn".to_owned(),
        Some(other) => clean::line(&other.replace('_', " ")),
        None => "reason unknown".to_owned(),
    }
}

fn lost_reason(reason: &str) -> &str {
    match reason {
        "reboot" => "the machine was restarted while it ran",
        "monitor_died" => "its keeper died, and nobody else saw the end",
        "node_lost" => "its machine is gone",
        _ => "nobody saw the end",
    }
}

/// The tone of its state.
pub(crate) fn tone(task: &TaskObject) -> Tone {
    match task.state.as_str() {
        "exited" if task.exit_code == Some(0) => Tone::Good,
        "running" => Tone::Busy,
        "queued" => Tone::Dim,
        "killed" | "timed_out" => Tone::Warn,
        _ => Tone::Bad,
    }
}

/// One line: id, verdict, label or command.
pub(crate) fn line(task: &TaskObject, style: Style) -> String {
    format!("{}  {}  {}", task.id, style.paint(tone(task), &verdict(task)), label(task, COMMAND_CHARS))
}

/// Its name, else its command.
pub(crate) fn label(task: &TaskObject, width: usize) -> String {
    task.name.as_deref().map_or_else(|| clean::short(&task.command.display, width), |name| clean::short(name, width))
}

/// Tasks as a table; how they are tied to their session, where that is not as usual.
pub(crate) fn tasks_table(tasks: &[TaskObject], sessions: bool, now: Timestamp, style: Style) -> String {
    let mut headings = vec!["ID", "STATE", "STARTED", "NAME", "COMMAND"];
    if sessions {
        headings.insert(3, "SESSION");
    }
    let measured = tasks.iter().any(|task| task.progress.is_some());
    if measured {
        headings.insert(2, "PROGRESS");
    }
    let tied = tasks.iter().any(|task| !matches!(task.lease.as_str(), "" | "awaited"));
    if tied {
        headings.insert(2, "LEASE");
    }
    let row = |task: &TaskObject| {
        let mut row = vec![
            Cell::plain(task.id.clone()),
            Cell::toned(tone(task), state_cell(task)),
            Cell::plain(ago(task.started_at.as_deref().unwrap_or(&task.created_at), now)),
            Cell::plain(task.name.as_deref().map(|name| clean::short(name, 24)).unwrap_or_default()),
            Cell::plain(clean::short(&task.command.display, COMMAND_CHARS)),
        ];
        if sessions {
            row.insert(3, Cell::plain(clean::short(&task.session, 24)));
        }
        if measured {
            row.insert(2, Cell::plain(task.progress.as_ref().map(progress_cell).unwrap_or_default()));
        }
        if tied {
            row.insert(2, Cell::plain(clean::line(&task.lease)));
        }
        row
    };
    table(&headings, &tasks.iter().map(row).collect::<Vec<_>>(), style)
}

/// Progress in a table: `37% epoch 2`, or `~45%` where it is an estimate.
pub(crate) fn progress_cell(progress: &ProgressObject) -> String {
    let estimate = progress.source == ProgressObject::USUAL_DURATION;
    let percent = progress.percent.map(|percent| format!("{}{percent}%", if estimate { "~" } else { "" }));
    // What a line of output or an estimate says besides has its place elsewhere.
    let own = progress.source == ProgressObject::REPORTED || percent.is_none();
    let text = progress.text.as_ref().filter(|_| own).map(|text| clean::short(text, PROGRESS_CHARS));
    percent.into_iter().chain(text).collect::<Vec<_>>().join(" ")
}

fn progress_line(progress: &ProgressObject) -> String {
    let percent = progress.percent.map_or_else(|| "unknown".to_owned(), |percent| format!("{percent}%"));
    let text = progress.text.as_deref().map(|text| format!(", {}", clean::line(text))).unwrap_or_default();
    let source = match progress.source.as_str() {
        ProgressObject::REPORTED => "reported by the command",
        ProgressObject::USUAL_DURATION => "an estimate from earlier runs",
        _ => "as its output shows",
    };
    format!("{percent}{text} ({source})")
}

fn state_cell(task: &TaskObject) -> String {
    match task.state.as_str() {
        "exited" => format!("exited {}", task.exit_code.unwrap_or(-1)),
        "signaled" => task.signal.clone().unwrap_or_else(|| "signaled".to_owned()),
        "timed_out" => "timed out".to_owned(),
        "start_failed" => "not started".to_owned(),
        state => clean::line(state),
    }
}

/// Everything about one task, for people.
pub(crate) fn page(task: &TaskObject, now: Timestamp, style: Style) -> String {
    let mut out = format!("{}\n", line(task, style));
    let mut fact = |name: &str, value: &str| {
        if !value.is_empty() {
            let _infallible = writeln!(out, "  {name:<12}{value}");
        }
    };
    fact("name", &task.name.as_deref().map(clean::line).unwrap_or_default());
    fact("command", &clean::line(&task.command.display));
    fact("folder", &clean::line(&task.cwd));
    fact("session", &format!("{} ({})", clean::line(&task.session), clean::line(&task.lease)));
    fact("key", &task.key.as_deref().map(clean::line).unwrap_or_default());
    fact("binding", &task.binding.as_ref().map(|binding| clean::short(&binding.to_string(), 200)).unwrap_or_default());
    fact("timeouts", &timeouts_line(task));
    fact("limits", &held::limits_line(task));
    fact("sandbox", &clean::line(&held::sandbox_line(task)));
    fact("created", &format!("{} ({})", task.created_at, ago(&task.created_at, now)));
    let started = task.started_at.as_deref().map(|at| format!("{at} ({})", ago(at, now)));
    fact("started", &started.unwrap_or_default());
    fact("ended", &task.ended_at.as_deref().map(|at| format!("{at} ({})", ago(at, now))).unwrap_or_default());
    fact("pid", &task.pid.filter(|_| !task.has_ended()).map(|pid| pid.to_string()).unwrap_or_default());
    fact("progress", &task.progress.as_ref().map(progress_line).unwrap_or_default());
    fact("output", &output_line(task));
    for (from, to, why) in &task.output.gaps {
        fact("missing", &format!("bytes {from}-{} ({})", to.saturating_sub(1), clean::line(why)));
    }
    fact("silent", &task.silence_ms.filter(|_| !task.has_ended()).map(duration_text).unwrap_or_default());
    fact("ready", task.ready.map_or("", |ready| if ready { "yes" } else { "no" }));
    fact("matches", &task.matches.map(|matches| matches.to_string()).unwrap_or_default());
    fact("leftovers", &leftovers_line(task));
    if let Some(usage) = &task.usage {
        let (user, system) = (duration_text(usage.user_ms), duration_text(usage.system_ms));
        fact("used", &format!("{user} user, {system} system, {} memory", size_text(usage.max_rss_bytes)));
    }
    if let Some(receipt) = &task.cleanup {
        fact("stopped", &super::receipt::summary(receipt));
    }
    out
}

fn timeouts_line(task: &TaskObject) -> String {
    let wall = task.timeouts.wall_ms.map(|ms| format!("{} in all, ", duration_text(ms)));
    let idle = task.timeouts.idle_ms.map(|ms| format!("{} of silence, ", duration_text(ms)));
    let limits: String = wall.into_iter().chain(idle).collect();
    if limits.is_empty() {
        limits
    } else {
        format!("{limits}{} from TERM to KILL", duration_text(task.timeouts.grace_ms))
    }
}

fn output_line(task: &TaskObject) -> String {
    let lines = task.output.lines.map(|lines| format!(", {lines} lines")).unwrap_or_default();
    let open = match task.output.open_by.len() {
        _ if task.output.complete => String::new(),
        0 => ", may grow".to_owned(),
        _ => format!(", kept open by {:?}", task.output.open_by),
    };
    let path = if task.output.packed.is {
        format!("packed: ringback logs {}", task.id)
    } else {
        clean::line(&task.output.path)
    };
    let most = match task.output.max_bytes {
        0 => String::new(),
        _ if task.output.complete && task.output.gaps.is_empty() => String::new(),
        most => format!(", at most {} on disk", size_text(most)),
    };
    format!("{path} ({}{most}{lines}{open})", size_text(task.output.bytes))
}

fn leftovers_line(task: &TaskObject) -> String {
    let named = task.leftovers.iter().map(|left| format!("{} {}", left.pid, clean::short(&left.command, 40)));
    named.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(state: &str) -> TaskObject {
        TaskObject { state: state.to_owned(), duration_ms: Some(3_200), ..TaskObject::default() }
    }

    #[test]
    fn the_cap_of_an_output_is_named_where_it_can_be_reached_or_was() {
        let mut task = TaskObject::default();
        let line = |task: &TaskObject| output_line(task).trim_start().to_owned();
        (task.output.bytes, task.output.max_bytes) = (2 << 20, 1 << 20);
        assert_eq!(line(&task), "(2.0 MiB, at most 1.0 MiB on disk, may grow)");
        task.output.complete = true;
        assert_eq!(line(&task), "(2.0 MiB)");
        task.output.gaps = vec![(1 << 18, 5 << 18, "output_limit".to_owned())];
        assert_eq!(line(&task), "(2.0 MiB, at most 1.0 MiB on disk)");
        (task.output.complete, task.output.max_bytes) = (false, 0);
        assert_eq!(line(&task), "(2.0 MiB, may grow)");
    }

    #[test]
    fn exit_codes_mirror_the_task_and_never_read_as_success() {
        let exited = |code| TaskObject { exit_code: Some(code), ..task("exited") };
        assert_eq!((exit_code(&exited(0)), exit_code(&exited(255))), (0, 255));
        let signal = |state, name: &str| TaskObject { signal: Some(name.to_owned()), ..task(state) };
        assert_eq!(exit_code(&signal("signaled", "SIGSEGV")), 139);
        assert_eq!(exit_code(&signal("killed", "SIGTERM")), 143);
        assert_eq!(exit_code(&signal("timed_out", "SIGKILL")), 137);
        let chose = |code| TaskObject { final_exit_code: Some(code), ..task("killed") };
        assert_eq!((exit_code(&chose(0)), exit_code(&chose(7))), (143, 7));
        let failed = |reason: &str| TaskObject { reason: Some(reason.to_owned()), ..task("start_failed") };
        assert_eq!((exit_code(&failed("not_found")), exit_code(&failed("permission"))), (127, 126));
        assert_eq!((exit_code(&task("lost")), exit_code(&task("running"))), (125, 124));
    }

    #[test]
    fn an_estimate_does_not_read_like_a_report() {
        let progress = |percent, text: &str, source: &str| ProgressObject {
            percent,
            text: Some(text.to_owned()),
            source: source.to_owned(),
            usual_ms: None,
        };
        let reported = progress(Some(37), "epoch\u{1b} 2", "reported");
        assert_eq!(progress_cell(&reported), "37% epoch\\u{1b} 2");
        assert_eq!(progress_cell(&progress(None, "linking", "reported")), "linking");
        let estimate = progress(Some(45), "usually 3m 12s", "usual_duration");
        assert_eq!(progress_cell(&estimate), "~45%");
        assert_eq!(progress_line(&estimate), "45%, usually 3m 12s (an estimate from earlier runs)");
    }

    #[test]
    fn verdicts_say_what_happened() {
        let killed = TaskObject {
            reason: Some("request".to_owned()),
            by: Some("s\x1b1".to_owned()),
            signal: Some("SIGTERM".to_owned()),
            ..task("killed")
        };
        assert_eq!(verdict(&killed), "KILLED by s\\u{1b}1 after 3.2s (SIGTERM)");
        let mut late = TaskObject { reason: Some("idle".to_owned()), final_exit_code: Some(0), ..task("timed_out") };
        late.timeouts.idle_ms = Some(2_000);
        assert_eq!(verdict(&late), "TIMED OUT after 3.2s, silent for 2.0s (it then exited 0)");
        (late.timeouts.wall_ms, late.reason) = (Some(3_000), Some("wall".to_owned()));
        assert_eq!(verdict(&late), "TIMED OUT after 3.2s, limit 3.0s (it then exited 0)");
        assert_eq!(verdict(&task("running")), "running for 3.2s, NOT finished");
        let lost = TaskObject { reason: Some("monitor_died".to_owned()), ..task("lost") };
        assert_eq!(verdict(&lost), "LOST, outcome unknown: its keeper died, and nobody else saw the end");
    }
}
