//! Messages that a handler will never take.

use std::{
    convert::Infallible,
    future::ready,
    sync::{Arc, Mutex},
};

use consign::{
    Disposition, Message,
    consumer::{Consumer, Undeliverable},
    message::{ApplicationProperties, limits},
    settlement::{DeadLetter, DeadLetterReason},
    transport::{ErrorKind, ReceiverExt, Sender},
};
use tokio::time::sleep;
use tower::service_fn;

use crate::{
    assert_empty, delivery,
    fake::{Answer, Asked, Fake, Script, Step},
    fill, number, queue_with_lock, seconds, until, wakes, within,
};

fn huge(text: &str) -> Disposition {
    let mut dead_letter = DeadLetter::new(DeadLetterReason::HandlerPermanent, text.repeat((1 << 20) / text.len()));
    let changes: ApplicationProperties =
        (0..300).map(|n| (format!("property-{n}"), text.repeat(300 / text.len()))).collect();
    dead_letter.changes = changes.into();
    Disposition::DeadLetter(Box::new(dead_letter))
}

/// Rules: P-44.
#[tokio::test(start_paused = true)]
async fn a_huge_dead_letter_is_cut_and_taken_at_once() {
    for text in ["x", "é", "語", "🦀"] {
        let queue = queue_with_lock(60);
        let mut message = Message::new("canary");
        for n in 0..3 {
            message
                .properties_mut()
                .application_properties_mut()
                .insert(format!("own-{n}"), text.repeat(10_000 / text.len()));
        }
        queue.sender().unwrap().send(message).await.unwrap();
        let handler = service_fn(move |_: Message| ready(Ok::<_, Infallible>(huge(text))));
        let consumer = Consumer::new(queue.receiver(), handler);
        let stats = consumer.stats();
        let stats = within(60, consumer.run_until(until(move || stats.handled() > 0))).await.unwrap();
        assert_eq!((stats.handled(), stats.dead_lettered(), stats.settle_failed()), (1, 1, 0));

        let dead = queue.dead_letter().receiver().receive().await.unwrap().message;
        let property =
            |key| dead.properties().application_properties().get(key).and_then(|value| value.as_str()).unwrap();
        assert_eq!(property(DeadLetter::REASON), "HandlerPermanent");
        let description = property(DeadLetter::DESCRIPTION);
        let units = description.encode_utf16().count();
        assert!((4_000..=limits::DEAD_LETTER_TEXT).contains(&units), "{units}");
        assert!(!description.contains("canary"));
        assert!(dead.properties().size() <= limits::ALL_PROPERTIES_BYTES, "{}", dead.properties().size());
        let largest =
            dead.properties().application_properties().iter().map(|(key, value)| key.len() + value.size()).max();
        assert!(largest.unwrap() <= limits::PROPERTY_BYTES);
        assert!(dead.properties().application_properties().get("property-0").is_some(), "what fits is kept");
    }
}

type Sunk = Arc<Mutex<Vec<Undeliverable>>>;

fn sink() -> (Sunk, impl FnMut(Undeliverable) + Send) {
    let sunk = Sunk::default();
    let inside = Arc::clone(&sunk);
    (sunk, move |undeliverable| inside.lock().unwrap().push(undeliverable))
}

/// Rules: P-46.
#[tokio::test(start_paused = true)]
async fn a_message_of_receive_and_delete_goes_to_the_sink() {
    let queue = queue_with_lock(60);
    fill(&queue, 4).await;
    let handler = service_fn(|message: Message| {
        ready(match number(&message) {
            1 => Ok(Disposition::dead_letter(DeadLetterReason::HandlerPermanent, "never")),
            2 => Err("failed"),
            3 => Ok(Disposition::DEFER),
            _ => Ok(Disposition::Complete),
        })
    });
    let (sunk, into) = sink();
    let consumer = Consumer::new(queue.receive_and_delete(), handler).on_undeliverable(into);
    let stats = within(60, consumer.run_until(sleep(seconds(1)))).await.unwrap();
    let sunk = sunk.lock().unwrap();
    assert_eq!(sunk.iter().map(|sunk| number(&sunk.message)).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(sunk.iter().all(|sunk| sunk.message.payload() == Some(b"an order")));
    assert_eq!(sunk[0].dead_letter.as_ref().unwrap().description, "never");
    assert!(sunk[1].dead_letter.is_none() && sunk[2].dead_letter.is_none());
    assert_eq!((stats.undeliverable(), stats.completed(), stats.settle_failed()), (3, 1, 0));
    assert_empty(&queue);
}

/// Rules: P-47.
#[tokio::test(start_paused = true)]
async fn a_dead_letter_is_never_dead_lettered_again() {
    let queue = queue_with_lock(60);
    fill(&queue, 3).await;
    for delivery in queue.receiver().receive_batch(3).await.unwrap() {
        delivery.dead_letter(DeadLetter::new(DeadLetterReason::HandlerPermanent, "first")).await.unwrap();
    }
    let handler = service_fn(|message: Message| {
        ready(Ok::<_, Infallible>(match number(&message) {
            3 => Disposition::Complete,
            _ => Disposition::dead_letter(DeadLetterReason::DeserializationFailed, "second"),
        }))
    });
    let (sunk, into) = sink();
    let consumer = Consumer::new(queue.dead_letter().receiver(), handler).concurrency(1).on_undeliverable(into);
    let stats = within(60, consumer.run_until(sleep(seconds(1)))).await.unwrap();
    assert_eq!((stats.handled(), stats.deferred(), stats.completed(), stats.undeliverable()), (3, 2, 1, 2));
    assert_eq!((stats.dead_lettered(), stats.settle_failed()), (0, 0));
    let sunk = sunk.lock().unwrap();
    assert_eq!(sunk[0].dead_letter.as_ref().unwrap().reason, DeadLetterReason::DeserializationFailed);
    let counts = queue.dead_letter().counts();
    assert_eq!((counts.active, counts.locked, counts.deferred), (0, 0, 2));
}

/// Rules: P-47.
#[tokio::test(start_paused = true)]
async fn also_without_a_sink() {
    let queue = queue_with_lock(60);
    fill(&queue, 1).await;
    let delivery = queue.receiver().receive().await.unwrap();
    delivery.dead_letter(DeadLetter::new(DeadLetterReason::HandlerPermanent, "")).await.unwrap();
    let handler = service_fn(|_: Message| {
        ready(Ok::<_, Infallible>(Disposition::dead_letter(DeadLetterReason::HandlerPermanent, "")))
    });
    let consumer = Consumer::new(queue.dead_letter().receiver(), handler);
    let stats = within(60, consumer.run_until(sleep(seconds(1)))).await.unwrap();
    assert_eq!((stats.handled(), stats.deferred(), stats.undeliverable()), (1, 1, 1));
}

/// Rules: P-48.
#[tokio::test(start_paused = true)]
async fn a_lost_lock_dead_letters_nothing() {
    let queue = queue_with_lock(10);
    fill(&queue, 1).await;
    let handler = service_fn(|message: Message| async move {
        if delivery(&message) == 1 {
            wakes::pass(seconds(11));
            return Ok(Disposition::dead_letter(DeadLetterReason::DeserializationFailed, "too late"));
        }
        Ok::<_, Infallible>(Disposition::Complete)
    });
    let consumer = Consumer::new(queue.receiver(), handler);
    let stats = consumer.stats();
    let stats = within(60, consumer.run_until(until(move || stats.completed() == 1))).await.unwrap();
    assert_eq!((stats.handled(), stats.lock_lost(), stats.dead_lettered()), (2, 1, 0));
    assert_empty(&queue);
}

/// Rules: S-63, P-48.
#[tokio::test(start_paused = true)]
async fn a_dead_token_is_used_once() {
    let script = Script { settle: Answer::Fails(ErrorKind::MessageLockLost), ..Script::default() };
    let fake = Fake::new([Step::Deliver(script)]);
    let handler = service_fn(|_: Message| {
        ready(Ok::<_, Infallible>(Disposition::dead_letter(DeadLetterReason::LimitExceeded, "")))
    });
    let (sunk, into) = sink();
    let consumer = Consumer::new(fake.receiver(), handler).on_undeliverable(into);
    let stats = within(60, consumer.run_until(sleep(seconds(1)))).await.unwrap();
    assert_eq!((stats.lock_lost(), stats.dead_lettered(), fake.asked().len()), (1, 0, 1));
    assert!(matches!(&fake.asked()[0], Asked::Settle(1, Disposition::DeadLetter(_))));
    assert!(sunk.lock().unwrap().is_empty());
}
