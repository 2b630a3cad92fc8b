//! What the test kit writes down, and what it says when an assertion fails.

use std::panic::{AssertUnwindSafe, catch_unwind};

use consign::{
    Disposition, Message,
    settlement::{DeadLetter, DeadLetterReason},
    testing::{
        Faults, Link, LinkSettings, Recorder, SendFault,
        SendOutcome::{Accepted, Failed, HandedOver, Unknown},
        Settlement, TestBroker,
    },
    transport::{Batch, ErrorKind, Lease, PresettledSender, ReceiverExt, Sender},
};
use tower::{BoxError, service_fn};

use crate::support::numbered;

/// The text of an assertion that fails.
fn failing<T>(assertion: impl FnOnce() -> T) -> String {
    let panic = catch_unwind(AssertUnwindSafe(assertion)).err().expect("the assertion fails");
    *panic.downcast::<String>().unwrap()
}

#[tokio::test(start_paused = true)]
async fn more_than_are_kept_are_not_counted() {
    let recorder = Recorder::new();
    let sender = recorder.accepting();
    for _ in 0..10_000 {
        sender.send(numbered(0)).await.unwrap();
    }
    recorder.assert_sent_count(10_000);
    sender.send(numbered(0)).await.unwrap();
    for count in [10_000, 10_001] {
        let text = failing(|| recorder.assert_sent_count(count));
        assert_eq!(text, "10001 were recorded, which is more than are kept");
    }
}

#[tokio::test(start_paused = true)]
async fn sends_are_recorded_with_their_outcomes() {
    let queue = TestBroker::new().queue("orders");
    let faults = Faults::none().on_send(2, SendFault::Reject(ErrorKind::QuotaExceeded));
    let recorder = Recorder::new();
    let sender = recorder.sender(Link::new(LinkSettings::default().faults(faults)).sender(queue.sender().unwrap()));
    sender.send(numbered(0)).await.unwrap();
    sender.send(numbered(1)).await.unwrap_err();
    sender.send_batch(Batch::from([numbered(2), numbered(3)])).await.unwrap();
    drop(sender.send(numbered(4)));
    sender.send_presettled(numbered(5)).await;

    let outcomes: Vec<_> = recorder.sent().iter().map(|sent| sent.outcome).collect();
    assert_eq!(outcomes, [Accepted, Failed(ErrorKind::QuotaExceeded), Accepted, Accepted, Unknown, HandedOver]);
    recorder.assert_sent_count(4);
    assert_eq!(recorder.assert_sent(|message| message.subject() == Some("3")).subject(), Some("3"));
    let text = failing(|| recorder.assert_sent(|message| message.subject() == Some("1")));
    assert!(text.contains("Failed(QuotaExceeded): 4 B, subject \"1\""), "{text}");
    let text = failing(|| recorder.assert_nothing_sent());
    assert!(text.contains("Unknown: 4 B, subject \"4\""), "{text}");
    assert!(failing(|| recorder.assert_sent_count(5)).contains("left: 4"));
}

#[tokio::test(start_paused = true)]
async fn settlements_are_recorded_with_their_answers() {
    let (queue, recorder) = (TestBroker::new().queue("orders"), Recorder::new());
    (0..7).for_each(|number| queue.send_message(numbered(number)));
    let mut receiver = recorder.receiver(queue.receiver());
    let mut deliveries = receiver.receive_batch(7).await.unwrap().into_iter();
    let mut next = || deliveries.next().unwrap();
    next().complete().await.unwrap();
    next().abandon().await.unwrap();
    next().defer().await.unwrap();
    next().dead_letter(DeadLetter::new(DeadLetterReason::SignatureInvalid, "no key")).await.unwrap();
    next().lease.release().await.unwrap();
    drop(next());
    queue.lose_locks();
    next().complete().await.unwrap_err();

    recorder.assert_completed(1);
    recorder.assert_abandoned(2);
    recorder.assert_deferred(1);
    assert_eq!(recorder.assert_dead_lettered(&DeadLetterReason::SignatureInvalid).subject(), Some("3"));
    assert_eq!(recorder.assert_settle_failed(ErrorKind::MessageLockLost).subject(), Some("6"));
    let settled = recorder.settled();
    assert_eq!((&settled[4].settlement, &settled[5].settlement), (&Settlement::Released, &Settlement::Dropped));
    assert_eq!(settled[5].answer, None);

    let text = failing(|| recorder.assert_dead_lettered(&DeadLetterReason::ClaimMissing));
    for line in [
        "none was dead-lettered as ClaimMissing; there are:",
        "complete: #1 4 B, ",
        "dead-letter as SignatureInvalid (\"no key\"): #4 ",
        "release: #5 ",
        "dropped: #6 ",
        "complete, failed as MessageLockLost: #7 ",
    ] {
        assert!(text.contains(line), "{line:?} is not in {text}");
    }
    assert!(failing(|| recorder.assert_completed(2)).contains("left: 1"));
    failing(|| recorder.assert_abandoned(1));
    failing(|| recorder.assert_deferred(0));
    failing(|| recorder.assert_settle_failed(ErrorKind::ServiceTimeout));
}

#[tokio::test]
async fn a_record_is_bounded_and_says_what_it_does_not_keep() {
    let recorder = Recorder::new();
    let sender = recorder.accepting();
    let first = sender.send(numbered(0));
    for number in 1..=Recorder::MOST {
        sender.send(numbered(number)).await.unwrap();
    }
    first.await.unwrap();
    assert_eq!(recorder.sent().len(), Recorder::MOST);
    let text = failing(|| recorder.assert_nothing_sent());
    assert!(text.contains("and 9980 more") && text.contains("and 1 before them"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_queue_shows_what_is_left_and_what_died_and_no_body() {
    let queue = TestBroker::new().queue("orders");
    let message = Message::builder().message_id("m-1").property("tenant", "a").build("canary").unwrap();
    queue.send_message(message);
    let left = failing(|| queue.assert_empty());
    assert!(left.contains("in `orders` are left:\n  #1 6 B, id \"m-1\", \"tenant\" = \"a\""), "{left}");
    assert!(failing(|| queue.assert_dead_lettered(&DeadLetterReason::TtlExpired)).ends_with("there are: none"));
    let delivery = queue.receive_now().unwrap();
    delivery.dead_letter(DeadLetter::new(DeadLetterReason::HandlerPermanent, "why")).await.unwrap();
    queue.assert_empty();
    let dead = failing(|| queue.assert_dead_lettered(&DeadLetterReason::TtlExpired));
    assert!(dead.contains("dead-lettered \"HandlerPermanent\", because \"why\""), "{dead}");
    assert!(!left.contains("canary") && !dead.contains("canary"));
    assert_eq!(queue.receive_dead_letter_now().unwrap().message.payload(), Some(&b"canary"[..]));
}

#[tokio::test(start_paused = true)]
async fn a_run_ends_when_nothing_is_left_and_repeats_what_is_abandoned() {
    let queue = TestBroker::new().queue("orders");
    (0..50).for_each(|number| queue.send_message(numbered(number)));
    let handler = service_fn(|message: Message| async move {
        tokio::time::sleep(std::time::Duration::from_millis(3)).await;
        match message.subject().unwrap().parse::<u32>().unwrap() % 5 {
            0 => Ok(Disposition::ABANDON),
            1 => Ok(Disposition::DEFER),
            2 => Err(BoxError::from("fails")),
            3 => panic!("the handler panics"),
            _ => Ok(Disposition::Complete),
        }
    });
    let stats = queue.run(handler).await;
    assert_eq!((stats.completed(), stats.deferred(), stats.handled()), (10, 10, 20 + 30 * 10));
    assert_eq!((queue.dead_letters().len(), queue.messages().len()), (30, 10));
    queue.assert_dead_lettered(&DeadLetterReason::MaxDeliveryCountExceeded);
    let nothing =
        queue.run(service_fn(|_: Message| async { Err::<Disposition, _>(BoxError::from("not called")) })).await;
    assert_eq!(nothing.handled(), 0);
}

/// Rules: S-50.
#[tokio::test(start_paused = true)]
async fn a_message_that_was_removed_when_it_was_received_is_neither_completed_nor_abandoned() {
    let queue = TestBroker::new().queue("orders");
    queue.send("an order");
    let recorder = Recorder::new();
    let mut receiver = recorder.receiver(queue.receive_and_delete());
    drop(receiver.receive().await.unwrap());
    recorder.assert_removed(1);
    recorder.assert_completed(0);
    recorder.assert_abandoned(0);
    let text = failing(|| recorder.assert_removed(0));
    assert!(text.contains("removed when it was received: #1 8 B"), "{text}");
}
