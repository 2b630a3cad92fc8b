//! How many deliveries a receiver gets: by its credit, and by the limit on unsettled ones.

use std::time::Duration;

use tokio::time::timeout;

use crate::{log, support::*};

const SOON: Duration = Duration::from_millis(10);

/// Rules.
#[tokio::test(start_paused = true)]
async fn settlements_make_room_for_more_deliveries() {
    let limits = consign_server::Limits::default().max_unsettled(2);
    let harness = Harness::with(|builder| builder.limits(limits));
    let session = harness.session().await;
    send(&session, "orders", &["a", "b", "c", "d", "e"]).await;
    let mut link = receiver(&session, "orders").await;
    link.set_credit(5).unwrap();
    for body in ["a", "b", "c", "d", "e"] {
        let delivery = timeout(SOON, link.recv()).await.unwrap().unwrap();
        assert_eq!(text_of(&delivery), body);
        assert!(harness.broker().queue("orders").unwrap().counts().locked <= 2);
        complete(&link, &delivery).await;
    }
}

/// Rules: A-31.
#[tokio::test(start_paused = true)]
async fn a_drain_sends_what_there_is_and_uses_up_the_credit() {
    let harness = Harness::new();
    let session = harness.session().await;
    send(&session, "orders", &["a", "b"]).await;
    let mut link = receiver(&session, "orders").await;
    assert_eq!(drain(&mut link).await, ["a", "b"]);
    // No credit is left for a later message.
    send(&session, "orders", &["c"]).await;
    timeout(SOON, link.recv()).await.unwrap_err();
    assert_eq!(drain(&mut link).await, ["c"]);
    assert_eq!(drain(&mut link).await, [""; 0]);
}

/// The server reads the drain together with the credit, and sends as many messages before it takes the drain.
/// Rules.
#[tokio::test(start_paused = true)]
async fn a_drain_that_deliveries_cross_is_answered() {
    let harness = Harness::new();
    let session = harness.session().await;
    send(&session, "orders", &["a", "b", "c"]).await;
    let mut link = receiver(&session, "orders").await;
    link.set_credit(3).unwrap();
    timeout(SOON, link.drain()).await.unwrap().unwrap();
    for body in ["a", "b", "c"] {
        assert_eq!(text_of(&link.recv().await.unwrap()), body);
    }
    send(&session, "orders", &["d"]).await;
    timeout(SOON, link.recv()).await.unwrap_err();
}

/// Rules.
#[tokio::test(start_paused = true)]
async fn a_link_goes_on_when_another_with_unsettled_deliveries_is_detached() {
    let limits = consign_server::Limits::default().max_unsettled(2);
    for is_idle in [false, true] {
        let harness = Harness::with(|builder| builder.limits(limits.clone()));
        let session = harness.session().await;
        send(&session, "orders", &["a", "b", "c"]).await;
        let mut first = receiver(&session, "orders").await;
        let mut second = receiver(&session, "orders").await;
        first.set_credit(2).unwrap();
        for _ in 0..2 {
            first.recv().await.unwrap();
        }
        second.set_credit(1).unwrap();
        timeout(SOON, second.recv()).await.unwrap_err();
        if is_idle {
            first.recv().await.unwrap_err();
        } else {
            first.detach().await.unwrap();
        }
        timeout(SOON, second.recv()).await.unwrap().unwrap();
    }
}

/// As a client does whose handlers fail: it lets the locks end, and settles nothing.
/// Rules.
#[tokio::test(start_paused = true)]
async fn deliveries_whose_locks_have_ended_give_way_to_others() {
    let (lines, _guard) = log::captured();
    let limits = consign_server::Limits::default().max_unsettled(2);
    let harness = Harness::with(|builder| builder.limits(limits));
    let session = harness.session().await;
    send(&session, "orders", &["a", "b", "c"]).await;
    let mut link = receiver(&session, "orders").await;
    link.set_credit(100).unwrap();
    let mut latest = [link.recv().await.unwrap().id, link.recv().await.unwrap().id];
    timeout(Duration::from_secs(30), link.recv()).await.unwrap_err();
    let logged = lines.take();
    assert_eq!(logged.matches("Unsettled").count(), 1, "{logged}");
    for _ in 0..4 {
        // The locks last for a minute.
        for place in 0..2 {
            let id = timeout(Duration::from_secs(62), link.recv()).await.expect("a delivery").unwrap().id;
            assert!(!latest.contains(&id));
            latest[place] = id;
        }
    }
    assert_eq!(harness.broker().queue("orders").unwrap().counts().locked, 2);
}
