//! Secrets of a task do not reach an agent by way of its output, and the output itself stays what it is.

use std::fs;
use std::io::Read as _;

use serde_json::Value;

use crate::support::{MINE, World, finish, id_of, machine};

/// What the task has in its environment under a name that says so.
const VALUE: &str = "abcd1234efgh";
/// What has the shape of a token.
const TOKEN: &str = "ghp_0123456789abcdefghijABCDEFGHIJ012345";

/// A task with [`VALUE`] in its environment.
fn run(world: &World, args: &[&str]) -> String {
    let all: Vec<&str> = ["run"].iter().chain(args).copied().collect();
    id_of(&finish(world.client(&all).env("DEPLOY_TOKEN", VALUE).env("PLAIN", "zyxw9876").spawn().unwrap()).ok())
}

fn stars(text: &str) -> String {
    text.replace(VALUE, &"*".repeat(VALUE.len())).replace(&TOKEN[4..], &"*".repeat(TOKEN.len() - 4))
}

#[test]
fn secrets_are_starred_in_what_agents_read_and_are_in_the_file() {
    let world = World::new();
    let script = format!("seq 1 300; echo value $DEPLOY_TOKEN $PLAIN; echo error: {TOKEN}; seq 301 600; exit 1");
    let id = run(&world, &["-c", &script]);
    world.end(&id);
    let exact = String::from_utf8(world.output(&id)).unwrap();
    assert!(exact.contains(VALUE) && exact.contains(TOKEN));
    let logs = |args: &[&str]| {
        let all: Vec<&str> = ["logs", &id].iter().chain(args).copied().collect();
        world.look(&all).ok().text()
    };
    assert_eq!(logs(&["--raw"]), exact);
    assert_eq!(logs(&[]), stars(&exact), "length, offsets and lines stay");
    assert!(exact.contains("zyxw9876") && logs(&[]).contains("zyxw9876"));
    assert_eq!(logs(&["--lines", "301:302"]), stars(&format!("value {VALUE} zyxw9876\nerror: {TOKEN}\n")));
    let at = exact.find(VALUE).unwrap();
    let pages: Vec<String> =
        (0..5).map(|page| logs(&["--offset", &(at + 5 * page - 5).to_string(), "--limit", "5"])).collect();
    assert_eq!(pages.concat(), stars(&exact)[at - 5..at + 20], "whatever the page begins with");
    for args in [["--rendered"].as_slice(), &["--digest"], &["--json"], &["--timestamps"], &["--grep", "value|error"]] {
        let text = logs(args);
        assert!(!text.contains(VALUE) && !text.contains(&TOKEN[4..]), "{args:?}: {text}");
    }
    assert!(logs(&["--json", "--raw"]).contains(VALUE));
    let grep = world.look(&["logs", &id, "--grep", VALUE]).ok().text();
    assert_eq!(grep, "", "what is hidden cannot be guessed at");
}

#[test]
fn notices_hide_what_the_output_shows() {
    let world = World::new();
    let script = format!("echo match $DEPLOY_TOKEN; echo last {TOKEN}; exit 3");
    let id = run(&world, &["--watch", "match", "-c", &script]);
    world.end(&id);
    let notices = world.inbox(MINE);
    let text = serde_json::to_string(&notices).unwrap();
    assert_eq!(notices.len(), 2, "{text}");
    assert!(!text.contains(VALUE) && !text.contains(&TOKEN[4..]), "{text}");
    assert_eq!(notices[0]["line"].as_str().unwrap_or_default(), stars(&format!("match {VALUE}")), "{text}");
    assert!(notices[1]["text"].as_str().unwrap().contains(&stars(&format!("last {TOKEN}"))), "{text}");
}

#[test]
fn a_command_line_hides_its_passwords_where_it_is_told() {
    let world = World::new();
    let id = world.run(&["--", "echo", "--password", "hunter22", "https://me:s3cret@example.org/"]);
    let task = world.end(&id);
    let display = task["command"]["display"].as_str().unwrap();
    assert_eq!(display, "echo --password ******** https://me:******@example.org/");
    assert_eq!(task["command"]["argv"][2], "hunter22", "who asks for the task itself is given it as it was");
    let list = world.look(&["ps", "-a", "-s", MINE, "--json"]).text();
    let told = [list, world.look(&["ps", "-a", "-s", MINE]).text(), world.look(&["show", &id]).text()].concat();
    let heard = serde_json::to_string(&world.inbox(MINE)).unwrap();
    assert!(!told.contains("hunter22") && !heard.contains("hunter22") && !told.contains("s3cret"), "{told}{heard}");
}

#[test]
fn an_output_that_shows_a_secret_stays_beside_the_spec_that_knows_it() {
    let world = World::new();
    world.configure("pack_after = '20ms'\n");
    let showing = run(&world, &["-c", "echo $DEPLOY_TOKEN"]);
    world.end(&showing);
    let silent = run(&world, &["-c", "echo nothing"]);
    world.end(&silent);
    machine::until_removed(&world.folder(&silent));
    assert_eq!(world.show(&silent)["output"]["packed"], true);
    assert_eq!(world.show(&showing)["output"]["packed"], Value::Bool(false));
    assert_eq!(world.look(&["logs", &showing]).ok().text(), stars(&format!("{VALUE}\n")));
    // Nowhere else in the home is the value, but in the output, which is the command's own.
    let folder = world.folder(&showing);
    for file in ["db.sqlite", "db.sqlite-wal", "daemon.log"] {
        let bytes = fs::read(world.home().join(file)).unwrap_or_default();
        assert!(!bytes.windows(VALUE.len()).any(|window| window == VALUE.as_bytes()), "{file}");
    }
    assert!(folder.join("spec").exists());
}

/// What a door that keeps colours shows without them.
fn bare(text: &str) -> String {
    let codes = regex::Regex::new("\x1b\\[[0-9;]*m|\\\\u001b\\[[0-9;]*m").unwrap();
    codes.replace_all(text, "").into_owned()
}

#[test]
fn colours_within_a_secret_show_it_nowhere() {
    let world = World::new();
    let (half, rest) = ("ghp_0123456789abcdef", "ghijABCDEFGHIJ0123456789");
    let script = format!(
        r"printf '\033[31mabcd\033[0m1234efgh match\n'; printf 'password=\033[1mhunter22x\033[0m\n'
        printf 'error: {half}\033[0m{rest}\n'; printf 'abcdXX\b\b1234efgh\n'; printf 'xxxx1234\033[mefgh\rabcd'
        exit 3"
    );
    let file = world.work("script");
    fs::write(&file, script).unwrap();
    for terminal in [&[][..], &["--pty"]] {
        let args = [terminal, &["--watch", "match", "--", "sh", file.to_str().unwrap()]].concat();
        let id = run(&world, &args);
        world.end(&id);
        let exact = String::from_utf8(world.output(&id)).unwrap();
        assert!(bare(&exact).contains(VALUE) && bare(&exact).contains("hunter22x"), "{exact}");
        let notices = world.inbox(MINE).into_iter().filter(|notice| notice["task"] == id.as_str());
        let notices: Vec<String> = notices.map(|notice| notice.to_string()).collect();
        let heard = notices.concat();
        assert_eq!(notices.len(), 2, "{heard}");
        let logs = |args: &[&str]| {
            let all: Vec<&str> = ["logs", &id].iter().chain(args).copied().collect();
            world.look(&all).ok().text()
        };
        let doors = [["--rendered"].as_slice(), &["--digest"], &["--json"], &["--timestamps"], &["--grep", "."], &[]];
        for told in doors.map(logs).into_iter().chain([heard]) {
            let told = bare(&told);
            let shows = [VALUE, "hunter22x", "efgh", rest].into_iter().find(|secret| told.contains(secret));
            assert_eq!(shows, None, "{told}");
            assert!(told.contains(&"*".repeat(VALUE.len())), "{told}");
        }
        assert_eq!(logs(&[]).len(), exact.len(), "offsets stay");
        assert_eq!(logs(&["--raw"]), exact);
    }
}

#[test]
fn a_follower_is_not_shown_the_first_half_of_a_secret() {
    let world = World::new();
    let go = world.fifo("go");
    let read = format!("read x < {}", go.word());
    let script = format!("printf 'early abcd12'; {read}; echo 34efgh; printf 'token=abc'; {read}; echo 12345");
    let id = run(&world, &["-c", &script]);
    let mut follower = world.onlooker(&["logs", "-f", "-n", "all", &id]).spawn().unwrap();
    let mut pipe = follower.stdout.take().unwrap();
    let mut expect = |text: &str| {
        let mut seen = vec![0; text.len()];
        pipe.read_exact(&mut seen).unwrap();
        assert_eq!(String::from_utf8(seen).unwrap(), text);
    };
    expect("early ");
    go.release(1);
    expect("************\n");
    go.release(1);
    expect("token=********\n");
    assert!(follower.wait().unwrap().success());
    let last = run(&world, &["-c", "printf 'token=abc'"]);
    assert_eq!(world.look(&["logs", "-f", &last]).ok().text(), "token=abc", "at the end nothing is kept back");
}

/// Where a long output has what a digest shows: the lines before and after it are too many to be looked at one by one.
const FILLER: &str = "seq 1000000 1100000";

#[test]
fn in_a_long_output_secrets_are_starred_wherever_a_digest_shows_something() {
    let world = World::new();
    let (half, rest) = TOKEN.split_at(20);
    let both = format!("$DEPLOY_TOKEN {TOKEN}");
    let shown = [
        format!("echo begin {both}; {FILLER}"),
        format!("{FILLER}; printf 'fatal: \\033[1m{half}\\033[0m{rest}\\033[31m %s\\033[0m\\r\\n' {both}; {FILLER}"),
        format!("{FILLER}; echo \"error[E0308]: {both}\"; echo \" --> src/{TOKEN}.rs:9:26\"; {FILLER}"),
        format!("{FILLER}; echo \"thread 'a' panicked at src/a.rs:1:2:\"; echo \"is {both}\"; echo; {FILLER}"),
        format!("{FILLER}; echo \"test {TOKEN}::b ... FAILED\"; {FILLER}"),
        format!(
            "{FILLER}; echo \"/src/{TOKEN}.js\"; echo \"  12:5  error  $DEPLOY_TOKEN is not defined  no-undef\"; {FILLER}"
        ),
        format!(
            "{FILLER}; echo '-----BEGIN PRIVATE KEY-----'; echo \"error: {VALUE}\"; echo '-----END PRIVATE KEY-----'; {FILLER}"
        ),
        format!("{FILLER}; echo \"generated xml file: /tmp/{TOKEN}.xml\"; {FILLER}"),
        format!("{FILLER}; echo end {both}"),
        format!("{FILLER}; printf 'last words %.9s' $DEPLOY_TOKEN"),
    ];
    for script in shown {
        let id = run(&world, &["-c", &format!("{script}; exit 1")]);
        assert_eq!(world.end(&id)["exit_code"], 1, "{script}");
        for args in [&["logs", "--digest", id.as_str()][..], &["logs", "--digest", "--json", &id]] {
            let text = bare(&world.look(args).ok().text());
            let has_secret = text.contains(&VALUE[..9]) || text.contains(&TOKEN[4..16]) || text.contains(&TOKEN[30..]);
            assert!(!has_secret, "{script}: {args:?}: {text}");
        }
        let digest = world.look(&["logs", "--digest", &id]).ok().text();
        let is_named = script.contains("KEY") || script.contains("xml") || digest.contains("*****");
        assert!(is_named && digest.len() <= 2048, "{script}: {digest}");
    }
}
