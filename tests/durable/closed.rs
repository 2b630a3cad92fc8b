//! What is left when a broker is closed, or dropped.

use std::{error::Error, iter::successors};

use consign::{
    Message,
    administration::{QueueSettings, SubscriptionSettings, TopicSettings},
    broker::{Broker, StorageError, StorageErrorKind},
    message::SequenceNumber,
    transport::{self, Lease, PeekMessages, ReceiveError, ReceiverExt, Sender, SessionSource, Transport},
};

use crate::support::{Disk, START, receive};

/// An error that says that the broker was closed, where its source does.
#[track_caller]
fn assert_closed<T, E: Error>(answer: Result<T, E>) {
    let Err(error) = answer else { panic!("the call has happened") };
    let mut sources = successors(error.source(), |&source| source.source());
    let source = sources.find_map(|source| source.downcast_ref::<StorageError>());
    assert_eq!(source.map(StorageError::kind), Some(StorageErrorKind::Closed), "{error}");
}

/// Rules: D-08, K-48.
#[tokio::test]
async fn every_call_on_a_closed_broker_says_so() {
    let disk = Disk::new();
    let (broker, _) = disk.open();
    let queue = broker.create_queue("orders", QueueSettings::default()).unwrap();
    let sessions = broker.create_queue("sessions", QueueSettings::default().requires_session(true)).unwrap();
    let topic = broker.create_topic("events", TopicSettings::default()).unwrap();
    let subscription = topic.create_subscription("all", SubscriptionSettings::default()).unwrap();
    let sender = queue.sender().unwrap();
    for _ in 0..5 {
        sender.send(Message::new("")).await.unwrap();
    }
    let mut session = sessions.accept_session("s").unwrap();
    let mut acceptor = sessions.session_acceptor().unwrap();
    let mut leases: Vec<_> = receive(&queue).await.into_iter().map(|delivery| delivery.lease).collect();
    let mut transaction = broker.transaction();
    transaction.send(&sender, Message::new("")).unwrap();
    Transport::ping(&broker).await.unwrap();
    broker.close().await.unwrap();
    broker.close().await.unwrap();

    assert_closed(Transport::ping(&broker).await);
    assert_eq!(broker.flush().await.unwrap_err().kind(), StorageErrorKind::Closed);
    assert_closed(sender.send(Message::new("")).await);
    assert_closed(sender.schedule(vec![Message::new("")], START).await);
    assert_closed(sender.cancel_scheduled(&[]).await);
    assert_closed(queue.receiver().receive().await);
    assert_closed(queue.receive_and_delete().receive().await);
    assert_closed(queue.receive_deferred(&[]));
    assert_closed(queue.delete_messages(1, None).await);
    let lease = leases.pop().unwrap();
    assert_closed(lease.renew().await);
    assert_closed(lease.settle(consign::Disposition::Complete).await);
    assert_closed(leases.pop().unwrap().release().await);
    let failures = Lease::complete_all(&mut leases).await.unwrap_err().into_failures();
    assert_eq!(failures.len(), 3);
    for (_, failure) in failures {
        assert_closed(Err::<(), _>(failure));
    }
    assert_closed(session.renew());
    assert_closed(session.state());
    assert_closed(session.set_state(None).await);
    assert_closed(session.receive().await);
    assert_closed(session.receive_deferred(&[]));
    assert_closed(transport::Session::peek(&mut session, 1).await);
    assert_closed(session.close());
    assert_closed(sessions.accept_session("other"));
    assert_closed(std::future::poll_fn(|cx| acceptor.poll_accept(cx)).await);
    assert_closed(transaction.commit().await);
    assert_closed(broker.create_queue("new", QueueSettings::default()));
    assert_closed(broker.declare_queue("orders", QueueSettings::default()));
    assert_closed(broker.declare_topic("events", TopicSettings::default()));
    assert_closed(topic.declare_subscription("all", SubscriptionSettings::default()));
    assert_closed(subscription.declare_rule(consign::rules::Rule::default()));
    assert_closed(broker.update_queue("orders", QueueSettings::default()));
    assert_closed(broker.create_topic("new", TopicSettings::default()));
    assert_closed(broker.queue("orders"));
    assert_closed(broker.topic("events"));
    assert_closed(broker.sender(&queue.path()));
    assert_closed(broker.delete("orders"));
    assert_closed(topic.create_subscription("new", SubscriptionSettings::default()));
    assert_closed(topic.subscription("all"));
    assert_closed(subscription.delete_rule("$Default"));
    assert_closed(consign::administration::Administration::list(&broker).await);
    assert_closed(PeekMessages::peek(&broker, &queue.path(), SequenceNumber::new(0), 1).await);
    let export = queue.export(&mut Vec::new()).unwrap_err();
    assert_closed(Err::<(), _>(*export.into_inner().unwrap().downcast::<ReceiveError>().unwrap()));

    let (broker, _) = disk.open();
    assert_eq!(broker.queue("orders").unwrap().counts().active, 5);
    assert_eq!(broker.entities().len(), 4);
}

/// Rules: D-08.
/// Whichever way it waits.
#[tokio::test]
async fn a_receive_that_waits_ends_with_the_close() {
    let disk = Disk::new();
    let (broker, _) = disk.open();
    let queue = broker.create_queue("orders", QueueSettings::default()).unwrap();
    let sessions = broker.create_queue("sessions", QueueSettings::default().requires_session(true)).unwrap();
    let (mut receiver, mut acceptor) = (queue.receiver(), sessions.session_acceptor().unwrap());
    let mut session = sessions.accept_session("s").unwrap();
    let close = async {
        tokio::task::yield_now().await;
        broker.close().await
    };
    let waiting = futures_util::future::join3(receiver.receive(), acceptor.accept_next(), session.receive());
    let ((message, accepted, of_session), closed) = futures_util::future::join(waiting, close).await;
    closed.unwrap();
    assert_closed(message);
    assert_closed(accepted);
    assert_closed(of_session);
}

/// Rules: D-08.
/// Attacks: 96.
#[tokio::test]
async fn a_folder_has_one_broker_at_a_time() {
    let disk = Disk::new();
    let (broker, _) = disk.open();
    let error = Broker::open(disk.path()).unwrap_err();
    assert_eq!((error.kind(), error.folder()), (StorageErrorKind::InUse, Some(disk.path())));
    assert!(error.to_string().contains(&disk.path().display().to_string()), "{error}");
    broker.close().await.unwrap();
    let (second, _) = disk.open();
    // The first one has let go of it.
    drop(broker);
    assert_eq!(Broker::open(disk.path()).unwrap_err().kind(), StorageErrorKind::InUse);
    drop(second);
}

/// Whatever is the last to go, and whether the broker was closed before.
#[tokio::test]
async fn handles_are_dropped_in_any_order() {
    let mut rng = fastrand::Rng::with_seed(7);
    for _ in 0..60 {
        let disk = Disk::quick();
        let (broker, _) = disk.open();
        let queue = broker.create_queue("orders", QueueSettings::default()).unwrap();
        let sender = queue.sender().unwrap();
        for _ in 0..2 {
            sender.send(Message::new("")).await.unwrap();
        }
        let mut receiver = queue.receiver();
        let held = receiver.receive().await.unwrap();
        let mut transaction = broker.transaction();
        transaction.complete(receiver.receive().await.unwrap()).unwrap();
        let is_closed = rng.bool();
        if is_closed {
            broker.close().await.unwrap();
        }
        let unheard = sender.send(Message::new(""));
        let mut handles: Vec<Box<dyn std::any::Any>> = vec![
            Box::new(broker),
            Box::new(queue),
            Box::new(sender),
            Box::new(receiver),
            Box::new(held),
            Box::new(transaction),
            Box::new(unheard),
        ];
        rng.shuffle(&mut handles);
        drop(handles);
        if is_closed {
            let (broker, _) = disk.open();
            assert_eq!(broker.queue("orders").unwrap().counts().active, 2);
        }
    }
}

/// Rules: D-08.
/// A hundred times, or as often as `CONSIGN_CASES` says.
#[tokio::test]
async fn a_store_is_opened_again_and_again() {
    let rounds = std::env::var("CONSIGN_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(100);
    let mut disk = Disk::quick();
    for round in 1..=rounds {
        let (broker, _) = disk.open();
        let queue = broker.declare_queue("orders", QueueSettings::default()).unwrap();
        queue.sender().unwrap().send(Message::new("")).await.unwrap();
        let received = receive(&queue).await;
        assert_eq!(received.len(), 1);
        let seen = received[0].message.received().unwrap();
        assert_eq!((seen.sequence_number.get(), seen.delivery_count), (round, 1));
        for delivery in received {
            delivery.complete().await.unwrap();
        }
        broker.close().await.unwrap();
        disk.advance(std::time::Duration::from_secs(1));
    }
    let (broker, _) = disk.open();
    assert_eq!(broker.recovery().unwrap().messages, 0);
}
