//! `ringback doctor`: looks at the home, the daemon and the machine, and says what to do.

use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;

use clap::Args;
use ringback_host::client::{Client, ClientError};
use ringback_host::config::{Cgroup, Config, Confined};
use ringback_host::home::Home;
use ringback_host::limits::{held_by_cgroup, held_by_rlimit};
use ringback_host::quantity::size_text;
use ringback_host::wire::{Caller, Reply, Request, StatusObject, VERSION};
use ringback_sys::cgroup::Cgroups;
use ringback_sys::confine::own_is_confined;
use ringback_sys::pidfd::PidFd;
use ringback_sys::{files, identity, process};
use serde::Serialize;
use serde_json::{Value, json};

use super::door::{self, Door, caller};
use crate::explain::{Done, Failure};
use crate::render::clean;
use crate::render::count::count;
use crate::render::held;
use crate::render::json::document;
use crate::render::style::Tone;

/// What can be done about such a sink.
pub(super) const UNDELIVERED_HINT: &str =
    "build it so and `ringback daemon restart`, or take the sink out of the config";

/// Below this, a full disk is near.
const FREE_BYTES_LOW: u64 = 1 << 30;
/// Below this, tasks cannot be recorded for long.
const FREE_BYTES_MIN: u64 = 64 << 20;
/// Below this many descriptors, many tasks and clients at once do not fit.
const FDS_LOW: u64 = 1024;
/// `RLIMIT_NOFILE` (getrlimit(2)).
const NOFILE: usize = 7;

/// Check the home, the daemon and the machine
///
/// Each line is ok, warn or fail, and says what can be done. Exits 1 if anything fails.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Say nothing about what is well
    #[arg(long)]
    problems: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Ok,
    Warn,
    Fail,
}

#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    verdict: Verdict,
    text: String,
    hint: Option<String>,
}

impl Check {
    fn ok(name: &'static str, text: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Ok, text: text.into(), hint: None }
    }

    fn warn(name: &'static str, text: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Warn, text: text.into(), hint: Some(hint.into()) }
    }

    fn fail(name: &'static str, failure: Failure) -> Self {
        Self { name, verdict: Verdict::Fail, text: failure.message, hint: failure.hint }
    }
}

impl Doctor {
    /// Looks.
    pub(crate) fn perform(self, door: Door) -> Done {
        let mut checks = vec![session(), config()];
        let mut held_by = [Vec::new(), held_by_rlimit()];
        match Home::find() {
            Ok(home) => {
                checks.extend([folder(&home), disk(&home), space(&home)]);
                let (found, held) = daemon(&home);
                checks.extend(found);
                held_by = held;
            }
            Err(error) => checks.push(Check::fail("home", error.into())),
        }
        let layers = held::layers(&held_by);
        checks.extend([limits(&layers), confinement(), exits(), login(), descriptors(), landlock(), program()]);
        let failed = checks.iter().any(|check| check.verdict == Verdict::Fail);
        if door.json {
            let limits: Value = layers.iter().map(|(name, by)| ((*name).to_owned(), json!({ "by": by }))).collect();
            door::document(&document(
                json!({ "ok": !failed, "version": VERSION, "checks": checks, "limits": limits }),
            ))?;
        } else if !door.quiet {
            let told = checks.iter().filter(|check| !self.problems || check.verdict != Verdict::Ok);
            door::out_lines(told.map(line))?;
        }
        Ok(u8::from(failed))
    }
}

fn line(check: &Check) -> String {
    let (tone, word) = match check.verdict {
        Verdict::Ok => (Tone::Good, "ok  "),
        Verdict::Warn => (Tone::Warn, "warn"),
        Verdict::Fail => (Tone::Bad, "FAIL"),
    };
    let style = door::style();
    let hint = check.hint.as_deref().map(|hint| format!("\n{:19}hint: {hint}", "")).unwrap_or_default();
    format!("{}  {:<11}  {}{hint}", style.paint(tone, word), check.name, clean::line(&check.text))
}

fn session() -> Check {
    match caller(None) {
        Ok(Caller { session, by }) => {
            Check::ok("session", format!("{} (stops are by {})", clean::short(&session, 60), clean::short(&by, 60)))
        }
        Err(failure) => Check::fail("session", failure),
    }
}

fn config() -> Check {
    match Config::load() {
        Ok(ref config) if let Some(text) = undelivered(config) => Check::warn("config", text, UNDELIVERED_HINT),
        Ok(_) => match Config::path() {
            Some(path) if path.exists() => Check::ok("config", path.to_string_lossy()),
            Some(path) => Check::ok("config", format!("none, defaults hold ({} would be read)", path.display())),
            None => Check::ok("config", "none, defaults hold (neither HOME nor XDG_CONFIG_HOME is set)"),
        },
        Err(error) => Check::fail("config", error.into()),
    }
}

/// What is said of the first sink that this build cannot deliver to.
pub(super) fn undelivered(config: &Config) -> Option<String> {
    let (sink, lack) = config.sinks.iter().find_map(|sink| sink.lack().map(|lack| (sink, lack)))?;
    Some(format!("nothing can be delivered to the sink {}: {lack}", clean::short(&sink.name, 60)))
}

fn folder(home: &Home) -> Check {
    let root = home.root();
    let Ok(meta) = fs::metadata(root) else {
        let parent = root.ancestors().find(|path| path.is_dir()).unwrap_or(Path::new("/"));
        return Check::ok("home", format!("{} will be made in {}", root.display(), parent.display()));
    };
    if let Err(error) = home.prepare() {
        return Check::fail("home", error.into());
    }
    // Reading alone does not show a read-only mount or a full disk.
    let probe = root.join(format!("doctor.{}", std::process::id()));
    let written = files::create_new(&probe).and_then(|_| fs::remove_file(&probe));
    match written {
        Ok(()) => {
            Check::ok("home", format!("{} (user {}, mode {:o})", root.display(), meta.uid(), meta.mode() & 0o7777))
        }
        Err(error) => {
            let hint =
                Some("tasks cannot be recorded there; set RINGBACK_HOME to another folder, or free space".to_owned());
            Check::fail("home", Failure::of("home", &error, hint))
        }
    }
}

fn existing(path: &Path) -> &Path {
    path.ancestors().find(|path| path.exists()).unwrap_or(path)
}

fn disk(home: &Home) -> Check {
    match files::filesystem_is_tmpfs(existing(home.root())) {
        Ok(true) => Check::warn(
            "disk",
            "the home lies in memory: a restart of the machine forgets every task",
            "set RINGBACK_HOME to a folder on a disk",
        ),
        Ok(false) => Check::ok("disk", "the home lies on a disk"),
        Err(error) => Check::fail("disk", Failure::from(error)),
    }
}

fn space(home: &Home) -> Check {
    match files::free_bytes(existing(home.root())) {
        Ok(free) if free < FREE_BYTES_MIN => {
            let hint = Some("free some space, for example by `ringback prune`".to_owned());
            Check::fail("space", Failure::new("space", format!("only {} free", size_text(free)), hint))
        }
        Ok(free) if free < FREE_BYTES_LOW => Check::warn(
            "space",
            format!("{} free", size_text(free)),
            "`ringback prune` deletes the output of old tasks",
        ),
        Ok(free) => Check::ok("space", format!("{} free", size_text(free))),
        Err(error) => Check::fail("space", Failure::from(error)),
    }
}

/// The daemon and how trees are held, and which limits cgroups hold, and which the kernel's own limits.
fn daemon(home: &Home) -> (Vec<Check>, [Vec<String>; 2]) {
    // Who asks does not matter here.
    let opened = Client::open_existing(home, Caller::default());
    let asked = opened.and_then(|mut client| client.call(Request::Status));
    match asked {
        Ok(Reply::Status(status)) => {
            let trees = trees(&status.trees, &status.trees_note);
            let checks = vec![version(&status), keeper(&status), trees, troubles(&status)];
            (checks, [status.cgroup_limits, status.rlimit_limits])
        }
        Ok(_) => (vec![Check::fail("daemon", door::unexpected())], [Vec::new(), held_by_rlimit()]),
        Err(ClientError::NoDaemon { .. }) => {
            let (trees, by_cgroup) = own_trees(home);
            let checks = vec![Check::ok("daemon", "none runs; it starts when it is needed"), trees];
            (checks, [by_cgroup, held_by_rlimit()])
        }
        Err(error) => (vec![Check::fail("daemon", error.into())], [own_trees(home).1, held_by_rlimit()]),
    }
}

fn version(status: &StatusObject) -> Check {
    let text = format!("version {}, pid {}, {} running", status.version, status.pid, count(status.running, "task"));
    if status.version == VERSION {
        Check::ok("daemon", text)
    } else {
        Check::warn("daemon", format!("{text}; this is version {VERSION}"), "`ringback daemon restart`; tasks go on")
    }
}

fn keeper(status: &StatusObject) -> Check {
    match status.keeper.as_str() {
        "embedded" => Check::ok("keeper", "its own small program, kept in the home"),
        "memory" => Check::warn(
            "keeper",
            "runs from memory, because the home refuses programs (noexec?)",
            "set RINGBACK_HOME to a folder that programs may be run from",
        ),
        other => Check::warn(
            "keeper",
            format!("{}: each live task costs more memory", clean::line(other)),
            "build ringback where its keeper can be built",
        ),
    }
}

fn troubles(status: &StatusObject) -> Check {
    match status.troubles.last() {
        None => Check::ok("troubles", "none since the daemon started"),
        Some(last) => Check::warn("troubles", last.clone(), "`ringback daemon status` lists them"),
    }
}

fn confinement() -> Check {
    let allowed = Config::load().is_ok_and(|config| config.confined == Confined::Allow);
    match own_is_confined() {
        None => Check::ok("sandbox", "this process is as free as its surroundings"),
        Some(what) if allowed => Check::ok("sandbox", format!("{what}; the config allows it")),
        Some(what) => Check::warn(
            "sandbox",
            format!("{what}: a daemon outside refuses this process, and it starts none"),
            "run ringback outside the sandbox, or set `confined = \"allow\"` in the config",
        ),
    }
}

/// Whether the kernel keeps the exit status of a reaped process (`PIDFD_GET_INFO`, Linux 6.15).
fn exits() -> Check {
    let status = || -> std::io::Result<Option<i32>> {
        let mut child = Command::new("true").spawn()?;
        let hold = identity::who(i32::try_from(child.id()).unwrap_or(0)).and_then(PidFd::open);
        child.wait()?;
        hold?.exit_status()
    };
    match status() {
        Ok(Some(_)) => Check::ok("exits", "the kernel keeps exit codes, so they survive the death of a keeper"),
        Ok(None) => {
            Check::ok("exits", "the kernel is older than 6.15: if a keeper is killed, its task may end as lost")
        }
        Err(error) => Check::ok("exits", format!("not known ({error})")),
    }
}

fn own_cgroup() -> Option<String> {
    let text = fs::read_to_string("/proc/self/cgroup").ok()?;
    text.lines().find_map(|line| line.strip_prefix("0::")).map(str::to_owned)
}

/// What a daemon that is started from here would hold trees by, and which limits.
fn own_trees(home: &Home) -> (Check, Vec<String>) {
    match Config::load().map(|config| config.cgroup) {
        Ok(Cgroup::Off) => (trees("subreaper", "switched off by the config"), Vec::new()),
        Ok(Cgroup::Auto) => match Cgroups::find(existing(home.root())) {
            Ok(cgroups) => {
                let by_cgroup = held_by_cgroup(cgroups.controls_to_come());
                (trees("cgroup", &cgroups.parent().to_string_lossy()), by_cgroup)
            }
            Err(error) => (trees("subreaper", &error.to_string()), Vec::new()),
        },
        // What is wrong with it is said once, beside `config`.
        Err(_) => {
            let text = "not known while the config cannot be used";
            (Check::warn("trees", text, "mend the config, as said above"), Vec::new())
        }
    }
}

fn trees(layer: &str, note: &str) -> Check {
    let note = clean::line(note);
    if layer == "cgroup" {
        return Check::ok("trees", format!("each task has a cgroup of its own, in {note}"));
    }
    let text = format!("held by a subreaper and found by walking; no cgroups: {note}");
    Check::ok("trees", text + " (if a keeper is killed, an empty tree cannot always be proved)")
}

/// systemd ends what a login session leaves behind when `KillUserProcesses` is on, unless the user lingers.
fn login() -> Check {
    let in_login = own_cgroup().is_some_and(|path| path.contains("/session-") && path.contains(".scope"));
    let lingers = env::var("USER").is_ok_and(|user| Path::new("/var/lib/systemd/linger").join(user).exists());
    if in_login && !lingers {
        Check::warn(
            "login",
            "this is a login session without linger: a daemon and tasks started here may be ended at logout",
            "loginctl enable-linger",
        )
    } else {
        Check::ok("login", if in_login { "the user lingers" } else { "not tied to a login session" })
    }
}

fn descriptors() -> Check {
    let soft = process::soft_limits()[NOFILE];
    let text = if soft == u64::MAX { "no limit".to_owned() } else { format!("{soft} at once") };
    if soft < FDS_LOW {
        Check::warn("descriptors", text, "raise it with ulimit -n for many tasks at once")
    } else {
        Check::ok("descriptors", text)
    }
}

fn landlock() -> Check {
    match ringback_sys::sandbox::landlock() {
        Ok(abi) => Check::ok("landlock", format!("version {abi}: `run --sandbox` keeps a command from writing")),
        Err(lack) => Check::ok("landlock", format!("`run --sandbox` is refused: {lack}")),
    }
}

/// What holds the limits of `run --limit`, or that nothing does.
fn limits(layers: &[(&'static str, Option<&'static str>)]) -> Check {
    let text = held::layers_line(layers);
    if layers.iter().all(|(_, by)| by.is_some()) {
        return Check::ok("limits", text);
    }
    // As sd_booted(3) looks.
    let has_systemd = Path::new("/run/systemd/system").is_dir();
    Check::warn("limits", text, delegation(has_systemd, process::effective_uid() == 0))
}

/// How the daemon gets a cgroup of its own here.
fn delegation(has_systemd: bool, is_root: bool) -> String {
    let held = "a cgroup that is delegated to the daemon holds them";
    if !has_systemd {
        return format!("{held}: start it in one that it may write to (docs/limits.md)");
    }
    let user = if is_root { "" } else { "--user " };
    let start = format!("systemd-run {user}--scope -p Delegate=yes ringback daemon run");
    format!("{held}: stop it (`ringback daemon stop`), then `{start}`")
}

fn program() -> Check {
    let path = env::var_os("PATH").unwrap_or_default();
    match env::split_paths(&path).map(|folder| folder.join("ringback")).find(|program| program.is_file()) {
        Some(program) => Check::ok("program", program.to_string_lossy()),
        None => {
            Check::warn("program", "`ringback` is not on the PATH", "put it there, so that agents and hooks find it")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_keeper_that_is_not_its_own_program_is_worth_a_word() {
        let check = |kind: &str| keeper(&StatusObject { keeper: kind.to_owned(), ..StatusObject::default() }).verdict;
        assert_eq!(
            (check("embedded"), check("memory"), check("multi-call")),
            (Verdict::Ok, Verdict::Warn, Verdict::Warn)
        );
    }

    #[test]
    fn systemd_is_named_only_where_it_runs_and_as_the_user_it_runs_for() {
        let user = "then `systemd-run --user --scope -p Delegate=yes ringback daemon run`";
        assert!(delegation(true, false).ends_with(user));
        assert!(delegation(true, true).contains("`systemd-run --scope "));
        assert!([true, false].iter().all(|root| !delegation(false, *root).contains("systemd")));
    }

    #[test]
    fn another_version_and_troubles_are_told() {
        let status =
            StatusObject { version: "0.0.1".to_owned(), troubles: vec!["disk".to_owned()], ..StatusObject::default() };
        assert_eq!((version(&status).verdict, troubles(&status).verdict), (Verdict::Warn, Verdict::Warn));
        assert!(version(&status).hint.unwrap().contains("daemon restart"));
    }
}
