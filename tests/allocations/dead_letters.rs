//! A run over dead letters keeps nothing of those that it is done with.

use consign::{
    Message,
    administration::QueueSettings,
    broker::{Broker, Queue},
    dead_letters::{DeadLetterFilter, DeadLetters},
    message::SequenceNumber,
    settlement::{DeadLetter, DeadLetterReason},
    transport::{Delivery, ReceiverExt, Sender},
};

use super::LIVE;

const DEAD: u64 = 10_000;
/// As large as a message of the queue is, so that one that is kept is seen.
const BODY: usize = 1_000;

async fn cemetery() -> Queue {
    let queue = Broker::new().create_queue("orders", QueueSettings::default()).expect("a new queue");
    let (sender, mut receiver) = (queue.sender().expect("a queue takes messages"), queue.receiver());
    for _ in 0..DEAD {
        sender.send(Message::new(vec![0; BODY])).await.expect("it is accepted");
        let delivery: Delivery<_> = receiver.receive().await.expect("a message");
        let dead_letter = DeadLetter::new(DeadLetterReason::HandlerPermanent, "why");
        delivery.dead_letter(dead_letter).await.expect("it is locked");
    }
    queue
}

/// Rules: L-21.
#[tokio::test(flavor = "current_thread")]
async fn a_run_keeps_tens_of_bytes_of_what_it_skips_and_of_what_it_has_handled() {
    let queue = cemetery().await;
    let dead = DeadLetters::new(queue.dead_letter());
    let per_dead_letter = |at_end: isize| (at_end - LIVE.get()) / 10_000;

    let mut at_end = 0;
    let last = DeadLetterFilter::number(SequenceNumber::new(DEAD));
    let report = dead.purge(last).on_progress(|_| at_end = LIVE.get()).run().await.expect("a run");
    assert_eq!((report.purged, report.skipped), (1, DEAD - 1));
    let skipped = per_dead_letter(at_end);
    assert!((1..100).contains(&skipped), "{skipped} bytes");

    let report = dead.purge(DeadLetterFilter::all()).on_progress(|_| at_end = LIVE.get()).run().await.expect("a run");
    assert_eq!(report.purged, DEAD - 1);
    let handled = per_dead_letter(at_end);
    assert!((1..100).contains(&handled), "{handled} bytes");
}
