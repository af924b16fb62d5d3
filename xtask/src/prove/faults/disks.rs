//! Disks of their own for one home: one that hangs, and one that is full.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Child;
use std::time::Duration;

use super::super::chance::Chance;
use super::super::disk::Disk;
use super::super::processes;
use super::super::subject::{Said, Subject, finish};
use super::story::{Lost, SESSION, TASKS, ask_more, look_after, script};
use super::{Told, counted};

/// The longest time for which it hangs.
const HANGS_MAX: Duration = Duration::from_secs(3);

/// The file system is frozen, so that every write to it waits, while tasks end, clients ask and the daemon may be killed; then
/// it thaws. Each client must get an answer or a clear refusal, and nothing may be lost.
pub(super) fn hung(program: &Path, mut chance: Chance) -> Result<Told, String> {
    let subject = Subject::new(program)?;
    let disk = Disk::new(&subject)?;
    let mut begun = BTreeMap::new();
    let mut wrong = Vec::new();
    let frozen_at = chance.below(TASKS);
    for number in 0..frozen_at {
        // The first half ends while the disk hangs.
        let wait = if number % 2 == 0 { "sleep 0.3; " } else { "" };
        let script = format!("{wait}{}", script(&subject, number));
        let said = subject.say(SESSION, &["run", "-q", "--name", &number.to_string(), "-c", &script])?;
        take(&mut begun, number, &said, &mut wrong);
    }
    if frozen_at == 0 {
        subject.say("onlooker", &["ps"])?;
    }
    let frozen = disk.freeze()?;
    let mut runs = Vec::new();
    for number in frozen_at..TASKS {
        let script = script(&subject, number);
        runs.push((number, ask(&subject, SESSION, &["run", "-q", "--name", &number.to_string(), "-c", &script])?));
    }
    let asking: &[&[&str]] =
        &[&["ps", "-a", "--json"], &["inbox", "--json"], &["kill", "-s", "nobody"], &["session", "ls"]];
    let others = asking.iter().map(|args| ask(&subject, "onlooker", args)).collect::<Result<Vec<_>, _>>()?;
    let dies = chance.once_in(2);
    if dies && let Some(daemon) = subject.daemon() {
        // In the middle of a write it dies when that is over.
        processes::send_kill(daemon);
    }
    chance.moment(HANGS_MAX);
    drop(frozen);
    for (number, client) in runs {
        let said = finish(client).ok_or("a `run` hangs after the disk has thawed")?;
        take(&mut begun, number, &said, &mut wrong);
    }
    for (args, client) in asking.iter().zip(others) {
        let said = finish(client).ok_or_else(|| format!("`{}` hangs after the disk has thawed", args.join(" ")))?;
        if said.code != Some(0) && !is_refusal(&said) {
            wrong.push(format!("`{}` said {:?} {:?} {:?}", args.join(" "), said.code, said.out, said.err));
        }
    }
    let tasks = look_after(&subject, &begun, Lost::Never, &mut wrong)?;
    end(&subject);
    let mut counts = counted(tasks, begun.len(), &wrong);
    counts.insert("kills", u64::from(dies));
    Ok((counts, wrong))
}

/// There is no room for one more byte while clients ask and tasks write and end; then there is again.
pub(super) fn full(program: &Path, mut chance: Chance) -> Result<Told, String> {
    let subject = Subject::new(program)?;
    let disk = Disk::new(&subject)?;
    let mut wrong = Vec::new();
    // Those that were begun before write their output and end when there is no room for it.
    let mut begun = BTreeMap::new();
    for number in 0..chance.below(TASKS) {
        let script = format!("sleep 0.3; {}", script(&subject, number));
        let said = subject.say(SESSION, &["run", "-q", "--name", &number.to_string(), "-c", &script])?;
        take(&mut begun, number, &said, &mut wrong);
    }
    disk.fill()?;
    let begun = ask_more(&subject, begun, &mut wrong)?;
    disk.make_room()?;
    let tasks = look_after(&subject, &begun, Lost::Bytes, &mut wrong)?;
    end(&subject);
    Ok((counted(tasks, begun.len(), &wrong), wrong))
}

/// Ends the daemon, so that the disk can be taken away.
fn end(subject: &Subject) {
    if let Some(daemon) = subject.daemon() {
        processes::kill(daemon, |_| true);
    }
}

fn ask(subject: &Subject, session: &str, args: &[&str]) -> Result<Child, String> {
    subject.client(session, args).spawn().map_err(|error| format!("cannot start a client: {error}"))
}

fn take(begun: &mut BTreeMap<u64, String>, number: u64, said: &Said, wrong: &mut Vec<String>) {
    match said.code {
        Some(0) => drop(begun.insert(number, said.out.trim().to_owned())),
        _ if is_refusal(said) => {}
        _ => wrong.push(format!("`run` said {:?} {:?} {:?}", said.code, said.out, said.err)),
    }
}

fn is_refusal(said: &Said) -> bool {
    said.code == Some(125) && said.err.starts_with("error: ")
}
