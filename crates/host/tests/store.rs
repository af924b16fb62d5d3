//! The store keeps what was written, all or nothing, and tells apart what never was from what was removed.

#![expect(clippy::unwrap_used, reason = "a test that cannot set up its world has failed")]

use ringback_core::id::{Prefix, TaskId};
use ringback_core::notice::Kind;
use ringback_core::retention::Kept;
use ringback_host::store::{
    Ack, Asked, Claim, Facts, Found, LOG_BYTES, NoticeIn, Packed, Page, Record, Store, StoreError, StoredOutcome,
    StoredWatch, VERSION,
};
use ringback_host::wire::Sighting;

fn id(n: u64) -> TaskId {
    TaskId::from_bits(n << 40)
}

fn insert(n: u64, session: &str) -> Record {
    Record::Insert {
        id: id(n),
        session: session.into(),
        lease: "awaited",
        created_ms: 1000 + i64::try_from(n).unwrap(),
        asked: Box::new(Asked { name: Some(format!("task {n}")), ..Asked::default() }),
    }
}

fn facts(code: i32) -> Facts {
    let outcome = StoredOutcome { state: "exited".into(), code: Some(code), ..StoredOutcome::default() };
    Facts { outcome, ended_ms: Some(5000), ..Facts::default() }
}

fn conclude(n: u64, session: &str, code: i32) -> Record {
    let text = format!("exit {code}");
    Record::Conclude { id: id(n), session: session.into(), facts: Box::new(facts(code)), at_ms: 5000, text }
}

fn close(n: u64) -> Record {
    Record::Close { id: id(n), facts: None, disk_bytes: 100 * n }
}

fn open() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("db")).unwrap();
    (dir, store)
}

#[test]
fn a_log_that_was_made_long_ahead_is_written_into_and_read_as_before() {
    let (dir, mut store) = open();
    let log = || std::fs::metadata(dir.path().join("db-wal")).unwrap().len();
    store.write(&[insert(1, "s")]).unwrap();
    while store.lengthen_log(1 << 20).unwrap() {}
    assert_eq!(log(), LOG_BYTES);
    assert!(!store.lengthen_log(1 << 20).unwrap());
    for n in 2..500 {
        store.write(&[insert(n, "s")]).unwrap();
        assert_eq!(log(), LOG_BYTES, "at {n}");
    }
    // As after a kill: the log is read from its begin, by whoever opens the database next.
    for file in ["db", "db-wal"] {
        std::fs::copy(dir.path().join(file), dir.path().join(file.replace("db", "copy"))).unwrap();
    }
    let copy = Store::open(&dir.path().join("copy")).unwrap();
    assert!((1..500).all(|n| matches!(copy.task(id(n)), Ok(Some(_)))));
}

fn heard(store: &Store, session: &str) -> Vec<(u64, String)> {
    store.notices(session, 0, 100).unwrap().into_iter().map(|notice| (notice.seq, notice.text)).collect()
}

fn seen(n: u64, kind: Kind, replaces: Option<u64>) -> Record {
    Record::Notice(Box::new(NoticeIn {
        id: id(n),
        session: "s".into(),
        kind,
        at_ms: 4000,
        text: kind.word().into(),
        sighting: Sighting { offset: Some(7), ..Sighting::default() },
        replaces,
    }))
}

#[test]
fn nothing_of_a_task_follows_its_end_and_old_progress_goes_with_it() {
    let (_dir, mut store) = open();
    store.write(&[insert(1, "s"), seen(1, Kind::ToolProgress, None), seen(1, Kind::ToolMatch, None)]).unwrap();
    store.write(&[seen(1, Kind::ToolProgress, Some(1)), seen(1, Kind::ToolStalled, None)]).unwrap();
    let texts =
        |store: &Store| heard(store, "s").into_iter().map(|(seq, text)| format!("{seq} {text}")).collect::<Vec<_>>();
    assert_eq!(
        texts(&store),
        ["2 tool_match", "3 tool_progress", "4 tool_stalled"],
        "a newer progress replaces the older"
    );
    let newest = store.unheard_of(id(1), "s", Kind::ToolProgress).unwrap().unwrap();
    assert_eq!((newest.seq, newest.sighting.offset), (3, Some(7)));
    store.write(&[conclude(1, "s", 0), seen(1, Kind::ToolProgress, None), seen(1, Kind::ToolMatch, None)]).unwrap();
    assert_eq!(texts(&store), ["2 tool_match", "5 exit 0"]);
    let ending = Record::Ack { session: "s".into(), which: Ack::Ending(id(1)) };
    assert_eq!(store.write(&[ending]).unwrap(), [1], "whoever was given the end was not given the match");
    assert_eq!(texts(&store), ["2 tool_match"]);
}

#[test]
fn where_a_watch_stands_is_kept_with_its_task() {
    let (dir, mut store) = open();
    let watch = StoredWatch { searched: 9, matches: 2, ready: true, stalled_at: Some(4), ..StoredWatch::default() };
    store.write(&[insert(1, "s"), insert(2, "s"), Record::Watched { id: id(1), watch: watch.clone() }]).unwrap();
    drop(store);
    let store = Store::open(&dir.path().join("db")).unwrap();
    assert_eq!(store.task(id(1)).unwrap().unwrap().watch, watch);
    assert_eq!(store.task(id(2)).unwrap().unwrap().watch, StoredWatch::default());
}

#[test]
fn what_was_written_is_there_after_the_file_is_opened_again() {
    let (dir, mut store) = open();
    store.write(&[insert(1, "s"), insert(2, "s"), conclude(1, "s", 3)]).unwrap();
    drop(store);
    let store = Store::open(&dir.path().join("db")).unwrap();
    let task = store.task(id(1)).unwrap().unwrap();
    assert_eq!(task.facts, Some(facts(3)));
    assert_eq!(task.asked.name.as_deref(), Some("task 1"));
    assert_eq!(store.live().unwrap().len(), 2, "an outcome is not yet an empty tree");
    assert_eq!(heard(&store, "s"), [(1, "exit 3".to_owned())]);
}

#[test]
fn what_was_acknowledged_without_a_sync_survives_whatever_is_killed() {
    let (dir, mut store) = open();
    store.write(&[insert(1, "s"), conclude(1, "s", 0)]).unwrap();
    let ack = Record::Ack { session: "s".into(), which: Ack::UpTo(1) };
    assert_eq!(store.write_unsynced(&[ack]).unwrap(), [1]);
    store.sync().unwrap();
    // As a killed process leaves them: the database as it is, and the log beside it.
    let left = tempfile::tempdir().unwrap();
    for name in ["db", "db-wal"] {
        std::fs::copy(dir.path().join(name), left.path().join(name)).unwrap();
    }
    assert!(heard(&Store::open(&left.path().join("db")).unwrap(), "s").is_empty());
    // What follows is synced again, and has what was not among it.
    store.write(&[insert(2, "s")]).unwrap();
    assert!(heard(&store, "s").is_empty());
}

#[test]
fn a_round_is_written_whole_or_not_at_all() {
    let (_dir, mut store) = open();
    store.write(&[insert(1, "s")]).unwrap();
    // The second insert of the same id is refused, and takes the first of this round with it.
    assert!(store.write(&[insert(2, "s"), insert(1, "s")]).is_err());
    assert!(store.task(id(2)).unwrap().is_none());
}

#[test]
fn a_task_has_one_outcome_and_its_session_one_notice_of_it() {
    let (_dir, mut store) = open();
    store.write(&[insert(1, "s"), conclude(1, "s", 0)]).unwrap();
    store.write(&[conclude(1, "s", 9)]).unwrap();
    assert_eq!(store.task(id(1)).unwrap().unwrap().facts, Some(facts(0)));
    assert_eq!(heard(&store, "s"), [(1, "exit 0".to_owned())]);
}

#[test]
fn numbers_rise_per_session_and_are_not_given_again_after_they_were_heard() {
    let (_dir, mut store) = open();
    for n in 1..=4 {
        store.write(&[insert(n, "s"), conclude(n, "s", 0)]).unwrap();
    }
    store.write(&[insert(9, "t"), conclude(9, "t", 1)]).unwrap();
    let ack = |which| Record::Ack { session: "s".into(), which };
    assert_eq!(store.write(&[ack(Ack::UpTo(2)), ack(Ack::Task(id(4)))]).unwrap(), [2, 1]);
    assert_eq!(heard(&store, "s").iter().map(|(seq, _)| *seq).collect::<Vec<_>>(), [3]);
    assert_eq!(store.write(&[ack(Ack::One(3)), ack(Ack::One(3))]).unwrap(), [1, 0]);
    store.write(&[insert(5, "s"), conclude(5, "s", 0)]).unwrap();
    assert_eq!(heard(&store, "s").iter().map(|(seq, _)| *seq).collect::<Vec<_>>(), [5]);
    assert_eq!(store.unheard(Some("t")).unwrap(), 1, "nobody else's notice was heard");
}

#[test]
fn an_ack_of_another_session_hears_nothing() {
    let (_dir, mut store) = open();
    store.write(&[insert(1, "s"), conclude(1, "s", 0)]).unwrap();
    let acks = store.write(&[Record::Ack { session: "t".into(), which: Ack::Task(id(1)) }]).unwrap();
    assert_eq!(acks, [0]);
    assert_eq!(store.unheard(None).unwrap(), 1);
}

#[test]
fn a_prefix_names_one_task_several_none_or_one_that_was_removed() {
    let (_dir, mut store) = open();
    store.write(&[insert(1, "s"), insert(2, "s"), conclude(1, "s", 0), close(1)]).unwrap();
    let find = |store: &Store, text: &str| store.find(Prefix::parse(text).unwrap()).unwrap();
    assert_eq!(find(&store, &id(2).to_string()), Found::One(id(2)));
    assert_eq!(find(&store, "000"), Found::Ambiguous(vec![id(1), id(2)]));
    assert_eq!(find(&store, "zz"), Found::Unknown);
    store.write(&[Record::Remove { id: id(1) }]).unwrap();
    assert_eq!(find(&store, &id(1).to_string()), Found::Expired(id(1)));
    assert!(!store.is_free(id(1)).unwrap(), "an id is never given again");
}

#[test]
fn a_task_that_is_not_closed_cannot_be_removed() {
    let (_dir, mut store) = open();
    store.write(&[insert(1, "s"), conclude(1, "s", 0), Record::Remove { id: id(1) }]).unwrap();
    assert!(store.task(id(1)).unwrap().is_some());
}

#[test]
fn pages_are_newest_first_and_end() {
    let (_dir, mut store) = open();
    for n in 1..=5 {
        store.write(&[insert(n, if n == 3 { "t" } else { "s" }), conclude(n, "s", 0)]).unwrap();
    }
    store.write(&[insert(6, "s")]).unwrap();
    let ids = |page| store.page(page).unwrap().iter().map(|row| row.id).collect::<Vec<_>>();
    let first = Page { session: Some("s"), ended: true, before: None, limit: 3 };
    assert_eq!(ids(first), [id(6), id(5), id(4)]);
    let last_seq = store.page(first).unwrap().last().unwrap().seq;
    assert_eq!(ids(Page { before: Some(last_seq), ..first }), [id(2), id(1)]);
    assert_eq!(ids(Page { ended: false, ..first }), [id(6)]);
    assert_eq!(ids(Page { session: None, limit: 100, ..first }).len(), 6);
}

#[test]
fn how_much_a_session_has_not_heard_is_bounded_from_above_without_counting() {
    let (_dir, mut store) = open();
    assert_eq!(store.unheard_at_most("s").unwrap(), 0);
    for n in 1..=4 {
        store.write(&[insert(n, "s"), conclude(n, "s", 0)]).unwrap();
    }
    assert_eq!(store.unheard_at_most("s").unwrap(), 4);
    store.write(&[Record::Ack { session: "s".into(), which: Ack::One(2) }]).unwrap();
    assert_eq!((store.unheard_at_most("s").unwrap(), store.unheard(Some("s")).unwrap()), (4, 3));
    store.write(&[Record::Ack { session: "s".into(), which: Ack::UpTo(3) }]).unwrap();
    assert_eq!(store.unheard_at_most("s").unwrap(), 1);
    store.write(&[Record::Ack { session: "s".into(), which: Ack::UpTo(4) }]).unwrap();
    assert_eq!(store.unheard_at_most("s").unwrap(), 0);
}

#[test]
fn the_oldest_are_found_in_the_order_of_their_ends_and_what_is_kept_is_counted() {
    let (_dir, mut store) = open();
    for n in 1..=3 {
        store.write(&[insert(n, "s"), conclude(n, "s", 0), close(n)]).unwrap();
    }
    store.write(&[insert(4, "s"), conclude(4, "s", 0)]).unwrap();
    store.write(&[Record::Ack { session: "s".into(), which: Ack::UpTo(1) }]).unwrap();
    let first = (i64::MIN, 0);
    let all = store.oldest(first, 9, false).unwrap();
    let seen: Vec<_> = all.iter().map(|row| (row.id, row.disk_bytes, row.unheard)).collect();
    assert_eq!(seen, [(id(1), 100, false), (id(2), 200, true), (id(3), 300, true)]);
    let after = (all[0].ended_ms, all[0].seq);
    assert_eq!(store.oldest(after, 1, false).unwrap(), all[1..2], "page by page, also within one millisecond");
    assert_eq!(store.oldest(first, 9, true).unwrap(), all[..1]);
    assert_eq!(store.kept().unwrap(), Kept { count: 3, bytes: 600 });
    store.write(&[Record::Remove { id: id(1) }]).unwrap();
    assert_eq!(store.kept().unwrap(), Kept { count: 2, bytes: 500 });
}

#[test]
fn a_packed_output_comes_back_and_goes_with_its_task() {
    let (_dir, mut store) = open();
    for n in 1..=3 {
        store.write(&[insert(n, "s"), conclude(n, "s", 0), close(n)]).unwrap();
    }
    assert_eq!(store.oldest_unpacked().unwrap(), Some(5000));
    let packed = Packed { output: Some(b"text\n".to_vec()), index: vec![1, 2], disk_bytes: 7 };
    let boxed = |packed: &Packed| Some(Box::new(packed.clone()));
    store
        .write(&[Record::Pack { id: id(1), packed: boxed(&packed) }, Record::Pack { id: id(2), packed: None }])
        .unwrap();
    let rows = store.unpacked(5000, 9).unwrap();
    assert_eq!(rows.iter().map(|row| row.id).collect::<Vec<_>>(), [id(3)]);
    assert_eq!(store.packed(id(1)).unwrap().map(|found| found.output), Some(packed.output.clone()));
    assert!(store.task(id(1)).unwrap().unwrap().packed && !store.task(id(2)).unwrap().unwrap().packed);
    assert_eq!(store.kept().unwrap(), Kept { count: 3, bytes: 507 });
    let folders = store.ids(Prefix { low: id(0), high: id(9) }).unwrap();
    assert_eq!(folders.into_iter().collect::<Vec<_>>(), [id(2), id(3)]);
    store.write(&[Record::Remove { id: id(1) }]).unwrap();
    assert_eq!(store.packed(id(1)).unwrap(), None);
}

#[test]
fn a_file_that_is_not_ours_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let text = dir.path().join("letter");
    std::fs::write(&text, "dear database, ".repeat(100)).unwrap();
    assert!(matches!(Store::open(&text), Err(StoreError::Foreign(_))));
    assert_eq!(std::fs::read(&text).unwrap().len(), 1500);

    let other = dir.path().join("other");
    let db = rusqlite::Connection::open(&other).unwrap();
    db.execute_batch("CREATE TABLE theirs (x); PRAGMA user_version = 1").unwrap();
    drop(db);
    assert!(matches!(Store::open(&other), Err(StoreError::Foreign(_))));
}

#[test]
fn a_file_of_ours_with_a_version_that_nobody_wrote_is_named_and_left_alone() {
    for version in [-1, 0, i64::from(i32::MIN)] {
        let (dir, mut store) = open();
        store.write(&[insert(1, "s")]).unwrap();
        drop(store);
        let path = dir.path().join("db");
        let set = |version: i64| {
            let db = rusqlite::Connection::open(&path).unwrap();
            db.execute_batch(&format!("PRAGMA user_version = {version}")).unwrap();
        };
        set(version);
        let error = Store::open(&path).unwrap_err();
        assert!(error.to_string().ends_with(&format!("is damaged: it says that its version is {version}")), "{error}");
        assert_eq!(std::error::Error::source(&error).map(ToString::to_string), None);
        set(i64::try_from(VERSION).unwrap());
        assert!(Store::open(&path).unwrap().task(id(1)).unwrap().is_some(), "{version}");
    }
}

#[test]
fn a_home_of_a_newer_ringback_is_not_touched() {
    let (dir, store) = open();
    drop(store);
    let path = dir.path().join("db");
    rusqlite::Connection::open(&path).unwrap().execute_batch("PRAGMA user_version = 99").unwrap();
    assert!(matches!(Store::open(&path), Err(StoreError::TooNew { found: 99, .. })));
}

#[test]
fn a_claim_keeps_others_away_until_it_lapses_and_an_acknowledged_notice_is_never_given() {
    let (_dir, mut store) = open();
    store.write(&[insert(1, "s"), insert(2, "s"), conclude(1, "s", 1), conclude(2, "s", 2)]).unwrap();
    let claim = |word, now_ms, limit| Claim {
        session: "s".into(),
        word,
        rung: "r".into(),
        limit,
        now_ms,
        lease_ms: 100,
        ..Claim::default()
    };
    let mut take = |claim: &Claim| {
        store.write(&[Record::Claim(Box::new(claim.clone()))]).unwrap();
        store.claimed(claim).unwrap()
    };
    assert_eq!(take(&claim(7, 1000, 1)), (vec![1], None));
    assert_eq!(take(&claim(7, 1010, 1)), (vec![1], None), "asked again, as after a death");
    assert_eq!(take(&claim(8, 1020, 9)), (vec![2], Some(90)), "the first is another's");
    assert_eq!(take(&claim(9, 1050, 9)), (vec![], Some(60)));
    let only = |tasks: &[u64], kinds: &[&str]| Claim {
        tasks: tasks.iter().map(|n| id(*n)).collect(),
        kinds: kinds.iter().map(|kind| (*kind).to_owned()).collect(),
        ..claim(10, 1200, 9)
    };
    assert_eq!(take(&only(&[2], &["tool_match"])), (vec![], None));
    assert_eq!(take(&only(&[2], &["tool_result"])), (vec![2], None), "its claim has lapsed");
    assert_eq!(
        take(&claim(11, -1_000_000, 9)),
        (vec![1, 2], None),
        "a claim that reaches too far is of a clock that was set back"
    );
    store.write(&[Record::Ack { session: "s".into(), which: Ack::UpTo(1) }]).unwrap();
    let late = claim(12, 1_000_000, 9);
    store.write(&[Record::Claim(Box::new(late.clone()))]).unwrap();
    assert_eq!(store.claimed(&late).unwrap(), (vec![2], None));
    assert_eq!(heard(&store, "s").len(), 1, "a claim hides nothing from the inbox");
}
