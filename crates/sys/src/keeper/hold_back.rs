//! What holds the command back: limits of its tree, and a sandbox around what it may write.
//!
//! All of it is in force before the gate, so nothing of the command ever runs without it; what could not be had is
//! recorded, and never said to hold.

use core::ffi::CStr;

use super::{cgroup, procfs};
use crate::form::record::{By, Held};
use crate::form::spec::{Head, LANDLOCK_WHOLE, Sandbox, TreeLimits};
use crate::raw::{Errno, Fd, Result, file, landlock, process};

/// Private writable memory of one process, data segment and private mappings (getrlimit(2)).
const RLIMIT_DATA: usize = 2;
/// Processes and threads of one user.
const RLIMIT_NPROC: usize = 6;
/// What every program expects to be able to write to, and where nothing is kept.
const DEVICES: [&CStr; 7] =
    [c"/dev/null", c"/dev/zero", c"/dev/full", c"/dev/random", c"/dev/urandom", c"/dev/tty", c"/dev/ptmx"];

/// What `held` says of the limits, once the cgroup of the task has those that it can have; for the keeper, before its child.
pub(super) fn limit_cgroup(limits: &TreeLimits) -> Held {
    let TreeLimits { memory, processes, cpu_percent, .. } = *limits;
    let mut held = Held::default();
    if memory != 0 && cgroup::set(c"memory.max", &[memory]).is_ok() {
        held.memory = By::Cgroup;
        // Else it would go on into swap. Where there is none, there is no such file.
        let _ = cgroup::set(c"memory.swap.max", &[0]);
    }
    if processes != 0 && cgroup::set(c"pids.max", &[processes]).is_ok() {
        held.processes = By::Cgroup;
    }
    if cpu_percent != 0 && cgroup::set(c"cpu.max", &cpu_quota(cpu_percent)).is_ok() {
        held.cpu = By::Cgroup;
    }
    held
}

/// Microseconds of CPU time in a period of microseconds (cgroup-v2.rst, `cpu.max`).
fn cpu_quota(percent: u64) -> [u64; 2] {
    const PERIOD_US: u64 = 100_000;
    [percent.saturating_mul(PERIOD_US / 100), PERIOD_US]
}

/// What no cgroup limits is limited by the kernel's own means, where it has some; for the child.
pub(super) fn limit_process(limits: &TreeLimits, held: &mut Held) {
    let lowered = |wanted: u64, by: By, resource: usize| {
        wanted != 0 && by == By::Nobody && process::lower_limit(resource, wanted).is_ok()
    };
    if lowered(limits.memory, held.memory, RLIMIT_DATA) {
        held.memory = By::Rlimit;
    }
    // Only where nothing else limits them: for this, every process is looked at.
    let of_user = if held.processes == By::Nobody { processes_of_user(limits) } else { 0 };
    if lowered(of_user, held.processes, RLIMIT_NPROC) {
        held.processes = By::Rlimit;
    }
}

/// How many processes the user may have in all: what he has now, and the limit; 0 where that is not limited or not known.
fn processes_of_user(limits: &TreeLimits) -> u64 {
    if limits.processes == 0 || !limits.limits_user {
        return 0;
    }
    // This process is one of his, and the first of the task.
    procfs::processes_of_user().map_or(0, |present| present.saturating_sub(1).saturating_add(limits.processes))
}

/// The folder for temporary files of a task with a sandbox; to be opened before its working directory is entered.
pub(super) fn own_folder(head: &Head) -> Result<Option<Fd>> {
    if head.sandbox == Sandbox::None {
        return Ok(None);
    }
    file::open(c"tmp", file::flag::PATH | file::flag::NOFOLLOW).map(Some)
}

/// Puts this process into its sandbox: stdio and the working directory are what the command gets.
pub(super) fn enter_sandbox(wanted: &Head, place: Option<&Fd>, held: &mut Held) -> Result<()> {
    if wanted.sandbox == Sandbox::None {
        return Ok(());
    }
    let entered = landlock::abi().and_then(|abi| {
        if abi < LANDLOCK_WHOLE && !wanted.sandbox_optional {
            return Err(Errno::EOPNOTSUPP);
        }
        restrict(wanted.sandbox, place, abi).map(|()| abi)
    });
    match entered {
        Ok(abi) => {
            held.landlock_abi = u8::try_from(abi).unwrap_or(u8::MAX);
            held.sandboxed = abi >= LANDLOCK_WHOLE;
            Ok(())
        }
        Err(error) if wanted.sandbox_optional => {
            held.sandbox_errno = error.0;
            Ok(())
        }
        Err(error) => Err(error),
    }
}

fn restrict(sandbox: Sandbox, folder: Option<&Fd>, abi: u32) -> Result<()> {
    let (in_folders, on_files) = (landlock::access::writing(abi), landlock::access::on_files(abi));
    let ruleset = landlock::ruleset(abi)?;
    for path in DEVICES {
        // A container may have few of them.
        if let Ok(device) = file::open(path, file::flag::PATH) {
            landlock::allow(&ruleset, &device, on_files)?;
        }
    }
    // Opened again by name (`/dev/stdout`) they are what they are now.
    for number in 0..=2 {
        landlock::allow_number(&ruleset, number, on_files)?;
    }
    if let Some(folder) = folder {
        landlock::allow(&ruleset, folder, in_folders)?;
    }
    if sandbox == Sandbox::Directory {
        let here = file::open(c".", file::flag::PATH)?;
        landlock::allow(&ruleset, &here, in_folders)?;
    }
    landlock::give_up_privileges()?;
    landlock::mark()?;
    landlock::restrict(&ruleset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_processor_is_half_of_each_period() {
        assert_eq!(
            (cpu_quota(50), cpu_quota(250), cpu_quota(1)),
            ([50_000, 100_000], [250_000, 100_000], [1000, 100_000])
        );
    }
}
