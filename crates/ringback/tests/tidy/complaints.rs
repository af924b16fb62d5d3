//! Tidy's own tests: bad text in, the complaint out.

use crate::{
    rules::check,
    source::{File, blank},
};

/// The complaints about one file, without its path.
#[track_caller]
fn complaints(path: &str, text: &str) -> Vec<String> {
    let strip = |said: String| said.strip_prefix(&format!("{path}:")).unwrap().to_string();
    check(&[File::new(path, text)]).iter().map(|complaint| strip(complaint.to_string())).collect()
}

/// Expects exactly one complaint that begins so, and that it says what to do after a semicolon.
#[track_caller]
fn expect(path: &str, text: &str, begins: &str) {
    let said = complaints(path, text);
    assert!(said.len() == 1 && said[0].starts_with(begins), "{said:#?}");
    assert!(said[0].contains("; "), "it does not say what to do: {said:?}");
}

#[track_caller]
fn fine(path: &str, text: &str) {
    assert_eq!(complaints(path, text), Vec::<String>::new());
}

const CORE: &str = "crates/core/src/task.rs";
const SYS: &str = "crates/sys/src/lock.rs";
const HOST: &str = "crates/host/src/lib.rs";
const DOOR: &str = "crates/ringback/src/main.rs";

fn told(rest: &str) -> String {
    format!("//! What this file is for.\n{rest}")
}

#[test]
fn a_complaint_names_file_line_and_cure() {
    let said = check(&[File::new(CORE, &told("\nfn now() { std::time::now() }\n"))]);
    let expected = "crates/core/src/task.rs:3: `std` in core; the rules have no machine: \
                    use `core` or `alloc`, and take time and chance as arguments";
    assert_eq!(said[0].to_string(), expected);
}

#[test]
fn every_file_begins_with_a_sentence() {
    fine(CORE, "//! What this file is for, over\n//! two lines.\n//!\n//! More:\n");
    for text in ["", "fn main() {}\n", "//! x\n", "//! No stop at the end of it\n", "/// Of another kind it is.\n"] {
        expect(CORE, text, "1: no first sentence");
    }
    expect("crates/host/tests/daemon.rs", "use x;\n", "1: no first sentence");
}

#[test]
fn a_file_over_500_lines_is_told_without_its_tests() {
    let lines = "// x\n".repeat(499);
    fine(CORE, &told(&lines));
    fine(CORE, &told(&format!("{lines}#[cfg(test)]\nmod tests {{\n{}}}\n", "// x\n".repeat(300))));
    expect(CORE, &told(&format!("{lines}// x\n")), "501: 501 product lines");
    fine("crates/host/tests/daemon.rs", &told(&"// x\n".repeat(900)));
}

#[test]
fn a_function_over_70_lines_is_told_by_name() {
    let body = |lines: usize| "    x();\n".repeat(lines);
    fine(CORE, &told(&format!("fn short() {{\n{}}}\n", body(68))));
    expect(CORE, &told(&format!("fn long() {{\n{}}}\n", body(69))), "2: `long` has 71 lines");
    // A long signature counts, a declaration without a body and an array length do not confuse.
    let method =
        format!("trait T {{\n    fn none(&self, x: [u8; 3]);\n    fn inner(&self) {{\n{}    }}\n}}\n", body(80));
    expect(CORE, &told(&method), "4: `inner` has 82 lines");
    // Braces in strings, comments and characters are no braces.
    let tricky = format!("fn a() {{ let x = \"}}\"; let y = '{{'; /* }} */ // }}\n{}}}\nfn b() {{}}\n", body(69));
    expect(CORE, &told(&tricky), "2: `a` has 71 lines");
}

#[test]
fn nobody_names_whom_he_must_not_know() {
    expect(CORE, &told("use std::fmt;\n"), "2: `std` in core");
    expect(CORE, &told("use ringback_sys::lock;\n"), "2: `ringback_sys` in core");
    expect(SYS, &told("use ringback_core::task;\n"), "2: `ringback_core` in sys");
    expect(HOST, &told("use clap::Parser;\n"), "2: `clap` in host");
    fine(CORE, &told("// std is not here\nuse core::fmt; const STD: &str = \"std::fs\";\n"));
    fine(CORE, &told("#[cfg(test)]\nmod tests {\n    extern crate std;\n}\n"));
    fine(HOST, &told("use ringback_core::task;\nuse std::fs;\n"));
}

#[test]
fn only_the_doors_print() {
    fine(DOOR, &told("fn main() { println!(); }\n"));
    for word in ["println!", "eprintln!", "print!", "eprint!"] {
        expect(HOST, &told(&format!("fn a() {{ {word}(); }}\n")), &format!("2: `{word}` in host"));
    }
    fine("crates/sys/build.rs", &told("fn main() { println!(); }\n"));
}

#[test]
fn unsafe_lives_in_one_crate() {
    fine(SYS, &told("fn a() { unsafe { b() } }\n"));
    fine(HOST, &told("#![forbid(unsafe_code)]\n"));
    expect(HOST, &told("fn a() { unsafe { b() } }\n"), "2: `unsafe` in host");
}

#[test]
fn nothing_is_left_unfinished() {
    for word in ["todo!", "unimplemented!", "dbg!"] {
        expect(DOOR, &told(&format!("fn a() {{ {word}() }}\n")), &format!("2: `{word}`"));
        expect("crates/host/tests/x.rs", &told(&format!("fn a() {{ {word}() }}\n")), &format!("2: `{word}`"));
    }
    expect(DOOR, &told("#[ignore = \"flaky\"]\nfn a() {}\n"), "2: an ignored test");
}

#[test]
fn an_exception_has_a_reason() {
    expect(DOOR, &told("#[allow(dead_code)]\n"), "2: an `allow` without a reason");
    expect(DOOR, &told("#![allow(dead_code)]\n"), "2: an `allow` without a reason");
    fine(DOOR, &told("#![allow(dead_code, reason = \"each test file uses its own part\")]\n"));
    expect(DOOR, &told("#[expect(dead_code)]\n"), "2: an `expect` without a reason");
    fine(DOOR, &told("#[expect(dead_code, reason = \"the next commit uses it\")]\n"));
    fine(DOOR, &told("#[expect(\n    dead_code,\n    reason = \"the next commit uses it\"\n)]\n"));
}

#[test]
fn a_name_says_something() {
    let advice = "says nothing";
    for (text, name) in [
        ("struct TaskManager;\n", "TaskManager"),
        ("fn parse_helper() {}\n", "parse_helper"),
        ("mod utils;\n", "utils"),
        ("mod imp;\n", "imp"),
    ] {
        expect(DOOR, &told(text), &format!("2: `{name}` {advice}"));
    }
    expect("crates/host/src/util.rs", &told(""), "1: `util` says nothing");
    expect(DOOR, &told("fn get_row() {}\n"), "2: `get_row`");
    fine(DOOR, &told("struct Impulse; fn utility_of() {} fn important() {}\n"));
}

#[test]
fn no_machine_is_named() {
    let place = |parts: [&str; 2]| parts.concat();
    for path in ["README.md", ".ci/run", DOOR] {
        let text = told(&format!("// see {}main\n", place(["/wo", "rk/"])));
        expect(path, &text, "2: a path of one machine");
    }
    expect("README.md", &place(["cd /ho", "me/me/ringback\n"]), "1: a path of one machine");
    fine("README.md", "~/.local/state, $HOME/x, crates/core/src, https://example.org/work/x\n");
    expect(".cargo/config.toml", "[source]\n", "1: a cargo configuration");
    let lock = "source = \"registry+https://github.com/rust-lang/crates.io-index\"\n";
    fine("Cargo.lock", lock);
    expect("Cargo.lock", &lock.replace("github.com", "registry.example.org"), "1: a crate from somewhere else");
}

#[test]
fn a_layer_has_its_dependencies() {
    fine("crates/sys/Cargo.toml", "[package]\nname = \"x\"\n[dependencies]\nlibc.workspace = true\n# why\n\n");
    fine("crates/core/Cargo.toml", "[dependencies]\n[dev-dependencies]\nproptest.workspace = true\n");
    expect("crates/core/Cargo.toml", "[dependencies]\nlibc.workspace = true\n", "2: core may not depend on `libc`");
    expect("crates/host/Cargo.toml", "[dependencies]\nclap = \"4\"\n", "2: host may not depend on `clap`");
}

#[test]
fn decisions_are_numbered_and_whole() {
    let whole = "# T\n\n## Chosen\n\n## Not chosen\n\n## What would change our mind\n";
    fine("docs/decisions/0001-store.md", whole);
    expect("docs/decisions/0002-store.md", whole, "1: a decision out of order");
    expect("docs/decisions/store.md", whole, "1: a decision out of order");
    expect("docs/decisions/0001-store.md", &whole.replace("## Not chosen", ""), "1: no `## Not chosen`");
}

#[test]
fn what_is_not_code_is_blanked_and_lines_stay() {
    for (text, code) in [
        ("a // b\nc", "a     \nc"),
        ("a /* b /* c */ d\n */ e", "a               \n    e"),
        (r#"x("a \" b", 'c', '\'', b"d")"#, "x(        ,    ,     , b   )"),
        ("r#\"a \" b\"# c", "           c"),
        ("fn a<'x>(b: &'x str) -> r#type", "fn a<'x>(b: &'x str) -> r#type"),
        ("br\"a\" for", "b     for"),
        ("\"never closed", "             "),
    ] {
        assert_eq!(blank(text).trim_end(), code.trim_end(), "{text}");
        assert_eq!(blank(text).lines().count(), text.lines().count());
    }
}
