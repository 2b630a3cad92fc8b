//! Messages are sent, inspected, scheduled, deferred and removed.

use std::time::Duration;

use consign::{
    Disposition, Message,
    administration::{Administration, Counts, QueueSettings, SubscriptionSettings, TopicSettings},
    message::{MessageState, SequenceNumber},
    settlement::{Changes, DeadLetter, DeadLetterReason},
    time::Timestamp,
    transport::{
        Delivery, ErrorKind, Lease, PeekMessages, PurgeMessages, ReceiveDeferred, ReceiveMode, ReceiverExt,
        ScheduleMessages, Sender, Transport,
    },
};
use consign_postgres::Postgres;

use crate::{Fixture, path, receive, receiver, send, text};

const FIRST: SequenceNumber = SequenceNumber::new(0);

#[tokio::test]
async fn a_message_is_sent_peeked_received_and_dead_lettered() {
    let Some(fixture) = Fixture::new().await else { return };
    let (queue, other) = (fixture.create("orders", QueueSettings::default()).await, fixture.other().await);
    send(&fixture.transport, &queue, [Message::new("a"), Message::new("b")]).await;
    let peeked = other.peek(&queue, FIRST, 10).await.unwrap();
    assert_eq!(peeked.iter().map(text).collect::<Vec<_>>(), [b"a", b"b"]);

    let mut orders = receiver(&other, &queue).await;
    let delivery = receive(&mut orders).await;
    let reason = DeadLetter::new(DeadLetterReason::Application("TooLarge".into()), "more than 1000");
    delivery.lease.settle(Disposition::DeadLetter(Box::new(reason))).await.unwrap();
    receive(&mut orders).await.complete().await.unwrap();

    let dead = fixture.transport.peek(&queue.dead_letter(), FIRST, 10).await.unwrap();
    let dead = dead.first().unwrap();
    assert_eq!(
        (text(dead), dead.application_properties().get(DeadLetter::REASON).unwrap().as_str()),
        (&b"a"[..], Some("TooLarge"))
    );
    receive(&mut receiver(&other, &queue.dead_letter()).await).await.complete().await.unwrap();
    assert_eq!(other.counts(&queue).await.unwrap(), Counts::default());
    fixture.end().await;
}

#[tokio::test]
async fn counts_tell_states_apart_and_have_the_size() {
    let Some(fixture) = Fixture::new().await else { return };
    let transport = &fixture.transport;
    let queue = fixture.create("orders", QueueSettings::default()).await;
    send(transport, &queue, (0..5).map(|_| Message::new("0123456789"))).await;
    let mut orders = receiver(transport, &queue).await;
    let _locked = receive(&mut orders).await;
    let deferred = receive(&mut orders).await;
    deferred.lease.settle(Disposition::Defer(Changes::default())).await.unwrap();
    let dead = DeadLetter::new(DeadLetterReason::HandlerPermanent, "");
    receive(&mut orders).await.lease.settle(Disposition::DeadLetter(Box::new(dead))).await.unwrap();
    let later = hours_from_now(&fixture, 1).await;
    transport.schedule(&queue, vec![Message::new("later")], later).await.unwrap();
    let counts = fixture.other().await.counts(&queue).await.unwrap();
    let of_states = (counts.active, counts.locked, counts.deferred, counts.scheduled, counts.dead_lettered);
    assert_eq!(of_states, (2, 1, 1, 1, 1));
    assert!((6 * 256..6 * 512).contains(&counts.size), "{counts:?}");
    let of_dead = transport.counts(&queue.dead_letter()).await.unwrap();
    assert_eq!((of_dead.active, of_dead.dead_lettered), (1, 0));
    fixture.end().await;
}

#[tokio::test]
async fn a_message_is_scheduled_and_cancelled() {
    let Some(fixture) = Fixture::new().await else { return };
    let (queue, other) = (fixture.create("orders", QueueSettings::default()).await, fixture.other().await);
    let (soon, later) = (hours_from_now(&fixture, 0).await, hours_from_now(&fixture, 1).await);
    let messages = vec![Message::new("never"), Message::new("nor this")];
    let numbers = fixture.transport.schedule(&queue, messages, later).await.unwrap();
    assert_eq!(numbers.len(), 2);
    let peeked = other.peek(&queue, FIRST, 10).await.unwrap();
    assert!(peeked.iter().all(|message| message.received().unwrap().state == MessageState::Scheduled));
    other.cancel_scheduled(&queue, &numbers).await.unwrap();
    let error = other.cancel_scheduled(&queue, &numbers).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MessageNotFound);
    other.schedule(&queue, vec![Message::new("now")], soon).await.unwrap();
    let delivery = receive(&mut receiver(&fixture.transport, &queue).await).await;
    assert_eq!(text(&delivery.message), b"now");
    let error = other.schedule(&queue.dead_letter(), vec![Message::new("a")], later).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOperation);
    fixture.end().await;
}

#[tokio::test]
async fn a_deferred_message_is_received_by_its_number() {
    let Some(fixture) = Fixture::new().await else { return };
    let (queue, other) = (fixture.create("orders", QueueSettings::default()).await, fixture.other().await);
    send(&fixture.transport, &queue, [Message::new("a")]).await;
    let Delivery { message, lease } = receive(&mut receiver(&fixture.transport, &queue).await).await;
    let number = message.received().unwrap().sequence_number;
    let error = other.receive_deferred(&queue, &[number]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MessageNotFound);
    lease.settle(Disposition::Defer(Changes::default())).await.unwrap();
    let deferred = other.receive_deferred(&queue, &[number]).await.unwrap().pop().unwrap();
    assert_eq!(text(&deferred.message), b"a");
    deferred.complete().await.unwrap();
    fixture.end().await;
}

#[tokio::test]
async fn purge_removes_what_no_receiver_holds() {
    let Some(fixture) = Fixture::new().await else { return };
    let (queue, other) = (fixture.create("orders", QueueSettings::default()).await, fixture.other().await);
    send(&fixture.transport, &queue, (0..4).map(|_| Message::new("a"))).await;
    let held = receive(&mut receiver(&fixture.transport, &queue).await).await;
    let before = hours_from_now(&fixture, -1).await;
    assert_eq!(other.purge(&queue, 10, Some(before)).await.unwrap(), 0);
    assert_eq!(other.purge(&queue, 2, None).await.unwrap(), 2);
    assert_eq!(other.purge(&queue, 10, None).await.unwrap(), 1);
    held.complete().await.unwrap();
    fixture.end().await;
}

/// It is no part of this broker, and not taken for the queue.
#[tokio::test]
async fn a_transfer_dead_letter_sub_queue_is_not_supported() {
    let Some(fixture) = Fixture::new().await else { return };
    let (transport, queue) = (&fixture.transport, fixture.create("orders", QueueSettings::default()).await);
    send(transport, &queue, [Message::new("a")]).await;
    let transfer = queue.transfer_dead_letter();
    let kinds = [
        transport.purge(&transfer, 10, None).await.unwrap_err().kind(),
        transport.counts(&transfer).await.unwrap_err().kind(),
        transport.peek(&transfer, FIRST, 10).await.unwrap_err().kind(),
        transport.receiver(&transfer, ReceiveMode::PeekLock).await.unwrap_err().kind(),
        transport.receive_deferred(&transfer, &[FIRST]).await.unwrap_err().kind(),
    ];
    assert_eq!(kinds, [ErrorKind::NotSupported; 5]);
    assert_eq!(transport.counts(&queue).await.unwrap().active, 1);
    fixture.end().await;
}

#[tokio::test]
async fn a_message_that_was_received_and_deleted_is_gone() {
    let Some(fixture) = Fixture::new().await else { return };
    let queue = fixture.create("orders", QueueSettings::default()).await;
    send(&fixture.transport, &queue, [Message::new("a")]).await;
    let mut orders = fixture.transport.receiver(&queue, ReceiveMode::ReceiveAndDelete).await.unwrap();
    let delivery = receive(&mut orders).await;
    assert_eq!(fixture.transport.counts(&queue).await.unwrap(), Counts::default());
    assert_eq!(delivery.complete().await.unwrap_err().kind(), ErrorKind::InvalidOperation);
    fixture.end().await;
}

#[tokio::test]
async fn a_topic_copies_messages_to_its_subscriptions() {
    let Some(fixture) = Fixture::new().await else { return };
    let topic = fixture.create("prices", TopicSettings::default()).await;
    let audit = fixture.create("prices/Subscriptions/audit", SubscriptionSettings::default()).await;
    send(&fixture.transport, &topic, [Message::new("a")]).await;
    assert_eq!(text(&receive(&mut receiver(&fixture.other().await, &audit).await).await.message), b"a");
    let error = fixture.transport.sender(&audit).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOperation);
    let error = fixture.transport.sender(&path("nothing")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::EntityNotFound);
    fixture.end().await;
}

/// The futures of the send and of the settlement are dropped.
#[tokio::test]
async fn close_waits_for_what_was_sent_and_settled_and_ends_every_clone() {
    let Some(fixture) = Fixture::new().await else { return };
    let queue = fixture.create("orders", QueueSettings::default()).await;
    let closed = fixture.other().await;
    send(&closed, &queue, [Message::new("0"), Message::new("1")]).await;
    let (mut orders, clone) = (receiver(&closed, &queue).await, closed.clone());
    let (completed, abandoned) = (receive(&mut orders).await, receive(&mut orders).await);
    let sender = closed.sender(&queue).await.unwrap();
    for _ in 0..20 {
        drop(sender.send(Message::new("2")));
    }
    drop(completed.complete());
    drop(abandoned);
    closed.close().await.unwrap();
    let counts = fixture.transport.counts(&queue).await.unwrap();
    assert_eq!((counts.active, counts.locked), (22, 0), "{counts:?}");
    let error = sender.send(Message::new("3")).await.unwrap_err();
    assert!(error.kind() == ErrorKind::CommunicationProblem && !error.is_retryable(), "{error}");
    assert_eq!(clone.counts(&queue).await.unwrap_err().kind(), ErrorKind::CommunicationProblem);
    let ended = orders.receive_within(Duration::from_secs(10)).await.unwrap_err();
    assert_eq!(ended.kind(), ErrorKind::CommunicationProblem);
    fixture.end().await;
}

#[tokio::test]
async fn close_leaves_a_wrapped_pool_open() {
    let Some(fixture) = Fixture::new().await else { return };
    let own = fixture.transport.extension::<Postgres>().unwrap();
    let wrapped = Postgres::options().schema(&*fixture.schema).wrap(own.pool().clone()).unwrap();
    wrapped.close().await.unwrap();
    assert!(fixture.transport.list().await.unwrap().is_empty());
    fixture.end().await;
}

async fn hours_from_now(fixture: &Fixture, hours: i64) -> Timestamp {
    let now = fixture.transport.extension::<Postgres>().unwrap().now().await.unwrap();
    Timestamp::from_millis(now.as_millis() + hours * 3_600_000)
}
