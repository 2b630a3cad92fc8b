//! Transactions over several entities as the SDKs for .NET and Java write them: a coordinator first, and all links in its session.

use std::time::Duration;

use consign_amqp::{
    types::DeliveryState,
    value::{Binary, List, Timestamp},
};
use consign_broker::Queue;

use crate::{support::*, transactions::*};

fn queue(harness: &Harness, name: &str) -> Queue {
    harness.broker().queue(name).unwrap()
}

/// Rules: T-76.
#[tokio::test(start_paused = true)]
async fn the_first_entity_of_a_session_transfers_what_is_sent_to_others() {
    let harness = Harness::new();
    send(&harness.session().await, "orders", &["a"]).await;
    send(&harness.session().await, "bills", &[]).await;
    let session = harness.session().await;
    let control = coordinator(&session).await;
    let mut receiver = receiver(&session, "orders").await;
    let bills = sender(&session, "bills").await;
    let delivery = receive(&mut receiver).await;
    for fail in [true, false] {
        let txn_id = declare(&control).await;
        assert_eq!(send_within(&bills, &txn_id, "bill").await, within(&txn_id, Some(accepted())));
        if !fail {
            settle(&receiver, &delivery, within(&txn_id, Some(accepted()))).await;
        }
        assert_eq!(discharge(&control, &txn_id, fail).await, accepted());
    }
    assert_eq!((queue(&harness, "orders").counts().locked, queue(&harness, "bills").counts().active), (0, 1));
    // Without a transaction it is sent as any other.
    assert_eq!(bills.send(message("plain")).await.unwrap(), Some(accepted()));
    assert_eq!(queue(&harness, "bills").counts().active, 2);
}

/// Rules: T-76.
#[tokio::test(start_paused = true)]
async fn a_transaction_that_is_on_another_entity_stays_there() {
    let harness = Harness::new();
    send(&harness.session().await, "bills", &["a"]).await;
    let session = harness.session().await;
    let control = coordinator(&session).await;
    sender(&session, "orders").await;
    let mut receiver = receiver(&session, "bills").await;
    let bills = sender(&session, "bills").await;
    let delivery = receive(&mut receiver).await;
    let txn_id = declare(&control).await;
    settle(&receiver, &delivery, within(&txn_id, Some(accepted()))).await;
    assert_eq!(send_within(&bills, &txn_id, "b").await, within(&txn_id, Some(accepted())));
    assert_eq!(discharge(&control, &txn_id, false).await, accepted());
    assert_eq!(text_of(&receive(&mut receiver).await), "b");
}

/// A transfer that fails is in the entity that would have made it.
/// Rules: T-76, T-77.
#[tokio::test(start_paused = true)]
async fn the_first_entity_may_be_a_sender_or_a_subscription() {
    let harness = Harness::new();
    let before = harness.session().await;
    receiver(&before, "prices/Subscriptions/audit").await;
    send(&before, "prices", &["a"]).await;
    send(&before, "bills", &[]).await;
    let session = harness.session().await;
    let control = coordinator(&session).await;
    let mut audit = receiver(&session, "prices/Subscriptions/audit").await;
    let (prices, bills) = (sender(&session, "prices").await, sender(&session, "bills").await);
    let delivery = receive(&mut audit).await;
    let txn_id = declare(&control).await;
    settle(&audit, &delivery, within(&txn_id, Some(accepted()))).await;
    for link in [&prices, &bills] {
        assert_eq!(send_within(link, &txn_id, "b").await, within(&txn_id, Some(accepted())));
    }
    assert_eq!(discharge(&control, &txn_id, false).await, accepted());
    assert_eq!(text_of(&receive(&mut audit).await), "b");
    assert_eq!(queue(&harness, "bills").counts().active, 1);

    let session = harness.session().await;
    let control = coordinator(&session).await;
    let (orders, bills) = (sender(&session, "orders").await, sender(&session, "bills").await);
    let disabled = consign_core::administration::Status::SendDisabled;
    let settings = consign_core::administration::QueueSettings::default().status(disabled);
    harness.broker().update_queue("bills", settings).unwrap();
    let txn_id = declare(&control).await;
    for link in [&orders, &bills] {
        assert_eq!(send_within(link, &txn_id, "b").await, within(&txn_id, Some(accepted())));
    }
    assert_eq!(discharge(&control, &txn_id, false).await, accepted());
    let counts = queue(&harness, "orders").counts();
    assert_eq!((counts.active, counts.transfer_dead_lettered), (1, 1));
}

/// Rules: T-76.
#[tokio::test(start_paused = true)]
async fn only_the_first_entity_is_received_from() {
    let harness = Harness::new();
    send(&harness.session().await, "orders", &["a"]).await;
    send(&harness.session().await, "bills", &["b"]).await;
    let session = harness.session().await;
    let control = coordinator(&session).await;
    let mut first = receiver(&session, "orders").await;
    let mut second = receiver(&session, "bills").await;
    let (one, other) = (receive(&mut first).await, receive(&mut second).await);
    let txn_id = declare(&control).await;
    settle(&first, &one, within(&txn_id, Some(accepted()))).await;
    assert_eq!(condition_of(&settle(&second, &other, within(&txn_id, Some(accepted()))).await), "amqp:not-allowed");
    assert_eq!(condition_of(&discharge(&control, &txn_id, false).await), "amqp:transaction:rollback");
}

/// Rules: T-70, T-76.
#[tokio::test(start_paused = true)]
async fn messages_are_scheduled_at_another_entity() {
    let harness = Harness::new();
    let session = harness.session().await;
    let control = coordinator(&session).await;
    let orders = sender(&session, "orders").await;
    let mut manage = Requester::attach(&session, "bills/$management").await;
    let txn_id = declare(&control).await;
    send_within(&orders, &txn_id, "a").await;
    let later = annotated("later", "x-opt-scheduled-enqueue-time", Timestamp(START.as_millis() + 10_000));
    let list = List(vec![fields([("message", Binary(later).into())]).into()]);
    let request = fields([("messages", list.into())]);
    let state: Option<DeliveryState> = Some(within(&txn_id, None));
    assert_eq!(manage.call_with("com.microsoft:schedule-message", &[], state, request).await.status(), 200);
    assert_eq!(discharge(&control, &txn_id, false).await, accepted());
    let bills = queue(&harness, "bills");
    assert_eq!((queue(&harness, "orders").counts().active, bills.counts().scheduled), (1, 1));
    tokio::time::advance(Duration::from_secs(11)).await;
    assert_eq!(bills.counts().active, 1);
}
