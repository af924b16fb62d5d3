//! What the pages say of the tests: every test that one names is there.

use crate::source::File;

/// The last column of these pages' tables names tests.
const PAGES: [&str; 1] = ["docs/harn.md"];
/// The heading of such a column.
const HEADING: &str = "| seen by |";

/// Every name of the handle machinery that the page about it maps: tools, parameters, fields, errors.
const MAPPED: &str = "run_command mode argv command shell_id shell login interactive cwd env env_mode env_remove stdin timeout_ms background \
    long_running background_after_ms progress_interval_ms progress_max_interval_ms progress_max_inline_bytes capture.stdout \
    capture.stderr capture.merge_stderr capture.max_inline_bytes capture.transport capture_stderr max_inline_bytes \
    sandbox.workspace_roots policy_context snapshot_binding command_id handle_id status completed running timed_out killed \
    spawn_failed blocked consent_denied exit_code signal pid process_group_id started_at ended_at duration_ms stdout stderr \
    stdout_truncated stderr_truncated output_path stdout_path stderr_path line_count byte_count output_sha256 output_offset \
    stderr_byte_count silence_ms sandbox denial audit_id command_policy process_cleanup command_or_op_descriptor feedback_kind \
    MissingParameter InvalidParameter Backend SandboxViolation CatastrophicFloor wait_command session_id combined inline_output \
    wait_command_output pattern regex from_offset source matched match match_start match_end next_offset result \
    read_command_output offset length bytes_read total_bytes eof content path read_command_output_tail cancel_handle \
    wait_result_ms cancelled list_handles handles lease kill_command release_command command_run_streaming run_test filter \
    summary result_handle inspect_test_results include_passing tests run_build_command target release diagnostics \
    manage_packages toolchain_facts walk_dir glob";

/// How many bugs of that machinery, and how many weaknesses of the bash runner, the page answers by number.
const ANSWERED: [(char, u32); 2] = [('B', 67), ('H', 28)];

/// What of [`MAPPED`] and [`ANSWERED`] the page does not name.
pub(crate) fn unmapped(files: &[File]) -> Vec<String> {
    let page = files.iter().find(|file| PAGES.contains(&file.path.as_str()));
    let text: String = page.map(|page| page.lines.join("\n")).unwrap_or_default();
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
    let words: std::collections::BTreeSet<&str> =
        text.split(|c| !is_part(c)).map(|word| word.trim_matches('.')).collect();
    let numbers = ANSWERED.iter().flat_map(|(letter, most)| (1..=*most).map(move |number| format!("{letter}{number}")));
    let names = MAPPED.split_whitespace().map(str::to_owned).chain(numbers);
    names.filter(|name| !words.contains(name.as_str())).collect()
}

/// Every name of a test that stands in such a column and is none, as `page:line: name`.
pub(crate) fn unknown_tests(files: &[File]) -> Vec<String> {
    let is_product = |file: &File| file.is_product() && !file.path.ends_with("/tests.rs");
    let test_code = |file: &File| file.code[if is_product(file) { file.product_lines } else { 0 }..].concat();
    let tests: String = files.iter().filter(|file| file.is_rust()).map(test_code).collect();
    let mut found = Vec::new();
    for page in files.iter().filter(|file| PAGES.contains(&file.path.as_str())) {
        let mut inside = false;
        for (index, line) in page.lines.iter().enumerate() {
            inside = line.ends_with(HEADING) || (inside && line.starts_with('|'));
            let last = line.trim_end_matches('|').rsplit('|').next().unwrap_or_default();
            let names = last.split('`').skip(1).step_by(2).filter(|_| inside);
            let missing = names.filter(|name| !tests.contains(&format!("fn {name}(")));
            found.extend(missing.map(|name| format!("{}:{}: there is no test `{name}`", page.path, index + 1)));
        }
    }
    found
}
