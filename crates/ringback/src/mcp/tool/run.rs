//! `run`: starts a command, and waits a little for its end.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use ringback_core::spec::{IfRunning, Lease, Leftovers, OutputPolicy, Sandbox};
use ringback_host::client::{Capture, EnvMode, own_umask};
use ringback_host::limits::{Limits, LimitsError};
use ringback_host::quantity::millis;
use ringback_host::wire::{ByteBuf, Command, Reply, Request, RunRequest, TaskObject, TerminalSize, Until};
use serde_json::Value;

use super::super::answer::{Answer, Unheard, enough};
use super::super::args::{Args, wrong};
use super::super::link::{Line, unexpected};
use super::super::speaker::Speaker;
use super::{Job, Step, Work, claim, ended};
use crate::explain::Failure;
use crate::render::held;
use crate::terminal;

/// How long an answer waits for the end when nobody says otherwise: most commands of an agent are over by then.
const WAIT_MS: u64 = 2000;
/// How long what was looked up is still the present to somebody who reads it.
const FRESH: Duration = Duration::from_millis(100);

/// Read once: nothing in this process changes it, and nobody else can (umask(2)).
static UMASK: LazyLock<Option<u32>> = LazyLock::new(own_umask);

/// Reads the arguments.
pub(super) fn read(mut args: Args, speaker: &Speaker) -> Result<Job, Failure> {
    let limit = speaker.limit();
    let wait_ms = args.number("wait_ms")?.unwrap_or(WAIT_MS).min(millis(limit));
    let request = request(&mut args)?;
    let (began, speaker) = (Instant::now(), speaker.clone());
    let then = move |session: &str, reply: Reply| begun(reply, session, wait_ms, began, speaker);
    Ok(Job { limit, work: Work::Ask(Box::new(Request::Run(Box::new(request))), Box::new(then)) })
}

/// The command has been started. Where nothing is to be waited for, that is all.
fn begun(reply: Reply, session: &str, wait_ms: u64, began: Instant, speaker: Speaker) -> Result<Step, Failure> {
    let Reply::Task { task, existing, inbox_empty, unheard } = reply else { return Err(unexpected()) };
    let unheard = if inbox_empty { Some(Unheard::default()) } else { unheard };
    let goes_on = !task.has_ended() && (wait_ms > 0 || speaker.takes_tasks);
    if let (Some(unheard), false) = (&unheard, goes_on) {
        let done = answer(&speaker, *task, existing, |answer, told| answer.complete_with(session, told, unheard));
        return Ok(Step::Done(Box::new(done)));
    }
    Ok(Step::Call(Box::new(move |line| {
        let task = wait_a_little(line, *task, wait_ms);
        if !task.has_ended() && speaker.takes_tasks {
            claim(line, &task);
        }
        let unheard = unheard.filter(|_| began.elapsed() < FRESH);
        Ok(answer(&speaker, task, existing, |answer, told| match &unheard {
            Some(unheard) => answer.complete_with(line.session(), told, unheard),
            None => answer.complete(line, told),
        }))
    })))
}

fn answer(
    speaker: &Speaker,
    task: TaskObject,
    existing: bool,
    complete: impl FnOnce(Answer, &[TaskObject]) -> Answer,
) -> Answer {
    let mut answer = if task.has_ended() { ended(&task) } else { Answer::of_task(&task, speaker.ear(&task.id)) };
    if existing {
        answer.line("a task of this key was there already; nothing was started".to_owned());
        answer.field("existing", true);
    }
    if let Some(shortfall) = held::shortfall(&task) {
        answer.field("not_enforced", shortfall.clone());
        answer.line(shortfall);
    }
    let mut answer = complete(answer, std::slice::from_ref(&task));
    answer.unfinished = (!task.has_ended()).then(|| Box::new(task));
    answer
}

/// Whatever goes wrong from here on, the caller gets the id: the command has been started.
fn wait_a_little(line: &mut Line, task: TaskObject, wait_ms: u64) -> TaskObject {
    if task.has_ended() || wait_ms == 0 {
        return task;
    }
    let waited = line.wait(std::slice::from_ref(&task.id), false, Until::End, wait_ms);
    waited.ok().and_then(|mut tasks| tasks.pop()).unwrap_or(task)
}

fn request(args: &mut Args) -> Result<RunRequest, Failure> {
    let command = command(args)?;
    let captured = capture(args)?.request(command).map_err(|error| {
        wrong(format!("cannot tell the current folder: {error}"), "pass `cwd` as an absolute path".to_owned())
    })?;
    let (progress, progress_max) = args.pace("progress")?;
    Ok(RunRequest {
        name: args.text("name")?,
        timeout_ms: args.span("timeout")?.map(millis),
        idle_timeout_ms: args.span("idle_timeout")?.map(millis),
        grace_ms: args.span("grace")?.map(millis),
        limit: limit(args)?,
        sandbox: args.word("sandbox", Sandbox::WORDS)?,
        output_max: args.size("max_output")?,
        output_policy: args.word("output_policy", OutputPolicy::WORDS)?,
        stdin: args.flag("stdin")?,
        pty: pty(args)?,
        split: args.flag("split")?,
        leftovers: args.word("leftovers", Leftovers::WORDS)?,
        lease: args.word("lease", Lease::WORDS)?,
        binding: args.value("binding")?,
        key: args.text("key")?,
        if_running: args.word("if_running", IfRunning::WORDS)?,
        ready: args.text("ready")?,
        watch: args.texts_or_one("watch")?.unwrap_or_default(),
        unheard_max: enough(1),
        progress_ms: progress.map(millis),
        progress_max_ms: progress_max.map(millis),
        ..captured
    })
}

fn limit(args: &mut Args) -> Result<Limits, Failure> {
    let wrong = |error: LimitsError| wrong(format!("`limit`: {error}"), "for example \"mem=2G,pids=200\"".to_owned());
    args.text("limit")?.map_or_else(|| Ok(Limits::default()), |text| Limits::parse(&text).map_err(wrong))
}

/// `true`, or a size like `120x40`.
fn pty(args: &mut Args) -> Result<Option<TerminalSize>, Failure> {
    match args.value("pty")? {
        None | Some(Value::Bool(false)) => Ok(None),
        Some(Value::Bool(true)) => Ok(Some(TerminalSize::USUAL)),
        Some(Value::String(text)) => {
            let size = terminal::parse_size(&text)
                .map_err(|error| wrong(format!("`pty`: {error}"), "for example true, or \"120x40\"".to_owned()));
            size.map(Some)
        }
        Some(other) => Err(wrong(format!("`pty` is {other}"), "for example true, or \"120x40\"".to_owned())),
    }
}

fn command(args: &mut Args) -> Result<Command, Failure> {
    let shell = match args.text("shell")? {
        None => Vec::new(),
        Some(words) => shlex::split(&words).filter(|words| !words.is_empty()).ok_or_else(|| {
            wrong("`shell` is not the words of a program".to_owned(), "for example \"bash -e\"".to_owned())
        })?,
    };
    let bytes = |text: String| ByteBuf::from(text.into_bytes());
    match (args.text("command")?, args.texts("argv")?) {
        (Some(_), Some(_)) => Err(args.missing("`command` or `argv`, not both", "{\"command\":\"make test\"}")),
        (Some(text), None) if text.trim().is_empty() => Err(args.missing("a command", "{\"command\":\"make test\"}")),
        (Some(text), None) => Ok(Command::Script { text: bytes(text), shell: shell.into_iter().map(bytes).collect() }),
        (None, Some(words)) if words.first().is_some_and(|program| !program.is_empty()) => {
            Ok(Command::Argv(words.into_iter().map(bytes).collect()))
        }
        (None, _) => Err(args.missing("`command` or `argv`", "{\"command\":\"make test\"}")),
    }
}

fn capture(args: &mut Args) -> Result<Capture, Failure> {
    let env_mode = match args.word("env_mode", &["inherit", "clean", "replace"])?.as_str() {
        "clean" => EnvMode::Clean,
        "replace" => EnvMode::Replace,
        _ => EnvMode::Inherit,
    };
    let removed = args.texts("env_remove")?.unwrap_or_default().into_iter();
    let env: BTreeMap<String, String> = args.pairs("env")?;
    Ok(Capture {
        env_mode,
        env_remove: removed.map(OsString::from).collect(),
        env: env.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
        cwd: args.text("cwd")?.filter(|cwd| !cwd.is_empty()).map(PathBuf::from),
        umask: *UMASK,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(values: &Value) -> Result<RunRequest, Failure> {
        let known = [
            "command",
            "argv",
            "shell",
            "env",
            "env_mode",
            "env_remove",
            "cwd",
            "timeout",
            "lease",
            "key",
            "stdin",
            "binding",
            "pty",
            "limit",
            "sandbox",
        ];
        request(&mut Args::new("run", &known, values.as_object().unwrap().clone()).unwrap())
    }

    #[test]
    fn a_command_is_shell_text_or_words_and_never_nothing() {
        for bad in [json!({}), json!({"command": " "}), json!({"argv": []}), json!({"argv": [""]})] {
            assert!(check(&bad).unwrap_err().message.contains("`run` needs"), "{bad}");
        }
        assert!(check(&json!({"command": "a", "argv": ["a"]})).is_err());
        let script = check(&json!({"command": "a && b", "shell": "bash -e"})).unwrap().command;
        assert!(matches!(script, Command::Script { shell, .. } if shell.len() == 2));
        let argv = check(&json!({"argv": ["echo", "$HOME"]})).unwrap().command;
        assert!(matches!(argv, Command::Argv(words) if *words[1] == *b"$HOME"));
    }

    #[test]
    fn options_reach_the_request() {
        let all = check(&json!({
            "command": "x", "env": {"A": "b"}, "env_mode": "replace", "timeout": "1m", "lease": "service", "key": "k",
            "stdin": true, "binding": {"a": 1}, "cwd": "/tmp",
        }))
        .unwrap();
        assert_eq!((all.timeout_ms, all.lease.as_str(), all.key.as_deref()), (Some(60_000), "service", Some("k")));
        assert_eq!(all.env, [ByteBuf::from(b"A=b".to_vec())]);
        for word in Sandbox::WORDS {
            assert_eq!(check(&json!({"command": "x", "sandbox": word})).unwrap().sandbox, *word);
        }
        let held = check(&json!({"command": "x", "limit": "pids=9", "sandbox": "cwd"})).unwrap();
        assert_eq!((held.limit.pids, held.sandbox.as_str()), (Some(9), "cwd"));
        assert!(check(&json!({"command": "x", "limit": "disk=1"})).unwrap_err().message.contains("mem=SIZE"));
        let pty = |value: Value| check(&json!({"command": "x", "pty": value})).map(|run| run.pty);
        assert_eq!(pty(json!(true)).unwrap(), Some(TerminalSize::USUAL));
        assert_eq!(pty(json!("120x40")).unwrap(), Some(TerminalSize { columns: 120, rows: 40 }));
        assert_eq!(pty(json!(false)).unwrap(), None);
        assert!(pty(json!(7)).is_err() && pty(json!("wide")).unwrap_err().message.contains("80x24"));
        assert!(all.stdin && *all.cwd == *b"/tmp" && all.binding.unwrap()["a"] == 1);
    }
}
