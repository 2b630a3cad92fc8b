//! Messages that wait for their time.

use std::{sync::Arc, time::Duration};

use consign::{
    Message,
    administration::QueueSettings,
    broker::{Broker, Quirks},
    message::{MessageState, SequenceNumber},
    time::{Clock, ManualClock, SystemClock, Timestamp},
    transport::{ErrorKind, ReceiverExt, SendError, Sender},
};
use tokio::time::Instant;
use tokio_test::task;

use crate::{
    namespace::{Namespace, bodies, counts, numbers, peek, send, try_take},
    support::{Bench, Ended, MS, START, facts, settings, text, texts},
};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

fn after(duration: Duration) -> Timestamp {
    START.saturating_add(duration)
}

fn later(body: &'static str, wait: Duration) -> Message {
    Message::builder().scheduled_enqueue_time(after(wait)).build(body).unwrap()
}

/// Schedules one message for each body, all for the same instant, and answers with their numbers.
fn schedule<const N: usize>(bench: &Bench, bodies: [&'static str; N], wait: Duration) -> Vec<SequenceNumber> {
    bench.queue.schedule(bodies.map(Message::new).into(), after(wait)).wait().unwrap()
}

fn refusal<T>(result: Result<T, SendError>) -> ErrorKind {
    result.err().expect("it is refused").kind()
}

/// Rules, S-21.
#[test]
fn a_scheduled_message_is_not_had_before_its_time() {
    type Schedule = fn(&Bench);
    let ways: [Schedule; 2] =
        [|bench| bench.try_send(later("a", MINUTE)).unwrap(), |bench| drop(schedule(bench, ["a"], MINUTE))];
    for way in ways {
        for (wait, there) in [(MINUTE - MS, false), (MINUTE, true), (MINUTE + MS, true)] {
            let bench = Bench::new(settings());
            way(&bench);
            assert_eq!(counts(&bench.queue), [0, 0, 0, 1, 0]);
            bench.advance(wait);
            assert_eq!(counts(&bench.queue), [usize::from(there), 0, 0, usize::from(!there), 0]);
            let received = bench.try_receive();
            assert_eq!(received.is_some(), there, "{wait:?}");
            if let Some(received) = received {
                assert_eq!(facts(&received.message).state, MessageState::Active);
                assert_eq!(received.message.scheduled_enqueue_time(), Some(after(MINUTE)));
            }
        }
    }
}

/// Rules: Q-20.
#[test]
fn a_time_that_has_come_is_an_ordinary_send() {
    for wait in [Duration::ZERO, MINUTE] {
        let bench = Bench::new(settings());
        bench.advance(wait);
        let given = bench.queue.schedule(vec![Message::new("a")], START).wait().unwrap();
        assert_eq!((given, numbers(&bench.queue)), (vec![SequenceNumber::new(1)], vec![1]));
    }
}

/// Rules: Q-21.
#[test]
fn utc_that_is_set_does_not_move_a_schedule() {
    let bench = Bench::new(settings());
    schedule(&bench, ["a"], MINUTE);
    bench.clock.set_utc(after(10 * MINUTE));
    assert_eq!(bench.counts()[0], 0);
    bench.clock.set_utc(Timestamp::EPOCH);
    bench.advance(MINUTE - MS);
    assert_eq!(bench.counts()[0], 0);
    bench.advance(MS);
    assert_eq!(bench.counts()[0], 1);
}

/// Rules: Q-22, S-22.
#[test]
fn at_its_time_it_enters_as_if_it_were_sent() {
    let bench = Bench::new(settings());
    bench.try_send(later("scheduled", MINUTE)).unwrap();
    bench.send(["early"]);
    let waiting = &peek(&bench.queue)[0];
    assert_eq!((facts(waiting).sequence_number.get(), facts(waiting).state), (1, MessageState::Scheduled));
    // Nobody looks when its time comes, and what is sent afterwards stands behind it all the same.
    bench.advance(2 * MINUTE);
    bench.send(["late"]);
    assert_eq!(
        (bodies(&bench.queue), numbers(&bench.queue)),
        (["early", "scheduled", "late"].map(String::from).into(), vec![2, 3, 4])
    );
    assert_eq!(facts(&peek(&bench.queue)[1]).enqueued_time, after(MINUTE));
    let received = [(); 3].map(|()| bench.receive());
    assert_eq!(texts(received.iter().map(|it| &it.message)), ["early", "scheduled", "late"]);
    assert_eq!(facts(&received[1].message).delivery_count, 1);
}

/// Rules: Q-22, T-09.
#[test]
fn a_time_to_live_begins_when_the_message_is_due() {
    let bench = Bench::new(settings().default_time_to_live(10 * SECOND));
    for (body, ttl) in [("own", Some(2 * SECOND)), ("default", None), ("longer", Some(MINUTE))] {
        let message = Message::builder().scheduled_enqueue_time(after(MINUTE));
        let message = if let Some(ttl) = ttl { message.time_to_live(ttl) } else { message };
        bench.try_send(message.build(body).unwrap()).unwrap();
    }
    bench.advance(MINUTE);
    let expires: Vec<_> = peek(&bench.queue).iter().map(|message| facts(message).expires_at).collect();
    assert_eq!(expires, [after(MINUTE + 2 * SECOND), after(MINUTE + 10 * SECOND), after(MINUTE + 10 * SECOND)]);
    for (wait, left) in [(2 * SECOND - MS, 3), (MS, 2), (8 * SECOND - MS, 2), (MS, 0)] {
        bench.advance(wait);
        assert_eq!(bench.counts()[0], left);
    }
}

/// Rules: Q-22.
/// The call that sees it comes after both instants.
#[test]
fn an_unseen_expiry_counts_from_an_unseen_activation() {
    for (wait, there) in [(MINUTE + SECOND - MS, true), (MINUTE + SECOND, false)] {
        let bench = Bench::new(settings());
        let message = Message::builder().scheduled_enqueue_time(after(MINUTE)).time_to_live(SECOND);
        bench.try_send(message.build("a").unwrap()).unwrap();
        bench.advance(wait);
        assert_eq!(bench.try_receive().is_some(), there, "{wait:?}");
    }
}

/// Rules: C-05.
#[test]
fn a_scheduled_message_uses_two_numbers_and_none_is_skipped() {
    let bench = Bench::new(settings());
    bench.send(["a"]);
    assert_eq!(schedule(&bench, ["b", "c"], MINUTE), [2, 3].map(SequenceNumber::new));
    bench.send(["d"]);
    bench.advance(MINUTE);
    bench.send(["e"]);
    assert_eq!(numbers(&bench.queue), [1, 4, 5, 6, 7]);
    assert_eq!(bodies(&bench.queue), ["a", "d", "b", "c", "e"]);
}

/// Rules: Q-23, S-23.
#[test]
fn a_number_takes_the_message_back_until_its_time() {
    for (wait, cancelled) in [(MINUTE - MS, true), (MINUTE, false), (MINUTE + MS, false)] {
        let bench = Bench::new(settings());
        let given = schedule(&bench, ["a"], MINUTE);
        bench.advance(wait);
        let outcome = bench.queue.cancel_scheduled(&given).wait().map_err(|error| error.kind());
        assert_eq!(outcome, if cancelled { Ok(()) } else { Err(ErrorKind::MessageNotFound) }, "{wait:?}");
        bench.advance(2 * MINUTE);
        assert_eq!(bench.try_receive().is_none(), cancelled);
        assert_eq!(bench.queue.counts().size == 0, cancelled);
        assert_eq!(refusal(bench.queue.cancel_scheduled(&given).wait()), ErrorKind::MessageNotFound);
    }
}

/// Rules: Q-23.
#[test]
fn the_number_that_it_gets_at_its_time_cancels_nothing() {
    let bench = Bench::new(settings());
    schedule(&bench, ["a"], MINUTE);
    bench.advance(MINUTE);
    assert_eq!(numbers(&bench.queue), [2]);
    assert_eq!(refusal(bench.queue.cancel_scheduled(&[SequenceNumber::new(2)]).wait()), ErrorKind::MessageNotFound);
    assert_eq!(bench.counts()[0], 1);
}

/// Rules: Q-26.
#[test]
fn several_are_cancelled_or_none() {
    let bench = Bench::new(settings());
    let given = schedule(&bench, ["a", "b", "c"], MINUTE);
    bench.send(["active"]);
    let [a, b, c] = given[..] else { panic!("three numbers") };
    for refused in [vec![a, SequenceNumber::new(4)], vec![a, b, a], vec![c, SequenceNumber::new(99)]] {
        assert_eq!(refusal(bench.queue.cancel_scheduled(&refused).wait()), ErrorKind::MessageNotFound);
        assert_eq!(counts(&bench.queue), [1, 0, 0, 3, 0]);
    }
    bench.queue.cancel_scheduled(&[]).wait().unwrap();
    bench.queue.cancel_scheduled(&[c, a]).wait().unwrap();
    assert_eq!(counts(&bench.queue), [1, 0, 0, 1, 0]);
    bench.advance(MINUTE);
    assert_eq!(bodies(&bench.queue), ["active", "b"]);
}

/// Rules: Q-26.
/// Cancellations at random instants around the one when the messages are due: each is delivered or was cancelled.
#[test]
fn a_message_is_cancelled_or_delivered() {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(3);
    println!("replay: SEED={seed} cargo test --features full --test broker a_message_is_cancelled_or_delivered");
    let mut rng = fastrand::Rng::with_seed(seed);
    for quirks in [Quirks::default(), Quirks::default().race_like_hosted(true)] {
        let clock = Arc::new(ManualClock::new(START));
        let broker = Broker::with_quirks(Arc::clone(&clock), quirks);
        let queue = broker.create_queue("orders", settings()).unwrap();
        let mut cancelled = 0;
        for at in 1..=200 {
            queue.schedule(vec![Message::new("a")], after(at * MS)).wait().unwrap();
        }
        for _ in 0..400 {
            clock.advance(MS * rng.u32(0..2));
            let number = SequenceNumber::new(rng.u64(1..=200));
            let before = queue.counts();
            let success = queue.cancel_scheduled(&[number]).wait().is_ok();
            let removed = before.scheduled - queue.counts().scheduled;
            assert!(success == (removed == 1) || quirks.race_like_hosted && success);
            cancelled += removed;
        }
        clock.advance(SECOND);
        assert_eq!(queue.counts().active, 200 - cancelled);
        assert_eq!(queue.counts().scheduled, 0);
    }
}

/// Rules: Q-27.
#[test]
fn a_message_is_scheduled_once() {
    let bench = Bench::new(settings());
    schedule(&bench, ["a"], MINUTE);
    bench.advance(MINUTE);
    let again = bench.receive();
    // What is sent on by its receiver has a time that has passed.
    bench.try_send(again.message.clone()).unwrap();
    again.complete().ok();
    bench.receive().complete().ok();
    bench.advance(1_000 * MINUTE);
    assert_eq!(counts(&bench.queue), [0; 5]);
}

/// Rules: Q-28.
#[test]
fn numbers_are_in_the_order_of_the_messages() {
    let bench = Bench::new(settings());
    bench.send(["a"]);
    let given = schedule(&bench, ["b", "c", "d"], MINUTE);
    assert_eq!(given, [2, 3, 4].map(SequenceNumber::new));
    bench.queue.cancel_scheduled(&given[1..2]).wait().unwrap();
    assert_eq!(bodies(&bench.queue), ["a", "b", "d"]);
}

/// Rules: Q-30.
#[test]
fn at_one_instant_they_are_in_the_order_of_their_numbers() {
    let bench = Bench::new(settings());
    bench.try_send(later("a", MINUTE)).unwrap();
    schedule(&bench, ["b", "c"], MINUTE);
    schedule(&bench, ["first"], MINUTE - MS);
    bench.try_send(later("d", MINUTE)).unwrap();
    schedule(&bench, ["last"], MINUTE + MS);
    bench.advance(2 * MINUTE);
    assert_eq!(bodies(&bench.queue), ["first", "a", "b", "c", "d", "last"]);
}

/// Rules: Q-30.
#[test]
fn also_where_the_numbers_of_partitions_jump() {
    let bench = Bench::new(settings().partitioned(true));
    for key in ["x", "y", "z", "u", "v", "w"] {
        let message = Message::builder().partition_key(key).scheduled_enqueue_time(after(MINUTE)).build(key).unwrap();
        bench.try_send(message).unwrap();
    }
    bench.advance(MINUTE);
    let received = try_take(&bench.queue, 9).unwrap();
    assert_eq!(texts(received.iter().map(|it| &it.message)), ["x", "y", "z", "u", "v", "w"]);
}

/// Rules: S-21.
#[test]
fn a_schedule_that_is_refused_leaves_nothing() {
    let bench = Bench::new(settings().max_size(1_024).max_message_size(700));
    let at = after(MINUTE);
    let messages = |sizes: &[usize]| sizes.iter().map(|&size| Message::new("x".repeat(size))).collect::<Vec<_>>();
    assert_eq!(refusal(bench.queue.schedule(messages(&[100, 701]), at).wait()), ErrorKind::MessageSizeExceeded);
    assert_eq!(refusal(bench.queue.schedule(messages(&[100, 600]), at).wait()), ErrorKind::QuotaExceeded);
    assert_eq!((counts(&bench.queue), bench.queue.counts().size), ([0; 5], 0));
    assert_eq!(schedule(&bench, ["a"], MINUTE), [SequenceNumber::new(1)]);
}

/// Rules: S-22.
#[test]
fn a_scheduled_message_is_neither_received_nor_deleted_nor_deferred() {
    let bench = Bench::new(settings());
    let given = schedule(&bench, ["a"], MINUTE);
    assert!(bench.try_receive().is_none());
    let error = bench.queue.receive_deferred(&given).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MessageNotFound);
    assert_eq!(bench.queue.delete_messages(9, None).wait().unwrap(), 0);
    assert_eq!(bench.queue.ages().next_scheduled, Some(after(MINUTE)));
    assert_eq!(counts(&bench.queue), [0, 0, 0, 1, 0]);
}

/// Rules: S-22.
#[test]
fn each_instant_comes_in_its_turn() {
    let bench = Bench::new(settings().max_delivery_count(1));
    bench.send(["held"]);
    let held = bench.receive();
    schedule(&bench, ["before"], 10 * SECOND - MS);
    schedule(&bench, ["after"], 10 * SECOND + MS);
    bench.advance(MINUTE);
    assert_eq!(bench.counts(), [2, 0, 0, 1]);
    let dead = bench.receive_dead();
    assert_eq!(text(&dead.message), "held");
    drop(held);
}

/// Rules: Q-21.
#[tokio::test(start_paused = true)]
async fn a_receiver_that_waits_gets_a_message_at_its_time() {
    let clock = Arc::new(SystemClock::new());
    let queue = Broker::with_clock(Arc::clone(&clock)).create_queue("orders", settings()).unwrap();
    let mut receiver = queue.receiver();
    let mut waiting = task::spawn(receiver.receive());
    assert!(waiting.poll().is_pending());
    let began = Instant::now();
    queue.schedule(vec![Message::new("a")], clock.now().utc.saturating_add(MINUTE)).wait().unwrap();
    assert!(waiting.poll().is_pending());
    assert_eq!(text(&waiting.await.unwrap().message), "a");
    assert_eq!(began.elapsed(), MINUTE);
}

/// Rules: S-21.
#[test]
fn settings_decide_where_it_goes_at_its_time() {
    let namespace = Namespace::new();
    namespace.queue("target");
    let source = namespace.queue("source");
    source.schedule(vec![Message::new("a")], after(MINUTE)).wait().unwrap();
    let forwarding: QueueSettings = settings().forward_to("target");
    namespace.broker.update_queue("source", forwarding).unwrap();
    send(&source, "now");
    assert_eq!(counts(&source), [0, 0, 0, 1, 0]);
    namespace.advance(MINUTE);
    assert_eq!(bodies(&namespace.broker.queue("target").unwrap()), ["now", "a"]);
}

/// A `DelayPolicy` computes by it when a message is due.
#[test]
fn a_sender_has_the_clock_of_its_broker() {
    let bench = Bench::new(settings());
    let clock = bench.queue.sender().unwrap().clock().unwrap();
    assert_eq!(clock.now().utc, START);
    bench.advance(MINUTE);
    assert_eq!(clock.now().utc, after(MINUTE));
}

/// Rules: Q-23.
#[test]
fn messages_with_times_of_their_own_are_scheduled_together_or_not() {
    let bench = Bench::new(settings());
    let sender = bench.queue.sender().unwrap();
    let large = Message::new(vec![0; 300_000]);
    let refused = sender.schedule_each(vec![(Message::new("a"), after(MINUTE)), (large, after(SECOND))]).wait();
    assert_eq!(refusal(refused), ErrorKind::MessageSizeExceeded);
    assert_eq!(bench.queue.counts().scheduled, 0);
    let both = vec![(Message::new("a"), after(MINUTE)), (Message::new("b"), after(SECOND))];
    assert_eq!(sender.schedule_each(both).wait().unwrap(), [1, 2].map(SequenceNumber::new));
    bench.advance(SECOND);
    assert_eq!(text(&bench.receive().message), "b");
    assert_eq!(bench.queue.counts().scheduled, 1);
}
