//! Report files that a task wrote: those that its output names, and those at the places where runners put them.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use ringback_host::wire::TaskObject;
use ringback_render::junit::{self, Report};
use ringback_render::recognise::Mention;

/// Most files that are read for one task; Surefire writes one for each class.
const REPORTS_MAX: usize = 200;
/// Where runners put their reports in the folder of the task; `*` is any one folder or any middle of a name.
const PLACES: [&str; 6] = [
    "target/nextest/*/junit.xml",
    "target/surefire-reports/TEST-*.xml",
    "build/test-results/*/TEST-*.xml",
    "test-results/junit.xml",
    "reports/junit.xml",
    "junit.xml",
];
/// A file is stamped with the time of the last clock tick, up to 10 ms ago (`CLOCK_REALTIME_COARSE`, `clock_gettime(2)`). More
/// would let in the report of a run just before.
const SLACK_MS: i64 = 20;

/// Reads the reports that belong to this task: regular files that were written while it ran.
pub(super) fn read_all(task: &TaskObject, mentions: &[Mention]) -> Vec<(String, Report)> {
    let Some(window) = window(task) else { return Vec::new() };
    let folder = Path::new(&task.cwd);
    let mut paths: Vec<PathBuf> = mentions.iter().map(|mention| folder.join(&mention.path)).collect();
    for place in PLACES {
        expand(folder, place, &mut paths);
    }
    let mut reports = Vec::new();
    let mut seen = Vec::new();
    for path in paths {
        let Ok(real) = path.canonicalize() else { continue };
        if reports.len() < REPORTS_MAX && is_of(&real, &window) && !seen.contains(&real) {
            if let Ok(file) = File::open(&real) {
                let name = path.strip_prefix(folder).unwrap_or(&path).display().to_string();
                reports.push((name, junit::read(BufReader::new(file))));
            }
            seen.push(real);
        }
    }
    reports
}

/// From the start to the end of an ended task, in milliseconds after 1970.
fn window(task: &TaskObject) -> Option<std::ops::RangeInclusive<i64>> {
    let time = |text: &str| text.parse::<Timestamp>().ok().map(Timestamp::as_millisecond);
    let (start, end) = (time(task.started_at.as_deref()?)?, time(task.ended_at.as_deref()?)?);
    Some(start - SLACK_MS..=end + SLACK_MS)
}

fn is_of(path: &Path, window: &std::ops::RangeInclusive<i64>) -> bool {
    let Ok(facts) = fs::metadata(path) else { return false };
    let written = facts.modified().ok().and_then(|time| Timestamp::try_from(time).ok());
    facts.is_file() && written.is_some_and(|time| window.contains(&time.as_millisecond()))
}

/// Adds the files of this pattern.
fn expand(folder: &Path, pattern: &str, paths: &mut Vec<PathBuf>) {
    let (name, rest) = pattern.split_once('/').map_or((pattern, None), |(name, rest)| (name, Some(rest)));
    let mut go = |path: PathBuf| match rest {
        Some(rest) => expand(&path, rest, paths),
        None => paths.push(path),
    };
    let Some((begin, end)) = name.split_once('*') else { return go(folder.join(name)) };
    let Ok(entries) = fs::read_dir(folder) else { return };
    let mut names: Vec<_> = entries.flatten().take(REPORTS_MAX).map(|entry| entry.file_name()).collect();
    // The order of a folder is chance.
    names.sort();
    for name in names {
        let text = name.to_string_lossy();
        if text.len() >= begin.len() + end.len() && text.starts_with(begin) && text.ends_with(end) {
            go(folder.join(&name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_reports_of_this_run_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let nextest = dir.path().join("target/nextest/ci");
        fs::create_dir_all(&nextest).unwrap();
        let xml = "<testsuite><testcase name='a'><failure message='no'/></testcase></testsuite>";
        fs::write(nextest.join("junit.xml"), xml).unwrap();
        fs::write(dir.path().join("mine.xml"), xml).unwrap();
        let now = Timestamp::now();
        let mut task = TaskObject { cwd: dir.path().display().to_string(), ..TaskObject::default() };
        let mut names = |from: i64, to: i64| {
            let at = |ms: i64| Some(Timestamp::from_millisecond(now.as_millisecond() + ms).unwrap().to_string());
            (task.started_at, task.ended_at) = (at(from), at(to));
            let mention = |path: &str| Mention { output_line: 1, path: path.to_owned() };
            let reports = read_all(&task, &["mine.xml", "./mine.xml", "gone.xml"].map(mention));
            assert!(reports.iter().all(|(_, (found, error))| found.tests.len() == 1 && error.is_none()));
            reports.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
        };
        assert_eq!(names(-1000, 1000), ["mine.xml", "target/nextest/ci/junit.xml"]);
        assert!(names(10_000, 20_000).is_empty());
        assert!(names(-20_000, -10_000).is_empty());
        task.ended_at = None;
        assert!(read_all(&task, &[]).is_empty());
    }
}
