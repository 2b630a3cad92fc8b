//! Duplicate detection.

use std::time::Duration;

use consign::{
    Disposition, Message,
    administration::QueueSettings,
    message::SequenceNumber,
    settlement::DeadLetterReason,
    transport::{Batch, ErrorKind, Sender},
};

use crate::{
    namespace::{bodies, counts, numbers, with_id},
    support::{Bench, Ended, MS, START, settings},
};

const SECOND: Duration = Duration::from_secs(1);
const WINDOW: Duration = Duration::from_secs(60);

fn detecting() -> QueueSettings {
    settings().duplicate_detection(WINDOW)
}

fn bench() -> Bench {
    Bench::new(detecting())
}

fn message(id: &str, body: &'static str) -> Message {
    Message::builder().message_id(id.to_owned()).build(body).unwrap()
}

/// Whether a message of this id is new to the queue; it is sent.
fn is_new(bench: &Bench, id: &str) -> bool {
    let before = bench.counts()[0];
    bench.try_send(message(id, "again")).unwrap();
    bench.counts()[0] > before
}

fn refused(bench: &Bench, id: &str) -> ErrorKind {
    bench.try_send(message(id, "")).unwrap_err().kind()
}

/// Rules: T-40.
#[test]
fn only_the_id_is_looked_at() {
    let bench = bench();
    bench.try_send(message("a", "first")).unwrap();
    let other = Message::builder()
        .message_id("a")
        .session_id("s")
        .subject("other")
        .time_to_live(SECOND)
        .property("key", 1)
        .build("second")
        .unwrap();
    bench.try_send(other).unwrap();
    bench.try_send(message("b", "first")).unwrap();
    assert_eq!((bodies(&bench.queue), numbers(&bench.queue)), (vec!["first".into(), "first".to_owned()], vec![1, 2]));
}

/// Rules: T-40.
#[test]
fn with_partitions_the_key_is_looked_at_too() {
    let bench = Bench::new(detecting().partitioned(true));
    let send = |session: Option<&'static str>, key: Option<&'static str>| {
        let before = bench.counts()[0];
        let mut message = message("a", "");
        if let Some(session) = session {
            message.properties_mut().set_session_id(session).unwrap();
        }
        if let Some(key) = key {
            message.properties_mut().set_partition_key(key).unwrap();
        }
        bench.try_send(message).unwrap();
        bench.counts()[0] > before
    };
    for is_first in [true, false] {
        for (session, key) in [(None, None), (None, Some("k")), (None, Some("l")), (Some("m"), None)] {
            assert_eq!(send(session, key), is_first, "{session:?} {key:?}");
        }
    }
    // A session is a key like any other.
    assert!(!send(Some("k"), None) && !send(Some("m"), Some("m")));
}

/// Rules: T-40.
#[test]
fn without_detection_equal_ids_are_nothing_special() {
    let bench = Bench::new(settings());
    assert!(is_new(&bench, "a") && is_new(&bench, "a"));
}

/// Rules: T-41, Q-03.
#[test]
fn a_duplicate_is_accepted_and_dropped() {
    let bench = bench();
    assert!(is_new(&bench, "a"));
    let size = bench.queue.counts().size;
    assert!(!is_new(&bench, "a"));
    assert_eq!(bench.queue.counts().size, size);
    assert!(is_new(&bench, "b"));
    assert_eq!(numbers(&bench.queue), [1, 2]);
    // One that is refused for something else is refused all the same.
    let bench = Bench::new(detecting().max_message_size(100));
    bench.try_send(message("a", "")).unwrap();
    let large = Message::builder().message_id("a").build("x".repeat(200)).unwrap();
    assert_eq!(bench.try_send(large).unwrap_err().kind(), ErrorKind::MessageSizeExceeded);
}

/// Rules: T-41.
#[test]
fn a_message_without_an_id_is_never_a_duplicate() {
    let bench = bench();
    bench.send(["a", "a"]);
    assert_eq!(bench.counts()[0], 2);
}

/// Rules: T-42.
#[test]
fn the_window_is_from_the_first_acceptance_and_does_not_slide() {
    for (after, new) in [(WINDOW - MS, false), (WINDOW, true), (WINDOW + MS, true)] {
        let bench = bench();
        bench.advance(7 * SECOND);
        assert!(is_new(&bench, "a"));
        bench.advance(WINDOW / 2);
        assert!(!is_new(&bench, "a"));
        bench.advance(after - WINDOW / 2);
        assert_eq!(is_new(&bench, "a"), new, "{after:?}");
    }
    // The one that was accepted after the window begins another.
    let bench = bench();
    assert!(is_new(&bench, "a"));
    for _ in 0..3 {
        bench.advance(WINDOW - MS);
        assert!(!is_new(&bench, "a"));
        bench.advance(MS);
        assert!(is_new(&bench, "a"));
    }
}

/// Rules: T-42.
#[test]
fn utc_that_is_set_does_not_move_the_window() {
    let bench = bench();
    assert!(is_new(&bench, "a"));
    bench.clock.set_utc(START.saturating_add(1_000 * WINDOW));
    assert!(!is_new(&bench, "a"));
    bench.clock.set_utc(START);
    bench.advance(WINDOW);
    assert!(is_new(&bench, "a"));
}

/// Rules: T-43.
#[test]
fn the_fate_of_the_first_message_does_not_matter() {
    type Fate = fn(&Bench);
    let fates: [Fate; 6] = [
        |bench| bench.receive().complete().ok(),
        |bench| bench.advance(2 * SECOND),
        |bench| {
            bench.receive().settle(Disposition::dead_letter(DeadLetterReason::HandlerPermanent, "no")).ok();
        },
        |bench| bench.receive().settle(Disposition::DEFER).ok(),
        |bench| {
            bench.queue.delete_messages(9, None).wait().unwrap();
        },
        |bench| {
            let _removed = crate::support::take(&mut bench.queue.receive_and_delete(), 1);
        },
    ];
    for (at, fate) in fates.into_iter().enumerate() {
        let bench = bench();
        bench.try_send(Message::builder().message_id("a").time_to_live(2 * SECOND).build("").unwrap()).unwrap();
        fate(&bench);
        assert_eq!(bench.counts()[0], 0, "{at}");
        assert!(!is_new(&bench, "a"), "{at}");
        bench.advance(WINDOW);
        assert!(is_new(&bench, "a"), "{at}");
    }
}

/// Rules: T-44.
#[test]
fn scheduled_messages_take_part_in_both_directions() {
    let at = START.saturating_add(10 * SECOND);
    let bench = bench();
    bench.queue.schedule(vec![with_id("a")], at).wait().unwrap();
    assert!(!is_new(&bench, "a"));
    // Its window is from the schedule call on; when it is due it is not looked at again.
    bench.advance(10 * SECOND);
    assert_eq!(counts(&bench.queue), [1, 0, 0, 0, 0]);
    assert!(!is_new(&bench, "a"));
    bench.advance(WINDOW - 10 * SECOND - MS);
    assert!(!is_new(&bench, "a"));
    bench.advance(MS);
    assert!(is_new(&bench, "a"));

    let bench = self::bench();
    assert!(is_new(&bench, "a"));
    bench.queue.schedule(vec![with_id("a"), with_id("b")], at).wait().unwrap();
    assert_eq!(counts(&bench.queue), [1, 0, 0, 1, 0]);
}

/// Rules: T-44.
/// Two that were accepted a window apart are both activated.
#[test]
fn a_message_that_is_due_is_no_duplicate_of_one_sent_meanwhile() {
    let bench = bench();
    bench.queue.schedule(vec![with_id("a")], START.saturating_add(2 * WINDOW)).wait().unwrap();
    bench.advance(WINDOW);
    assert!(is_new(&bench, "a"));
    bench.advance(WINDOW);
    assert_eq!(counts(&bench.queue), [2, 0, 0, 0, 0]);
}

/// Rules: T-43, T-44.
#[test]
fn an_id_that_was_cancelled_is_remembered() {
    let bench = bench();
    let given = bench.queue.schedule(vec![with_id("a")], START.saturating_add(SECOND)).wait().unwrap();
    bench.queue.cancel_scheduled(&given).wait().unwrap();
    assert!(!is_new(&bench, "a"));
    bench.advance(WINDOW);
    assert!(is_new(&bench, "a"));
}

/// Rules: T-45.
#[test]
fn a_duplicate_schedule_answers_with_the_number_of_the_original() {
    let at = START.saturating_add(SECOND);
    let bench = bench();
    let schedule = |id| bench.queue.schedule(vec![with_id(id)], at).wait().unwrap()[0].get();
    assert_eq!((schedule("a"), schedule("b"), schedule("a"), schedule("b")), (1, 2, 1, 2));
    // It cancels the original, and then there is no number to answer with.
    bench.queue.cancel_scheduled(&[SequenceNumber::new(1)]).wait().unwrap();
    assert_eq!((schedule("a"), counts(&bench.queue)[3]), (0, 1));
    bench.advance(SECOND);
    assert_eq!((schedule("b"), counts(&bench.queue)), (0, [1, 0, 0, 0, 0]));
    // In one call too.
    let call = vec![with_id("c"), with_id("d"), with_id("c")];
    let given = bench.queue.schedule(call, START.saturating_add(2 * SECOND)).wait().unwrap();
    assert_eq!(given, [4, 5, 4].map(SequenceNumber::new));
}

/// Rules: T-47.
#[test]
fn a_dead_letter_that_is_sent_back_with_its_id_is_lost() {
    let bench = bench();
    bench.try_send(message("a", "")).unwrap();
    bench.receive().settle(Disposition::dead_letter(DeadLetterReason::HandlerPermanent, "no")).ok();
    let dead = bench.receive_dead();
    bench.try_send(dead.message.clone()).unwrap();
    assert_eq!(bench.counts(), [0, 0, 0, 1]);
    // Under another id, or after the window, it is not.
    let mut renamed = dead.message.clone();
    renamed.properties_mut().set_message_id("a again").unwrap();
    bench.try_send(renamed).unwrap();
    assert_eq!(bench.counts()[0], 1);
    bench.advance(WINDOW);
    bench.try_send(dead.message.clone()).unwrap();
    assert_eq!(bench.counts()[0], 2);
}

/// Rules: T-48.
#[test]
fn a_refused_send_leaves_no_id_and_a_commit_does() {
    let bench = Bench::new(detecting().max_message_size(100));
    let large = || Message::builder().message_id("a").build("x".repeat(200)).unwrap();
    bench.try_send(large()).unwrap_err();
    let sender = bench.queue.sender().unwrap();
    sender.send_batch(Batch::from([with_id("b"), large()])).wait().unwrap_err();
    bench.queue.schedule(vec![with_id("b"), large()], START.saturating_add(SECOND)).wait().unwrap_err();
    let mut transaction = bench.broker.transaction();
    transaction.send(&sender, with_id("b")).unwrap();
    drop(transaction.rollback());
    let mut transaction = bench.broker.transaction();
    transaction.send(&sender, with_id("c")).unwrap();
    transaction.commit().wait().unwrap();
    assert!(is_new(&bench, "a") && is_new(&bench, "b"));
    assert!(!is_new(&bench, "c"));
}

/// Rules: T-48.
#[test]
fn of_equal_ids_in_one_batch_the_first_stays() {
    let bench = bench();
    let batch = vec![message("a", "1"), message("b", "2"), message("a", "3"), message("b", "4")];
    bench.queue.sender().unwrap().send_batch(Batch::from(batch)).wait().unwrap();
    assert_eq!((bodies(&bench.queue), numbers(&bench.queue)), (vec!["1".into(), "2".to_owned()], vec![1, 2]));
}

/// Rules: T-49.
/// Attacks: 70.
#[test]
fn ids_are_compared_character_by_character() {
    let bench = bench();
    for id in ["a", "A", " a", "a ", "\u{e9}", "e\u{301}", "\u{df}", "ss", "1", "01"] {
        assert!(is_new(&bench, id), "{id:?}");
    }
    assert_eq!(bench.counts()[0], 10);
}

/// Rules: S-07.
/// Attacks: 69.
#[test]
fn a_full_table_refuses_and_forgets_nothing_early() {
    let bench = Bench::new(detecting().max_duplicate_ids(3));
    for id in ["a", "b", "c"] {
        assert!(is_new(&bench, id));
        bench.advance(SECOND);
    }
    let before = bench.counts();
    assert_eq!(refused(&bench, "d"), ErrorKind::QuotaExceeded);
    assert_eq!(bench.try_send(Message::new("no id")).unwrap_err().kind(), ErrorKind::QuotaExceeded);
    // What it knows it knows, and what was refused is not known.
    assert!(!is_new(&bench, "a") && !is_new(&bench, "c"));
    bench.advance(WINDOW - 3 * SECOND - MS);
    assert_eq!((refused(&bench, "d"), is_new(&bench, "a")), (ErrorKind::QuotaExceeded, false));
    // The first is forgotten at its instant, and leaves room for one.
    bench.advance(MS);
    assert!(is_new(&bench, "d"));
    assert_eq!(refused(&bench, "a"), ErrorKind::QuotaExceeded);
    assert!(!is_new(&bench, "b"));
    assert_eq!(bench.counts()[0], before[0] + 1);
    // Messages that leave the queue leave no room.
    while let Some(delivery) = bench.try_receive() {
        delivery.complete().ok();
    }
    assert_eq!(refused(&bench, "e"), ErrorKind::QuotaExceeded);
    bench.advance(WINDOW);
    for id in ["a", "b", "c"] {
        assert!(is_new(&bench, id));
    }
}

/// Rules: S-07.
#[test]
fn a_batch_needs_space_for_all_of_its_ids() {
    let bench = Bench::new(detecting().max_duplicate_ids(3));
    let sender = bench.queue.sender().unwrap();
    let send = |ids: &[&'static str]| {
        let batch = ids.iter().map(|id| with_id(id)).collect::<Batch>();
        sender.send_batch(batch).wait().map_err(|error| error.kind())
    };
    assert_eq!(send(&["a", "b", "c", "d"]), Err(ErrorKind::QuotaExceeded));
    assert_eq!(bench.counts()[0], 0);
    send(&["a", "b", "a"]).unwrap();
    assert_eq!(send(&["c", "d"]), Err(ErrorKind::QuotaExceeded));
    // Known ids take no room.
    send(&["a", "c", "b"]).unwrap();
    assert_eq!(bodies(&bench.queue), ["a", "b", "c"]);
    let mut transaction = bench.broker.transaction();
    transaction.send(&sender, with_id("d")).unwrap();
    assert_eq!(transaction.commit().wait().unwrap_err().kind(), ErrorKind::QuotaExceeded);
}

/// Rules: S-07.
#[test]
fn a_new_window_holds_for_ids_that_are_remembered() {
    let half = WINDOW / 2;
    for (window, after, new) in [
        (half, half - MS, false),
        (half, half, true),
        (2 * WINDOW, 2 * WINDOW - MS, false),
        (2 * WINDOW, 2 * WINDOW, true),
    ] {
        let bench = bench();
        assert!(is_new(&bench, "a"));
        bench.advance(SECOND);
        bench.broker.update_queue("orders", settings().duplicate_detection(window)).unwrap();
        bench.advance(after - SECOND);
        assert_eq!(is_new(&bench, "a"), new, "{window:?} {after:?}");
    }
    // A shorter one that has passed forgets at once.
    let bench = bench();
    assert!(is_new(&bench, "a"));
    bench.advance(half);
    assert!(!is_new(&bench, "a"));
    bench.broker.update_queue("orders", settings().duplicate_detection(half)).unwrap();
    assert!(is_new(&bench, "a"));
}

/// Rules: S-07.
#[test]
fn a_smaller_table_refuses_until_there_is_space() {
    let bench = bench();
    for id in ["a", "b", "c"] {
        assert!(is_new(&bench, id));
        bench.advance(SECOND);
    }
    bench.broker.update_queue("orders", detecting().max_duplicate_ids(2)).unwrap();
    assert!(!is_new(&bench, "a"));
    // Two of the three have to go.
    bench.advance(WINDOW - 3 * SECOND);
    assert_eq!(refused(&bench, "d"), ErrorKind::QuotaExceeded);
    bench.advance(SECOND - MS);
    assert_eq!(refused(&bench, "d"), ErrorKind::QuotaExceeded);
    bench.advance(MS);
    assert!(is_new(&bench, "d"));
}

/// Rules: T-42.
/// Random ids and times against a list of what was accepted, looked through from end to end.
#[test]
fn random_sends_agree_with_a_list() {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(11);
    println!("replay: SEED={seed} cargo test --features full --test broker random_sends_agree_with_a_list");
    let mut rng = fastrand::Rng::with_seed(seed);
    let bench = Bench::new(detecting().max_duplicate_ids(8).max_delivery_count(1_000));
    let (mut accepted, mut now) = (Vec::<(Duration, String)>::new(), Duration::ZERO);
    for _ in 0..5_000 {
        let step = match rng.u32(0..4) {
            0 => MS * rng.u32(0..3),
            1 => accepted.first().map_or(MS, |&(first, _)| (first + WINDOW).saturating_sub(now)),
            _ => MS * rng.u32(0..4_000),
        };
        now += step;
        bench.advance(step);
        accepted.retain(|&(first, _)| now < first + WINDOW);
        let id = rng.u32(0..16).to_string();
        let is_known = accepted.iter().any(|(_, known)| *known == id);
        let is_full = accepted.len() == 8;
        let before = bench.queue.counts().active;
        let sent = bench.try_send(message(&id, ""));
        assert_eq!(sent.is_err(), is_full && !is_known, "{now:?} {id}");
        let taken = bench.queue.counts().active - before;
        assert_eq!(taken, usize::from(!is_full && !is_known), "{now:?} {id}");
        if taken == 1 {
            accepted.push((now, id));
            bench.receive().complete().ok();
        }
    }
}

/// Rules: S-07.
#[test]
fn a_longer_window_brings_no_id_back() {
    let bench = bench();
    assert!(is_new(&bench, "a"));
    // Nothing is sent between the end of the window and the update.
    bench.advance(WINDOW);
    bench.broker.update_queue("orders", settings().duplicate_detection(3 * WINDOW)).unwrap();
    assert!(is_new(&bench, "a"));
}
