//! What a task is held to: limits of its tree and a sandbox, in force from the first instruction, or said not to be.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{World, finish, id_of, machine, stranger};

/// What of `mem`, `pids` and `cpu` cgroups hold in this world.
fn by_cgroup(world: &World) -> Vec<String> {
    world.end(&world.run(&["true"]));
    let status = world.look(&["daemon", "status", "--json"]).ok().json();
    let held: Vec<String> = serde_json::from_value(status["cgroup_limits"].clone()).unwrap();
    if held.len() < 3 {
        eprintln!("cgroups hold no more than {held:?} here");
    }
    held
}

/// Whether there is Landlock here; else a test says so and has nothing to show.
fn landlock() -> bool {
    ringback_sys::sandbox::landlock().inspect_err(|lack| eprintln!("no sandbox here: {lack}")).is_ok()
}

#[test]
fn each_limit_says_what_holds_it_and_a_retry_keeps_them() {
    let world = World::new();
    let held = by_cgroup(&world);
    let by = |name: &str, else_by: Option<&str>| {
        if held.iter().any(|held| held == name) { json!("cgroup") } else { json!(else_by) }
    };
    let limited = ringback_sys::process::is_user_limited();
    let said =
        world.rb(&["run", "--limit", "mem=64MiB,pids=100,cpu=50%", "--", "grep", "Max data", "/proc/self/limits"]).ok();
    let id = id_of(&said);
    let task = world.end(&id);
    let limits = task["limits"].clone();
    assert_eq!((&limits["mem"]["bytes"], &limits["mem"]["by"]), (&json!(64 << 20), &by("mem", Some("rlimit"))));
    let pids = by("pids", limited.then_some("rlimit"));
    assert_eq!(limits["pids"], json!({ "max": 100, "by": pids }), "{task:#}");
    assert_eq!(limits["cpu"], json!({ "percent": 50, "by": by("cpu", None) }), "{task:#}");
    let page = world.look(&["show", &id]).ok().text();
    let loose = limits["cpu"]["by"].is_null();
    assert_eq!(page.contains("cpu 50% (NOT ENFORCED"), loose, "{page}");
    assert_eq!(said.err.contains("cpu"), loose, "run says it too: {}", said.err);
    if limits["mem"]["by"] == "rlimit" {
        let output = String::from_utf8(world.output(&id)).unwrap();
        assert_eq!(output.matches(&(64 << 20).to_string()).count(), 2, "soft and hard: {output}");
    }
    let again = world.end(&id_of(&world.rb(&["retry", &id]).ok()));
    assert_eq!(again["limits"], limits, "{again:#}");
    assert_eq!(world.end(&world.run(&["true"]))["limits"], Value::Null);
}

#[test]
fn the_config_limits_what_names_no_limit() {
    let world = World::new();
    world.configure("limit = 'mem=64MiB,cpu=50%'\n");
    let task = world.end(&world.run(&["--limit", "cpu=none", "--", "true"]));
    assert_eq!((&task["limits"]["mem"]["bytes"], &task["limits"]["cpu"]), (&json!(64 << 20), &Value::Null), "{task:#}");
    world.kill_daemon();
    world.configure("limit = 'mem=lots'\n");
    let refused = world.rb(&["run", "true"]);
    assert!(refused.code == Some(125) && refused.err.contains("mem=512MiB"), "{refused:?}");
}

#[test]
fn a_task_that_wants_more_memory_than_its_limit_ends_and_harms_nobody() {
    let world = World::new();
    let in_cgroup = by_cgroup(&world).contains(&"mem".to_owned());
    let task = world.end(&world.run(&["--limit", "mem=48MiB", "--", "tail", "/dev/zero"]));
    if in_cgroup {
        assert_eq!((&task["state"], &task["reason"]), (&json!("signaled"), &json!("oom")), "{task:#}");
        assert!(task["limits"]["mem"]["oom_kills"].as_u64() > Some(0), "{task:#}");
    } else {
        assert_eq!((&task["state"], &task["exit_code"]), (&json!("exited"), &json!(1)), "{task:#}");
        assert_eq!(task["reason"], Value::Null, "nobody killed it: {task:#}");
    }
    assert!(task["usage"]["max_rss_bytes"].as_u64() < Some(200 << 20), "{task:#}");
}

#[test]
fn a_task_that_forks_without_end_is_held_at_its_limit() {
    let world = World::new();
    // It ends by itself: dash gives up when it cannot fork.
    let script = "i=0; while [ $i -lt 40 ]; do sleep 20 & i=$((i+1)); done; echo all";
    let args = ["run", "--leftovers", "kill", "--grace", "0", "--shell", "dash", "--limit", "pids=20", "-c", script];
    let mut words = vec![env!("CARGO_BIN_EXE_ringback").to_owned()];
    // Against root the kernel holds no such limit (setrlimit(2)).
    if machine::is_root() {
        if !stranger::has_stranger() {
            return;
        }
        let program = stranger::hand_over(&world, stranger::STRANGER);
        words = stranger::become_user(stranger::STRANGER);
        words.push(program.display().to_string());
    }
    let client = |args: &[&str]| {
        let words = words.iter().map(String::as_str).chain(args.iter().copied());
        finish(world.command(&words.collect::<Vec<_>>()).spawn().unwrap())
    };
    let id = id_of(&client(&args).ok());
    client(&["wait", &id]);
    let task = client(&["show", &id, "--json"]).ok().json();
    if task["limits"]["pids"]["by"].is_null() {
        let is_free = !machine::is_root() && !ringback_sys::process::is_user_limited();
        assert!(is_free, "the kernel limits the processes of this user: {task:#}");
        return eprintln!("not tried: this user may have any number of processes");
    }
    assert_eq!((&task["state"], &task["exit_code"]), (&json!("exited"), &json!(2)), "{task:#}");
    let output = client(&["logs", &id]).ok().text();
    assert!(output.contains("annot fork") && !output.contains("all"), "{output}");
}

#[test]
fn a_limit_that_is_none_is_explained() {
    let world = World::new();
    for (limit, says) in
        [("mem=lots", "mem=512MiB"), ("disk=1G", "mem=SIZE"), ("cpu=50", "cpu=50%"), ("pids=0", "pids=200")]
    {
        let said = world.rb(&["run", "--limit", limit, "true"]);
        assert!(said.code == Some(2) && said.err.contains(says), "{limit}: {said:?}");
    }
    let said = world.rb(&["run", "--sandbox", "jail", "true"]);
    assert!(said.code == Some(2) && said.err.contains("cwd-if-possible"), "{said:?}");
}

#[test]
fn a_task_in_a_sandbox_writes_below_its_folder_or_nowhere() {
    if !landlock() {
        return;
    }
    let world = World::new();
    let inside = world.work("inside");
    fs::create_dir(&inside).unwrap();
    let outside = world.work("outside");
    fs::write(&outside, "old").unwrap();
    let script = format!(
        "echo x > {0} || echo refused; echo x > /tmp/surely-not-$$ || echo no tmp; cat {0}; echo
         echo x > made && echo made; mktemp && echo temporary > $TMPDIR/x && cat $TMPDIR/x",
        outside.display()
    );
    for (mode, may) in [("cwd", true), ("ro", false)] {
        let id = world.run(&["-C", inside.to_str().unwrap(), "--sandbox", mode, "-c", &script]);
        let task = world.end(&id);
        let sandbox = &task["sandbox"];
        assert_eq!(
            (&sandbox["mode"], &sandbox["enforced"], &sandbox["reason"]),
            (&json!(mode), &json!(true), &Value::Null)
        );
        assert!(sandbox["landlock_abi"].as_u64() >= Some(3), "{task:#}");
        let output = String::from_utf8(world.output(&id)).unwrap();
        assert!(output.contains("refused\n") && output.contains("no tmp\n") && output.contains("old\n"), "{output}");
        assert!(output.ends_with("temporary\n"), "{output}");
        assert_eq!(
            (output.contains("made\n"), fs::read_to_string(&outside).unwrap().as_str()),
            (may, "old"),
            "{output}"
        );
        assert!(!world.folder(&id).join("tmp").exists(), "its temporary files go with its end");
        let page = world.look(&["show", &id]).ok().text();
        assert!(page.contains("Landlock") && !page.contains("NOT ENFORCED"), "{page}");
        let again = world.end(&id_of(&world.rb(&["retry", &id]).ok()));
        assert_eq!(again["sandbox"], *sandbox, "{again:#}");
    }
}

#[test]
fn a_terminal_works_in_a_sandbox() {
    if !landlock() {
        return;
    }
    let world = World::new();
    let script =
        "tty > /dev/tty; stty size; echo by name > /dev/stdout; echo x > /dev/null; echo x > $HOME/x || echo held";
    let id = world.run(&["--pty", "--sandbox", "ro", "-c", script]);
    assert_eq!(world.end(&id)["exit_code"], 0);
    let output = String::from_utf8(world.output(&id)).unwrap();
    assert!(output.contains("/dev/pts/") && output.contains("24 80") && output.contains("by name"), "{output}");
    assert!(output.ends_with("held\r\n"), "{output}");
}

#[test]
fn nobody_leaves_a_sandbox_by_asking_ringback() {
    if !landlock() {
        return;
    }
    let world = World::new();
    let mark = world.work("mark");
    let program = Path::new(env!("CARGO_BIN_EXE_ringback"));
    let script = format!("{} run --wait -- touch {}", program.display(), mark.display());
    let id = world.run(&["--sandbox", "ro", "-c", &script]);
    assert_eq!(world.end(&id)["exit_code"], 125);
    let output = String::from_utf8(world.output(&id)).unwrap();
    assert!(output.contains("confined") && !mark.exists(), "{output}");
}

#[test]
fn a_sandbox_that_would_hold_nothing_back_is_refused() {
    if !landlock() {
        return;
    }
    let world = World::new();
    let said = world.rb(&["run", "-C", "/", "--sandbox", "cwd", "--json", "true"]);
    assert_eq!((said.code, &said.json()["code"]), (Some(125), &json!("wide_sandbox")), "{said:?}");
    world.end(&world.run(&["-C", "/", "--sandbox", "ro", "true"]));
}

#[test]
fn doctor_names_the_layer_of_each_limit_and_those_that_nothing_holds() {
    let world = World::new();
    world.configure("cgroup = \"off\"\n");
    let limited = ringback_sys::process::is_user_limited();
    let pids = limited.then_some("rlimit");
    let check = |world: &World| {
        let said = world.look(&["doctor", "--json"]).json();
        let line = said["checks"].as_array().unwrap().iter().find(|check| check["name"] == "limits").unwrap().clone();
        (said["limits"].clone(), line)
    };
    // Before a daemon runs, and of one that does; the words are those of a task's `limits.*.by`.
    for running in [false, true] {
        if running {
            world.end(&world.run(&["true"]));
        }
        let (limits, line) = check(&world);
        assert_eq!(limits, json!({ "mem": { "by": "rlimit" }, "pids": { "by": pids }, "cpu": { "by": null } }));
        assert_eq!(line["verdict"], "warn", "{line:#}");
        assert!(line["hint"].as_str().unwrap().contains("a cgroup that is delegated to the daemon"), "{line:#}");
    }
    let page = world.look(&["doctor"]).text();
    assert!(page.contains("mem by rlimit (of each process by itself)") && page.contains("cpu by NOTHING"), "{page}");
    assert_eq!(page.contains("pids by NOTHING"), !limited, "{page}");

    let other = World::new();
    let held = by_cgroup(&other);
    let (limits, _) = check(&other);
    for name in ["mem", "pids", "cpu"] {
        assert_eq!(limits[name]["by"] == "cgroup", held.iter().any(|one| one == name), "{held:?}: {limits:#}");
    }
}
