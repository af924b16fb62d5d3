//! What holds a command back is in force before its first instruction, and is never said to be where it is not.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its task has failed")]

mod support;

use std::fs;
use std::path::Path;

use ringback_sys::form::record::{By, Held, Phase, Record, Step};
use ringback_sys::form::spec::{Sandbox, TreeLimits};
use ringback_sys::sandbox;
use support::{Order, Task, code};

/// The version of Landlock here; else a test says so and has nothing to show.
fn landlock() -> Option<u32> {
    sandbox::landlock().inspect_err(|lack| eprintln!("no sandbox here: {lack}")).ok()
}

/// A task with a sandbox and the folder for temporary files that its keeper expects.
fn sandboxed(script: &str, sandbox: Sandbox, optional: bool, directory: &Path) -> Task {
    let mut order = Order::sh(script).with(|head| (head.sandbox, head.sandbox_optional) = (sandbox, optional));
    directory.to_str().unwrap().clone_into(&mut order.directory);
    let task = order.prepare();
    fs::create_dir(task.folder.join("tmp")).unwrap();
    task
}

/// From here on this thread, and what it starts, is answered that there is no Landlock (ENOSYS).
fn without_landlock() {
    const LANDLOCK_CREATE_RULESET: u32 = 444;
    let op = |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter { code: code.try_into().unwrap(), jt, jf, k };
    let mut filter = [
        // The number of the call is the first word that a filter sees (`struct seccomp_data`).
        op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, LANDLOCK_CREATE_RULESET),
        op(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned()),
        op(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: 4, filter: filter.as_mut_ptr() };
    // SAFETY: plain numbers, then a program that lives until the call is over.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program), 0);
    }
}

#[test]
fn a_command_writes_only_where_its_sandbox_lets_it() {
    let Some(abi) = landlock() else { return };
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("old"), "old").unwrap();
    for (sandbox, expected) in [(Sandbox::Directory, "here"), (Sandbox::ReadOnly, "")] {
        let here = tempfile::tempdir().unwrap();
        fs::create_dir(here.path().join("a")).unwrap();
        fs::create_dir(here.path().join("b")).unwrap();
        let script = format!(
            "exec 3>&1
             try() {{ eval \"$1\" 2>/dev/null && echo \"$2\" >&3; }}
             try 'echo x > {0}/new' 'outside: made'
             try 'echo x >> {0}/old' 'outside: written'
             try 'truncate -s 0 {0}/old' 'outside: shortened'
             try 'rm {0}/old' 'outside: removed'
             try 'mkdir {0}/folder' 'outside: folder'
             try 'ln {0}/old a/link' 'outside: linked'
             try 'mv {0}/old a/moved' 'outside: moved'
             try 'kill -0 $PPID' 'outside: signalled'
             try 'echo x > a/x && mv a/x b/y && rm b/y' here
             cat {0}/old && echo
             own=$(dirname $(readlink /proc/$$/fd/1))
             try 'echo x > $own/state' 'outside: record'
             echo x > $own/tmp/x && cat $own/tmp/x
             echo x > /dev/null && echo by name > /dev/stdout && echo end",
            outside.path().display()
        );
        let mut task = sandboxed(&script, sandbox, false, here.path());
        task.spawn(false);
        let record = task.wait_closed();
        assert_eq!(record.held, Held { landlock_abi: abi.try_into().unwrap(), sandboxed: true, ..Held::default() });
        let output = task.text();
        assert!(!output.contains("outside"), "{output}");
        assert!(output.contains("old\n") && output.ends_with("by name\nend\n"), "{output}");
        assert_eq!(output.contains("here\n"), expected == "here", "{output}");
        assert_eq!(fs::read(outside.path().join("old")).unwrap(), b"old");
    }
}

#[test]
fn a_sandbox_holds_for_what_the_command_starts_and_shows() {
    if landlock().is_none() {
        return;
    }
    let here = tempfile::tempdir().unwrap();
    let script = "grep -E '^(NoNewPrivs|Seccomp_filters)' /proc/self/status
                  setsid sh -c 'echo x > /tmp/surely-not-$$' 2>/dev/null || echo refused";
    let own = fs::read_to_string("/proc/self/status").unwrap();
    let filters = own.lines().find_map(|line| line.strip_prefix("Seccomp_filters:")).unwrap().trim();
    let mut task = sandboxed(script, Sandbox::Directory, false, here.path());
    task.spawn(false);
    assert_eq!(code(&task.wait_closed()), Some(0));
    let more = filters.parse::<u32>().unwrap() + 1;
    assert_eq!(task.text(), format!("NoNewPrivs:\t1\nSeccomp_filters:\t{more}\nrefused\n"));
}

#[test]
fn without_landlock_a_command_that_needs_it_never_runs_and_another_is_not_said_to_be_held() {
    let here = tempfile::tempdir().unwrap();
    without_landlock();
    let [mut strict, mut loose] = [false, true].map(|optional| {
        let script = format!("echo ran > {}/ran", here.path().display());
        sandboxed(&script, Sandbox::ReadOnly, optional, Path::new("/"))
    });
    strict.spawn(false);
    let record = strict.wait_closed();
    assert_eq!((record.phase, record.step, record.errno), (Phase::StartFailed, Step::Sandbox, libc::ENOSYS));
    assert!(!here.path().join("ran").exists());
    loose.spawn(false);
    let record = loose.wait_closed();
    assert_eq!(code(&record), Some(0));
    assert_eq!(record.held, Held { sandbox_errno: libc::ENOSYS, ..Held::default() });
    assert!(here.path().join("ran").exists());
}

fn limits() -> TreeLimits {
    TreeLimits { memory: 48 << 20, processes: 64, limits_user: true, cpu_percent: 50 }
}

#[test]
fn without_a_cgroup_limits_are_the_kernels_own_and_cannot_be_taken_back() {
    let script = "grep -E 'data size|Max processes' /proc/self/limits; tail /dev/zero";
    let task = Order::sh(script).with(|head| head.tree = limits()).start();
    let record = task.wait_closed();
    assert_eq!(record.held, Held { memory: By::Rlimit, processes: By::Rlimit, ..Held::default() });
    let words: Vec<String> = task.text().split_whitespace().map(str::to_owned).collect();
    assert_eq!(words[..6].join(" "), format!("Max data size {0} {0} bytes", 48 << 20), "{words:?}");
    let number = |at: usize| words[at].parse::<u64>().unwrap();
    assert_eq!(words[6..8].join(" "), "Max processes", "{words:?}");
    // Those of this user are this process and its keeper at least, and then the 64.
    assert!(number(8) > 64 + 1 && number(8) == number(9), "{words:?}");
    assert_eq!(code(&record), Some(1), "it had no more memory, and said so: {words:?}");
    let plain = Order::sh("true").start().wait_closed();
    assert_eq!((plain.held, plain.oom_kills), (Held::default(), 0));
}

#[test]
fn a_cgroup_with_controllers_takes_the_limits_and_then_nothing_else_does() {
    // A folder with the files that the kernel makes where the controllers are on; they cannot be switched on everywhere.
    let folder = tempfile::tempdir().unwrap();
    let run = |files: &[&str]| -> Record {
        let cgroup = folder.path().join(files.len().to_string());
        fs::create_dir(&cgroup).unwrap();
        for file in files.iter().chain(&["cgroup.procs"]) {
            fs::write(cgroup.join(file), "").unwrap();
        }
        let mut task = Order::sh("true").with(|head| head.tree = limits()).prepare();
        task.cgroup = Some(cgroup);
        task.spawn(false);
        task.wait_closed()
    };
    let all = run(&["memory.max", "memory.swap.max", "pids.max", "cpu.max"]);
    let held = Held { memory: By::Cgroup, processes: By::Cgroup, cpu: By::Cgroup, ..Held::default() };
    assert_eq!(all.held, held);
    let read = |file: &str| fs::read_to_string(folder.path().join("4").join(file)).unwrap();
    assert_eq!((read("memory.max"), read("memory.swap.max")), ((48 << 20).to_string(), "0".to_owned()));
    assert_eq!((read("pids.max"), read("cpu.max")), ("64".to_owned(), "50000 100000".to_owned()));
    let some = run(&["pids.max"]);
    assert_eq!(some.held, Held { memory: By::Rlimit, processes: By::Cgroup, ..Held::default() });
}
