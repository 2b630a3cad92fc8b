//! The simulated connection itself: deliveries, settlements, faults, and what breaks with it.

use std::{
    task::{Context, Waker},
    time::Duration,
};

use consign::{
    Message,
    administration::QueueSettings,
    testing::{DeliveryFault, Faults, Link, LinkSettings, SendFault, TestBroker, TestQueue},
    transport::{ErrorKind, Lease, PresettledSender, Receiver, ReceiverExt, Sender},
};
use tokio::time::{Instant, sleep};
use tokio_test::{assert_pending, assert_ready_err, task};

use crate::support::{ROUND_TRIP, STORE, far, linked, numbered, settle_down, subjects};

fn received(message: &Message) -> (u64, u32) {
    let received = message.received().unwrap();
    (received.sequence_number.get(), received.delivery_count)
}

/// A queue with `count` messages, and a link that has `fault` at its first delivery.
fn faulty(fault: DeliveryFault, count: usize) -> (TestQueue, Link) {
    let queue = TestBroker::new().queue("orders");
    (0..count).for_each(|number| queue.send_message(numbered(number)));
    let faults = Faults::none().on_delivery(1, fault);
    (queue, Link::new(LinkSettings::default().round_trip(ROUND_TRIP).faults(faults)))
}

#[tokio::test(start_paused = true)]
async fn a_delivery_takes_half_a_round_trip_and_a_settlement_a_whole_one() {
    let (queue, link, _) = linked(far());
    (0..2).for_each(|number| queue.send_message(numbered(number)));
    let mut receiver = link.receiver(queue.receiver());
    let start = Instant::now();
    let first = receiver.receive().await.unwrap();
    assert_eq!(start.elapsed(), ROUND_TRIP / 2);
    first.complete().await.unwrap();
    assert_eq!(start.elapsed(), ROUND_TRIP * 3 / 2);
    let second = receiver.receive().await.unwrap();
    second.lease.renew().await.unwrap();
    second.lease.release().await.unwrap();
    assert_eq!((start.elapsed(), queue.counts().active), (4 * ROUND_TRIP, 1));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_receive_keeps_what_is_on_its_way_and_a_dropped_receiver_gives_it_back() {
    let (queue, link, _) = linked(far());
    queue.send_message(numbered(0));
    let mut receiver = link.receiver(queue.receiver());
    let mut dropped = task::spawn(receiver.receive());
    assert_pending!(dropped.poll());
    drop(dropped);
    sleep(ROUND_TRIP).await;
    let delivery = receiver.receive().await.unwrap();
    delivery.lease.release().await.unwrap();
    let mut dropped = task::spawn(receiver.receive());
    assert_pending!(dropped.poll());
    drop(dropped);
    drop(receiver);
    assert_eq!(received(&queue.receive_now().unwrap().message), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn arrived_deliveries_do_not_wait_for_those_in_transit() {
    let (queue, link, _) = linked(far());
    queue.send_message(numbered(0));
    let mut receiver = link.receiver(queue.receiver());
    let mut batch = task::spawn(receiver.receive_batch(2));
    assert_pending!(batch.poll());
    sleep(ROUND_TRIP / 4).await;
    queue.send_message(numbered(1));
    assert!(batch.is_woken());
    assert_pending!(batch.poll());
    assert_eq!(queue.counts().locked, 2);
}

#[tokio::test(start_paused = true)]
async fn a_duplicated_delivery_can_be_settled_once() {
    let (queue, link) = faulty(DeliveryFault::Duplicate, 1);
    let mut receiver = link.receiver(queue.receiver());
    let first = receiver.receive().await.unwrap();
    let second = receiver.receive().await.unwrap();
    assert_eq!(received(&first.message), received(&second.message));
    first.complete().await.unwrap();
    assert_eq!(second.complete().await.unwrap_err().kind(), ErrorKind::MessageLockLost);
    queue.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn a_late_delivery_is_overtaken() {
    let (queue, link) = faulty(DeliveryFault::Late(STORE), 3);
    let mut receiver = link.receiver(queue.receiver());
    let mut seen = Vec::new();
    let mut leases = Vec::new();
    while seen.len() < 3 {
        for delivery in receiver.receive_batch(3).await.unwrap() {
            seen.push(delivery.message);
            leases.push(delivery.lease);
        }
    }
    assert_eq!(subjects(&seen), [1, 2, 0]);
}

#[tokio::test(start_paused = true)]
async fn a_lost_lock_and_a_lost_settlement_bring_the_message_again() {
    let lost = [
        (DeliveryFault::LoseLock, ErrorKind::MessageLockLost),
        (DeliveryFault::LoseSettlement(ErrorKind::ServiceTimeout), ErrorKind::ServiceTimeout),
    ];
    for (fault, kind) in lost {
        let (queue, link) = faulty(fault, 1);
        let mut receiver = link.receiver(queue.receiver());
        let delivery = receiver.receive().await.unwrap();
        assert_eq!(delivery.complete().await.unwrap_err().kind(), kind);
        assert_eq!(received(&queue.receive_now().unwrap().message), (1, 2));
    }
}

#[tokio::test(start_paused = true)]
async fn a_settlement_whose_answer_is_lost_has_happened() {
    let (queue, link) = faulty(DeliveryFault::LoseSettlementAnswer(ErrorKind::CommunicationProblem), 1);
    let delivery = link.receiver(queue.receiver()).receive().await.unwrap();
    let error = delivery.complete().await.unwrap_err();
    assert!(error.is_outcome_unknown());
    queue.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn a_duplicated_send_is_there_twice() {
    let (queue, _, sender) = linked(far().faults(Faults::none().on_send(1, SendFault::Duplicate)));
    sender.send(numbered(0)).await.unwrap();
    assert_eq!(subjects(&queue.messages()), [0, 0]);
}

#[tokio::test(start_paused = true)]
async fn with_the_connection_break_what_is_on_its_way_and_all_leases() {
    let (queue, link, sender) = linked(far());
    (0..3).for_each(|number| queue.send_message(numbered(number)));
    let mut receiver = link.receiver(queue.receiver());
    let held = receiver.receive().await.unwrap();
    let settling = receiver.receive().await.unwrap();
    let mut on_its_way = task::spawn(receiver.receive());
    assert_pending!(on_its_way.poll());
    drop(on_its_way);
    let mut lost = task::spawn(sender.send(numbered(7)));
    assert_pending!(lost.poll());
    let mut settlement = task::spawn(settling.complete());
    assert_pending!(settlement.poll());

    link.disconnect();
    assert!(lost.is_woken());
    assert_eq!(assert_ready_err!(lost.poll()).kind(), ErrorKind::CommunicationProblem);
    assert_eq!(receiver.receive().await.unwrap_err().kind(), ErrorKind::CommunicationProblem);
    assert_eq!(sender.send(numbered(8)).await.unwrap_err().kind(), ErrorKind::CommunicationProblem);
    sender.send_presettled(numbered(9)).await;

    link.reconnect();
    assert_eq!(held.lease.renew().await.unwrap_err().kind(), ErrorKind::MessageLockLost);
    assert_eq!(held.complete().await.unwrap_err().kind(), ErrorKind::MessageLockLost);
    assert_eq!(settlement.await.unwrap_err().kind(), ErrorKind::MessageLockLost);
    sleep(2 * ROUND_TRIP).await;
    let again = queue.receive_up_to(10);
    assert_eq!(again.iter().map(|delivery| received(&delivery.message)).collect::<Vec<_>>(), [(1, 2), (2, 2), (3, 1)]);
    drop(again);
    sender.send(numbered(10)).await.unwrap();
    receiver.receive().await.unwrap().complete().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_was_on_its_way_when_the_connection_broke_is_released_also_after_it_is_back() {
    let (queue, link, _) = linked(far());
    queue.send_message(numbered(0));
    let mut receiver = link.receiver(queue.receiver());
    let mut dropped = task::spawn(receiver.receive());
    assert_pending!(dropped.poll());
    drop(dropped);
    link.disconnect();
    link.reconnect();
    sleep(ROUND_TRIP).await;
    let delivery = receiver.receive().await.unwrap();
    assert_eq!(received(&delivery.message), (1, 1));
    delivery.complete().await.unwrap();
}

/// An embedded lease has no delays; a recorded one of another transport might.
#[tokio::test(start_paused = true)]
async fn a_lease_without_delays_is_returned_and_can_be_settled() {
    let (queue, link, _) = linked(far());
    queue.send_message(numbered(0));
    let mut receiver = link.receiver(queue.receiver());
    let Err(delivery) = receiver.receive().await.unwrap().abandon_after(ROUND_TRIP) else { panic!("it has delays") };
    delivery.complete().await.unwrap();
    assert_eq!(queue.counts().active, 0);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_withheld_when_the_connection_breaks_never_comes() {
    let (queue, link, sender) = linked(far());
    link.withhold_answers();
    let mut send = task::spawn(sender.send(numbered(0)));
    sleep(2 * ROUND_TRIP).await;
    assert_pending!(send.poll());
    assert_eq!(link.withheld(), [1]);
    link.disconnect();
    assert_eq!(assert_ready_err!(send.poll()).kind(), ErrorKind::CommunicationProblem);
    assert!(link.withheld().is_empty() && !link.answer(1));
    assert_eq!(queue.counts().active, 1);
}

#[tokio::test(start_paused = true)]
async fn sends_without_an_answer_are_bounded() {
    let (_, link, sender) = linked(LinkSettings::default());
    link.withhold_answers();
    let sends: Vec<_> = (0..Link::MAX_TRANSFERS).map(|_| sender.send(Message::new(""))).collect();
    assert_eq!(sender.send(Message::new("")).await.unwrap_err().kind(), ErrorKind::Throttled);
    settle_down().await;
    sleep(Duration::from_millis(1)).await;
    link.answer_all();
    for send in sends {
        send.await.unwrap();
    }
    sender.send(Message::new("")).await.unwrap();
    for _ in 0..3 {
        link.disconnect();
        link.reconnect();
        let send = sender.send(Message::new(""));
        sleep(Duration::from_millis(1)).await;
        send.await.unwrap();
    }
    assert!(format!("{link:?}").contains("open: 0"), "{link:?}");
}

#[tokio::test(start_paused = true)]
async fn a_test_broker_goes_by_paused_time_and_by_what_is_skipped() {
    let broker = TestBroker::new();
    let settings = QueueSettings::default().lock_duration(Duration::from_secs(10));
    let queue = broker.queue_with("orders", settings);
    queue.send("body");
    let held = queue.receive_now().unwrap();
    let mut receiver = queue.receiver();
    let mut waiting = task::spawn(receiver.receive());
    assert_pending!(waiting.poll());
    sleep(Duration::from_secs(9)).await;
    assert!(queue.receive_now().is_none());
    broker.advance(Duration::from_secs(1));
    assert!(waiting.is_woken());
    assert_eq!(received(&waiting.await.unwrap().message), (1, 2));
    assert_eq!(held.complete().await.unwrap_err().kind(), ErrorKind::MessageLockLost);
    assert_eq!(broker.now().saturating_since(TestBroker::START), Duration::from_secs(10));
}

#[tokio::test(start_paused = true)]
async fn a_test_broker_wakes_receivers_of_every_entity() {
    let broker = TestBroker::new();
    let settings = QueueSettings::default().lock_duration(Duration::from_secs(10));
    let queue = broker.broker().create_queue("orders", settings).unwrap();
    queue.sender().unwrap().send(Message::new("body")).await.unwrap();
    let mut receiver = queue.receiver();
    let held = receiver.receive().await.unwrap();
    let mut waiting = task::spawn(receiver.receive());
    assert_pending!(waiting.poll());
    broker.advance(Duration::from_secs(10));
    assert!(waiting.is_woken());
    drop(held);
}

/// What is on its way fills it, so it must not be woken in the place of another.
#[tokio::test(start_paused = true)]
async fn a_full_receiver_over_a_link_leaves_the_line() {
    let queue = TestBroker::new().queue("orders");
    let link = Link::new(LinkSettings::default().round_trip(Duration::from_secs(2)));
    let (mut full, mut other) = (link.receiver(queue.receiver()), queue.receiver());
    let mut out = Vec::new();
    queue.send("a");
    assert!(full.poll_receive(&mut Context::from_waker(Waker::noop()), 2, &mut out).is_pending());
    assert!(full.poll_receive(&mut Context::from_waker(Waker::noop()), 1, &mut out).is_pending());
    let mut waiting = task::spawn(other.receive());
    assert_pending!(waiting.poll());
    queue.send("b");
    assert!(waiting.is_woken());
}

#[tokio::test(start_paused = true)]
async fn a_delivery_may_be_late_by_any_time() {
    let queue = TestBroker::new().queue("orders");
    let faults = Faults::none().on_delivery(1, DeliveryFault::Late(Duration::MAX));
    let link = Link::new(LinkSettings::default().faults(faults));
    queue.send("a");
    let mut receiver = link.receiver(queue.receiver());
    assert_pending!(task::spawn(receiver.receive()).poll());
}

#[test]
fn a_test_broker_needs_no_runtime() {
    let broker = TestBroker::new();
    let queue = broker.queue("orders");
    assert!(queue.receive_now().is_none());
    queue.send("body");
    let held = queue.receive_now().unwrap();
    assert!(queue.receive_now().is_none() && queue.receive_dead_letter_now().is_none());
    broker.advance(Duration::from_secs(60));
    assert_eq!(received(&queue.receive_now().unwrap().message), (1, 2));
    drop(held);
    let other = broker.watch(broker.broker().create_queue("other", QueueSettings::default()).unwrap());
    other.send("body");
    other.receive_now().unwrap().complete().wait().unwrap();
    other.assert_empty();
}
