//! Tidy: the rules of the house that no compiler checks, as a plain test.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod complaints;
mod house;
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
