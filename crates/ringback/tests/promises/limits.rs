//! What ends a task that grew too large, and what is known of one that was stopped or whose keeper died.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::support::{World, machine};

#[test]
fn an_output_over_its_cap_ends_the_task_where_that_is_the_policy() {
    let world = World::new();
    let args = ["--max-output", "64KiB", "--output-policy", "kill", "--grace", "1s", "-c", "yes"];
    let id = world.run(&args);
    let task = world.end(&id);
    assert_eq!((&task["state"], &task["reason"]), (&"killed".into(), &"output_limit".into()), "{task:#}");
    assert_eq!((&task["exit_code"], &task["output"]["policy"]), (&Value::Null, &"kill".into()));
    assert_eq!(task["cleanup"]["reason"], "output_limit", "{task:#}");
    let text = world.inbox(crate::support::MINE)[0]["text"].as_str().unwrap().to_owned();
    assert!(text.contains("output"), "{text}");
}

#[test]
fn recording_stops_at_the_cap_where_that_is_the_policy_and_the_task_runs_on() {
    let world = World::new();
    let args = ["--max-output", "10000", "--output-policy", "stop-recording", "-c", "seq 1 10000; exit 6"];
    let id = world.run(&args);
    let task = world.end(&id);
    assert_eq!((&task["state"], &task["exit_code"]), (&"exited".into(), &6.into()), "{task:#}");
    let all: String = (1..=10_000).map(|n| n.to_string() + "\n").collect();
    assert_eq!(world.output(&id), all.as_bytes()[..10_000]);
    assert_eq!(task["output"]["gaps"], serde_json::json!([[10_000, all.len(), "output_limit"]]), "{task:#}");
    assert_eq!(world.end(&world.sh("exit 2"))["exit_code"], 2);
    let wrong = world.rb(&["run", "--output-policy", "perhaps", "--", "true"]);
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
}

#[test]
fn time_that_was_paused_is_told_apart() {
    let world = World::new();
    let (ready, go) = (world.fifo("ready"), world.fifo("go"));
    let id = world.sh(&format!("echo up > {}; read x < {}; kill -STOP $$; exit 3", ready.word(), go.word()));
    ready.line();
    assert_eq!(world.show(&id)["paused_ms"], 0);
    let main = i32::try_from(world.show(&id)["pid"].as_i64().unwrap()).unwrap();
    go.release(1);
    machine::until("it is stopped", || machine::proc_file_text(main, "stat").contains(") T "));
    machine::until("the pause is seen", || world.show(&id)["paused_ms"].as_u64() >= Some(50));
    world.look(&["kill", "--signal", "CONT", &id]).ok();
    let task = world.end(&id);
    let (paused, took) = (task["paused_ms"].as_u64().unwrap(), task["duration_ms"].as_u64().unwrap());
    assert_eq!(task["exit_code"], 3, "{task:#}");
    assert!((50..=took).contains(&paused), "{task:#}");
    assert!(task["usage"]["max_rss_bytes"].as_u64() > Some(0), "{task:#}");
}

#[test]
fn what_nobody_saw_after_the_death_of_a_keeper_is_null_and_not_zero() {
    let world = World::new();
    let (ready, go) = (world.fifo("ready"), world.fifo("go"));
    let id = world.sh(&format!("echo up > {}; read x < {}; exit 3", ready.word(), go.word()));
    ready.line();
    machine::kill(world.keeper(&id).expect("a keeper"));
    go.release(1);
    let task = world.end(&id);
    assert_eq!((&task["exit_code"], &task["usage"], &task["paused_ms"]), (&3.into(), &Value::Null, &Value::Null));
    assert!(world.look(&["show", &id]).code == Some(0) && world.look(&["stats", "--json"]).code == Some(0));
}

/// A memory cgroup of little room that a command can go into: of version 1, or of version 2 where the controller is on.
struct LittleRoom(PathBuf);

impl LittleRoom {
    fn make() -> Option<Self> {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap();
        let line = own.lines().find_map(|line| line.split_once(":memory:"))?;
        let folder = PathBuf::from(format!("/sys/fs/cgroup/memory{}/room-{}", line.1, std::process::id()));
        if let Err(error) = fs::create_dir(&folder) {
            eprintln!("no memory cgroup here: {error}");
            return None;
        }
        let room = Self(folder);
        fs::write(room.0.join("memory.limit_in_bytes"), "24M").ok()?;
        Some(room)
    }
}

impl Drop for LittleRoom {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn a_process_that_the_kernel_killed_for_want_of_memory_is_told_as_that() {
    let Some(room) = LittleRoom::make() else { return };
    if fs::File::open("/dev/kmsg").is_err() {
        return;
    }
    let world = World::new();
    let enter = format!("echo $$ > {}/cgroup.procs", room.0.display());
    let id = world.sh(&format!("{enter}; exec tail -c +1 /dev/zero | tail > /dev/null"));
    let piped = world.end(&id);
    // A child was killed, not the main process: no word of it.
    assert_ne!(piped["reason"], "oom", "{piped:#}");
    let id = world.sh(&format!("{enter}; exec tail /dev/zero"));
    let task = world.end(&id);
    let told = (&task["state"], &task["reason"], &task["signal"]);
    assert_eq!(told, (&"signaled".into(), &"oom".into(), &"SIGKILL".into()), "{task:#}");
    assert_eq!(world.look(&["wait", &id]).code, Some(128 + 9));
    // Somebody else's SIGKILL is not the kernel's.
    let id = world.sh("kill -9 $$");
    let task = world.end(&id);
    assert_eq!((&task["state"], &task["reason"]), (&"signaled".into(), &Value::Null), "{task:#}");
}
