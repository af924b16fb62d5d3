//! What holds a task back, in words: its limits and its sandbox, and above all what of them does not hold.

use ringback_host::limits::Limits;
use ringback_host::quantity::size_text;
use ringback_host::wire::{StatusObject, TaskObject};

/// One limit: what it is, what holds it, and what that covers.
struct Limit<'a> {
    text: String,
    by: Option<&'a str>,
    /// What a resource limit covers of it.
    rlimit: &'static str,
}

fn limits_of(task: &TaskObject) -> Vec<Limit<'_>> {
    let Some(limits) = &task.limits else { return Vec::new() };
    let mem = limits.mem.as_ref().map(|mem| Limit {
        text: match mem.oom_kills {
            Some(count @ 1..) => format!("mem {} ({count} killed at it)", size_text(mem.bytes)),
            _ => format!("mem {}", size_text(mem.bytes)),
        },
        by: mem.by.as_deref(),
        rlimit: "of each process, by rlimit",
    });
    let pids = limits.pids.as_ref().map(|pids| Limit {
        text: format!("pids {}", pids.max),
        by: pids.by.as_deref(),
        rlimit: "beside the user's others, by rlimit",
    });
    let cpu = limits.cpu.as_ref().map(|cpu| Limit {
        text: format!("cpu {}%", cpu.percent),
        by: cpu.by.as_deref(),
        rlimit: "by rlimit",
    });
    mem.into_iter().chain(pids).chain(cpu).collect()
}

/// The limits with what holds each; nothing where there are none.
pub(crate) fn limits_line(task: &TaskObject) -> String {
    let word = |limit: Limit<'_>| match limit.by {
        Some("cgroup") => format!("{} (whole tree, by its cgroup)", limit.text),
        Some(_) => format!("{} ({})", limit.text, limit.rlimit),
        None if task.started_at.is_none() => limit.text,
        None => format!("{} (NOT ENFORCED: no cgroup for it)", limit.text),
    };
    limits_of(task).into_iter().map(word).collect::<Vec<_>>().join(", ")
}

/// The sandbox; nothing where there is none.
pub(crate) fn sandbox_line(task: &TaskObject) -> String {
    let Some(sandbox) = &task.sandbox else { return String::new() };
    let mode = match sandbox.mode.as_str() {
        "ro" => "writes nowhere but to its own temporary files",
        _ => "writes below its folder only, and to its own temporary files",
    };
    match (sandbox.enforced, sandbox.landlock_abi) {
        (Some(true), Some(abi)) => format!("{mode} (Landlock {abi})"),
        (None, _) => mode.to_owned(),
        (Some(_), _) => format!("{mode}: NOT ENFORCED, {}", sandbox.reason.as_deref().unwrap_or("nobody knows why")),
    }
}

/// What a task that has started was asked to be held to and is not, in one line.
pub(crate) fn shortfall(task: &TaskObject) -> Option<String> {
    task.started_at.as_ref()?;
    let loose = limits_of(task).into_iter().filter(|limit| limit.by.is_none()).map(|limit| limit.text);
    let mut all: Vec<String> = loose.collect();
    if let Some(sandbox) = task.sandbox.as_ref().filter(|sandbox| sandbox.enforced != Some(true)) {
        let reason = sandbox.reason.as_deref().unwrap_or_default();
        all.push(format!("sandbox {} ({reason})", sandbox.mode));
    }
    (!all.is_empty()).then(|| format!("NOT ENFORCED: {}", all.join(", ")))
}

/// What will not be held of limits by this daemon, in one line.
pub(crate) fn foreseen(limits: &Limits, daemon: &StatusObject) -> Option<String> {
    let asked = [
        ("mem", limits.mem_bytes.is_some(), "mem only of each process by itself"),
        ("pids", limits.pids.is_some(), "pids only together with the user's other processes"),
        ("cpu", limits.cpu_percent.is_some(), "cpu only of each process by itself"),
    ];
    let has = |held: &[String], name: &str| held.iter().any(|held| held == name);
    let (mut weak, mut loose) = (Vec::new(), Vec::new());
    for (name, _, by_rlimit) in
        asked.into_iter().filter(|(name, is_asked, _)| *is_asked && !has(&daemon.cgroup_limits, name))
    {
        if has(&daemon.rlimit_limits, name) { weak.push(by_rlimit) } else { loose.push(name) }
    }
    let loose = (!loose.is_empty()).then(|| format!("{} not at all", loose.join(" and ")));
    let all: Vec<&str> = weak.into_iter().chain(loose.as_deref()).collect();
    (!all.is_empty()).then(|| format!("without a cgroup for them the limits hold less: {}", all.join(", ")))
}

/// What would hold each limit of a task, in the words of `limits.*.by`, where cgroups and the kernel's own limits hold these.
pub(crate) fn layers([cgroup, rlimit]: &[Vec<String>; 2]) -> [(&'static str, Option<&'static str>); 3] {
    let has = |held: &[String], name: &str| held.iter().any(|held| held == name);
    ["mem", "pids", "cpu"].map(|name| {
        let by_rlimit = has(rlimit, name).then_some("rlimit");
        (name, if has(cgroup, name) { Some("cgroup") } else { by_rlimit })
    })
}

/// The same in one line.
pub(crate) fn layers_line(layers: &[(&'static str, Option<&'static str>)]) -> String {
    let word = |(name, by): &(&str, Option<&str>)| match (*name, *by) {
        (_, None) => format!("{name} by NOTHING"),
        ("mem", Some("rlimit")) => "mem by rlimit (of each process by itself)".to_owned(),
        ("pids", Some("rlimit")) => "pids by rlimit (beside the user's others)".to_owned(),
        (_, Some(by)) => format!("{name} by {by} (of the whole tree)"),
    };
    layers.iter().map(word).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn task(limits: &Value, sandbox: &Value) -> TaskObject {
        let task = json!({ "started_at": "2026-01-01T00:00:00.000Z", "limits": limits, "sandbox": sandbox });
        serde_json::from_value(task).unwrap()
    }

    #[test]
    fn what_does_not_hold_is_said_in_capitals() {
        let limits = json!({
            "mem": { "bytes": 2 << 20, "by": "cgroup", "oom_kills": 1 },
            "pids": { "max": 9, "by": "rlimit" }, "cpu": { "percent": 50, "by": null },
        });
        let held = task(&limits, &json!({ "mode": "ro", "enforced": false, "reason": "no Landlock" }));
        assert_eq!(
            limits_line(&held),
            "mem 2.0 MiB (1 killed at it) (whole tree, by its cgroup), pids 9 (beside the user's others, by rlimit), \
             cpu 50% (NOT ENFORCED: no cgroup for it)"
        );
        assert!(sandbox_line(&held).ends_with("NOT ENFORCED, no Landlock"));
        assert_eq!(shortfall(&held).unwrap(), "NOT ENFORCED: cpu 50%, sandbox ro (no Landlock)");
        let whole = task(&json!(null), &json!({ "mode": "cwd", "enforced": true, "landlock_abi": 7 }));
        assert_eq!((shortfall(&whole), limits_line(&whole)), (None, String::new()));
        assert!(sandbox_line(&whole).contains("Landlock 7"));
        let waiting = TaskObject { started_at: None, ..held };
        assert_eq!(shortfall(&waiting), None, "nobody knows before it has started");
        assert!(!limits_line(&waiting).contains("NOT"));
    }

    #[test]
    fn what_will_hold_less_is_foreseen() {
        let all = Limits::parse("mem=1G,pids=9,cpu=50%").unwrap();
        let daemon = |cgroup: &[&str], rlimit: &[&str]| {
            let [cgroup_limits, rlimit_limits] =
                [cgroup, rlimit].map(|names| names.iter().map(|name| (*name).to_owned()).collect());
            StatusObject { cgroup_limits, rlimit_limits, ..StatusObject::default() }
        };
        assert_eq!(foreseen(&all, &daemon(&["mem", "pids", "cpu"], &["mem"])), None);
        let said = foreseen(&all, &daemon(&[], &["mem"])).unwrap();
        assert!(said.contains("mem only of each process") && said.ends_with("pids and cpu not at all"), "{said}");
        assert!(foreseen(&all, &daemon(&[], &["mem", "pids"])).unwrap().contains("other processes, cpu not at all"));
        assert_eq!(foreseen(&Limits::default(), &daemon(&[], &[])), None);
    }

    #[test]
    fn each_limit_has_a_layer_or_nothing() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let line = |cgroup: &[&str], rlimit: &[&str]| layers_line(&layers(&[cgroup, rlimit].map(names)));
        assert_eq!(line(&[], &["mem"]), "mem by rlimit (of each process by itself), pids by NOTHING, cpu by NOTHING");
        assert!(line(&[], &["mem", "pids"]).contains("pids by rlimit (beside the user's others), cpu by NOTHING"));
        let whole =
            "mem by cgroup (of the whole tree), pids by cgroup (of the whole tree), cpu by cgroup (of the whole tree)";
        assert_eq!(line(&["mem", "pids", "cpu"], &["mem"]), whole);
    }
}
