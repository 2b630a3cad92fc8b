//! The operations of messages: those of the capabilities work, and the others return `NotSupported`.

use std::time::Duration;

use consign::{
    Message,
    administration::{Administration, QueueSettings, SubscriptionSettings, TopicSettings},
    message::{EntityPath, SequenceNumber},
    rules::DynRules,
    settlement::{DeadLetter, DeadLetterReason},
    time::{Clock, SystemClock},
    transport::{
        AcceptSession, Delivery, DynLease, DynTransport, ErrorKind, PeekMessages, PurgeMessages, ReceiveDeferred,
        ReceiveMode, ReceiverExt, ScheduleMessages, Sender, Session, SessionSource, Sessions, Transport,
    },
};
use consign_rabbitmq::RabbitMq;
use tokio::time::timeout;

use crate::{MOMENT, SOON, connect, counted, declared, end, path, settings};

fn text(delivery: &Delivery<DynLease>) -> &[u8] {
    delivery.message.payload().expect("a body")
}

async fn next(transport: &DynTransport, from: &EntityPath) -> Delivery<DynLease> {
    let mut receiver = transport.receiver(from, ReceiveMode::PeekLock).await.expect("a server");
    receiver.receive_within(SOON).await.expect("a message")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_and_the_rules_are_extensions() {
    let Some(transport) = connect().await else { return };
    assert!(transport.extension::<RabbitMq>().is_some() && transport.extension::<DynRules>().is_some());
    end(transport, &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_are_sent_counted_settled_and_dead_lettered() {
    let Some(transport) = connect().await else { return };
    let orders = declared(&transport, "orders", settings()).await;
    let sender = transport.sender(&orders).await.unwrap();
    for body in ["one", "two", "three"] {
        sender.send(Message::new(body)).await.unwrap();
    }
    counted(&transport, &orders, (3, 0)).await;

    // One receiver, for each has a message ahead for a moment.
    let mut receiver = transport.receiver(&orders, ReceiveMode::PeekLock).await.unwrap();
    let one = receiver.receive_within(SOON).await.unwrap();
    assert_eq!(text(&one), b"one");
    one.complete().await.unwrap();
    let two = receiver.receive_within(SOON).await.unwrap();
    assert_eq!(text(&two), b"two");
    two.dead_letter(DeadLetter::new(DeadLetterReason::MissingProperty, "no price")).await.unwrap();
    // The second failure is the last one: the settings allow two deliveries.
    for count in [1, 2] {
        let three = receiver.receive_within(SOON).await.unwrap();
        assert_eq!((text(&three), three.message.received().unwrap().delivery_count), (&b"three"[..], count));
        three.abandon().await.unwrap();
    }
    drop(receiver);
    let dead = orders.dead_letter();
    counted(&transport, &orders, (0, 2)).await;
    counted(&transport, &dead, (2, 0)).await;
    let mut dead = transport.receiver(&dead, ReceiveMode::PeekLock).await.unwrap();
    for reason in ["MissingProperty", "MaxDeliveryCountExceeded"] {
        let delivery = dead.receive_within(SOON).await.unwrap();
        assert_eq!(delivery.message.dead_letter_reason(), Some(reason));
        delivery.complete().await.unwrap();
    }
    sender.send(Message::new("removed")).await.unwrap();
    let mut removing = transport.receiver(&orders, ReceiveMode::ReceiveAndDelete).await.unwrap();
    let removed = removing.receive_within(SOON).await.unwrap();
    assert_eq!((text(&removed), removed.lease_token()), (&b"removed"[..], None));
    end(transport, &[&orders]).await;
}

trait LeaseToken {
    fn lease_token(&self) -> Option<consign::message::LockToken>;
}

impl LeaseToken for Delivery<DynLease> {
    fn lease_token(&self) -> Option<consign::message::LockToken> {
        consign::transport::Lease::lock_token(&self.lease)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_are_scheduled_and_not_cancelled() {
    let Some(transport) = connect().await else { return };
    let orders = declared(&transport, "orders", settings()).await;
    let at = SystemClock::new().now().utc.saturating_add(Duration::from_millis(700));
    let numbers = transport.schedule(&orders, vec![Message::new("later")], at).await.unwrap();
    assert_eq!(numbers.len(), 1);
    let refused = transport.cancel_scheduled(&orders, &numbers).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotSupported);
    let delivery = next(&transport, &orders).await;
    // The clock of the transport is another one.
    let after = SystemClock::new().now().utc.saturating_add(Duration::from_millis(100));
    assert!(text(&delivery) == b"later" && after >= at);
    delivery.complete().await.unwrap();
    end(transport, &[&orders]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_have_a_state_that_another_client_reads() {
    let Some(transport) = connect().await else { return };
    let bills = declared(&transport, "bills", settings().requires_session(true)).await;
    let refused = transport.receiver(&bills, ReceiveMode::PeekLock).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidOperation);
    let sender = transport.sender(&bills).await.unwrap();
    let bill = Message::builder().session_id("customer-7").build("a bill").unwrap();
    sender.send(bill).await.unwrap();
    counted(&transport, &bills, (1, 0)).await;

    let mut source = transport.sessions(&bills).await.unwrap();
    let accepting = std::future::poll_fn(|cx| source.poll_accept(cx));
    let mut session = timeout(SOON, accepting).await.unwrap().unwrap();
    assert_eq!((session.session_id(), session.state().await.unwrap()), ("customer-7", None));
    session.receive_within(SOON).await.unwrap().complete().await.unwrap();
    session.set_state(Some("billed".into())).await.unwrap();
    assert_eq!(session.peek(1).await.unwrap_err().kind(), ErrorKind::NotSupported);
    let deferred = session.receive_deferred(&[SequenceNumber::new(1)]).await;
    assert_eq!(deferred.unwrap_err().kind(), ErrorKind::NotSupported);
    session.close().await.unwrap();

    let other = connect().await.unwrap();
    let session = other.sessions(&bills).await.unwrap().accept("customer-7").await.unwrap();
    assert_eq!(session.state().await.unwrap().as_deref(), Some(&b"billed"[..]));
    session.close().await.unwrap();
    other.close().await.unwrap();
    end(transport, &[&bills]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operations_without_a_trait_have_no_effect() {
    let Some(transport) = connect().await else { return };
    let orders = declared(&transport, "orders", settings()).await;
    transport.sender(&orders).await.unwrap().send(Message::new("kept")).await.unwrap();
    let zero = SequenceNumber::new(0);
    assert_eq!(transport.peek(&orders, zero, 1).await.unwrap_err().kind(), ErrorKind::NotSupported);
    assert_eq!(transport.purge(&orders, 10, None).await.unwrap_err().kind(), ErrorKind::NotSupported);
    let deferred = transport.receive_deferred(&orders, &[zero]).await;
    assert_eq!(deferred.unwrap_err().kind(), ErrorKind::NotSupported);
    let delivery = next(&transport, &orders).await;
    assert_eq!(delivery.message.received().unwrap().delivery_count, 1);
    delivery.defer().await.unwrap_err();
    let kept = next(&transport, &orders).await;
    assert_eq!(text(&kept), b"kept");
    kept.complete().await.unwrap();
    end(transport, &[&orders]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_entity_is_reported_when_a_sender_or_a_receiver_is_created() {
    let Some(transport) = connect().await else { return };
    let absent = path("absent");
    assert_eq!(transport.sender(&absent).await.unwrap_err().kind(), ErrorKind::EntityNotFound);
    for mode in [ReceiveMode::PeekLock, ReceiveMode::ReceiveAndDelete] {
        assert_eq!(transport.receiver(&absent, mode).await.unwrap_err().kind(), ErrorKind::EntityNotFound);
    }
    assert_eq!(transport.sessions(&absent).await.unwrap_err().kind(), ErrorKind::EntityNotFound);
    // It is found when it is there.
    transport.create(&absent, &QueueSettings::default().into()).await.unwrap();
    transport.sender(&absent).await.unwrap().send(Message::new("found")).await.unwrap();
    assert_eq!(transport.sessions(&absent).await.unwrap_err().kind(), ErrorKind::InvalidOperation);
    end(transport, &[&absent]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_copies_to_subscriptions_through_a_client_that_created_neither() {
    let Some(transport) = connect().await else { return };
    let prices = declared(&transport, "prices", TopicSettings::default()).await;
    let (plain, by_session) = (prices.subscription_of("plain").unwrap(), prices.subscription_of("by-session").unwrap());
    transport.create(&plain, &SubscriptionSettings::default().into()).await.unwrap();
    transport.create(&by_session, &SubscriptionSettings::default().requires_session(true).into()).await.unwrap();

    let other = connect().await.unwrap();
    let message = Message::builder().session_id("acme").build("42").unwrap();
    other.sender(&prices).await.unwrap().send(message).await.unwrap();
    let delivery = next(&other, &plain).await;
    assert_eq!(text(&delivery), b"42");
    delivery.complete().await.unwrap();
    let mut session = other.sessions(&by_session).await.unwrap().accept("acme").await.unwrap();
    let delivery = session.receive_within(SOON).await.unwrap();
    assert_eq!(text(&delivery), b"42");
    delivery.complete().await.unwrap();
    session.close().await.unwrap();
    let mut empty = other.receiver(&plain, ReceiveMode::PeekLock).await.unwrap();
    assert_eq!(empty.receive_within(MOMENT).await.unwrap_err().kind(), ErrorKind::ServiceTimeout);
    assert_eq!(other.counts(&prices).await.unwrap_err().kind(), ErrorKind::NotSupported);
    drop(empty);
    other.close().await.unwrap();
    end(transport, &[&prices]).await;
}
