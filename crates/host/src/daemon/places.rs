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
        let third = fds_max.saturating_sub(open + KEPT_FDS) / 3;
        let count = |places: u64| usize::try_from(places).unwrap_or(usize::MAX);
        let clients = third.clamp(2, CLIENTS_MAX);
        Self {
            running: u32::try_from(third).unwrap_or(u32::MAX).clamp(1, running_max.max(1)),
            clients: count(clients),
            waits: count(clients - clients.div_ceil(PASSING_PART)),
            witnesses: count(third),
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
        let few = Places::new(40, 16, 4096);
        assert_eq!(few, Places { running: 4, clients: 4, waits: 3, witnesses: 4 });
        let none = Places::new(8, 16, 4096);
        assert_eq!((none.running, none.clients, none.waits), (1, 2, 1));
    }
}
