//! Real agent programs with a scripted model: what each is told of an end, by which door, and how often.
//!
//! The programs are large and not ours to hand on, so they are looked for in `$RINGBACK_TEST_CLIENTS`; `.ci/clients`
//! fills that folder. Without it these tests say so and do nothing.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of the programs, if it has this one.
fn clients(package: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("RINGBACK_TEST_CLIENTS").map(PathBuf::from);
    let found = folder.filter(|folder| folder.join("node_modules").join(package).exists());
    if found.is_none() {
        println!("not run: no {package} in $RINGBACK_TEST_CLIENTS");
    }
    found
}

#[track_caller]
fn goes_as_told(story: &str, package: &str) {
    let Some(clients) = clients(package) else { return };
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/agents/stories.py");
    let mut command = Command::new("python3");
    command.arg("-B").arg(here).arg(story).arg(env!("CARGO_BIN_EXE_ringback")).arg(clients);
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    println!("{told}");
    assert!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stderr));
}

macro_rules! stories {
    ($($package:literal: $($story:ident)*;)*) => {
        $($(#[test]
        fn $story() {
            goes_as_told(stringify!($story), $package);
        })*)*
    };
}

stories! {
    "@anthropic-ai/claude-code":
        claude_is_woken_by_its_task
        claude_is_woken_once_with_all_doors
        claude_is_woken_after_quit_and_continue
        claude_hears_of_what_ended_while_it_was_away
        claude_without_tasks_is_woken_by_the_hook
        claude_is_woken_when_a_server_is_ready
        claude_stop_hook_holds_the_turn
        claude_in_print_mode_never_hangs
        claude_stops_a_task_and_its_tree_is_gone
        claude_task_stop_ends_the_tree
        the_plugin_is_valid;
    "@openai/codex":
        codex_is_woken_by_its_queue
        codex_is_woken_once_with_all_doors
        codex_stop_hook_holds_the_turn;
}
