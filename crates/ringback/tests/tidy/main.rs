//! Tidy: the rules of the house that no compiler checks, as a plain test.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod complaints;
mod house;
mod pages;
mod points;
mod rules;
mod source;

#[test]
fn the_house_is_tidy() {
    let house = house::House::open();
    let complaints: Vec<String> = rules::check(&house.files).iter().map(ToString::to_string).collect();
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

#[test]
fn the_house_is_read_whole() {
    let house = house::House::open();
    for path in ["Cargo.toml", "Cargo.lock", "crates/sys/src/lib.rs", "crates/ringback/tests/tidy/main.rs", ".ci/run"] {
        assert!(house.files.iter().any(|file| file.path == path), "{path} was not looked at");
    }
    assert!(house.files.iter().all(|file| !file.path.starts_with("target/")));
}

/// What lies in the root for all to see; anything else was left there by a run.
const ENTRIES: [&str; 18] = [
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "clippy.toml",
    "crates",
    "deny.toml",
    "docs",
    "fuzz",
    "plugin",
    "rustfmt.toml",
    "target",
    "test",
    "xtask",
];

#[test]
fn nothing_lies_about() {
    let is_ours = |name: &String| name.starts_with('.') || ENTRIES.contains(&name.as_str());
    let strangers: Vec<String> = house::entries().into_iter().filter(|name| !is_ours(name)).collect();
    assert_eq!(strangers, [""; 0]);
}

#[test]
fn every_test_that_a_page_names_is_there() {
    let house = house::House::open();
    let unknown = pages::unknown_tests(&house.files);
    assert!(unknown.is_empty(), "\n{}\n", unknown.join("\n"));
    let page = |text: &str| source::File::new("docs/harn.md", &format!("| a | seen by |\n|---|---|\n{text}"));
    let test = || source::File::new("crates/x/tests/y.rs", "fn it_holds() {}");
    let check = |text: &str| pages::unknown_tests(&[page(text), test()]);
    assert!(check("| `flag` | `it_holds` |").is_empty());
    assert_eq!(check("| x | `it_holds`, `it_is_said` |"), ["docs/harn.md:3: there is no test `it_is_said`"]);
}

#[test]
fn everything_of_the_handle_machinery_is_mapped() {
    let house = house::House::open();
    assert_eq!(pages::unmapped(&house.files), [""; 0]);
    let page = [source::File::new("docs/harn.md", "| `run_command {argv, wait_ms}` | x |")];
    let left = pages::unmapped(&page);
    let is_left = |name: &str| left.iter().any(|other| other == name);
    assert!(!is_left("argv") && is_left("cwd") && is_left("B67") && is_left("H28"));
}

#[test]
fn every_effect_has_a_point_at_which_it_can_die() {
    let wrong = points::check(&house::House::open().files);
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}
