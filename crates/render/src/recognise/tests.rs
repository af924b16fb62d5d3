//! What each known format says, in the fewest lines that show it.

use super::*;

fn check(output: &str, expected: &str) {
    let mut recogniser = Recogniser::new(true);
    for (number, line) in (1..).zip(output.lines()) {
        recogniser.line(number, line);
    }
    let found = recogniser.finish();
    let mut seen = Vec::new();
    for counts in &found.counts {
        let passed = counts.passed.map_or("?".to_owned(), |passed| passed.to_string());
        let Counts { source, failed, errored, skipped, .. } = counts;
        seen.push(format!("{source}: {passed} passed, {failed} failed, {errored} errored, {skipped} skipped"));
    }
    for test in found.tests.iter().filter(|test| test.is_bad()) {
        let line = test.line.map_or(String::new(), |line| format!(":{line}"));
        let place = test.path.as_deref().unwrap_or("-");
        let (name, message) = (&test.name, test.message.as_deref().unwrap_or("-"));
        seen.push(format!("{:?} {name} | {place}{line} | {message}", test.status));
    }
    for said in &found.diagnostics {
        let place = said.place().map_or("-".to_owned(), |place| place.to_string());
        let code = said.code.as_deref().unwrap_or("-");
        seen.push(format!("L{} {} {code} {place} {}", said.output_line, said.source, said.message));
    }
    for suspect in &found.suspects {
        seen.push(format!("L{} ? {}", suspect.output_line, suspect.text));
    }
    for note in &found.notes {
        seen.push(format!("note: {}", note.text));
    }
    assert_eq!(seen.join("\n"), expected.trim());
}

#[test]
fn libtest_says_which_and_why() {
    check(
        "running 3 tests
test net::works ... ok
test net::retry ... FAILED
test net::slow ... ignored

failures:

---- net::retry stdout ----

thread 'net::retry' panicked at src/net.rs:88:5:
assertion `left == right` failed
  left: 1
 right: 2
note: run with `RUST_BACKTRACE=1`

test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s
test result: ok. 5 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
error: test failed, to rerun pass `--lib`",
        "libtest: 6 passed, 1 failed, 0 errored, 1 skipped
Failed net::retry | src/net.rs:88 | assertion `left == right` failed; left: 1; right: 2
L10 panic - src/net.rs:88:5 assertion `left == right` failed; left: 1; right: 2
L18 ? error: test failed, to rerun pass `--lib`",
    );
}

#[test]
fn nextest_names_failures_once() {
    check(
        "        PASS [   0.017s] semver::a test
        FAIL [   0.005s] ( 2/3) semver::b test_eq
        FAIL [   0.005s] ( 2/3) semver::b test_eq
     SIGSEGV [   0.005s] semver::c dies
     Summary [   0.236s] 3 tests run: 1 passed, 2 failed, 4 skipped",
        "nextest: 1 passed, 2 failed, 0 errored, 4 skipped
Failed semver::b test_eq | - | -
Failed semver::c dies | - | -",
    );
}

#[test]
fn rustc_says_where() {
    check(
        "error[E0308]: mismatched types
 --> src/lib.rs:9:26
  |
warning: unused variable: `x`
  --> src/lib.rs:1:1
error: could not compile `a` (lib) due to 1 previous error; 1 warning emitted",
        "L1 rustc E0308 src/lib.rs:9:26 mismatched types
L4 rustc - src/lib.rs:1:1 unused variable: `x`
L6 ? error: could not compile `a` (lib) due to 1 previous error; 1 warning emitted",
    );
}

#[test]
fn cargo_json_is_read_and_broken_json_is_named() {
    check(
        r#"{"reason":"compiler-artifact","package_id":"x"}
{"reason":"compiler-message","message":{"level":"error","message":"mismatched \"types\"","code":{"code":"E0308","explanation":""},"spans":[{"file_name":"src/lib.rs","line_start":9,"column_start":26,"is_primary":true}]}}
{"reason":"compiler-message","message":{"level":"er"#,
        "L2 cargo JSON E0308 src/lib.rs:9:26 mismatched \"types\"
note: not all cargo JSON could be read",
    );
}

#[test]
fn libtest_json_is_read() {
    check(
        r#"{ "type": "suite", "event": "started", "test_count": 2 }
{ "type": "test", "event": "ok", "name": "a" }
{ "type": "test", "name": "b", "event": "failed", "exec_time": 0.5, "stdout": "thread 'b' panicked at src/b.rs:1:2:\nboom\n" }
{ "type": "suite", "event": "failed", "passed": 1, "failed": 1, "ignored": 0, "measured": 0, "filtered_out": 0 }"#,
        "libtest JSON: 1 passed, 1 failed, 0 errored, 0 skipped
Failed b | src/b.rs:1 | boom",
    );
}

#[test]
fn go_is_read_as_text_and_as_json() {
    check(
        "--- FAIL: TestAdd (0.00s)
    add_test.go:12: got 3, want 4
    --- FAIL: TestAdd/sub (0.01s)
        add_test.go:20: no
FAIL	example.com/add	0.01s
FAIL	example.com/bad [build failed]
./main.go:12:3: undefined: x
panic: boom

goroutine 1 [running]:
main.main()
	/src/main.go:5 +0x18
exit status 2",
        "go test: ? passed, 2 failed, 1 errored, 0 skipped
Failed TestAdd | add_test.go:12 | got 3, want 4
Failed TestAdd/sub | add_test.go:20 | no
Errored example.com/bad | - | build failed
L7 go - main.go:12:3 undefined: x
L8 go - /src/main.go:5 panic: boom"
            .replace("main.go:12", "./main.go:12")
            .as_str(),
    );
    check(
        r#"{"Time":"2026-01-01T00:00:00Z","Action":"run","Package":"p","Test":"TestA"}
{"Time":"2026-01-01T00:00:00Z","Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:7: bad\n"}
{"Time":"2026-01-01T00:00:00Z","Action":"fail","Package":"p","Test":"TestA","Elapsed":0.1}
{"Time":"2026-01-01T00:00:00Z","Action":"pass","Package":"p","Test":"TestB","Elapsed":0}
{"Time":"2026-01-01T00:00:00Z","Action":"fail","Package":"p","Elapsed":0.1}"#,
        "go test -json: 1 passed, 1 failed, 0 errored, 0 skipped
Failed p TestA | a_test.go:7 | bad
L5 ? FAIL p",
    );
}

#[test]
fn pytest_and_tracebacks() {
    check(
        "tests/a.py::test_ok PASSED [ 50%]
FAILED tests/a.py::test_b - AssertionError: assert 1 == 2
ERROR tests/c.py - ImportError: no module
!!!!!! Interrupted: 1 error during collection !!!!!!
==== 1 failed, 1 passed, 2 skipped, 1 error in 1.42s ====
Traceback (most recent call last):
  File \"/app/a.py\", line 3, in <module>
    f()
  File \"/app/b.py\", line 7, in f
    raise ValueError('no')
ValueError: no",
        "pytest: 1 passed, 1 failed, 1 errored, 2 skipped
Failed tests/a.py::test_b | - | AssertionError: assert 1 == 2
Errored tests/c.py | - | ImportError: no module
L6 traceback - /app/b.py:7 ValueError: no
L4 ? !!!!!! Interrupted: 1 error during collection !!!!!!",
    );
}

#[test]
fn unittest_counts_and_explains() {
    check(
        "======================================================================
FAIL: test_x (mod.Case.test_x)
----------------------------------------------------------------------
Traceback (most recent call last):
  File \"/app/t.py\", line 3, in test_x
    self.assertEqual(1, 2)
AssertionError: 1 != 2

----------------------------------------------------------------------
Ran 3 tests in 0.001s

FAILED (failures=1)",
        "unittest: 2 passed, 1 failed, 0 errored, 0 skipped
Failed test_x (mod.Case.test_x) | - | AssertionError: 1 != 2",
    );
}

#[test]
fn unittest_verbose_names_what_passed_too() {
    let text = "test_a (t.T.test_a) ... ok
test_b (t.T.test_b)
What b is for ... ok
test_c (t.T.test_c) ... skipped 'no net'
test_x (t.T.test_x) ... FAIL
loading ... ok

======================================================================
FAIL: test_x (t.T.test_x)
----------------------------------------------------------------------
Traceback (most recent call last):
  File \"/app/t.py\", line 3, in test_x
    self.assertEqual(1, 2)
AssertionError: 1 != 2

----------------------------------------------------------------------
Ran 5 tests in 0.001s

FAILED (failures=1, skipped=1)";
    let mut recogniser = Recogniser::new(true);
    for (at, line) in text.lines().enumerate() {
        recogniser.line(at as u64 + 1, line);
    }
    let found = recogniser.finish();
    let tests: Vec<_> = found.tests.iter().map(|test| (test.name.as_str(), test.status, test.output_line)).collect();
    assert_eq!(
        tests,
        [
            ("test_a (t.T.test_a)", Status::Passed, Some(1)),
            ("test_b (t.T.test_b)", Status::Passed, Some(3)),
            ("test_c (t.T.test_c)", Status::Skipped, Some(4)),
            ("test_x (t.T.test_x)", Status::Failed, Some(9)),
        ]
    );
    assert_eq!(found.tests[3].message.as_deref(), Some("AssertionError: 1 != 2"));
    assert_eq!(found.unnamed(), 1, "one passed that nobody named");
}

#[test]
fn vitest_and_jest() {
    check(
        " FAIL  t/a.test.js > bad
AssertionError: expected 2 to be 3 // Object.is equality

- Expected
 ❯ t/a.test.js:3:28
      Tests  1 failed | 40 passed (41)",
        "vitest: 40 passed, 1 failed, 0 errored, 0 skipped
Failed t/a.test.js > bad | t/a.test.js:3 | AssertionError: expected 2 to be 3 // Object.is equality",
    );
    check(
        "FAIL src/a.test.js
  ● math › adds

    expect(received).toBe(expected) // Object.is equality

    Expected: 3
    Received: 2

      at Object.<anonymous> (src/a.test.js:4:17)

Tests:       1 failed, 2 passed, 3 total",
        "jest: 2 passed, 1 failed, 0 errored, 0 skipped
Failed math › adds | src/a.test.js:4 | expect(received).toBe(expected) // Object.is equality; Expected: 3; Received: 2",
    );
}

#[test]
fn compilers_and_linters() {
    check(
        "a.c:3:5: error: expected ';' before 'return'
a.c:1:10: fatal error: x.h: No such file or directory
src/a.ts(12,5): error TS2345: no
src/a.ts:12:5 - error TS2322: bad
::error file=a.js,line=1,col=5::oops
a.py:1:8: F401 `os` imported but unused
main.o: undefined reference to `f'
/src/b.js
  12:5  error  'x' is not defined  no-undef
[ERROR] /src/Foo.java:[12,5] cannot find symbol
Exception in thread \"main\" java.lang.IllegalStateException: no",
        "L1 compiler - a.c:3:5 expected ';' before 'return'
L2 compiler - a.c:1:10 x.h: No such file or directory
L3 tsc TS2345 src/a.ts:12:5 no
L4 tsc TS2322 src/a.ts:12:5 bad
L5 GitHub annotation - a.js:1:5 oops
L6 linter F401 a.py:1:8 `os` imported but unused
L7 linker - - undefined reference to `f'
L9 eslint no-undef /src/b.js:12:5 'x' is not defined
L10 maven - /src/Foo.java:12:5 cannot find symbol
L11 java - - java.lang.IllegalStateException: no",
    );
}

#[test]
fn linter_json_is_read() {
    check(
        r#"{"cell":null,"code":"F401","filename":"/a.py","location":{"row":1,"column":8},"message":"unused"}
[{"filePath":"/b.js","messages":[{"ruleId":"no-undef","severity":2,"message":"no","line":1,"column":2}]}]"#,
        "L1 ruff JSON F401 /a.py:1:8 unused
L2 eslint JSON no-undef /b.js:1:2 no",
    );
}

#[test]
fn linter_json_is_read_as_it_is_written_for_people_and_as_one_line() {
    check(
        r#"[
  {
    "cell": null,
    "code": "F401",
    "end_location": {
      "column": 10,
      "row": 4
    },
    "filename": "/w/a.py",
    "fix": {
      "applicability": "safe",
      "edits": [
        {
          "content": "",
          "end_location": { "column": 1, "row": 9 },
          "location": {
            "column": 77,
            "row": 99
          }
        }
      ],
      "message": "Remove unused import: `os`"
    },
    "location": {
      "column": 8,
      "row": 1
    },
    "message": "`os` imported \"but\" unused",
    "noqa_row": 1,
    "url": "https://x"
  },
  {
    "cell": null
  }
]
[{"cell":null,"code":"E1","filename":"b.py","location":{"row":1,"column":8},"message":"a"},{"cell":null,"code":null,"filename":"c.py","location":{"row":2,"column":3},"message":"b"}]"#,
        "L3 ruff JSON F401 /w/a.py:1:8 `os` imported \"but\" unused
L36 ruff JSON E1 b.py:1:8 a
L36 ruff JSON - c.py:2:3 b",
    );
}

#[test]
fn surefire_counts_its_sum_only() {
    check(
        "[ERROR] Tests run: 2, Failures: 1, Errors: 0, Skipped: 0, Time elapsed: 0.1 s <<< FAILURE! -- in a.B
[ERROR] Tests run: 5, Failures: 1, Errors: 1, Skipped: 1",
        "Surefire: 2 passed, 1 failed, 1 errored, 1 skipped",
    );
}

#[test]
fn nothing_known_is_nothing_found() {
    check("hello\n0 errors\nall good", "");
}
