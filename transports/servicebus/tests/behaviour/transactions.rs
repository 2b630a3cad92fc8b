//! Transactions and connections.

use std::time::Duration;

use consign::{
    Disposition, Message,
    administration::{Administration, EntitySettings, QueueSettings, SubscriptionSettings, TopicSettings},
    transport::{ErrorKind, Lease, ReceiverExt, Transaction, Transactions},
};

use consign_server::auth::{Rights, SharedAccessKey as ServerKey, SharedAccessKeys};
use consign_servicebus::SharedAccessKey;

use super::{InMemory, counts, create, path, receiver, send, text};

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
    let orders = create(&server, QueueSettings::default().lock_duration(Duration::from_secs(60))).await;
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

async fn create_all<const N: usize>(server: &InMemory, entities: [(&str, EntitySettings); N]) {
    for (name, settings) in entities {
        Administration::create(server.broker(), &path(name), &settings).await.unwrap();
    }
}

/// Rules: K-313, T-76.
#[tokio::test(start_paused = true)]
async fn a_transaction_sends_to_other_entities_via_its_own() {
    let server = InMemory::new();
    let orders = create(&server, QueueSettings::default()).await;
    let queue = || QueueSettings::default().into();
    let topic = TopicSettings::default().into();
    create_all(&server, [("bills", queue()), ("audit", queue()), ("prices", topic)]).await;
    create_all(&server, [("prices/subscriptions/all", SubscriptionSettings::default().into())]).await;
    let service_bus = server.connect().await;
    send(&service_bus, &orders, &["order"]).await;
    let order = receiver(&service_bus, &orders).await.receive().await.unwrap();
    let mut transaction = service_bus.begin().await.unwrap();
    transaction.settle(order.lease, Disposition::Complete).await.unwrap();
    for (to, body) in [("bills", "bill"), ("audit", "first"), ("audit", "second"), ("prices", "price")] {
        transaction.send_via(&orders, &path(to), Message::new(body)).unwrap();
    }
    transaction.send(&orders, Message::new("own")).await.unwrap();
    assert_eq!(counts(&server, &path("bills")).await, (0, 0));
    transaction.commit().await.unwrap();
    assert_eq!(counts(&server, &orders).await, (1, 0));
    let mut audit = receiver(&service_bus, &path("audit")).await;
    for expected in ["first", "second"] {
        let delivery = audit.receive().await.unwrap();
        assert_eq!(text(&delivery.message), expected);
        delivery.complete().await.unwrap();
    }

    // A message of a subscription is transferred via its topic.
    let all = path("prices/subscriptions/all");
    let price = receiver(&service_bus, &all).await.receive().await.unwrap();
    let mut transaction = service_bus.begin().await.unwrap();
    transaction.settle(price.lease, Disposition::Complete).await.unwrap();
    let refused = transaction.send_via(&path("prices"), &path("bills/$deadletterqueue"), Message::new("no"));
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidOperation);
    let refused = transaction.send_via(&orders, &path("bills"), Message::new("no"));
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidOperation);
    transaction.send_via(&path("prices"), &path("bills"), Message::new("price")).unwrap();
    transaction.commit().await.unwrap();
    assert_eq!((counts(&server, &path("bills")).await, counts(&server, &all).await), ((2, 0), (0, 0)));
}

/// Rules: K-313, T-77, G-04.
#[tokio::test(start_paused = true)]
async fn a_send_via_needs_both_entities_and_the_right_for_them() {
    let server = InMemory::with(|clock, builder| {
        let keys = [
            ServerKey::new("root", "s3cret", Rights::MANAGE),
            ServerKey::new("orders", "s3cret", Rights::MANAGE).entity("orders"),
        ];
        builder.authorizer(SharedAccessKeys::new(keys).clock(clock))
    });
    let orders = create(&server, QueueSettings::default()).await;
    create_all(&server, [("bills", QueueSettings::default().into())]).await;
    for (key, to, expected) in
        [("orders", "bills", ErrorKind::Unauthorized), ("root", "missing", ErrorKind::EntityNotFound)]
    {
        let service_bus = server.connect_with(SharedAccessKey::new(key, "s3cret").clock(server.clock)).await;
        send(&service_bus, &orders, &["order"]).await;
        let order = receiver(&service_bus, &orders).await.receive().await.unwrap();
        let mut transaction = service_bus.begin().await.unwrap();
        transaction.settle(order.lease, Disposition::Complete).await.unwrap();
        transaction.send_via(&orders, &path(to), Message::new("bill")).unwrap();
        let error = transaction.commit().await.unwrap_err();
        assert_eq!(error.kind(), expected, "{error:?}");
        let lease = error.into_leases().into_iter().next().unwrap();
        lease.settle(Disposition::Complete).await.unwrap();
    }
    assert_eq!((counts(&server, &orders).await, counts(&server, &path("bills")).await), ((0, 0), (0, 0)));
}

/// Rules: K-302, K-310.
#[tokio::test(start_paused = true)]
async fn a_lock_whose_link_has_ended_is_settled_by_a_commit() {
    let server = InMemory::with(|_, builder| {
        builder.timeouts(consign_server::Timeouts::default().idle_link(Duration::from_secs(20)))
    });
    let orders = create(&server, QueueSettings::default().lock_duration(Duration::from_secs(300))).await;
    let service_bus = server.connect().await;
    send(&service_bus, &orders, &["old"]).await;
    let mut receiver = receiver(&service_bus, &orders).await;
    let old = receiver.receive().await.unwrap();
    // The server detaches the link.
    tokio::time::sleep(Duration::from_secs(60)).await;
    let mut transaction = service_bus.begin().await.unwrap();
    transaction.settle(old.lease, Disposition::Complete).await.unwrap();
    transaction.send(&orders, Message::new("new")).await.unwrap();
    transaction.commit().await.unwrap();
    assert_eq!(counts(&server, &orders).await, (1, 0));
}
