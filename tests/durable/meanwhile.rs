//! What time does while no broker is open.

use std::time::Duration;

use consign::{
    Message,
    administration::{QueueSettings, Status, SubscriptionSettings, TopicSettings},
    message::SequenceNumber,
    settlement::{DeadLetter, DeadLetterReason},
    time::Timestamp,
    transport::Sender,
};

use crate::support::{Disk, START, receive, texts};

const SECOND: Duration = Duration::from_secs(1);

/// Rules: D-04.
/// Each is activated at its own instant, as by a broker that was open all the time.
#[tokio::test]
async fn scheduled_messages_come_in_the_order_of_their_times() {
    let mut disk = Disk::new();
    let (broker, _) = disk.open();
    let queue = broker.create_queue("orders", QueueSettings::default()).unwrap();
    for (body, seconds) in [("third", 30), ("first", 10), ("second", 20)] {
        let at = START.saturating_add(seconds * SECOND);
        queue.schedule(vec![Message::new(body)], at).await.unwrap();
    }
    broker.close().await.unwrap();
    disk.advance(60 * SECOND);
    let (broker, _) = disk.open();
    let received = receive(&broker.queue("orders").unwrap()).await;
    assert_eq!(texts(&received), ["first", "second", "third"]);
    let enqueued = received.iter().map(|it| it.message.received().unwrap().enqueued_time);
    assert!(enqueued.eq([10, 20, 30].map(|seconds| START.saturating_add(seconds * SECOND))));
}

/// Rules: D-04.
/// A lock kept it from expiring, and nothing keeps it any more.
#[tokio::test]
async fn a_message_that_has_expired_is_not_forwarded() {
    let mut disk = Disk::new();
    let (broker, _) = disk.open();
    let sink = broker.create_queue("sink", QueueSettings::default()).unwrap();
    let settings = QueueSettings::default().lock_duration(60 * SECOND);
    let queue = broker.create_queue("orders", settings.clone()).unwrap();
    let short = Message::builder().time_to_live(SECOND).build("").unwrap();
    queue.sender().unwrap().send(short).await.unwrap();
    let held = receive(&queue).await;
    broker.update_queue("orders", settings.forward_to("sink")).unwrap();
    broker.close().await.unwrap();
    drop((held, sink));
    disk.advance(SECOND);
    let (broker, _) = disk.open();
    assert_eq!(broker.queue("sink").unwrap().counts().active, 0);
    assert_eq!(broker.queue("orders").unwrap().counts().size, 0);
}

/// No client could use it.
#[tokio::test]
async fn an_entity_is_not_idle_while_no_broker_is_open() {
    let mut disk = Disk::new();
    let (broker, _) = disk.open();
    let settings = QueueSettings::default().auto_delete_on_idle(300 * SECOND);
    let queue = broker.create_queue("orders", settings).unwrap();
    let at = START.saturating_add(SECOND);
    queue.schedule(vec![Message::new("")], at).await.unwrap();
    broker.close().await.unwrap();
    disk.advance(3_600 * SECOND);
    let (broker, clock) = disk.open();
    clock.advance(299 * SECOND);
    assert_eq!(broker.entities().len(), 1);
    assert_eq!(broker.queue("orders").unwrap().counts().active, 1);
    clock.advance(300 * SECOND);
    assert_eq!(broker.entities().len(), 0);
}

/// Rules: T-11, D-04.
#[tokio::test]
async fn a_subscription_that_is_used_keeps_its_topic_after_the_opening() {
    let mut disk = Disk::new();
    let (broker, _) = disk.open();
    let settings = TopicSettings::default().auto_delete_on_idle(300 * SECOND);
    let topic = broker.create_topic("events", settings).unwrap();
    topic.create_subscription("s", SubscriptionSettings::default()).unwrap();
    broker.close().await.unwrap();
    drop(topic);
    disk.advance(3_600 * SECOND);
    let (broker, clock) = disk.open();
    clock.advance(299 * SECOND);
    let subscription = broker.topic("events").unwrap().subscription("s").unwrap();
    assert!(subscription.peek(SequenceNumber::new(0), 1).is_empty());
    clock.advance(299 * SECOND);
    assert_eq!(broker.entities().len(), 2);
    clock.advance(SECOND);
    assert_eq!(broker.entities().len(), 0);
}

/// The time of their next try is not stored.
#[tokio::test]
async fn dead_letters_that_wait_for_their_target_are_tried_again() {
    let disk = Disk::new();
    let (broker, clock) = disk.open();
    let sink = broker.create_queue("sink", QueueSettings::default().status(Status::Disabled)).unwrap();
    let settings = QueueSettings::default().forward_dead_letters_to("sink");
    let queue = broker.create_queue("orders", settings).unwrap();
    queue.sender().unwrap().send(Message::new("")).await.unwrap();
    let [delivery] = <[_; 1]>::try_from(receive(&queue).await).unwrap();
    delivery.dead_letter(DeadLetter::new(DeadLetterReason::Application("Broken".into()), "")).await.unwrap();
    assert_eq!((queue.counts().dead_lettered, sink.counts().active), (1, 0));
    broker.update_queue("sink", QueueSettings::default()).unwrap();
    broker.close().await.unwrap();
    drop((queue, sink, clock));
    let (broker, _) = disk.open();
    assert_eq!(broker.queue("orders").unwrap().counts().dead_lettered, 0);
    assert_eq!(broker.queue("sink").unwrap().counts().active, 1);
}

/// What an id answers with is a number that can be cancelled, or none.
#[tokio::test]
async fn an_id_forgets_the_number_of_what_was_cancelled() {
    let disk = Disk::new();
    let (broker, _) = disk.open();
    let settings = QueueSettings::default().duplicate_detection(600 * SECOND);
    let queue = broker.create_queue("orders", settings).unwrap();
    let message = |id: &'static str| vec![Message::builder().message_id(id).build("").unwrap()];
    let at = START.saturating_add(60 * SECOND);
    let kept = queue.schedule(message("kept"), at).await.unwrap();
    let cancelled = queue.schedule(message("cancelled"), at).await.unwrap();
    broker.flush().await.unwrap();
    queue.cancel_scheduled(&cancelled).await.unwrap();
    broker.close().await.unwrap();
    let (broker, _) = disk.open();
    let queue = broker.queue("orders").unwrap();
    assert_eq!(queue.schedule(message("kept"), at).await.unwrap(), kept);
    assert_eq!(queue.schedule(message("cancelled"), at).await.unwrap(), [SequenceNumber::new(0)]);
}

/// Rules: D-04.
/// UTC never goes back behind what was stored; what is to come comes no earlier for it.
#[tokio::test]
async fn a_clock_that_was_set_back_is_behind_nothing_that_is_stored() {
    let mut disk = Disk::new();
    let (broker, _) = disk.open();
    let settings = QueueSettings::default().duplicate_detection(60 * SECOND);
    let queue = broker.create_queue("orders", settings).unwrap();
    let message = || Message::builder().message_id("a").build("").unwrap();
    queue.sender().unwrap().send(message()).await.unwrap();
    queue.schedule(vec![Message::new("later")], START.saturating_add(60 * SECOND)).await.unwrap();
    broker.close().await.unwrap();
    disk.set_utc(Timestamp::from_millis(START.as_millis() - 3_600_000));
    let (broker, clock) = disk.open();
    let queue = broker.queue("orders").unwrap();
    queue.sender().unwrap().send(message()).await.unwrap();
    queue.sender().unwrap().send(Message::new("next")).await.unwrap();
    let received = receive(&queue).await;
    assert_eq!(received.len(), 2, "the id is known");
    assert_eq!(received[1].message.received().unwrap().enqueued_time, START);
    clock.advance(59 * SECOND);
    assert_eq!(queue.counts().scheduled, 1);
}

/// What a sender computes by its clock is right although UTC was set back.
#[tokio::test]
async fn the_clock_of_a_sender_is_that_of_the_application() {
    let mut disk = Disk::new();
    let (broker, _) = disk.open();
    broker.create_queue("orders", QueueSettings::default()).unwrap();
    broker.close().await.unwrap();
    let earlier = Timestamp::from_millis(START.as_millis() - 3_600_000);
    disk.set_utc(earlier);
    let (broker, clock) = disk.open();
    let queue = broker.queue("orders").unwrap();
    let sender = queue.sender().unwrap();
    let now = sender.clock().unwrap().now().utc;
    assert_eq!(now, earlier);
    let later = Message::builder().scheduled_enqueue_time(now.saturating_add(60 * SECOND)).build("later").unwrap();
    sender.send(later).await.unwrap();
    clock.advance(59 * SECOND);
    assert_eq!(queue.counts().scheduled, 1);
    clock.advance(SECOND);
    assert_eq!(queue.counts().active, 1);
}
