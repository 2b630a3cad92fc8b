//! A consumer of a dead-letter queue, and dead letters that fail again.

use std::{
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::Duration,
};

use consign::{
    Disposition, Message,
    administration::QueueSettings,
    broker::{Broker, Queue, QueueReceiver},
    consumer::{Consumer, Stats},
    settlement::{Changes, DeadLetter, DeadLetterReason},
    transport::{Capabilities, Capability, Delivery, EntityInfo, Level, ReceiveError, Receiver, ReceiverExt, Sender},
};
use tokio::time::{Instant, sleep};
use tower::{BoxError, service_fn};

#[cfg(all(feature = "json", feature = "testing"))]
use crate::log::Lines;
use crate::{fill, hush, number, panic_on_purpose, seconds, until, within};

/// A receiver that reports no deferral.
struct Without(QueueReceiver);

impl Receiver for Without {
    type Lease = <QueueReceiver as Receiver>::Lease;

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<Self::Lease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        self.0.poll_receive(cx, max, out)
    }

    fn stop(&mut self) {
        self.0.stop();
    }

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities().with(Capability::Deferral, Level::Unsupported)
    }

    fn entity_info(&self) -> EntityInfo {
        self.0.entity_info()
    }
}

/// A queue with so many dead letters.
async fn dead(name: &str, messages: usize) -> Queue {
    let settings = QueueSettings::default().lock_duration(seconds(10)).max_delivery_count(2);
    let queue = Broker::new().create_queue(name, settings).unwrap();
    fill(&queue, messages).await;
    for delivery in queue.receiver().receive_batch(messages).await.unwrap() {
        delivery.dead_letter(DeadLetter::new(DeadLetterReason::HandlerPermanent, "first")).await.unwrap();
    }
    queue
}

type Calls = Arc<Mutex<Vec<(u64, Duration)>>>;

/// When each message was handled, in tenths of a second.
fn tenths(calls: &Calls, of: u64) -> Vec<u128> {
    let calls = calls.lock().unwrap();
    calls.iter().filter(|(number, _)| *number == of).map(|(_, at)| at.as_millis() / 100).collect()
}

/// Runs a consumer whose handler answers by the number of the message.
async fn run<R: Receiver>(
    receiver: R,
    time: u64,
    concurrency: usize,
    answer: impl Fn(u64) -> Result<Disposition, BoxError> + Clone + Send,
) -> (Calls, Stats, usize) {
    let (calls, began) = (Calls::default(), Instant::now());
    let noted = Arc::clone(&calls);
    let handler = service_fn(move |message: Message| {
        let number = number(&message);
        noted.lock().unwrap().push((number, began.elapsed()));
        let answer = answer.clone();
        async move { answer(number) }
    });
    let sunk = Arc::new(Mutex::new(0));
    let sink = Arc::clone(&sunk);
    let consumer =
        Consumer::new(receiver, handler).concurrency(concurrency).on_undeliverable(move |_| *sink.lock().unwrap() += 1);
    let stats = within(100_000, consumer.run_until(sleep(seconds(time)))).await.unwrap();
    let sunk = *sunk.lock().unwrap();
    (calls, stats, sunk)
}

/// Each wait, after those before it, with a turn of the driver now and then.
fn assert_growing(calls: &[u128], count: usize) {
    let expected = [0, 10, 30, 70, 150, 310, 630, 1_230, 1_830];
    assert_eq!(calls.len(), count, "{calls:?}");
    for (at, expected) in calls.iter().zip(expected) {
        assert!((expected..expected + 3).contains(at), "{calls:?}");
    }
}

/// Rules: J-234.
/// A handler that fails is the same on every transport: a dead-letter queue counts no delivery.
#[tokio::test(start_paused = true)]
async fn a_failed_dead_letter_is_redelivered_after_a_growing_delay() {
    for kind in ["error", "abandon", "panic", "explicit delay"] {
        hush();
        let queue = dead("again/failed", 2).await;
        let answer = move |number| match (number, kind) {
            (2, _) => Ok(Disposition::Complete),
            (_, "error") => Err("failed".into()),
            (_, "abandon") => Ok(Disposition::ABANDON),
            (_, "explicit delay") => Ok(Disposition::abandon_after(Duration::ZERO)),
            _ => panic_on_purpose(),
        };
        let (calls, stats, sunk) = run(queue.dead_letter().receiver(), 200, 1, answer).await;
        assert_growing(&tenths(&calls, 1), 9);
        assert!(tenths(&calls, 2)[0] < 3, "a dead letter that fails does not stand before the others");
        assert_eq!((stats.handled(), stats.completed(), stats.settle_failed(), sunk), (10, 1, 0, 0), "{kind}");
        assert_eq!(stats.lock_lost(), 0, "the lock is renewed while the message is held");
        let counts = queue.dead_letter().counts();
        assert_eq!((counts.active, counts.locked, counts.deferred), (1, 0, 0), "{kind}");
    }
}

/// Rules: J-234.
#[tokio::test(start_paused = true)]
async fn without_deferral_an_undeliverable_dead_letter_is_redelivered_after_a_growing_delay() {
    let queue = dead("again/undeliverable", 2).await;
    let answer = |number| {
        Ok(match number {
            2 => Disposition::Complete,
            _ => Disposition::dead_letter(DeadLetterReason::DeserializationFailed, "second"),
        })
    };
    let (calls, stats, sunk) = run(Without(queue.dead_letter().receiver()), 200, 1, answer).await;
    assert_growing(&tenths(&calls, 1), 9);
    assert_eq!((stats.undeliverable(), sunk), (1, 1), "once for the message");
    assert_eq!((stats.completed(), stats.deferred(), stats.settle_failed(), stats.lock_lost()), (1, 0, 0, 0));
    let counts = queue.dead_letter().counts();
    assert_eq!((counts.active, counts.locked, counts.deferred), (1, 0, 0));
}

/// Rules: J-234.
#[tokio::test(start_paused = true)]
async fn without_deferral_a_deferred_dead_letter_is_redelivered_after_a_growing_delay() {
    let queue = dead("again/deferred", 1).await;
    let (calls, stats, _) = run(Without(queue.dead_letter().receiver()), 20, 1, |_| Ok(Disposition::DEFER)).await;
    assert_growing(&tenths(&calls, 1), 5);
    assert_eq!((stats.deferred(), stats.settle_failed()), (0, 0));
    let (_, stats, _) = run(queue.dead_letter().receiver(), 20, 1, |_| Ok(Disposition::DEFER)).await;
    assert_eq!((stats.handled(), stats.deferred()), (1, 1));
}

/// Rules: J-234.
/// Those that cannot be held wait in the slots.
#[tokio::test(start_paused = true)]
async fn more_dead_letters_than_can_be_held_fail_at_a_bounded_rate() {
    let queue = dead("again/many", 40).await;
    let handler = service_fn(async |_: Message| Err::<Disposition, BoxError>("failed".into()));
    let consumer = Consumer::new(queue.dead_letter().receiver(), handler).concurrency(2).max_held(3);
    let stats = within(100_000, consumer.run_until(sleep(seconds(100)))).await.unwrap();
    assert!((5..=5 * 100).contains(&stats.handled()), "{stats:?}");
    assert_eq!((stats.lock_lost(), stats.settle_failed()), (0, 0));
    let counts = queue.dead_letter().counts();
    assert_eq!((counts.active, counts.locked, counts.deferred), (40, 0, 0));
}

/// Rules: J-234.
#[tokio::test(start_paused = true)]
async fn a_dead_letter_that_waits_is_released_at_the_shutdown() {
    let queue = dead("again/shutdown", 1).await;
    let (calls, stats, _) = run(queue.dead_letter().receiver(), 5, 1, |_| Err("failed".into())).await;
    assert_growing(&tenths(&calls, 1), 3);
    assert_eq!(stats.lock_lost(), 0);
    let again = queue.dead_letter().receiver().receive_within(Duration::from_millis(1)).await.unwrap();
    again.complete().await.unwrap();
    crate::assert_empty(&queue);
}

/// Rules: J-234, O-271.
#[cfg(all(feature = "json", feature = "testing"))]
#[tokio::test(start_paused = true)]
async fn a_dead_letter_that_fails_again_is_one_warning() {
    let (lines, _guard) = Lines::capture();
    let queue = dead("again/logged", 2).await;
    let answer = |number| match number {
        1 => Err("failed again".into()),
        _ => Ok(Disposition::dead_letter(DeadLetterReason::DeserializationFailed, "second")),
    };
    let handler = service_fn(move |message: Message| {
        let answer: Result<_, BoxError> = answer(number(&message));
        async move { answer }
    });
    let consumer = Consumer::new(Without(queue.dead_letter().receiver()), handler);
    let stats = consumer.stats();
    let stats = within(1_000, consumer.run_until(until(move || stats.handled() >= 10))).await.unwrap();
    assert_eq!((stats.undeliverable(), stats.failed()), (1, 5));
    let mut lines = lines.all();
    lines.sort_by_key(|line| line.contains("Undeliverable"));
    assert_eq!(lines.len(), 2, "{lines:#?}");
    let text =
        "WARN a dead letter failed again: it is redelivered after a delay, and its further failures are not logged";
    for (line, end) in lines.iter().zip(["\"DeadLetterFailed\" error=failed again", "\"Undeliverable\" error=second"]) {
        assert!(line.starts_with(text) && line.ends_with(end), "{line}");
    }
}

/// Rules: J-234.
/// It is a message like any other when it was sent again.
#[tokio::test(start_paused = true)]
async fn a_message_that_is_no_dead_letter_is_redelivered_at_once() {
    let queue = crate::queue_with_lock(60);
    queue.sender().unwrap().send(Message::new("an order")).await.unwrap();
    let handler = service_fn(async |message: Message| match crate::delivery(&message) {
        50 => Ok(Disposition::Complete),
        _ => Err::<_, BoxError>("failed".into()),
    });
    let consumer = Consumer::new(queue.receiver(), handler);
    let (stats, began) = (consumer.stats(), Instant::now());
    within(60, consumer.run_until(until(move || stats.completed() == 1))).await.unwrap();
    assert!(began.elapsed() < Duration::from_millis(100));
}

/// Rules: P-46.
#[cfg(all(feature = "json", feature = "testing"))]
#[tokio::test(start_paused = true)]
async fn a_dead_letter_without_a_lock_is_lost_and_not_redelivered() {
    let (lines, _guard) = Lines::capture();
    let queue = dead("again/removed", 1).await;
    let handler = service_fn(|_: Message| async {
        Ok::<_, BoxError>(Disposition::Abandon(Changes::because("no stock").after(seconds(5))))
    });
    let consumer = Consumer::new(queue.dead_letter().receive_and_delete(), handler);
    let stats = within(60, consumer.run_until(sleep(seconds(20)))).await.unwrap();
    assert_eq!((stats.handled(), stats.undeliverable()), (1, 1));
    let lines = lines.all();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("reason=\"Undeliverable\" error=no stock"), "{lines:?}");
}
