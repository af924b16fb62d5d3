//! What holds a task back: limits of its tree and a sandbox, from what was asked to what is really in force.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use ringback_core::spec::{Sandbox, SandboxMode};
use ringback_sys::cgroup::Cgroups;
use ringback_sys::form::spec::TreeLimits;
use ringback_sys::{process, sandbox};

use super::error::fault;
use crate::home::Home;
use crate::limits::{self, Limits};
use crate::store::{Asked, StoredHeld};
use crate::wire::Fault;
use crate::wire::task::{CpuLimitObject, LimitsObject, MemLimitObject, PidsLimitObject, SandboxObject};

/// Refuses a sandbox that could not be put around the command here, or that would hold nothing back.
pub(super) fn check(wanted: Sandbox, cwd: &[u8], home: &Home) -> Result<(), Fault> {
    if !wanted.is_some() {
        return Ok(());
    }
    if let (Err(lack), false) = (sandbox::landlock(), wanted.is_optional) {
        let word = wanted.word();
        return Err(fault(
            "no_sandbox",
            format!("cannot keep the command from writing: {lack}"),
            format!("`--sandbox {word}-if-possible` runs it without what is missing, and says so"),
        ));
    }
    let (cwd, home) = (Path::new(OsStr::from_bytes(cwd)), home.root());
    let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let (inner, outer) = (real(home), real(cwd));
    if wanted.mode == SandboxMode::Directory && (inner.starts_with(&outer) || outer.starts_with(&inner)) {
        return Err(fault(
            "wide_sandbox",
            format!(
                "a sandbox around {} holds nothing back: what ringback runs and believes is in reach ({})",
                cwd.display(),
                home.display()
            ),
            "run it in a folder below, with `--cwd DIR`, or use `--sandbox ro`".to_owned(),
        ));
    }
    Ok(())
}

/// The limits for the keeper.
pub(super) fn tree(limit: &Limits) -> TreeLimits {
    TreeLimits {
        memory: limit.mem_bytes.unwrap_or(0),
        processes: limit.pids.unwrap_or(0),
        limits_user: limit.pids.is_some() && process::is_user_limited(),
        cpu_percent: limit.cpu_percent.unwrap_or(0),
    }
}

/// The sandbox of a task. A word of a later version that this one does not know is the strictest there is: what was to be
/// held back never runs free.
pub(super) fn wanted(asked: &Asked) -> Sandbox {
    const STRICTEST: Sandbox = Sandbox { mode: SandboxMode::ReadOnly, is_optional: false };
    if asked.sandbox.is_empty() { Sandbox::default() } else { Sandbox::parse(&asked.sandbox).unwrap_or(STRICTEST) }
}

/// Whether a task has a sandbox, and so temporary files of its own.
pub(super) fn is_sandboxed(asked: &Asked) -> bool {
    wanted(asked).is_some()
}

/// What of the limits cgroups hold here.
pub(super) fn by_cgroup(cgroups: Option<&Cgroups>) -> Vec<String> {
    limits::held_by_cgroup(cgroups.map(Cgroups::controls).unwrap_or_default())
}

/// What everybody sees of it. `held` is what its keeper says, once it has started.
pub(super) fn objects(asked: &Asked, held: Option<&StoredHeld>) -> (Option<LimitsObject>, Option<SandboxObject>) {
    let limit = asked.limit;
    let by = |by: fn(&StoredHeld) -> &Option<String>| held.and_then(|held| by(held).clone());
    let mem_by = by(|held| &held.mem_by);
    let oom_kills = held.filter(|_| mem_by.as_deref() == Some("cgroup")).map(|held| held.oom_kills);
    let limits = LimitsObject {
        mem: limit.mem_bytes.map(|bytes| MemLimitObject { bytes, by: mem_by, oom_kills }),
        pids: limit.pids.map(|max| PidsLimitObject { max, by: by(|held| &held.pids_by) }),
        cpu: limit.cpu_percent.map(|percent| CpuLimitObject { percent, by: by(|held| &held.cpu_by) }),
    };
    let wanted = wanted(asked);
    let sandbox = wanted.is_some().then(|| SandboxObject {
        mode: wanted.mode.word().to_owned(),
        enforced: held.map(|held| held.sandboxed),
        landlock_abi: held.map(|held| held.landlock_abi).filter(|abi| *abi > 0),
        reason: held.filter(|held| !held.sandboxed).map(|held| sandbox::lack_of(held.landlock_abi, held.sandbox_errno)),
    });
    ((!limit.is_empty()).then_some(limits), sandbox)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nothing_holds_is_never_said_to_be_held() {
        let asked = Asked {
            limit: Limits::parse("mem=2M,cpu=50%").unwrap(),
            sandbox: "ro-if-possible".to_owned(),
            ..Asked::default()
        };
        let (limits, sandbox) = objects(&asked, None);
        let (limits, sandbox) = (limits.unwrap(), sandbox.unwrap());
        assert_eq!((limits.mem.unwrap().by, limits.pids, sandbox.enforced), (None, None, None));
        let held = StoredHeld { mem_by: Some("cgroup".to_owned()), oom_kills: 1, landlock_abi: 2, ..<_>::default() };
        let (limits, sandbox) = objects(&asked, Some(&held));
        let (limits, sandbox) = (limits.unwrap(), sandbox.unwrap());
        assert_eq!(limits.mem.unwrap().oom_kills, Some(1));
        assert_eq!((limits.cpu.unwrap().by, sandbox.enforced, sandbox.landlock_abi), (None, Some(false), Some(2)));
        assert!(sandbox.reason.unwrap().contains("shortened"));
        assert_eq!(objects(&Asked::default(), None), (None, None));
        // A word of a later version.
        let later = Asked { sandbox: "cage".to_owned(), ..Asked::default() };
        assert_eq!(objects(&later, None).1.unwrap().mode, "ro");
    }

    #[test]
    fn a_sandbox_around_everything_is_refused() {
        let home = Home::at("/somewhere/deep/home").unwrap();
        let optional = |mode| Sandbox { mode, is_optional: true };
        for cwd in ["/", "/somewhere", "/somewhere/deep/home", "/somewhere/deep/home/bin", "/somewhere/deep/home/t/ab"]
        {
            let fault = check(optional(SandboxMode::Directory), cwd.as_bytes(), &home).unwrap_err();
            assert_eq!(fault.code, "wide_sandbox");
        }
        assert!(check(optional(SandboxMode::Directory), b"/somewhere/else", &home).is_ok());
        assert!(check(optional(SandboxMode::ReadOnly), b"/", &home).is_ok());
    }
}
