//! Who is killed, and when: chance chooses, and what was hit is noted for the judge.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::chance::Chance;
use super::processes;
use super::round::{Shared, lock};
use super::subject::Subject;

/// Who is killed in a round.
pub(crate) const MODES: [&str; 6] = ["daemon", "client", "command", "keeper", "daemon and keeper", "all of them"];

/// The longest pause between two kills: a daemon that is killed at once each time never gets to anything.
const PAUSE: Duration = Duration::from_millis(120);
/// The same while everything ends, and how many times: a client may ask its daemon anew 256 times.
const SETTLING_PAUSE: Duration = Duration::from_millis(240);
const SETTLING_MAX: u32 = 40;
/// Once in so many times a keeper is looked for among all processes, so that one that is just being started is hit too.
const WHOLE_LOOK: u64 = 6;

/// What was hit so far.
#[derive(Default)]
pub(crate) struct Hits {
    /// Tasks whose keeper was killed.
    pub(crate) keepers: BTreeSet<String>,
    /// Tasks of which a process was killed.
    pub(crate) commands: BTreeSet<String>,
}

/// Kills until all was asked for, and now and then while it ends, until that is `over`.
pub(crate) fn kill_at_random(
    subject: &Subject,
    mode: &str,
    shared: &Shared,
    mut chance: Chance,
    (asked, over): (&AtomicBool, &AtomicBool),
) {
    let mut settling = 0;
    while !over.load(Ordering::Relaxed) && settling < SETTLING_MAX {
        let is_asked = asked.load(Ordering::Relaxed);
        settling += u32::from(is_asked);
        chance.moment(if is_asked { SETTLING_PAUSE } else { PAUSE });
        match mode {
            "daemon" => kill_daemon(subject, shared),
            "client" => kill_client(shared, &mut chance),
            "command" => kill_command(subject, shared, &mut chance),
            "keeper" => kill_keeper(subject, shared, &mut chance),
            "daemon and keeper" => kill_both(subject, shared, &mut chance),
            _ => match chance.below(5) {
                0 => kill_daemon(subject, shared),
                1 => kill_client(shared, &mut chance),
                2 => kill_command(subject, shared, &mut chance),
                3 => kill_keeper(subject, shared, &mut chance),
                _ => kill_both(subject, shared, &mut chance),
            },
        }
    }
}

fn kill_daemon(subject: &Subject, shared: &Shared) {
    if let Some(daemon) = subject.daemon() {
        let hit = processes::kill(daemon, |pid| processes::command_line(pid).contains("daemon"));
        shared.kills.fetch_add(u64::from(hit), Ordering::Relaxed);
    }
}

fn kill_client(shared: &Shared, chance: &mut Chance) {
    let clients = lock(&shared.clients).clone();
    if clients.is_empty() {
        return;
    }
    let client = clients[usize::try_from(chance.below(clients.len() as u64)).unwrap_or(0)];
    let hit = processes::kill(client, |pid| processes::command_line(pid).contains("ringback"));
    shared.kills.fetch_add(u64::from(hit), Ordering::Relaxed);
}

fn kill_keeper(subject: &Subject, shared: &Shared, chance: &mut Chance) {
    let home = subject.home();
    let whole = chance.once_in(WHOLE_LOOK);
    let keepers = if whole { processes::keepers(&home) } else { processes::settled_keepers(&home) };
    if keepers.is_empty() {
        return;
    }
    let (keeper, task) = keepers[usize::try_from(chance.below(keepers.len() as u64)).unwrap_or(0)].clone();
    lock(&shared.hits).keepers.insert(task);
    let hit = processes::kill(keeper, |pid| processes::command_line(pid).starts_with("ringback-keeper"));
    shared.kills.fetch_add(u64::from(hit), Ordering::Relaxed);
}

fn kill_both(subject: &Subject, shared: &Shared, chance: &mut Chance) {
    if chance.once_in(2) {
        kill_daemon(subject, shared);
        kill_keeper(subject, shared, chance);
    } else {
        kill_keeper(subject, shared, chance);
        kill_daemon(subject, shared);
    }
}

fn kill_command(subject: &Subject, shared: &Shared, chance: &mut Chance) {
    let keepers = processes::settled_keepers(&subject.home());
    if keepers.is_empty() {
        return;
    }
    let (_, task) = keepers[usize::try_from(chance.below(keepers.len() as u64)).unwrap_or(0)].clone();
    let members = processes::members(&subject.home(), &task);
    if members.is_empty() {
        return;
    }
    let member = members[usize::try_from(chance.below(members.len() as u64)).unwrap_or(0)];
    lock(&shared.hits).commands.insert(task.clone());
    let hit = processes::kill(member, |pid| processes::task_of(pid).as_ref() == Some(&task));
    shared.kills.fetch_add(u64::from(hit), Ordering::Relaxed);
}
