//! What a broker holds, for people.

use std::time::Duration;

use consign::{
    Message,
    administration::{QueueSettings, SubscriptionSettings, TopicSettings},
    time::Timestamp,
    transport::{ReceiverExt, Sender},
};

use crate::support::{Bench, START, settings};

/// Rules: J-60.
#[tokio::test]
async fn a_snapshot_has_every_entity_with_counts_and_ages() {
    let bench = Bench::new(settings().max_size(1_000_000));
    let topic = bench.broker.create_topic("shop", TopicSettings::default()).unwrap();
    topic.create_subscription("audit", SubscriptionSettings::default()).unwrap();
    bench.broker.create_queue("empty", QueueSettings::default()).unwrap();
    bench.send(["dead", "deferred", "locked", "active"]);
    let mut receiver = bench.queue.receiver();
    let mut next = async || receiver.receive().await.unwrap();
    let dead_letter = consign::settlement::DeadLetter::new(consign::settlement::DeadLetterReason::HandlerPermanent, "");
    next().await.dead_letter(dead_letter).await.unwrap();
    next().await.defer().await.unwrap();
    let _locked = next().await;
    bench.advance(Duration::from_millis(2_500));
    bench.send(["younger"]);
    let at = START.saturating_add(Duration::from_millis(4_500));
    bench.queue.schedule(vec![Message::new("later")], at).await.unwrap();
    topic.sender().send(Message::new("news")).await.unwrap();

    let snapshot = bench.broker.snapshot();
    let size = |at: usize| snapshot.entities[at].size;
    assert_eq!(
        snapshot.to_string(),
        format!(
            "\
2023-11-14T22:13:22.500Z
queue empty: 0 active, 0 locked, 0 deferred, 0 scheduled, 0 dead-lettered, 0 in transfer, 0 of 1073741824 bytes
queue orders: 2 active (oldest 2.5s), 1 locked, 1 deferred (oldest 2.5s), 1 scheduled (next in 2s), \
1 dead-lettered (oldest 2.5s), 0 in transfer, {} of 1000000 bytes
topic shop: 0 active, 0 locked, 0 deferred, 0 scheduled, 0 dead-lettered, 0 in transfer, {} of 1073741824 bytes
subscription shop/Subscriptions/audit: 1 active (oldest 0ns), 0 locked, 0 deferred, 0 scheduled, 0 dead-lettered, \
0 in transfer, {} bytes",
            size(1),
            size(2),
            size(3),
        )
    );
    assert_eq!(size(1), bench.queue.counts().size);
    assert!(size(2) == size(3) && size(3) > 0);
    assert_eq!(snapshot.taken_at, Timestamp::from_millis(START.as_millis() + 2_500));
}

/// Rules: J-61.
#[test]
fn a_snapshot_is_data() {
    let bench = Bench::new(settings());
    bench.send(["one"]);
    bench.advance(Duration::from_millis(1_500));
    let data = serde_json::to_value(bench.broker.snapshot()).unwrap();
    assert_eq!(data["taken_at_ms"], START.as_millis() + 1_500);
    let queue = &data["entities"][0];
    assert_eq!((&queue["path"], &queue["kind"], &queue["active"]), (&"orders".into(), &"queue".into(), &1.into()));
    assert_eq!((&queue["oldest_active_ms"], &queue["oldest_deferred_ms"]), (&1_500.into(), &serde_json::Value::Null));
}
