//! Public bug reports about agents' background shells, each as an input with the right behaviour: `cases/public.jsonl`.
//!
//! Each case runs alone in a home of its own. Sleeps are as short as the report's point allows.

use std::collections::VecDeque;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

use serde::Deserialize;
use serde_json::Value;

use crate::support::{MINE, World, about, finish, has_ended, id_of, machine};

/// How many cases run beside each other: most of their time they sleep.
const AT_ONCE: usize = 4;

/// One report.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    /// Its number in the collection.
    #[serde(rename = "case")]
    number: u32,
    /// What was wrong.
    kind: String,
    /// The script.
    input: Option<String>,
    /// Or a program with its arguments.
    argv: Option<Vec<String>>,
    /// The words of the shell.
    #[serde(default = "sh")]
    shell: String,
    /// More options of `run`.
    #[serde(default)]
    options: Vec<String>,
    /// What happens meanwhile, as words with commas between; else it is waited for.
    #[serde(default)]
    then: String,
    /// Not before the tree has so many processes.
    #[serde(default)]
    until_tree: usize,
    /// A folder of this name is the caller's.
    cwd: Option<String>,
    /// A variable that only the daemon has.
    daemon_env: Option<String>,
    /// The caller's PATH has a folder with a tool `my-own-tool`.
    #[serde(default)]
    own_tool: bool,
    /// What must be seen.
    right: Right,
}

/// What must be seen.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Right {
    state: Option<String>,
    states: Option<Vec<String>>,
    exit_code: Option<i64>,
    reason: Option<String>,
    signal: Option<String>,
    output: Option<String>,
    output_has: Option<String>,
    output_lacks: Option<String>,
    lines: Option<usize>,
    bytes: Option<usize>,
    leftovers: Option<usize>,
    notice: Option<String>,
    notice_has: Option<String>,
}

fn sh() -> String {
    "sh".into()
}

/// A case while it runs.
struct Scene<'a> {
    world: &'a World,
    case: &'a Case,
    id: String,
    /// An agent's process that the session is tied to.
    agent: Option<Child>,
}

impl Scene<'_> {
    #[track_caller]
    fn step(&mut self, word: &str) {
        let (world, id) = (self.world, self.id.as_str());
        match word {
            "wait" => drop(world.end(id)),
            "kill" => drop(world.kill(id)),
            "running" => assert_eq!(world.show(id)["state"], "running"),
            "session_end" => drop(world.look(&["session", "end", MINE]).ok()),
            "daemon_dies" => {
                // Whoever asks next finds it dead; a daemon that a step before killed is started by asking.
                world.look(&["ps"]).ok();
                world.kill_daemon();
            }
            "keeper_leaves" => world.keeper(id).into_iter().for_each(machine::until_gone),
            "all_die" => self.all_die(),
            "owner_dies" => self.owner_dies(),
            "waiter_dies" => self.waiter_dies(&["wait"]),
            "reader_dies" => {
                world.end(id);
                self.waiter_dies(&["inbox", "--json"]);
            }
            "others_end" => (0..10).for_each(|n| drop(world.run(&["-s", "mine-too", "-c", &format!("exit {n}")]))),
            "twenty_clients" => self.twenty_clients(),
            "same_key" => assert_eq!(world.run(&["--key", "once", "-c", "exit 77"]), id),
            "wait_any" => assert_eq!(world.look(&["wait", "--any", id]).code, Some(1)),
            other => panic!("no step {other}"),
        }
    }

    fn all_die(&self) {
        let keeper = self.world.keeper(&self.id).expect("a keeper");
        let tree = self.world.tree(&self.id);
        self.world.kill_daemon();
        machine::kill(keeper);
        tree.into_iter().for_each(machine::kill);
    }

    fn owner_dies(&mut self) {
        let agent = self.agent.insert(Command::new("sleep").arg("9999").stdin(Stdio::null()).spawn().unwrap());
        self.world.look(&["session", "watch", MINE, "--pid", &agent.id().to_string()]).ok();
        machine::kill(machine::pid_of(agent));
        agent.wait().unwrap();
        self.world.end(&self.id);
        // The stop's own answer comes when the tree is gone.
        self.world.kill(&self.id);
    }

    fn waiter_dies(&self, verb: &[&str]) {
        let mut args = verb.to_vec();
        if verb == ["wait"] {
            args.push(&self.id);
        }
        let mut waiter = self.world.client(&args).spawn().unwrap();
        machine::kill(machine::pid_of(&waiter));
        waiter.wait().unwrap();
        let task = self.world.show(&self.id);
        assert!(verb == ["inbox", "--json"] || !has_ended(&task), "{task:#}");
    }

    fn twenty_clients(&self) {
        let verbs = [vec!["show", "--json", &self.id], vec!["logs", &self.id], vec!["ps", "-a"]];
        let clients: Vec<Child> =
            verbs.iter().cycle().take(20).map(|verb| self.world.onlooker(verb).spawn().unwrap()).collect();
        clients.into_iter().for_each(|client| drop(finish(client).ok()));
    }

    /// Waits until the tree stands, looking after each short wait of the verb that blocks.
    #[track_caller]
    fn until_tree(&self) {
        for _ in 0..600 {
            if self.world.tree(&self.id).len() >= self.case.until_tree {
                return;
            }
            self.world.look(&["wait", "--timeout", "30ms", &self.id]);
        }
        panic!("the tree has only {:?}", self.world.tree(&self.id));
    }
}

/// Asks for the command of a case as its caller would.
fn ask(world: &World, case: &Case) -> String {
    let mut args: Vec<String> = vec!["run".into(), "--grace".into(), "2s".into()];
    args.extend(case.options.iter().cloned());
    match (&case.input, &case.argv) {
        (Some(script), None) => {
            // A number that no other process of the machine has in its command line.
            let unique = format!("9{:08}", std::process::id());
            let script = script.replace("@N@", &unique).replace("@P@", &format!("[9]{}", &unique[1..]));
            args.extend(["--shell".into(), case.shell.clone(), "-c".into(), script]);
        }
        (None, Some(argv)) => args.extend(std::iter::once("--".into()).chain(argv.iter().cloned())),
        _ => panic!("either input or argv"),
    }
    let mut client = world.client(&args);
    if let Some(cwd) = &case.cwd {
        std::fs::create_dir(world.work(cwd)).unwrap();
        client.current_dir(world.work(cwd));
    }
    if case.own_tool {
        let tool = world.work("my-own-tool");
        std::fs::write(&tool, "#!/bin/sh\necho mine\n").unwrap();
        std::fs::set_permissions(&tool, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let path = std::env::var("PATH").unwrap_or_default();
        client.env("PATH", format!("{}:{path}", world.work("").display()));
    }
    id_of(&finish(client.spawn().unwrap()).ok())
}

#[track_caller]
fn check_right(world: &World, right: &Right, task: &Value) {
    let id = task["id"].as_str().unwrap();
    let state = task["state"].as_str().unwrap();
    if let Some(expected) = &right.state {
        assert_eq!(state, expected, "{task:#}");
    }
    if let Some(states) = &right.states {
        assert!(states.iter().any(|one| one == state), "{state} is none of {states:?}: {task:#}");
    } else {
        assert_eq!(task["exit_code"].as_i64(), right.exit_code, "{task:#}");
    }
    for (field, expected) in [("reason", &right.reason), ("signal", &right.signal)] {
        assert!(expected.is_none() || task[field].as_str() == expected.as_deref(), "{field}: {task:#}");
    }
    let output = String::from_utf8_lossy(&world.output(id)).into_owned();
    let shown: String = output.chars().take(2000).collect();
    if let Some(expected) = &right.output {
        assert_eq!(&output, expected);
    }
    assert!(right.output_has.as_ref().is_none_or(|part| output.contains(part)), "{shown}");
    assert!(right.output_lacks.as_ref().is_none_or(|part| !output.contains(part)), "{shown}");
    assert!(right.lines.is_none_or(|lines| output.lines().count() == lines), "{} lines", output.lines().count());
    assert!(
        right.bytes.is_none_or(|bytes| output.len() == bytes && !output.contains('\u{fffd}')),
        "{} bytes",
        output.len()
    );
    let notices = world.inbox(MINE);
    let told = about(&notices, id);
    assert_eq!(told.len(), 1, "one notice");
    let text = told[0]["text"].as_str().unwrap();
    assert!(right.notice.as_ref().is_none_or(|begin| text.starts_with(begin)), "{text}");
    assert!(right.notice_has.as_ref().is_none_or(|part| text.contains(part)), "{text}");
}

#[track_caller]
fn play(case: &Case) {
    let world = World::new();
    let daemon = case.daemon_env.as_ref().map(|name| world.start_daemon(&[(name, "1")]).expect("a daemon"));
    let mut scene = Scene { id: ask(&world, case), world: &world, case, agent: None };
    scene.until_tree();
    let mut steps: VecDeque<&str> = case.then.split(',').filter(|word| !word.is_empty()).collect();
    if case.right.leftovers.is_some() {
        steps.push_front("wait");
    }
    let before = case.right.leftovers.map(|_| world.end(&scene.id));
    while let Some(word) = steps.pop_front() {
        scene.step(word);
    }
    let task = world.end(&scene.id);
    check_right(&world, &case.right, &task);
    if let (Some(least), Some(before)) = (case.right.leftovers, before) {
        assert!(before["leftovers"].as_array().unwrap().len() >= least, "{before:#}");
    }
    // The end of every case: a stop reaches whatever is left, rewrites nothing, and tells nothing twice.
    let stopped = world.kill(&scene.id);
    assert_eq!(world.tree(&scene.id), [], "survivors");
    assert_eq!((&stopped["state"], &stopped["exit_code"]), (&task["state"], &task["exit_code"]));
    assert_eq!(about(&world.inbox(MINE), &scene.id).len(), 1, "one notice");
    if let Some(mut daemon) = daemon {
        machine::kill(machine::pid_of(&daemon));
        daemon.wait().unwrap();
    }
}

#[test]
fn every_public_report_behaves_right() {
    let text = include_str!("../cases/public.jsonl");
    let parse = |line: &str| serde_json::from_str::<Case>(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    let only = std::env::var("RINGBACK_TEST_CASE").ok().and_then(|number| number.parse::<u32>().ok());
    let cases = text.lines().map(parse).filter(|case| only.is_none_or(|number| number == case.number));
    let cases: Mutex<VecDeque<Case>> = Mutex::new(cases.collect());
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(case) = next(&cases) {
                    let played = std::panic::catch_unwind(|| play(&case));
                    if let Err(what) = played {
                        let what = what.downcast_ref::<String>().cloned().unwrap_or_default();
                        let input = case.input.unwrap_or_default();
                        wrong.lock().unwrap().push(format!("case {} ({}): {input}\n{what}", case.number, case.kind));
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} reports are not right:\n\n{}", wrong.len(), wrong.join("\n\n"));
}

fn next(cases: &Mutex<VecDeque<Case>>) -> Option<Case> {
    cases.lock().unwrap().pop_front()
}
