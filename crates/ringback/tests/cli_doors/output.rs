//! What a reader is shown of an output: rendered lines, digests, tests and messages, and never a byte changed in a pipe.

use crate::home::{Home, seq};

const REDRAWN: &str =
    r"printf '\033[31mred\033[0m\n10%%\r20%%\rdone\n\033]0;owned\007x\342\200\256y\nsame\nsame\nsame\nlast'";

#[test]
fn a_person_sees_what_was_to_be_seen_and_a_pipe_gets_the_bytes() {
    let home = Home::new();
    let id = home.ended(&["-c", REDRAWN]);
    let logs = |args: &[&str]| home.say(&[&["logs", &id], args].concat()).out;
    assert_eq!(logs(&["--rendered"]), "red\ndone\nxy\nsame (×3)\nlast\n");
    let raw = "\u{1b}[31mred\u{1b}[0m\n10%\r20%\rdone\n\u{1b}]0;owned\u{7}x\u{202e}y\nsame\nsame\nsame\nlast";
    assert_eq!(logs(&[]), raw);
    assert_eq!(logs(&["--raw"]), raw);
    assert_eq!(logs(&["--numbers"]), "1:red\n2:done\n3:xy\n4:same (×3)\n7:last\n");
    assert_eq!(logs(&["--rendered", "--lines", "2:3"]), "done\nxy\n");
    assert_eq!(logs(&["--rendered", "-n", "2"]), "same (×3)\nlast\n");
    assert_eq!(logs(&["--rendered", "-n", "2", "--numbers"]), "4:same (×3)\n7:last\n");
    assert_eq!(logs(&["--rendered", "--timestamps", "--lines", "1"]).split_once(' ').unwrap().1, "red\n");
    let document = home.say(&["logs", "--json", "--rendered", &id]).json();
    assert_eq!(document["lines"][3]["repeats"], 3);
    assert_eq!((&document["lines"][3]["line"], &document["lines"][3]["last_line"]), (&4.into(), &6.into()));
}

#[test]
fn a_match_comes_with_its_neighbours_and_its_number() {
    let home = Home::new();
    let id = home.ended(&["-c", "seq 1 3000"]);
    let logs = |args: &[&str]| home.say(&[&["logs", &id], args].concat()).out;
    let around = logs(&["--grep", "^(10|13|20)$", "-C", "1", "--numbers"]);
    assert_eq!(around, "9-9\n10:10\n11-11\n12-12\n13:13\n14-14\n--\n19-19\n20:20\n21-21\n");
    assert_eq!(logs(&["--grep", "^29.9$", "--rendered", "-n", "2"]), "2989\n2999\n");
    assert_eq!(logs(&["--lines", "2999:", "--numbers"]), "2999:2999\n3000:3000\n");
    assert_eq!(logs(&["--offset", "2", "--limit", "4", "--numbers"]), "2:2\n3:3\n");
    assert_eq!(logs(&["--lines", "3001:", "--numbers"]), "");
    assert_eq!(logs(&["--rendered"]), seq(3000));
    let last = home.say(&["logs", "--json", "--rendered", "-n", "2", &id]).json();
    assert_eq!((&last["lines"][0]["line"], &last["lines"][1]["last_line"]), (&2999.into(), &3000.into()));
}

#[test]
fn a_late_line_is_found_by_marks_that_are_kept() {
    let home = Home::new();
    let id = home.ended(&["-c", "yes 'a line of some length' | head -c 20000000; echo; echo the end"]);
    let first = home.say(&["logs", &id, "--lines", "869567"]).out;
    let last = home.say(&["logs", &id, "--lines", "869567:"]).out;
    assert!(last.starts_with(&first) && last.ends_with("the end\n"), "{first:?} {last:?}");
    let path = home.say(&["show", "--json", &id]).json()["output"]["path"].as_str().unwrap().to_owned();
    assert!(std::fs::metadata(format!("{path}.lines")).unwrap().len() > 24 * 8);
    assert_eq!(home.say(&["rm", &id]).code, Some(0));
    assert!(!std::path::Path::new(&path).parent().unwrap().exists());
}

#[test]
fn tests_that_were_only_counted_are_said_to_be_left_out() {
    let home = Home::new();
    let verbose = "test_a (t.T.test_a) ... ok\ntest_b (t.T.test_b) ... FAIL\n";
    let script =
        format!("printf '%s' '{verbose}'; printf '\n----\nRan 3 tests in 0.001s\n\nFAILED (failures=1)\n'; exit 1");
    let id = home.ended(&["-c", &script]);
    let all = home.say(&["results", "--all", "--json", &id]).json();
    let names: Vec<_> = all["tests"].as_array().unwrap().iter().map(|test| test["name"].as_str().unwrap()).collect();
    assert_eq!((names, &all["tests_left_out"]), (vec!["test_a (t.T.test_a)", "test_b (t.T.test_b)"], &1.into()));
    assert!(home.say(&["results", "--all", &id]).out.contains("\nand 1 more test\n"));
    assert_eq!(home.say(&["results", "--json", &id]).json()["tests_left_out"], 0);
}

#[test]
fn a_digest_has_the_verdict_of_the_exit_status_and_the_first_error() {
    let home = Home::new();
    let script = "seq 1 20000 | sed 's/^/compiling unit /'; echo 'OK, no errors'; \
        printf 'error[E0308]: mismatched types\\n --> src/lib.rs:9:26\\n'; seq 1 20000; exit 101";
    let id = home.ended(&["-c", script]);
    let digest = home.say(&["logs", "--digest", &id]);
    assert!(digest.out.starts_with("FAILED exit 101 after "), "{digest:?}");
    assert!(digest.out.contains("first error L20002: [E0308] mismatched types --> src/lib.rs:9:26"), "{digest:?}");
    assert!(digest.out.len() <= 2048 && digest.out.ends_with("| 20000\n"), "{digest:?}");
    let (_, range) = digest.out.split_once(" --lines ").unwrap();
    let range = range.split(']').next().unwrap();
    let left_out = home.say(&["logs", &id, "--lines", range]).out;
    assert!(left_out.contains("mismatched types"), "{range}");
    let small = home.say(&["logs", "--digest", "--budget", "300", &id]).out;
    assert!(small.len() <= 300 && small.starts_with("FAILED exit 101"), "{small}");
    let document = home.say(&["logs", "--digest", "--json", &id]).json();
    assert_eq!((&document["exit_code"], &document["summary"]["errors"][0]["line"]), (&101.into(), &9.into()));
    let messages = home.say(&["diagnostics", "--json", &id]).json();
    assert_eq!(messages["diagnostics"][0]["code"], "E0308");
    let page = home.say(&["diagnostics", &id]).out;
    assert!(page.contains("L20002 error[E0308]: mismatched types  src/lib.rs:9:26 (rustc)"), "{page}");
}

#[test]
fn a_pipeline_that_hides_a_failure_is_named() {
    let home = Home::new();
    let id = home.ended(&["-c", "sh -c 'echo failing; exit 7' | tail -1"]);
    let digest = home.say(&["logs", "--digest", &id]).out;
    assert!(
        digest.starts_with("SUCCEEDED exit 0") && digest.contains("hint: exit 0 is of the last command"),
        "{digest}"
    );
}

#[test]
fn tests_come_from_the_report_that_this_run_wrote() {
    let home = Home::new();
    let xml = "<testsuite><testcase name='a'/><testcase name='b'><failure message='left is not right'/></testcase></testsuite>";
    let script = format!("mkdir -p target/nextest/ci; echo \"{xml}\" > target/nextest/ci/junit.xml; exit 100");
    let id = home.ended(&["-c", &script]);
    let results = home.say(&["results", "--json", &id]).json();
    assert_eq!((&results["counts"][0]["source"], &results["counts"][0]["failed"]), (&"JUnit".into(), &1.into()));
    assert_eq!(results["tests"].as_array().unwrap().len(), 1);
    let all = home.say(&["results", "--all", &id]).out;
    assert!(all.contains("1 passed, 1 failed (JUnit)") && all.contains("passed  a"), "{all}");
    let digest = home.say(&["logs", "--digest", &id]).out;
    assert!(digest.contains("  b  left is not right"), "{digest}");
    let none = home.ended(&["-C", "target", "--", "false"]);
    let page = home.say(&["results", &none]).out;
    assert!(page.starts_with("FAILED exit 1") && page.contains("says nothing about how the tests went"), "{page}");
}

#[test]
fn what_the_exit_status_does_not_show_is_not_claimed() {
    let home = Home::new();
    let good = "echo 'test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s'";
    let failed = home.ended(&["-c", &format!("{good}; exit 3")]);
    let note = "\nnote: no test failed by libtest, and yet the command did\n";
    for verb in [&["results", failed.as_str()][..], &["logs", "--digest", &failed]] {
        let said = home.say(verb).out;
        assert!(said.starts_with("FAILED exit 3") && said.contains(note), "{said}");
    }
    let bad = good.replace("ok. 2 passed; 0 failed", "FAILED. 1 passed; 1 failed");
    let fine = home.ended(&["-c", &format!("{bad}; exit 0")]);
    let said = home.say(&["results", &fine]).out;
    assert!(said.contains("\nnote: tests failed, and yet the exit status is 0\n"), "{said}");
    for (options, hint) in [(&["-lc"][..], true), (&["-eo", "pipefail", "-c"], false)] {
        let piped = home.ended(&[&["--", "bash"], options, &["true | true"]].concat());
        let said = home.say(&["logs", "--digest", &piped]).out;
        assert_eq!(said.contains("\nhint: exit 0 is of the last command of the pipeline"), hint, "{said}");
    }
}

/// Puts something at a path, and what is said of that.
type Plant = (fn(&std::path::Path), &'static str);

#[test]
fn an_output_in_whose_place_lies_something_else_is_named_with_its_task_and_what_to_do() {
    let home = Home::new();
    let plants: [Plant; 3] = [
        (|at| std::os::unix::fs::symlink("/etc/passwd", at).unwrap(), "it is a symbolic link, not a file"),
        (|at| ringback_sys::files::fifo(at).unwrap(), "it is a FIFO, not a plain file"),
        (|_| (), "was removed"),
    ];
    for (plant, why) in plants {
        let id = home.ended(&["-c", "echo written"]);
        let path = home.say(&["show", &id, "--json"]).json()["output"]["path"].as_str().unwrap().to_owned();
        std::fs::remove_file(&path).unwrap();
        plant(path.as_ref());
        for verb in [&["logs", "--digest"][..], &["logs"], &["logs", "--rendered"], &["results"]] {
            let said = home.say(&[verb, &[&id]].concat());
            assert_eq!((said.code, said.out.as_str()), (Some(125), ""), "{verb:?}: {said:?}");
            for words in [id.as_str(), &path, why, "\nhint: ", &format!("`ringback show {id}`")] {
                assert!(said.err.contains(words), "{verb:?} {words}: {said:?}");
            }
        }
        let said = home.say(&["logs", "--digest", "--json", &id]).json();
        assert!(said["hint"].as_str().is_some_and(|hint| hint.contains("ringback show")), "{said:#}");
    }
}
