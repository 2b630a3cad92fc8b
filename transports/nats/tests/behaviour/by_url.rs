//! What a transport of a URL can do, and what it refuses.

use std::future::poll_fn;

use consign::{
    Message,
    administration::{Administration, EntitySettings, QueueSettings, SubscriptionSettings, TopicSettings},
    message::{EntityPath, MessageState, SequenceNumber},
    rules::{ManageRules, Rule, SqlFilter},
    settlement::{DeadLetter, DeadLetterReason},
    time::{Clock, SystemClock, Timestamp},
    transport::{
        AcceptSession, Delivery, DynLease, DynTransport, ErrorKind, Lease, PeekMessages, PurgeMessages,
        ReceiveDeferred, ReceiveMode, ReceiverExt, ScheduleMessages, Sender, Session, SessionSource, Sessions,
        Transport,
    },
};

use crate::{
    LONG,
    declare::{connect, new_path},
};

const START: SequenceNumber = SequenceNumber::new(0);

/// A connection, and an entity of its own.
async fn with(settings: impl Into<EntitySettings>) -> Option<(DynTransport, EntityPath)> {
    let (transport, path) = (connect().await?, new_path());
    transport.declare(&path, &settings.into()).await.expect("an answer");
    Some((transport, path))
}

async fn send(transport: &DynTransport, path: &EntityPath, bodies: &[&'static str]) {
    let sender = transport.sender(path).await.expect("an answer");
    for &body in bodies {
        sender.send(Message::new(body)).await.expect("an answer");
    }
}

async fn receive(transport: &DynTransport, path: &EntityPath) -> Delivery<DynLease> {
    let mut receiver = transport.receiver(path, ReceiveMode::PeekLock).await.expect("an answer");
    receiver.receive_within(LONG).await.expect("an answer")
}

fn number(message: &Message) -> SequenceNumber {
    message.received().expect("a number").sequence_number
}

fn bodies(messages: &[Message]) -> Vec<&[u8]> {
    messages.iter().filter_map(Message::payload).collect()
}

#[tokio::test]
async fn a_closed_transport_refuses_operations() {
    let Some(transport) = connect().await else { return };
    transport.close().await.unwrap();
    let error = transport.list().await.unwrap_err();
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::CommunicationProblem, false), "{error}");
}

#[tokio::test]
async fn messages_are_counted_and_peeked_by_state() {
    let Some((transport, path)) = with(QueueSettings::default()).await else { return };
    send(&transport, &path, &["deferred", "dead", "locked", "left"]).await;
    let deferred = receive(&transport, &path).await;
    let deferred_number = number(&deferred.message);
    deferred.defer().await.unwrap();
    let reason = DeadLetterReason::Application("Unfit".into());
    receive(&transport, &path).await.dead_letter(DeadLetter::new(reason, "too small")).await.unwrap();
    let locked = receive(&transport, &path).await;

    let counts = transport.counts(&path).await.unwrap();
    assert_eq!((counts.active, counts.locked, counts.deferred, counts.scheduled), (2, 0, 1, 0));
    assert_eq!((counts.dead_lettered, counts.transfer_dead_lettered), (1, 0));
    assert!(counts.size > 0);
    let dead = path.dead_letter();
    assert_eq!(transport.counts(&dead).await.unwrap().active, 1);

    let peeked = transport.peek(&path, START, 10).await.unwrap();
    assert_eq!(bodies(&peeked), [&b"deferred"[..], b"locked", b"left"]);
    assert_eq!(peeked[0].received().unwrap().state, MessageState::Deferred);
    assert_eq!(bodies(&transport.peek(&path, number(&peeked[1]), 1).await.unwrap()), [b"locked"]);
    assert_eq!(bodies(&transport.peek(&dead, START, 10).await.unwrap()), [b"dead"]);

    locked.complete().await.unwrap();
    let deferred = transport.receive_deferred(&path, &[deferred_number]).await.unwrap().pop().unwrap();
    let error = transport.receive_deferred(&path, &[deferred_number]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MessageNotFound, "{error}");
    deferred.complete().await.unwrap();
    let counts = transport.counts(&path).await.unwrap();
    assert_eq!((counts.active, counts.deferred, counts.dead_lettered), (1, 0, 1));
    transport.delete(&path).await.unwrap();
    let error = transport.counts(&path).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::EntityNotFound, "{error}");
}

#[tokio::test]
async fn a_purge_removes_the_oldest_messages_that_are_not_locked() {
    let Some((transport, path)) = with(QueueSettings::default()).await else { return };
    send(&transport, &path, &["locked", "1", "2", "3"]).await;
    let locked = receive(&transport, &path).await;
    let before_all = Some(Timestamp::EPOCH);
    assert_eq!(transport.purge(&path, 10, before_all).await.unwrap(), 0);
    assert_eq!(transport.purge(&path, 2, None).await.unwrap(), 2);
    let later = Some(SystemClock::new().now().utc.saturating_add(LONG));
    assert_eq!(bodies(&transport.peek(&path, START, 10).await.unwrap()), [&b"locked"[..], b"3"]);
    assert_eq!(transport.purge(&path, 10, later).await.unwrap(), 1);
    locked.complete().await.unwrap();
    assert_eq!(transport.counts(&path).await.unwrap().active, 0);
    transport.delete(&path).await.unwrap();
}

#[tokio::test]
async fn scheduling_is_refused_and_sends_nothing() {
    let Some((transport, path)) = with(QueueSettings::default()).await else { return };
    let at = SystemClock::new().now().utc.saturating_add(LONG);
    let error = transport.schedule(&path, vec![Message::new("later")], at).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
    let error = transport.cancel_scheduled(&path, &[SequenceNumber::new(1)]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
    assert!(transport.peek(&path, START, 1).await.unwrap().is_empty());
    transport.delete(&path).await.unwrap();
}

#[tokio::test]
async fn a_receive_mode_decides_whether_a_message_is_settled() {
    let Some((transport, path)) = with(QueueSettings::default()).await else { return };
    send(&transport, &path, &["a", "b"]).await;
    let mut receiver = transport.receiver(&path, ReceiveMode::ReceiveAndDelete).await.unwrap();
    let removed = receiver.receive_within(LONG).await.unwrap();
    assert_eq!(removed.complete().await.unwrap_err().kind(), ErrorKind::InvalidOperation);
    let delivery = receive(&transport, &path).await;
    assert_eq!(delivery.message.payload(), Some(&b"b"[..]));
    Lease::release(delivery.lease).await.unwrap();
    assert_eq!(transport.counts(&path).await.unwrap().active, 1);
    transport.delete(&path).await.unwrap();
}

#[tokio::test]
async fn a_session_has_state_deferred_messages_and_a_peek_of_its_own() {
    let Some((transport, path)) = with(QueueSettings::default().requires_session(true)).await else { return };
    let sender = transport.sender(&path).await.unwrap();
    for (session, body) in [("one", "a"), ("other", "x"), ("one", "b")] {
        let message = Message::builder().session_id(session).build(body).unwrap();
        sender.send(message).await.unwrap();
    }
    assert_eq!(transport.counts(&path).await.unwrap().active, 3);
    let mut sessions = transport.sessions(&path).await.unwrap();
    let mut session = sessions.accept("one").await.unwrap();
    let error = sessions.accept("one").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SessionCannotBeLocked, "{error}");
    assert_eq!(session.state().await.unwrap(), None);
    session.set_state(Some("half".into())).await.unwrap();
    assert_eq!(bodies(&session.peek(1).await.unwrap()), [b"a"]);
    assert_eq!(bodies(&session.peek(9).await.unwrap()), [b"b"]);
    let delivery = session.receive_within(LONG).await.unwrap();
    let deferred = number(&delivery.message);
    delivery.defer().await.unwrap();
    session.receive_deferred(&[deferred]).await.unwrap().pop().unwrap().complete().await.unwrap();
    session.receive_within(LONG).await.unwrap().complete().await.unwrap();
    session.close().await.unwrap();

    let next = poll_fn(|cx| sessions.poll_accept(cx)).await.unwrap();
    assert_eq!(next.session_id(), "other");
    let again = sessions.accept("one").await.unwrap();
    assert_eq!(again.state().await.unwrap().as_deref(), Some(&b"half"[..]));
    again.set_state(None).await.unwrap();
    assert_eq!(again.state().await.unwrap(), None);

    // What an entity with sessions does not have.
    let error = transport.purge(&path, 1, None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
    let error = transport.receiver(&path, ReceiveMode::PeekLock).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOperation, "{error}");
    assert_eq!(transport.counts(&path).await.unwrap().active, 1);
    transport.delete(&path).await.unwrap();
}

#[tokio::test]
async fn the_rules_of_a_subscription_decide_which_copies_it_gets() {
    let Some((transport, topic)) = with(TopicSettings::default()).await else { return };
    let path = topic.subscription_of("large").unwrap();
    let error = transport.rules(&path).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::EntityNotFound, "{error}");
    transport.declare(&path, &SubscriptionSettings::default().into()).await.unwrap();
    assert_eq!(transport.rules(&path).await.unwrap(), [Rule::default()]);
    let rule = |name| Rule::new(name, SqlFilter::parse("total > 10").unwrap()).unwrap();
    for name in ["b", "a"] {
        transport.create_rule(&path, &rule(name)).await.unwrap();
    }
    let error = transport.create_rule(&path, &rule("a")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
    transport.delete_rule(&path, Rule::DEFAULT_NAME).await.unwrap();
    let error = transport.delete_rule(&path, Rule::DEFAULT_NAME).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::EntityNotFound, "{error}");
    assert_eq!(transport.rules(&path).await.unwrap(), [rule("a"), rule("b")]);

    let sender = transport.sender(&topic).await.unwrap();
    for total in [1, 100] {
        sender.send(Message::builder().property("total", total).build(total.to_string()).unwrap()).await.unwrap();
    }
    transport.counts(&topic).await.unwrap();
    // Messages that wait in the topic are counted.
    assert_eq!(transport.counts(&path).await.unwrap().active, 1);
    assert_eq!(receive(&transport, &path).await.message.payload(), Some(&b"100"[..]));
    let error = transport.rules(&topic).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::EntityNotFound, "{error}");
    transport.delete(&topic).await.unwrap();
    assert!(transport.list().await.unwrap().iter().all(|entity| entity.path != path));
}
