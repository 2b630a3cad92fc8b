//! The dead-letter sub-queue: what is in it, and what it takes.

use std::time::Duration;

use bytes::Bytes;
use consign::{
    Disposition, Message,
    administration::{QueueSettings, SubscriptionSettings},
    broker::Queue,
    message::{ApplicationProperties, MessageBody, PropertyValue, SequenceNumber, limits},
    settlement::{DeadLetter, DeadLetterReason},
    transport::ErrorKind,
};

use crate::{
    namespace::{Namespace, bodies, counts, peek, publish, receive, send, try_send},
    support::{Bench, Ended, LOCK, MS, START, facts, settings, take, text, texts, why},
    topics::subscribe_with,
};

fn dead_letter() -> DeadLetter {
    DeadLetter::new(DeadLetterReason::HandlerPermanent, "broken")
}

/// One dead letter for each body.
fn bench<const N: usize>(bodies: [&'static str; N]) -> Bench {
    let bench = Bench::new(settings().max_delivery_count(2).dead_letter_on_expiration(true));
    for body in bodies {
        bench.send_with_ttl(body, Duration::from_secs(60));
        bench.receive().dead_letter(dead_letter()).ok();
    }
    bench
}

/// Rules: S-39.
#[test]
fn peek_lock_works_and_complete_removes() {
    let bench = bench(["a"]);
    let held = bench.receive_dead();
    assert!(facts(&held.message).dead_lettered && facts(&held.message).locked_until.is_some());
    assert!(bench.try_receive_dead().is_none());
    held.complete().ok();
    assert_eq!(bench.counts(), [0; 4]);
    assert_eq!(bench.queue.counts().size, 0);
}

/// Rules: S-40.
#[test]
fn no_number_of_deliveries_moves_a_dead_letter() {
    let bench = bench(["a"]);
    for _ in 0..5 {
        bench.receive_dead().abandon().ok();
        let held = bench.receive_dead();
        bench.advance(LOCK);
        assert_eq!(held.complete().refused(), ErrorKind::MessageLockLost);
        let counts = bench.queue.dead_letter().counts();
        assert_eq!((counts.active, counts.locked, counts.dead_lettered), (1, 0, 0));
    }
}

/// Rules: S-41.
#[test]
fn a_dead_letter_is_not_dead_lettered_again() {
    let bench = bench(["a"]);
    assert_eq!(bench.receive_dead().dead_letter(dead_letter()).refused(), ErrorKind::InvalidOperation);
    assert_eq!(bench.queue.dead_letter().counts().locked, 1);
    bench.advance(LOCK);
    assert_eq!(why(&bench.receive_dead().message), ("HandlerPermanent", "broken"));
}

/// Rules: S-42, S-102.
#[test]
fn nothing_expires_there() {
    let bench = bench(["a"]);
    bench.advance(Duration::from_secs(3_600 * 24 * 365));
    assert_eq!(bench.counts(), [0, 0, 0, 1]);
    let dead = bench.receive_dead();
    bench.advance(LOCK);
    drop(dead);
    assert_eq!(bench.counts(), [0, 0, 0, 1]);
}

/// Rules: S-102, T-86.
#[test]
fn dead_letters_count_toward_the_size_of_the_queue() {
    let bench = Bench::new(settings().max_size(1_024));
    bench.send(["a", "b", "c"]);
    let before = bench.queue.counts().size;
    bench.receive().dead_letter(dead_letter()).ok();
    let after = bench.queue.counts().size;
    let added = ["DeadLetterReason", "HandlerPermanent", "DeadLetterErrorDescription", "broken"].map(str::len);
    assert_eq!(after - before, added.iter().sum::<usize>() as u64);
    assert_eq!(bench.try_send(Message::new("d")).unwrap_err().kind(), ErrorKind::QuotaExceeded);
    bench.receive_dead().complete().ok();
    bench.send(["d"]);
}

/// Rules: S-100.
#[test]
fn the_address_is_read_in_any_case() {
    let bench = bench(["a"]);
    let dead = bench.broker.queue("Orders/$DeadLetterQueue").unwrap();
    assert_eq!(dead.path().as_str(), "orders/$deadletterqueue");
    let received = take(&mut dead.receiver(), 1);
    assert_eq!(text(&received[0].message), "a");
}

/// Rules: S-103.
#[test]
fn nothing_can_be_sent_there() {
    let bench = bench([]);
    assert_eq!(bench.queue.dead_letter().sender().unwrap_err().kind(), ErrorKind::InvalidOperation);
    let refused = bench.broker.create_queue("other/$deadletterqueue", QueueSettings::default()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidOperation);
}

/// Rules: S-105, M-03.
#[test]
fn a_dead_letter_keeps_body_and_properties() {
    let bench = Bench::new(settings());
    bench.send(["other"]);
    let body = MessageBody::sections(vec![Bytes::from_static(b"\xff\0a"), Bytes::new(), Bytes::from_static(b"b")]);
    let sent = Message::builder().message_id("m-1").content_type("x; y").property("k", 1.5_f64).build(body).unwrap();
    bench.try_send(sent.clone()).unwrap();
    let other = bench.receive();
    bench.advance(MS);
    bench.receive().dead_letter(dead_letter()).ok();
    bench.advance(MS);

    let dead = bench.receive_dead().message;
    assert_eq!(dead.body(), sent.body());
    assert_eq!((dead.message_id(), dead.content_type()), (Some("m-1"), Some("x; y")));
    assert_eq!(dead.application_properties().get("k"), Some(&PropertyValue::F64(1.5)));
    assert_eq!(facts(&dead).sequence_number, SequenceNumber::new(2));
    assert_eq!(facts(&dead).enqueued_time, START);
    assert_eq!(dead.dead_letter_source(), None);
    drop(other);
}

/// Rules: S-105.
#[test]
fn dead_letters_are_in_the_order_of_their_numbers() {
    let bench = Bench::new(settings());
    bench.send(["a", "b", "c"]);
    let mut held = take(&mut bench.queue.receiver(), 3);
    for at in [1, 1, 0] {
        held.remove(at).dead_letter(dead_letter()).ok();
    }
    let dead = take(&mut bench.queue.dead_letter().receiver(), 3);
    assert_eq!(texts(dead.iter().map(|delivery| &delivery.message)), ["a", "b", "c"]);
}

/// Rules: S-92.
#[test]
fn a_dead_letter_that_outgrows_the_limit_says_so_and_keeps_nothing_else() {
    let full = |bench: &Bench| {
        let mut message = Message::new("a");
        for key in ["k", "l"] {
            message.properties_mut().application_properties_mut().insert(key, "x".repeat(32_700));
        }
        bench.try_send(message).unwrap();
    };
    let changes: ApplicationProperties = [("more", "m".repeat(200))].into_iter().collect();
    let mut changed = DeadLetter::new(DeadLetterReason::HandlerPermanent, "");
    changed.changes = changes.clone().into();
    let dispositions = [
        Disposition::dead_letter(DeadLetterReason::HandlerPermanent, "d".repeat(200)),
        Disposition::DeadLetter(Box::new(changed)),
        Disposition::Abandon(changes.clone().into()),
        Disposition::Defer(changes.into()),
    ];
    for disposition in dispositions {
        let bench = Bench::new(settings());
        full(&bench);
        bench.receive().settle(disposition).ok();
        let dead = bench.receive_dead().message;
        let (reason, description) = why(&dead);
        assert_eq!(reason, "HeaderSizeExceeded");
        assert!(!description.is_empty() && !description.starts_with('d'));
        let keys: Vec<_> = dead.application_properties().iter().map(|(key, _)| key).collect();
        assert_eq!(keys, ["DeadLetterErrorDescription", "DeadLetterReason", "k", "l"]);
    }
}

/// Rules: S-39.
#[test]
fn a_dead_letter_can_be_deferred_there() {
    let bench = bench(["a"]);
    bench.receive_dead().defer().ok();
    assert!(bench.try_receive_dead().is_none());
    let dead = bench.queue.dead_letter();
    assert_eq!(bench.queue.receive_deferred(&[SequenceNumber::new(1)]).unwrap_err().kind(), ErrorKind::MessageNotFound);
    dead.receive_deferred(&[SequenceNumber::new(1)]).unwrap().remove(0).complete().ok();
    assert_eq!(bench.counts(), [0; 4]);
}

/// Rules: C-04.
#[test]
fn every_queue_and_subscription_has_a_dead_letter_queue() {
    let namespace = Namespace::new();
    let queue = namespace.queue_with("orders", settings().max_delivery_count(1));
    let topic = namespace.topic("events");
    let off = SubscriptionSettings::default()
        .max_delivery_count(1)
        .dead_letter_on_expiration(false)
        .dead_letter_on_filter_error(false);
    let subscription = subscribe_with(&topic, "s", off);
    for path in ["orders/$DeadLetterQueue", "events/Subscriptions/s/$DeadLetterQueue"] {
        assert_eq!(counts(&namespace.broker.queue(path).unwrap()), [0; 5]);
    }
    send(&queue, "a");
    publish(&topic, "a");
    for entity in [&queue, subscription.queue()] {
        receive(entity).abandon().ok();
        assert_eq!(bodies(&entity.dead_letter()), ["a"]);
        assert_eq!(
            namespace.broker.delete(entity.dead_letter().path().as_str()).unwrap_err().kind(),
            ErrorKind::InvalidOperation
        );
    }
}

/// A message with properties of exactly the maximum, less `free` bytes.
fn full(free: usize) -> Message {
    let message = |rest| {
        let large = Message::builder().message_id("full").property("k", "x".repeat(25_000));
        large.property("l", "x".repeat(25_000)).property("m", "x".repeat(rest)).build("a").unwrap()
    };
    let size = message(0).properties().size();
    message(limits::ALL_PROPERTIES_BYTES - free - size)
}

/// Rules: S-90, S-91, S-92.
#[test]
fn a_dead_letter_of_the_broker_has_the_texts_that_its_message_has_space_for() {
    type Kill = fn(&Namespace, &Queue);
    let deaths: [(&str, Kill); 3] = [
        ("MaxDeliveryCountExceeded", |_, queue| receive(queue).abandon().ok()),
        ("TTLExpiredException", |namespace, _| namespace.advance(Duration::from_secs(60))),
        ("HeaderSizeExceeded", |_, queue| {
            let changes: ApplicationProperties = [("n", "x".repeat(20_000))].into_iter().collect();
            receive(queue).settle(Disposition::Abandon(changes.into())).ok();
        }),
    ];
    let ttl = Duration::from_secs(60);
    for (reason, kill) in deaths {
        for free in [0, 20, DeadLetter::REASON.len() + reason.len(), 100, 1_000] {
            let namespace = Namespace::new();
            let settings = settings().max_delivery_count(1).dead_letter_on_expiration(true).default_time_to_live(ttl);
            let queue = namespace.queue_with("orders", settings);
            // The time to live counts too.
            try_send(&queue.sender().unwrap(), full(free + 8)).unwrap();
            kill(&namespace, &queue);
            let dead = &peek(&queue.dead_letter())[0];
            assert_eq!(why(dead).0, reason, "{free}");
            let is_cut = why(dead).1.ends_with('…') || why(dead).1.is_empty();
            assert_eq!(is_cut, free < 1_000, "{free}: {}", why(dead).1);
            // A reason is admitted beside full properties.
            let admitted = (DeadLetter::REASON.len() + reason.len()).saturating_sub(free);
            let size = dead.properties().size();
            assert!(size <= limits::ALL_PROPERTIES_BYTES + admitted, "{reason}, {free}: {size}");
            // A message that enters a queue anew would be refused beyond the limits.
            assert_eq!(dead.check().is_ok(), admitted == 0, "{reason}, {free}");
        }
    }
}
