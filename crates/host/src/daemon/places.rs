//! How many clients, waits and tasks this process has descriptors for, so that none of them takes the last.

/// How many clients may be connected at once.
const CLIENTS_MAX: u64 = 4096;
/// How many descriptors are for the work itself: the database's log, a folder, `/proc`, a caller's process, a launch.
const KEPT_FDS: u64 = 12;
/// Of so many clients one may not wait: who looks or stops is served also when many wait.
const PASSING_PART: u64 = 4;

/// How many there are places for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Places {
    /// Tasks that run at once, each held by one descriptor.
    pub running: u32,
    /// Clients that are connected, each with one descriptor or two.
    pub clients: usize,
    /// Those of them that may wait.
    pub waits: usize,
    /// Descriptors that hold what outlasts a killed keeper; without them its task may be lost, and nothing else.
    pub witnesses: usize,
}

impl Places {
    /// The places of a process that may have `fds_max` descriptors and has `open` of them already.
    pub(super) fn new(fds_max: u64, open: u64, running_max: u32) -> Self {
        let all = fds_max.saturating_sub(open + KEPT_FDS);
        let clients = (all / 3).clamp(2, CLIENTS_MAX);
        let rest = all.saturating_sub(clients);
        let running = u32::try_from(rest * 2 / 3).unwrap_or(u32::MAX).clamp(1, running_max.max(1));
        let count = |places: u64| usize::try_from(places).unwrap_or(usize::MAX);
        Self {
            running,
            clients: count(clients),
            waits: count(clients - clients.div_ceil(PASSING_PART)),
            witnesses: count(rest.saturating_sub(u64::from(running))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_descriptors_are_places_for_all_and_few_for_some_of_each() {
        let usual = Places::new(65_536, 16, 4096);
        assert_eq!((usual.running, usual.clients, usual.waits), (4096, 4096, 3072));
        assert!(usual.witnesses > 3 * 4096);
        let ten_thousand = Places::new(20_000, 16, 10_000);
        assert_eq!((ten_thousand.running, ten_thousand.clients, ten_thousand.witnesses), (10_000, 4096, 5876));
        let few = Places::new(40, 16, 4096);
        assert_eq!(few, Places { running: 5, clients: 4, waits: 3, witnesses: 3 });
        let none = Places::new(8, 16, 4096);
        assert_eq!((none.running, none.clients, none.waits), (1, 2, 1));
    }
}
