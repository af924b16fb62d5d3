//! What report files said is kept with the task that wrote them, whoever looks, and whatever comes after.

use std::fs;

use serde_json::{Value, json};

use crate::support::{World, machine};

fn report(failed: &str) -> String {
    format!(
        "<testsuite><testcase name='fine'/><testcase name='{failed}'><failure message='no'/></testcase></testsuite>"
    )
}

/// A run that writes this report into the folder of the clients, as a runner of tests does.
fn run(world: &World, failed: &str) -> String {
    world.sh(&format!("echo \"{}\" > junit.xml; exit 1", report(failed)))
}

/// Waits until the findings of a task are there.
fn until_kept(world: &World, id: &str) {
    machine::until_there(&world.folder(id).join("findings"));
}

fn results(world: &World, id: &str) -> Value {
    world.look(&["results", "--json", id]).ok().json()
}

#[track_caller]
fn check(world: &World, id: &str, failed: &str, kept: bool, file: &str) {
    let found = results(world, id);
    assert_eq!((&found["counts"][0]["failed"], &found["counts"][0]["passed"]), (&1.into(), &1.into()), "{found:#}");
    assert_eq!((&found["tests"][0]["name"], &found["tests"][0]["source"]), (&failed.into(), &"JUnit".into()));
    let source = &found["reports"][0];
    assert_eq!((&source["path"], &source["kept"], &source["file"]), (&"junit.xml".into(), &kept.into(), &file.into()));
    assert!(source["written_at"].as_str().is_some_and(|at| at.ends_with('Z')), "{source}");
}

#[test]
fn what_a_report_said_outlives_the_file_and_the_next_run() {
    let world = World::new();
    let first = run(&world, "one");
    world.end(&first);
    until_kept(&world, &first);
    check(&world, &first, "one", true, "same");
    let second = run(&world, "two");
    world.end(&second);
    until_kept(&world, &second);
    check(&world, &first, "one", true, "changed");
    check(&world, &second, "two", true, "same");
    fs::remove_file(world.work("junit.xml")).unwrap();
    world.kill_daemon();
    check(&world, &first, "one", true, "gone");
    check(&world, &second, "two", true, "gone");
    let page = world.look(&["results", &first]).ok().text();
    assert!(
        page.contains("read from junit.xml, written ") && page.contains("kept when the task ended, and gone since")
    );
    let digest = world.look(&["logs", "--digest", &first]).ok().text();
    assert!(digest.contains("1 passed, 1 failed (JUnit)") && digest.contains("  one  no"), "{digest}");
    world.rb(&["rm", &first]).ok();
    machine::until_removed(&world.folder(&first));
}

#[test]
fn a_report_is_kept_although_the_daemon_was_dead_when_the_task_ended() {
    let world = World::new();
    let go = world.fifo("go");
    let script = format!("read x < {}; echo \"{}\" > junit.xml", go.word(), report("late"));
    let id = world.sh(&script);
    go.release(1);
    world.kill_daemon();
    if let Some(keeper) = world.keeper(&id) {
        machine::until_gone(keeper);
    }
    world.end(&id);
    until_kept(&world, &id);
    fs::write(world.work("junit.xml"), report("other")).unwrap();
    check(&world, &id, "late", true, "changed");
}

#[test]
fn a_daemon_that_died_before_it_looked_is_made_up_for() {
    let world = World::new();
    let mut daemon = world.start_daemon(&[("RINGBACK_CRASH", "daemon.before-collect")]).unwrap();
    let id = run(&world, "one");
    machine::until_gone(machine::pid_of(&daemon));
    daemon.wait().unwrap();
    assert!(!world.folder(&id).join("findings").exists());
    world.end(&id);
    until_kept(&world, &id);
    fs::remove_file(world.work("junit.xml")).unwrap();
    check(&world, &id, "one", true, "gone");
}

#[test]
fn what_was_kept_stays_where_small_outputs_are_packed_and_counts_as_disk() {
    let world = World::new();
    world.configure("pack_after = '20ms'");
    // In a folder of its own: a report that is written by another task meanwhile is taken for its.
    let other = world.work("other");
    fs::create_dir(&other).unwrap();
    let elsewhere = || world.run(&["-C", other.to_str().unwrap(), "-c", "exit 3"]);
    let plain = elsewhere();
    let id = run(&world, "one");
    world.end(&id);
    world.end(&plain);
    // The other one is packed later, and so this one was looked at.
    machine::until_removed(&world.folder(&plain));
    until_kept(&world, &id);
    fs::remove_file(world.work("junit.xml")).unwrap();
    let last = elsewhere();
    world.end(&last);
    machine::until_removed(&world.folder(&last));
    check(&world, &id, "one", true, "gone");
    assert_eq!(world.show(&id)["output"]["packed"], false);
    let size = fs::metadata(world.folder(&id).join("findings")).unwrap().len();
    let stats = world.look(&["stats", "--json"]).ok().json();
    assert!(stats["kept_bytes"].as_u64() >= Some(size + 4 * 4096), "{stats:#}");
    let freed = world.rb(&["rm", &id, "--json"]).ok().json();
    assert!(freed["bytes"].as_u64() >= Some(size + 3 * 4096), "{freed:#}");
}

#[test]
fn a_report_that_was_written_anew_before_anybody_looked_is_not_believed() {
    let world = World::new();
    // The name stands in the output, the file comes from elsewhere and later.
    let id = world.sh("echo generated xml file: results.xml");
    world.end(&id);
    let file = world.work("results.xml");
    fs::write(&file, report("strange")).unwrap();
    // Well after its end, as the clock of the files has it.
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(5);
    fs::File::options().write(true).open(&file).unwrap().set_modified(later).unwrap();
    let found = results(&world, &id);
    assert_eq!((&found["recognised"], &found["tests"]), (&false.into(), &json!([])), "{found:#}");
    let note = found["notes"][0]["text"].as_str().unwrap_or_default();
    assert_eq!(note, "the report results.xml was written after this task had ended, and is not believed");
}
