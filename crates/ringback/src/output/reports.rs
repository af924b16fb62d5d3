//! Report files that a task wrote: those that its output names, and those at the places where runners put them.
//!
//! They are read when the task ends, by a process that the daemon starts for that, and what they said is kept in the folder
//! of the task. Until then, and where nobody could, they are read as they are.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufReader, Read as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use ringback_host::mask::Mask;
use ringback_host::wire::TaskObject;
use ringback_render::Options;
use ringback_render::junit::{self, ReportError, Slim};
use ringback_render::kept::{self, KEPT_BYTES_MAX, ReportFile};
use ringback_render::recognise::{Findings, Mention, Recogniser};
use ringback_render::scan::Scanner;
use ringback_sys::{files, process, task_files};

use super::digest::pieces;
use super::masked::Masked;

/// Most files that are read for one task; Surefire writes one for each class.
const REPORTS_MAX: usize = 200;
/// Most names of one folder that may be reports.
const NAMES_MAX: usize = 100_000;
/// Where runners put their reports in the folder of the task; `*` is any one folder or any middle of a name.
const PLACES: [&str; 6] = [
    "target/nextest/*/junit.xml",
    "target/surefire-reports/TEST-*.xml",
    "build/test-results/*/TEST-*.xml",
    "test-results/junit.xml",
    "reports/junit.xml",
    "junit.xml",
];
/// How much of the end of an output is searched for names of reports when a task ends: runners name them in their summary.
const MENTIONS_BYTES: u64 = 16 << 20;
/// How much of a report is read at once.
const READ_BYTES: usize = 64 << 10;

/// A report, and whether it was kept.
pub(super) struct Read {
    pub(super) file: ReportFile,
    pub(super) is_kept: bool,
}

/// The reports of this task. `mentions` are the files that its output names.
pub(super) fn of(task: &TaskObject, mentions: &[Mention]) -> Vec<Read> {
    let read = |is_kept| move |file| Read { file, is_kept };
    match kept(task) {
        Ok(Some(files)) => files.into_iter().map(read(true)).collect(),
        Ok(None) => as_they_are(task, mentions).into_iter().map(read(false)).collect(),
        Err(why) => {
            let report = (Findings::default(), Some(ReportError::Said(format!("cannot be read: {why}"))));
            let broken = ReportFile { path: task_files::FINDINGS.to_owned(), written_ms: 0, report };
            let files = as_they_are(task, mentions).into_iter().map(read(false));
            std::iter::once(Read { file: broken, is_kept: true }).chain(files).collect()
        }
    }
}

/// Reads the reports of a task that has ended, and keeps what they say. Gives its size in bytes; nothing if there are none,
/// or they were kept before.
pub(crate) fn keep(task: &TaskObject) -> io::Result<Option<u64>> {
    let path = place(task);
    if fs::symlink_metadata(&path).is_ok() {
        return Ok(None);
    }
    // An output that cannot be read names no reports; those at the usual places are looked for all the same.
    let files = as_they_are(task, &mentions(task).unwrap_or_default());
    if files.is_empty() {
        return Ok(None);
    }
    let bytes = kept::encode(&files);
    files::write_whole(&path, &bytes)?;
    Ok(Some(bytes.len() as u64))
}

/// The files that the end of the output names.
fn mentions(task: &TaskObject) -> io::Result<Vec<Mention>> {
    let mut scanner = Scanner::new(Recogniser::new(false), None, Options::ROWS);
    pieces(task, Some(MENTIONS_BYTES), &mut |piece| {
        if let ringback_host::client::output::Piece::Bytes { bytes, .. } = piece {
            scanner.push(bytes);
        }
    })?;
    Ok(scanner.findings().mentions)
}

fn place(task: &TaskObject) -> PathBuf {
    Path::new(&task.output.path).with_file_name(task_files::FINDINGS)
}

/// What was kept, if anything was.
fn kept(task: &TaskObject) -> Result<Option<Vec<ReportFile>>, String> {
    if task.output.packed.is || !task.has_ended() {
        return Ok(None);
    }
    let file = match files::open_regular(&place(task)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        answer => answer.map_err(|error| error.to_string())?,
    };
    let (most, mut bytes) = (2 * KEPT_BYTES_MAX as u64, Vec::new());
    file.take(most + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > most {
        return Err("it is too large".to_owned());
    }
    kept::decode(&bytes).map(Some)
}

/// Reads the reports that belong to this task: regular files that were written while it ran.
fn as_they_are(task: &TaskObject, mentions: &[Mention]) -> Vec<ReportFile> {
    let Some(window) = window(task) else { return Vec::new() };
    let folder = Path::new(&task.cwd);
    let mut paths: Vec<(PathBuf, bool)> = mentions.iter().map(|it| (folder.join(&it.path), true)).collect();
    let mut usual = Vec::new();
    for place in PLACES {
        expand(folder, place, &mut usual);
    }
    let mask = Path::new(&task.output.path).parent().map(Mask::of_folder).unwrap_or_default();
    paths.extend(usual.into_iter().map(|path| (path, false)));
    let (mut reports, mut seen, mut left_out) = (Vec::new(), BTreeSet::new(), 0);
    for (path, is_named) in paths {
        let Ok(real) = path.canonicalize() else { continue };
        if reports.len() >= REPORTS_MAX {
            left_out += usize::from(!seen.contains(&real));
            continue;
        }
        let name = path.strip_prefix(folder).unwrap_or(&path).display().to_string();
        if seen.insert(real.clone()) {
            reports.extend(read(&real, name, &window, is_named, &mask));
        }
    }
    if left_out > 0 {
        let why = ReportError::Said(format!("were not read: {left_out} of them"));
        let path = format!("files beyond the first {REPORTS_MAX}");
        reports.push(ReportFile { path, written_ms: 0, report: (Findings::default(), Some(why)) });
    }
    reports
}

/// From the start to the end of an ended task, in milliseconds after 1970. A stamp is never ahead, and little behind; more would
/// let in the report of a run just before.
fn window(task: &TaskObject) -> Option<std::ops::RangeInclusive<i64>> {
    let time = |text: &str| text.parse::<Timestamp>().ok().map(Timestamp::as_millisecond);
    let (start, end) = (time(task.started_at.as_deref()?)?, time(task.ended_at.as_deref()?)?);
    Some(start - process::stamp_slack_ms()..=end)
}

/// Reads one file, if it was written in this time. Of one that the output names and that is newer that is said.
fn read(
    path: &Path,
    name: String,
    window: &std::ops::RangeInclusive<i64>,
    is_named: bool,
    mask: &Mask,
) -> Option<ReportFile> {
    let file = files::open_foreign(path).ok()?;
    let written_ms = written_ms(&file)?;
    let report = if window.contains(&written_ms) {
        junit::read(Masked::new(Slim::new(BufReader::with_capacity(READ_BYTES, file)), mask))
    } else if is_named && written_ms > *window.end() {
        (Findings::default(), Some(ReportError::Overwritten))
    } else {
        return None;
    };
    Some(ReportFile { path: name, written_ms, report })
}

fn written_ms(file: &File) -> Option<i64> {
    Timestamp::try_from(file.metadata().ok()?.modified().ok()?).ok().map(Timestamp::as_millisecond)
}

/// What has become of a report file since it was read.
pub(crate) fn fate(task: &TaskObject, path: &str, written_ms: i64) -> &'static str {
    let now = files::open_foreign(&Path::new(&task.cwd).join(path)).ok().and_then(|file| self::written_ms(&file));
    match now {
        None => "gone",
        Some(now_ms) if now_ms == written_ms => "same",
        Some(_) => "changed",
    }
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
    let matches = |name: &std::ffi::OsString| {
        let text = name.to_string_lossy();
        text.len() >= begin.len() + end.len() && text.starts_with(begin) && text.ends_with(end)
    };
    let mut names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).filter(matches).take(NAMES_MAX).collect();
    // The order of a folder is chance.
    names.sort();
    for name in names {
        go(folder.join(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_files_all_reports_are_found_and_those_beyond_the_bound_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let reports = folder.path().join("target/surefire-reports");
        fs::create_dir_all(&reports).unwrap();
        // Two files for each class, as Surefire writes them.
        for class in 0..250 {
            fs::write(reports.join(format!("TEST-c{class}.xml")), XML).unwrap();
            fs::write(reports.join(format!("c{class}.txt")), "Tests run: 1").unwrap();
        }
        let found = as_they_are(&ran(folder.path(), -60_000, 60_000), &[]);
        assert_eq!(found.len(), REPORTS_MAX + 1);
        let (rest, read) = found.split_last().unwrap();
        assert!(read.iter().all(|file| file.report.1.is_none()));
        assert!(matches!(&rest.report.1, Some(ReportError::Said(why)) if why == "were not read: 50 of them"));
    }

    const XML: &str = "<testsuite><testcase name='a'><failure message='no'/></testcase></testsuite>";

    /// A task that ran in this folder from and to these times, milliseconds from now.
    fn ran(folder: &Path, from: i64, to: i64) -> TaskObject {
        let now = Timestamp::now().as_millisecond();
        let at = |ms: i64| Some(Timestamp::from_millisecond(now + ms).unwrap().to_string());
        let mut task =
            TaskObject { cwd: folder.display().to_string(), state: "exited".into(), ..TaskObject::default() };
        (task.started_at, task.ended_at) = (at(from), at(to));
        task.output.path = folder.join("output").display().to_string();
        task
    }

    fn names(task: &TaskObject) -> Vec<String> {
        let mention = |path: &str| Mention { output_line: 1, path: path.to_owned() };
        let read = of(task, &["mine.xml", "./mine.xml", "gone.xml"].map(mention));
        let name = |Read { file, is_kept }: Read| {
            let (found, error) = file.report;
            let error = error.map(|error| format!(" {error}")).unwrap_or_default();
            format!("{} {}{}{error}", file.path, found.tests.len(), if is_kept { " kept" } else { "" })
        };
        read.into_iter().map(name).collect()
    }

    #[test]
    fn only_reports_of_this_run_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let nextest = dir.path().join("target/nextest/ci");
        fs::create_dir_all(&nextest).unwrap();
        fs::write(nextest.join("junit.xml"), XML).unwrap();
        fs::write(dir.path().join("mine.xml"), XML).unwrap();
        assert_eq!(names(&ran(dir.path(), -1000, 1000)), ["mine.xml 1", "target/nextest/ci/junit.xml 1"]);
        assert!(names(&ran(dir.path(), 10_000, 20_000)).is_empty());
        // One that the output named is missed; one at a usual place may have been anybody's.
        let late = "mine.xml 0 was written after this task had ended, and is not believed";
        assert_eq!(names(&ran(dir.path(), -20_000, -10_000)), [late]);
        assert!(names(&TaskObject { ended_at: None, ..ran(dir.path(), -1000, 1000) }).is_empty());
    }

    #[test]
    fn what_was_kept_stays_when_the_file_goes_and_a_broken_one_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let task = ran(dir.path(), -1000, 1000);
        assert_eq!(keep(&task).unwrap(), None, "there is nothing");
        fs::write(dir.path().join("mine.xml"), XML).unwrap();
        fs::write(dir.path().join("output"), "compiling\ngenerated xml file: mine.xml\n").unwrap();
        let bytes = keep(&task).unwrap();
        assert_eq!(bytes, Some(fs::metadata(dir.path().join("findings")).unwrap().len()));
        assert_eq!(keep(&task).unwrap(), None, "it is kept");
        assert_eq!(fate(&task, "mine.xml", of(&task, &[])[0].file.written_ms), "same");
        fs::write(dir.path().join("mine.xml"), "<testsuite/>").unwrap();
        assert_eq!(names(&task), ["mine.xml 1 kept"]);
        fs::remove_file(dir.path().join("mine.xml")).unwrap();
        assert_eq!(names(&task), ["mine.xml 1 kept"]);
        assert_eq!(fate(&task, "mine.xml", 0), "gone");
        fs::write(dir.path().join("findings"), "{}").unwrap();
        assert!(names(&task)[0].starts_with("findings 0 kept cannot be read: "), "{:?}", names(&task));
    }

    #[test]
    fn a_fifo_where_a_report_should_be_holds_nobody_up() {
        let dir = tempfile::tempdir().unwrap();
        files::fifo(&dir.path().join("junit.xml")).unwrap();
        assert!(names(&ran(dir.path(), -1000, 1000)).is_empty());
    }
}
