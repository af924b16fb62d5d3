//! Homes of earlier versions: each opens, nothing that was true in it has changed, and it goes on. `tests/homes/make` has
//! made them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::World;

/// The homes that were kept, the oldest first.
fn homes() -> Vec<PathBuf> {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/homes");
    let mut homes: Vec<PathBuf> = fs::read_dir(all).unwrap().map(|entry| entry.unwrap().path()).collect();
    homes.retain(|path| path.is_dir());
    homes.sort();
    homes
}

/// Copies a home as its owner would have it.
fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    fs::set_permissions(to, fs::Permissions::from_mode(0o700)).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).unwrap();
            fs::set_permissions(&target, fs::Permissions::from_mode(0o600)).unwrap();
        }
    }
}

/// By name, how each of them ended: state, reason, exit code.
fn ends() -> Vec<(&'static str, Value)> {
    vec![
        ("packed", json!(["exited", null, 4])),
        ("exited", json!(["exited", null, 3])),
        ("heard", json!(["exited", null, 0])),
        ("signaled", json!(["signaled", null, null])),
        ("split", json!(["exited", null, 5])),
        ("long", json!(["exited", null, 6])),
        ("absent", json!(["start_failed", "not_found", null])),
        ("limited", json!(["timed_out", "wall", null])),
        ("killed", json!(["killed", "request", null])),
        ("service", json!(["lost", "reboot", null])),
        ("running", json!(["lost", "reboot", null])),
        ("queued", json!(["lost", "reboot", null])),
    ]
}

#[test]
fn the_home_of_every_version_of_the_layout_is_kept() {
    let known = ringback_host::store::VERSION;
    let kept = homes().iter().any(|home| home.ends_with(format!("v{known}")));
    assert!(kept, "run crates/ringback/tests/homes/make for version {known} of the layout, and commit what it makes");
}

#[test]
fn a_home_of_an_earlier_version_opens_and_says_what_was_true_in_it() {
    for home in homes() {
        let what = home.display().to_string();
        let world = World::new();
        copy(&home, world.home());
        let removed = fs::read_to_string(world.home().join("removed")).unwrap();
        let list = world.look(&["ps", "-a", "--all-sessions", "--json"]).ok().json();
        let tasks = list["tasks"].as_array().unwrap();
        let told =
            |name: &str| tasks.iter().find(|task| task["name"] == name).unwrap_or_else(|| panic!("{what}: {name}"));
        for (name, end) in ends() {
            let task = told(name);
            assert_eq!(json!([task["state"], task["reason"], task["exit_code"]]), end, "{what}: {name}: {task:#}");
        }
        assert_eq!(tasks.len(), ends().len(), "{what}");
        let id = |name: &str| told(name)["id"].as_str().unwrap();
        for (name, output) in
            [("packed", "packed\n"), ("exited", "hello\nthere\n"), ("running", "begun\n"), ("killed", "alive\n")]
        {
            assert_eq!(world.look(&["logs", "--raw", id(name)]).ok().text(), output, "{what}: {name}");
        }
        assert_eq!(world.look(&["logs", "--stderr", "--raw", id("split")]).ok().text(), "err\n", "{what}");
        assert_eq!(world.show(id("exited"))["binding"], json!({"call": 7}), "{what}");
        assert_eq!(world.show(id("killed"))["cleanup"]["verified_empty"], true, "{what}");
        assert!(world.show(id("long"))["command"]["script"].as_str().unwrap().ends_with("\nexit 6"), "{what}");
        let expired = world.look(&["show", removed.trim()]);
        assert!(expired.err.contains("has expired"), "{what}: {expired:?}");

        // What was heard then is not told again, and the rest still is, with what came to an end meanwhile.
        let inbox = world.inbox("s1");
        let heard: Vec<&str> = inbox.iter().map(|notice| notice["task"].as_str().unwrap()).collect();
        assert_eq!(inbox.len(), 11, "{what}: {inbox:#?}");
        assert!(!heard.contains(&id("heard")) && inbox.iter().any(|notice| notice["kind"] == "tool_match"), "{what}");
        let seqs: Vec<u64> = inbox.iter().map(|notice| notice["seq"].as_u64().unwrap()).collect();
        assert!(seqs.is_sorted() && seqs.last() == Some(&13), "{what}: {seqs:?}");
        assert_eq!(world.inbox("s2").len(), 1, "{what}");

        // And it goes on.
        let retried = world.rb(&["retry", "-q", id("exited")]).ok().text();
        assert_eq!(world.end(retried.trim())["exit_code"], 3, "{what}");
        world.kill_daemon();
        assert_eq!(world.end(&world.sh("exit 9"))["exit_code"], 9, "{what}");
        assert_eq!(world.show(id("packed"))["exit_code"], 4, "{what}");
    }
}
