//! Transactions and connections.

use std::time::Duration;

use consign::{
    Disposition, Message,
    administration::QueueSettings,
    transport::{ErrorKind, Lease, ReceiverExt, Transaction, Transactions},
};

use super::{InMemory, counts, create, receiver, send, text};

/// Rules: K-310.
#[tokio::test(start_paused = true)]
async fn a_connection_that_is_lost_before_the_commit_has_no_effect_on_it() {
    let server = InMemory::new();
    let orders = create(&server, QueueSettings::default()).await;
    let service_bus = server.connect().await;
    send(&service_bus, &orders, &["old"]).await;
    let old = receiver(&service_bus, &orders).await.receive().await.unwrap();
    let mut transaction = service_bus.begin().await.unwrap();
    transaction.settle(old.lease, Disposition::Complete).await.unwrap();
    transaction.send(&orders, Message::new("new")).await.unwrap();
    service_bus.disconnect().await.unwrap();
    transaction.commit().await.unwrap();
    let new = receiver(&service_bus, &orders).await.receive().await.unwrap();
    assert_eq!(text(&new.message), "new");
    new.complete().await.unwrap();
    assert_eq!(counts(&server, &orders).await, (0, 0));
}

/// Rules: K-310, T-71, T-75.
#[tokio::test(start_paused = true)]
async fn the_locks_of_a_failed_commit_can_be_settled() {
    let server = InMemory::new();
    let orders = create(&server, QueueSettings::default().with_lock_duration(Duration::from_secs(60))).await;
    let service_bus = server.connect().await;
    send(&service_bus, &orders, &["lost", "held"]).await;
    let mut receiver = receiver(&service_bus, &orders).await;
    let lost = receiver.receive().await.unwrap();
    tokio::time::sleep(Duration::from_secs(59)).await;
    let held = receiver.receive().await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut transaction = service_bus.begin().await.unwrap();
    transaction.settle(held.lease, Disposition::Complete).await.unwrap();
    transaction.settle(lost.lease, Disposition::Complete).await.unwrap();
    transaction.send(&orders, Message::new("new")).await.unwrap();
    let error = transaction.commit().await.unwrap_err();
    assert_eq!((error.kind(), error.is_outcome_unknown()), (ErrorKind::MessageLockLost, false), "{error:?}");
    let mut leases = error.into_leases().into_iter();
    leases.next().unwrap().settle(Disposition::Complete).await.unwrap();
    let lost = leases.next().unwrap().settle(Disposition::Complete).await.unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::MessageLockLost);
    let again = receiver.receive().await.unwrap();
    assert_eq!(text(&again.message), "lost");
    again.complete().await.unwrap();
    assert_eq!(counts(&server, &orders).await, (0, 0));
}
