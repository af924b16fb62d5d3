//! Errands: what may take long, or could be harmed by what it reads, our own program does in a process beside the daemon.

use std::io::{self, Seek as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use ringback_sys::files;

/// Our own program with this verb of `daemon` and this job on its stdin, in a process group of its own and with nobody
/// who hears it.
///
/// The path is read before the exec, so it is the version that runs, even if another was installed over it. It stands in
/// `/` as we do: given a folder, the standard library would copy this process where it is linked statically.
pub(super) fn errand(verb: &str, job: &[u8]) -> io::Result<Command> {
    let mut stdin = files::memory(verb)?;
    stdin.write_all(job)?;
    stdin.rewind()?;
    let mut program = Command::new("/proc/self/exe");
    program.args(["daemon", verb]).env_remove("RINGBACK_ID").process_group(0);
    program.stdin(stdin).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(program)
}
