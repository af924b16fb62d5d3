//! The rules of one task and of the board, as short stories.

use ringback_core::board::{Ask, Board, found};
use ringback_core::effect::Effect;
use ringback_core::id::TaskId;
use ringback_core::outcome::{Cause, Evidence, LostWhy, Outcome, StartError};
use ringback_core::spec::{IfRunning, Lease};
use ringback_core::task::{Input, Sight, State, Stop};

fn id(n: u64) -> TaskId {
    TaskId::from_bits(n)
}

fn ask(session: &str) -> Ask {
    Ask { session: session.into(), lease: Lease::Awaited, key: None, if_running: IfRunning::Reuse }
}

fn keyed(key: &str, if_running: IfRunning) -> Ask {
    Ask { key: Some(key.into()), if_running, ..ask("s") }
}

fn exit(code: i32) -> Evidence {
    Evidence { status: Some(code << 8), cause: None, oom: false }
}

fn stop() -> Stop {
    Stop { cause: Cause::Request, by: Some("s".into()), grace_ms: None }
}

fn board() -> Board {
    Board::new(100)
}

#[test]
fn a_task_is_recorded_before_it_is_launched_and_concluded_once() {
    let mut board = board();
    assert_eq!(board.ask(id(1), ask("s"), "s"), [Effect::Insert { id: id(1) }, Effect::Launch { id: id(1) }]);
    assert_eq!(board.step(id(1), Input::Saw(Sight::Started)), []);
    let ending = [Effect::Conclude { id: id(1), outcome: Outcome::Exited { code: 3 } }, Effect::Close { id: id(1) }];
    assert_eq!(board.step(id(1), Input::Saw(Sight::Closed(exit(3)))), ending);
    for again in [Input::Saw(Sight::Closed(exit(4))), Input::StopAsked(stop()), Input::KeeperGone(Sight::Started)] {
        assert_eq!(board.step(id(1), again), []);
    }
}

#[test]
fn leftovers_do_not_hold_the_ending_up_and_a_stop_still_reaches_them() {
    let mut board = board();
    board.ask(id(1), ask("s"), "s");
    assert_eq!(
        board.step(id(1), Input::Saw(Sight::Ended(exit(0)))),
        [Effect::Conclude { id: id(1), outcome: Outcome::Exited { code: 0 } }]
    );
    assert_eq!(board.step(id(1), Input::StopAsked(stop())), [Effect::Press { id: id(1), stop: stop() }]);
    let killed = Evidence { cause: Some(Cause::Request), ..exit(0) };
    assert_eq!(board.step(id(1), Input::Saw(Sight::Closed(killed))), [Effect::Close { id: id(1) }]);
    assert!(board.get(id(1)).is_none());
}

#[test]
fn a_dead_keeper_is_replaced_and_the_command_is_never_started_again() {
    let mut board = board();
    board.ask(id(1), ask("s"), "s");
    board.step(id(1), Input::Saw(Sight::Started));
    assert_eq!(board.step(id(1), Input::KeeperGone(Sight::Started)), [Effect::TakeOver { id: id(1) }]);
    let unseen = Evidence { status: None, cause: None, oom: false };
    assert_eq!(
        board.step(id(1), Input::Saw(Sight::Closed(unseen))),
        [
            Effect::Conclude { id: id(1), outcome: Outcome::Lost { why: LostWhy::MonitorDied } },
            Effect::Close { id: id(1) }
        ]
    );
}

#[test]
fn a_keeper_that_dies_before_it_started_anything_is_launched_again_a_few_times() {
    let mut board = board();
    board.ask(id(1), ask("s"), "s");
    for _ in 0..2 {
        assert_eq!(board.step(id(1), Input::KeeperGone(Sight::New)), [Effect::Launch { id: id(1) }]);
    }
    let outcome = Outcome::StartFailed { why: StartError::Other, errno: 0 };
    assert_eq!(
        board.step(id(1), Input::KeeperGone(Sight::New)),
        [Effect::Conclude { id: id(1), outcome }, Effect::Close { id: id(1) }]
    );
}

#[test]
fn the_last_intent_wins_over_a_keeper_that_died_at_its_start() {
    let mut board = board();
    board.ask(id(1), ask("s"), "s");
    board.step(id(1), Input::StopAsked(stop()));
    let outcome = Outcome::Killed { cause: Cause::Request, by: Some("s".into()), real: None };
    assert_eq!(
        board.step(id(1), Input::KeeperGone(Sight::New)),
        [Effect::Conclude { id: id(1), outcome }, Effect::Close { id: id(1) }]
    );
}

#[test]
fn a_stop_before_the_turn_means_that_it_never_runs() {
    let mut board = Board::new(1);
    board.ask(id(1), ask("s"), "s");
    assert_eq!(board.ask(id(2), ask("s"), "s"), [Effect::Insert { id: id(2) }]);
    let outcome = Outcome::Killed { cause: Cause::Request, by: Some("s".into()), real: None };
    assert_eq!(
        board.step(id(2), Input::StopAsked(stop())),
        [Effect::Conclude { id: id(2), outcome }, Effect::Close { id: id(2) }]
    );
}

#[test]
fn turns_are_given_in_the_order_of_asking() {
    let mut board = Board::new(2);
    for n in [9, 3, 7, 5] {
        board.ask(id(n), ask("s"), "s");
    }
    assert_eq!((board.busy(), board.waiting()), (2, 2));
    let effects = board.step(id(3), Input::Saw(Sight::Closed(exit(0))));
    assert_eq!(effects.last(), Some(&Effect::Launch { id: id(7) }));
    let effects = board.step(id(9), Input::Saw(Sight::Ended(exit(0))));
    assert_eq!(effects.last(), Some(&Effect::Launch { id: id(5) }), "leftovers take no turn away");
}

#[test]
fn a_key_is_reused_rejected_or_replaced() {
    let mut board = board();
    board.ask(id(1), keyed("build", IfRunning::Reuse), "s");
    let reuse = board.ask(id(2), keyed("build", IfRunning::Reuse), "s");
    assert_eq!(reuse, [Effect::Reuse { asked: id(2), existing: id(1) }]);
    let reject = board.ask(id(3), keyed("build", IfRunning::Reject), "s");
    assert_eq!(reject, [Effect::Refuse { asked: id(3), existing: id(1), key: "build".into() }]);

    let replaced = Stop { cause: Cause::Replaced, by: Some("s".into()), grace_ms: None };
    assert_eq!(
        board.ask(id(4), keyed("build", IfRunning::Replace), "s"),
        [Effect::Press { id: id(1), stop: replaced }, Effect::Insert { id: id(4) }],
        "the new one does not start beside the old one"
    );
    board.step(id(1), Input::Saw(Sight::Ended(exit(0))));
    assert_eq!(board.waiting(), 1, "the old tree still lives");
    let effects = board.step(id(1), Input::Saw(Sight::Closed(exit(0))));
    assert_eq!(effects.last(), Some(&Effect::Launch { id: id(4) }));
}

#[test]
fn who_replaces_a_task_that_still_waits_waits_for_what_that_one_waited_for() {
    let mut board = board();
    board.ask(id(1), keyed("build", IfRunning::Reuse), "s");
    board.step(id(1), Input::Saw(Sight::Started));
    board.ask(id(2), keyed("build", IfRunning::Replace), "s");
    let effects = board.ask(id(3), keyed("build", IfRunning::Replace), "s");
    assert_eq!(effects.last(), Some(&Effect::Insert { id: id(3) }), "the tree of the first still lives: {effects:?}");
    let replaced = Stop { cause: Cause::Replaced, by: Some("s".into()), grace_ms: None };
    assert_eq!(effects.first(), Some(&Effect::Press { id: id(2), stop: replaced.clone() }));
    let over = board.hand_on(id(2), &replaced);
    assert!(
        matches!(over.as_slice(), [Effect::Conclude { .. }, Effect::Close { .. }]),
        "the second never runs: {over:?}"
    );
    let effects = board.step(id(1), Input::Saw(Sight::Closed(exit(0))));
    assert_eq!(effects.last(), Some(&Effect::Launch { id: id(3) }));
}

#[test]
fn a_replacement_that_could_not_be_recorded_has_touched_nothing() {
    let mut board = Board::new(1);
    board.ask(id(1), ask("s"), "s");
    board.ask(id(2), keyed("build", IfRunning::Reuse), "s");
    let effects = board.ask(id(3), keyed("build", IfRunning::Replace), "s");
    assert!(matches!(effects.as_slice(), [Effect::Press { .. }, Effect::Insert { .. }]), "{effects:?}");
    assert_eq!(board.forget(id(3)), []);
    assert_eq!(board.step(id(1), Input::Saw(Sight::Closed(exit(0)))).last(), Some(&Effect::Launch { id: id(2) }));
    let reuse = board.ask(id(4), keyed("build", IfRunning::Reuse), "s");
    assert_eq!(reuse, [Effect::Reuse { asked: id(4), existing: id(2) }]);
    // The same for one that runs: when its keeper dies, no wish is left over.
    board.ask(id(5), keyed("build", IfRunning::Replace), "s");
    board.forget(id(5));
    assert_eq!(board.step(id(2), Input::KeeperGone(Sight::New)), [Effect::Launch { id: id(2) }]);
}

#[test]
fn a_key_stays_with_a_task_that_lives_when_the_one_that_was_to_replace_it_is_stopped() {
    let mut board = board();
    board.ask(id(1), keyed("build", IfRunning::Reuse), "s");
    board.step(id(1), Input::Saw(Sight::Started));
    board.ask(id(2), keyed("build", IfRunning::Replace), "s");
    board.step(id(2), Input::StopAsked(stop()));
    let reuse = board.ask(id(3), keyed("build", IfRunning::Reuse), "s");
    assert_eq!(reuse, [Effect::Reuse { asked: id(3), existing: id(1) }]);
    let effects = board.ask(id(4), keyed("build", IfRunning::Replace), "s");
    assert_eq!(effects.last(), Some(&Effect::Insert { id: id(4) }), "not beside the first: {effects:?}");
}

#[test]
fn a_key_is_free_again_when_its_task_has_ended() {
    let mut board = board();
    board.ask(id(1), keyed("build", IfRunning::Reuse), "s");
    board.step(id(1), Input::Saw(Sight::Ended(exit(0))));
    assert_eq!(board.ask(id(2), keyed("build", IfRunning::Reuse), "s").first(), Some(&Effect::Insert { id: id(2) }));
    let other = Ask { session: "t".into(), ..keyed("build", IfRunning::Reject) };
    assert_eq!(board.ask(id(3), other, "s").first(), Some(&Effect::Insert { id: id(3) }), "keys belong to a session");
}

#[test]
fn the_end_of_a_session_stops_its_own_awaited_and_service_tasks_only() {
    let mut board = board();
    board.ask(id(1), ask("s"), "s");
    board.ask(id(2), Ask { lease: Lease::Service, ..ask("s") }, "s");
    board.ask(id(3), Ask { lease: Lease::Detached, ..ask("s") }, "s");
    board.ask(id(4), ask("other"), "s");
    let stopped: Vec<TaskId> = board
        .end_session("s", Some("person"))
        .into_iter()
        .map(|effect| match effect {
            Effect::Press { id, stop } if stop.cause == Cause::SessionEnd => id,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(stopped, [id(1), id(2)]);
}

#[test]
fn release_goes_one_way() {
    let mut board = board();
    board.ask(id(1), ask("s"), "s");
    assert_eq!(board.release(id(1)), [Effect::Release { id: id(1) }]);
    assert_eq!(board.release(id(1)), []);
}

#[test]
fn a_new_daemon_takes_tasks_up_where_their_folders_show_them() {
    let adopt = |same_boot, lives, folder, sight| {
        let mut board = board();
        let mut effects = board.adopt(id(1), ask("s"), false, found(same_boot, lives, folder, sight));
        effects.extend(board.open_for_business());
        (effects, board.get(id(1)).map(|entry| entry.state.clone()))
    };
    let conclude = |outcome| (vec![Effect::Conclude { id: id(1), outcome }, Effect::Close { id: id(1) }], None);
    let running = Some(State::Running { stop: None });

    let (effects, state) = adopt(true, false, false, None);
    assert_eq!(effects, [Effect::Launch { id: id(1) }], "recorded and never started");
    assert_eq!(state, Some(State::Starting { launch: 1, stop: None }));
    assert_eq!(adopt(true, true, true, Some(Sight::New)).0, []);
    assert_eq!(adopt(true, true, true, Some(Sight::Started)), (vec![], running.clone()));
    assert_eq!(adopt(true, false, true, Some(Sight::Started)), (vec![Effect::TakeOver { id: id(1) }], running));
    assert_eq!(adopt(true, false, true, Some(Sight::Closed(exit(9)))), conclude(Outcome::Exited { code: 9 }));
    assert_eq!(adopt(false, false, true, Some(Sight::Ended(exit(9)))), conclude(Outcome::Exited { code: 9 }));
    assert_eq!(adopt(false, false, true, Some(Sight::Started)), conclude(Outcome::Lost { why: LostWhy::Reboot }));
    // What was not synced is gone: neither a folder without a record nor one that cannot be read is evidence.
    for (folder, sight) in [(false, None), (true, Some(Sight::New)), (true, None)] {
        assert_eq!(adopt(false, false, folder, sight), conclude(Outcome::Lost { why: LostWhy::Reboot }));
    }
    let (effects, _) = adopt(true, false, true, None);
    assert_eq!(
        effects.first(),
        Some(&Effect::Conclude { id: id(1), outcome: Outcome::Lost { why: LostWhy::MonitorDied } }),
        "a folder without a readable record is no evidence of anything"
    );
}

#[test]
fn a_new_daemon_does_not_start_a_replacement_beside_what_it_replaces() {
    let mut board = board();
    let seen = found(true, true, true, Some(Sight::Ended(exit(0))));
    board.adopt(id(1), keyed("build", IfRunning::Replace), true, seen);
    board.adopt(id(2), keyed("build", IfRunning::Replace), false, found(true, false, true, Some(Sight::New)));
    assert_eq!(board.open_for_business(), []);
    let effects = board.step(id(1), Input::Saw(Sight::Closed(exit(0))));
    assert_eq!(effects, [Effect::Close { id: id(1) }, Effect::Launch { id: id(2) }]);
}

#[test]
fn a_keeper_that_cannot_be_replaced_now_says_nothing_of_the_command() {
    let mut board = board();
    board.ask(id(1), ask("s"), "s");
    board.step(id(1), Input::Saw(Sight::Started));
    board.step(id(1), Input::KeeperGone(Sight::Started));
    let failed = Input::LaunchFailed { why: StartError::Resources, errno: 11 };
    assert_eq!(board.step(id(1), failed.clone()), []);
    assert_eq!(board.step(id(1), Input::StopAsked(stop())), [Effect::Press { id: id(1), stop: stop() }]);
    board.step(id(1), Input::Saw(Sight::Ended(exit(0))));
    assert_eq!(board.step(id(1), failed), []);
    assert!(board.get(id(1)).is_some(), "its leftovers are still there to be stopped");
}

#[test]
fn a_failed_record_leaves_no_trace_and_gives_the_turn_to_the_next() {
    let mut board = Board::new(1);
    board.ask(id(1), ask("s"), "s");
    board.ask(id(2), ask("s"), "s");
    assert_eq!(board.forget(id(1)), [Effect::Launch { id: id(2) }]);
}

#[test]
fn a_queued_task_waits_after_a_crash_only_for_what_it_replaces() {
    let mut board = board();
    let seen = found(true, true, true, Some(Sight::Ended(exit(0))));
    board.adopt(id(1), keyed("build", IfRunning::Reuse), true, seen);
    board.adopt(id(2), keyed("build", IfRunning::Reuse), false, found(true, false, true, Some(Sight::New)));
    assert_eq!(board.open_for_business(), [Effect::Launch { id: id(2) }]);
}
