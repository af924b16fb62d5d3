//! Output that would break a careless reader, through real tasks and real doors: bounded memory, a clear word, no crash.

use std::fs;

use crate::support::{ONLOOKER, Said, World, finish, machine};

/// A reader that holds what it reads does not come through with so little address space, kB.
const ADDRESS_SPACE_KB: u32 = 160 << 10;

/// Runs a client that must do with little memory.
#[track_caller]
fn lean(world: &World, args: &[&str]) -> Said {
    let shell = ["sh", "-c", &format!("ulimit -v {ADDRESS_SPACE_KB}; exec \"$0\" \"$@\"")];
    let mut shell = world.client_below(&shell, args);
    finish(shell.env("RINGBACK_SESSION", ONLOOKER).spawn().unwrap())
}

/// What each door shows of the output of this script, in little memory.
#[track_caller]
fn check(script: &str, rendered: &str, digest: &str) {
    let world = World::new();
    let id = world.sh(script);
    assert_eq!(world.end(&id)["state"], "exited");
    let said = lean(&world, &["logs", "--rendered", &id]).ok();
    assert!(said.out.len() < 10_000 && said.text().contains(rendered), "{script}: {}", said.text());
    let said = lean(&world, &["logs", "--digest", &id]).ok();
    assert!(said.out.len() <= 2048 && said.text().contains(digest), "{script}: {}", said.text());
    for verb in [&["logs", "--rendered", "-n", "1"][..], &["logs", "--grep", "nowhere"], &["results"], &["diagnostics"]]
    {
        let said = lean(&world, &[verb, &[&id]].concat());
        assert!(said.code == Some(0) && !said.text().contains('\u{1b}'), "{script} {verb:?}: {said:?}");
    }
}

#[test]
fn an_endless_line_is_shown_with_how_much_more_it_had() {
    check("head -c 8388608 /dev/zero | tr '\\0' x; printf ' the end'", "x…[8386616 more characters]", "x the end");
}

#[test]
fn empty_lines_without_number_are_one() {
    check("yes '' | head -n 200000; echo after", "(empty line ×200000)\nafter\n", "200006 B, 200001 lines");
}

#[test]
fn storms_of_nul_and_escapes_are_silent() {
    check("head -c 2000000 /dev/zero; echo after", "after", "2000006 B");
    check("yes \"$(printf '\\033')\" | tr -d '\\n' | head -c 300000; echo; echo after", "after\n", "300007 B");
    let spying = r"printf '\033]52;c;ZXZpbA==\007\033]8;;http://x\033\\link\033]8;;\033\\ \033[6n\n'";
    check(&format!("for i in 1 2 3 4; do {spying}; done; echo after"), "link (×4)\nafter\n", "link");
    check(
        r"i=0; while [ $i -lt 999 ]; do printf '\342\211\360\237\377'; i=$((i+1)); done; echo",
        "\u{fffd}",
        "\u{fffd}",
    );
}

#[test]
fn a_large_report_is_read_in_little_memory_and_one_with_entities_is_refused() {
    let world = World::new();
    let case = "<testcase name='$0 of many' classname='some.class.of.tests'><system-out>said something</system-out></testcase>";
    let many = format!("seq 1 20000 | sed \"s|\\\\(.*\\\\)|{}|\"", case.replace("$0", "\\\\1"));
    let large = world.sh(&format!("(echo '<testsuite>'; {many}; echo '</testsuite>') > junit.xml"));
    world.end(&large);
    let said = lean(&world, &["results", &large]).ok().text();
    assert!(said.contains("20000 passed (JUnit)"), "{said}");
    let laughs =
        "<!DOCTYPE x [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;\">]><testsuite><testcase name=\"&b;\"/></testsuite>";
    let bomb = world.sh(&format!("echo '{laughs}' > junit.xml; exit 1"));
    world.end(&bomb);
    let said = lean(&world, &["results", &bomb]).ok().text();
    assert!(said.starts_with("FAILED exit 1") && said.contains("declares a document type, which is refused"), "{said}");
    let lie = world.sh("echo '<testsuite><testcase name=\"a\"/></testsuite>' > junit.xml; exit 3");
    world.end(&lie);
    let said = lean(&world, &["logs", "--digest", &lie]).ok().text();
    assert!(said.starts_with("FAILED exit 3") && said.contains("no test failed by JUnit, and yet"), "{said}");
}

/// A report of 200 MB, nearly all of it what four tests have written; with holes, so that it costs no disk. It goes on with this.
fn huge_report(end: &str) -> String {
    let test = |n: u32| {
        format!(
            "echo '<testcase name=\"loud {n}\"><system-out>' >> junit.xml; truncate -s +50M junit.xml; echo '</system-out></testcase>' >> junit.xml"
        )
    };
    let tests = (1..=4).map(test).collect::<Vec<_>>().join("; ");
    format!("echo '<testsuites><testsuite>' > junit.xml; {tests}; echo '{end}' >> junit.xml")
}

#[test]
fn a_report_of_200_mb_is_read_in_little_memory_however_it_ends() {
    let world = World::new();
    let bad = "<testcase name=\"late &amp; bad\"><failure message=\"1 &lt; 2\">no</failure></testcase>";
    let closed = "</testsuite></testsuites>";
    for (end, code, results, digest) in [
        (format!("{bad}{closed}"), 1, "4 passed, 1 failed (JUnit)", "late & bad  1 < 2"),
        (closed.to_owned(), 3, "4 passed (JUnit)", "no test failed by JUnit, and yet"),
        (format!("{bad}{closed}"), 0, "4 passed, 1 failed (JUnit)", "tests failed, and yet the exit status is 0"),
        (bad.to_owned(), 1, "is not well-formed: it ends in the middle", "it ends in the middle"),
        ("<testcase name=\"&evil;\"/>".to_owned(), 1, "is not well-formed", "is not well-formed"),
    ] {
        let id = world.sh(&format!("{}; exit {code}", huge_report(&end)));
        assert_eq!(world.end(&id)["exit_code"], code);
        assert!(fs::metadata(world.work("junit.xml")).unwrap().len() > 200 << 20);
        let verdict = if code == 0 { "SUCCEEDED".to_owned() } else { format!("FAILED exit {code}") };
        for (args, expected) in [(&["results", &id][..], results), (&["logs", "--digest", &id], digest)] {
            let said = lean(&world, args).ok().text();
            assert!(said.starts_with(&verdict) && said.contains(expected), "{end}: {said}");
        }
        machine::until_there(&world.folder(&id).join("findings"));
    }
}
