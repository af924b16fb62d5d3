//! A receipt in words: what a stop did, and what it could not.

use ringback_host::quantity::duration_text;
use ringback_host::wire::task::{LeftoverObject, ReceiptObject, SurvivorObject};

use super::clean;

/// Of a task whose processes nobody saw end, and that no stop has looked for since.
pub(crate) const NONE: &str = "no receipt says what became of its processes";

/// One line: `5 processes, all gone after 120ms (SIGTERM, SIGKILL)`.
pub(crate) fn summary(receipt: &ReceiptObject) -> String {
    let processes = match receipt.observed_count {
        1 => "1 process".to_owned(),
        many => format!("{many} processes"),
    };
    let signals =
        if receipt.signals.is_empty() { "no signal".to_owned() } else { in_order(&receipt.signals).join(", ") };
    let verdict = match receipt.survivor_count {
        0 if receipt.verified_empty => "all gone".to_owned(),
        0 => match receipt.unverified_reason.as_deref() {
            Some("keeper_died") => "none seen alive, which cannot be proved as the keeper was killed".to_owned(),
            Some("cgroup_populated") => "none seen alive, but the kernel counts somebody in the cgroup".to_owned(),
            _ => "none seen alive, not verified".to_owned(),
        },
        1 => "1 SURVIVED".to_owned(),
        count => format!("{count} SURVIVED"),
    };
    let since = if receipt.survivor_count > 0 && receipt.is_outlived() { "; gone since" } else { "" };
    format!("{processes}, {verdict} after {} ({}){since}", duration_text(receipt.duration_ms), clean::line(&signals))
}

/// Signals in the order in which a stop sends them.
fn in_order(signals: &[String]) -> Vec<&str> {
    let order = |signal: &&str| ["SIGTERM", "SIGCONT", "SIGSTOP", "SIGKILL"].iter().position(|known| known == signal);
    let mut all: Vec<&str> = signals.iter().map(String::as_str).collect();
    all.sort_by_key(order);
    all
}

/// One line for a process that lived on after the stop.
pub(crate) fn survivor(survivor: &SurvivorObject) -> String {
    let word = if survivor.gone { "survived, gone since" } else { "survivor" };
    format!("{word}: pid {} {}: {}", survivor.pid, clean::short(&survivor.command, 60), clean::line(&survivor.why))
}

/// One line for a process that the stop did not reach.
pub(crate) fn leftover(left: &LeftoverObject) -> String {
    format!("still alive: pid {} {}", left.pid, clean::short(&left.command, 60))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn survivors_are_never_hidden() {
        let mut receipt = ReceiptObject {
            observed_count: 5,
            verified_empty: true,
            duration_ms: 120,
            signals: vec!["SIGKILL".to_owned(), "SIGTERM".to_owned()],
            ..ReceiptObject::default()
        };
        assert_eq!(summary(&receipt), "5 processes, all gone after 120ms (SIGTERM, SIGKILL)");
        (receipt.survivor_count, receipt.verified_empty) = (1, false);
        assert_eq!(summary(&receipt), "5 processes, 1 SURVIVED after 120ms (SIGTERM, SIGKILL)");
        (receipt.survivor_count, receipt.unverified_reason) = (0, Some("keeper_died".to_owned()));
        assert!(summary(&receipt).contains("cannot be proved"), "{}", summary(&receipt));
        let mut left =
            SurvivorObject { pid: 7, command: "evil\n".to_owned(), why: "another user".to_owned(), gone: false };
        assert_eq!(survivor(&left), "survivor: pid 7 evil\\n: another user");
        left.gone = true;
        assert_eq!(survivor(&left), "survived, gone since: pid 7 evil\\n: another user");
        (receipt.survivor_count, receipt.survivors) = (1, vec![left]);
        assert_eq!(summary(&receipt), "5 processes, 1 SURVIVED after 120ms (SIGTERM, SIGKILL); gone since");
    }
}
