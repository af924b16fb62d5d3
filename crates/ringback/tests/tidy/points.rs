//! Every effect has its crash points: a new one without a name at which it can die is noticed here.

use crate::source::File;

/// What changes something outside of the keeper's own memory, as it stands in `crates/sys/src/keeper`.
const KEEPER_EFFECTS: [&str; 5] =
    ["ledger.write()", "file::rename(", "file::splice(", "file::punch(", "cgroup::kill()"];

/// Functions of the keeper whose effect needs no point of its own, and why.
const SHARED: [(&str, &str); 9] = [
    ("begin", "`keeper.locked`, `keeper.before-child` and `keeper.takeover` stand around it"),
    ("set_aside", "whoever looks for the receipt then finds none, as before the stop"),
    ("splice", "`keeper.before-splice` stands before its caller"),
    ("pull", "a gap that is noted again is one gap"),
    ("may_write", "a gap that is noted again is one gap"),
    ("fail", "a gap that is noted again is one gap"),
    ("begin_anew", "a keeper that takes over finds the gap named, and makes the file that is not there"),
    ("append_from", "a gap that is noted again is one gap"),
    ("notice_loss", "a gap that is noted again is one gap"),
];

/// The names between quotes behind `call`, in these files.
fn named<'a>(files: &'a [File], folder: &str, call: &str) -> Vec<&'a str> {
    let lines = files.iter().filter(|file| file.path.starts_with(folder)).flat_map(|file| &file.lines);
    lines.filter_map(|line| line.trim().strip_prefix(call)?.split('"').next()).collect()
}

/// The list of points in the file that declares them.
fn listed<'a>(files: &'a [File], path: &str) -> Vec<&'a str> {
    let file = files.iter().find(|file| file.path == path).unwrap();
    let from = file.lines.iter().position(|line| line.contains("CRASH_POINTS: &[&str]")).unwrap();
    let lines = file.lines[from + 1..].iter().take_while(|line| !line.starts_with("];"));
    lines.filter_map(|line| line.trim().strip_prefix('"')?.split('"').next()).collect()
}

/// The bodies of the functions of a file: name, and its lines.
fn bodies(file: &File) -> Vec<(&str, &[String])> {
    let begins = |line: &&String| line.trim_start().starts_with("fn ") || line.contains(" fn ");
    let starts: Vec<usize> = file.lines.iter().enumerate().filter(|(_, line)| begins(line)).map(|(at, _)| at).collect();
    let ends = starts.iter().skip(1).copied().chain([file.lines.len()]);
    let name = |line: &'_ String| line.find("fn ").map_or(0, |at| at + 3);
    starts
        .iter()
        .zip(ends)
        .map(|(start, end)| {
            let line = &file.lines[*start];
            let rest = &line[name(line)..];
            (rest.split(|c: char| !(c.is_alphanumeric() || c == '_')).next().unwrap_or(""), &file.lines[*start..end])
        })
        .collect()
}

pub(crate) fn check(files: &[File]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (folder, list, call) in [
        ("crates/host/src/daemon/", "crates/host/src/daemon/crash.rs", "crash_point(\""),
        ("crates/sys/src/keeper/", "crates/sys/src/keeper/crash.rs", "crash!(\""),
    ] {
        let (listed, used) = (listed(files, list), named(files, folder, call));
        let unused = listed.iter().filter(|name| !used.contains(name)).map(|name| format!("{name} is nowhere passed"));
        let unlisted = used.iter().filter(|name| !listed.contains(name)).map(|name| format!("{name} is not in {list}"));
        wrong.extend(unused.chain(unlisted));
    }
    wrong.extend(acts(files));
    for file in files.iter().filter(|file| file.path.starts_with("crates/sys/src/keeper/")) {
        for (name, lines) in bodies(file) {
            let effect = KEEPER_EFFECTS.iter().find(|effect| lines.iter().any(|line| line.contains(**effect)));
            let has_point = lines.iter().any(|line| line.contains("crash!("));
            if let Some(effect) = effect.filter(|_| !has_point && !SHARED.iter().any(|(other, _)| *other == name)) {
                wrong.push(format!("{}: `{name}` does `{effect}` and has no crash point", file.path));
            }
        }
    }
    wrong
}

/// Every act of the daemon leads to a function that has a point, at once or one call further.
fn acts(files: &[File]) -> Vec<String> {
    let daemon: Vec<&File> = files.iter().filter(|file| file.path.starts_with("crates/host/src/daemon/")).collect();
    let bodies: Vec<(&str, &[String])> = daemon.iter().flat_map(|file| bodies(file)).collect();
    let has_point = |name: &str| {
        let of_name = bodies.iter().filter(|(other, _)| *other == name);
        of_name.flat_map(|(_, lines)| lines.iter()).any(|line| line.contains("crash_point("))
    };
    let round = daemon.iter().find(|file| file.path.ends_with("/round.rs")).unwrap();
    let arms = round.lines.iter().filter(|line| line.trim().starts_with("Act::") && line.contains("=>"));
    let mut wrong = Vec::new();
    let mut count = 0;
    for arm in arms {
        let at = round.lines.iter().position(|line| line == arm).unwrap();
        // The call stands in the arm, or in the first line of its block.
        let text = arm.clone() + round.lines.get(at + 1).map_or("", |next| if arm.ends_with('{') { next } else { "" });
        let Some(called) = text.split("self.").nth(1).and_then(|rest| rest.split('(').next()) else { continue };
        count += 1;
        let further = bodies.iter().filter(|(name, _)| *name == called).flat_map(|(_, lines)| lines.iter());
        let further = further.filter_map(|line| line.split("self.").nth(1)?.split('(').next());
        if !has_point(called) && !further.into_iter().any(has_point) {
            wrong.push(format!("`{called}` is done after the record and has no crash point: {}", arm.trim()));
        }
    }
    if count < 5 {
        wrong.push(format!("only {count} acts were found in round.rs"));
    }
    wrong
}
