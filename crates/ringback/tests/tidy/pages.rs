//! What the pages say of the tests: every test that one names is there.

use crate::source::File;

/// The last column of these pages' tables names tests.
const PAGES: [&str; 1] = ["docs/harn.md"];
/// The heading of such a column.
const HEADING: &str = "| seen by |";

/// Every name of a test that stands in such a column and is none, as `page:line: name`.
pub(crate) fn unknown_tests(files: &[File]) -> Vec<String> {
    let is_test_code = |file: &&File| file.is_rust() && !file.is_product();
    let tests: String = files.iter().filter(is_test_code).flat_map(|file| &file.code).cloned().collect();
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
