//! What a broker does with state that it does not show: ids, numbers, states of sessions, locks, times.

use std::{fmt::Write, time::Duration};

use consign::{
    Message,
    broker::{Broker, Queue},
    message::SequenceNumber,
    time::ManualClock,
    transport::{ReceiverExt, Sender},
};

use super::contents::{SECOND, later};
use crate::support::{receive, text};

/// From where [`fill`](super::contents::fill) ends, as lines.
pub(super) async fn goes_on(broker: &Broker, clock: &ManualClock) -> String {
    let mut out = String::new();
    ids(&mut out, broker).await;
    for path in ["shop/orders", "closed", "values", "partitions", "partitions", "once", "sink"] {
        let queue = broker.queue(path).unwrap();
        queue.sender().unwrap().send(Message::builder().message_id("new").build("new").unwrap()).await.unwrap();
        let number =
            queue.peek(SequenceNumber::new(0), 100).iter().filter(|it| it.payload() == Some(b"new")).map(number).max();
        writeln!(out, "a new message of {path} is {number:?}").unwrap();
    }
    let orders = broker.queue("shop/orders").unwrap();
    clock.advance(Duration::from_millis(27_999));
    writeln!(out, "locked {} and {}", orders.counts().locked, orders.dead_letter().counts().locked).unwrap();
    clock.advance(Duration::from_millis(1));
    writeln!(out, "locked {} and {}", orders.counts().locked, orders.dead_letter().counts().locked).unwrap();
    clock.advance(60 * SECOND);
    sessions(&mut out, &broker.queue("sessions").unwrap()).await;
    for queue in [&orders, &orders.dead_letter(), &broker.queue("partitions").unwrap()] {
        received(&mut out, queue).await;
    }
    clock.set_utc(later());
    clock.advance(3_600 * SECOND);
    received(&mut out, &orders).await;
    received(&mut out, &broker.queue("sink").unwrap()).await;
    received(&mut out, &broker.queue("prices/subscriptions/audit").unwrap().dead_letter()).await;
    out
}

async fn ids(out: &mut String, broker: &Broker) {
    let message = |id: &'static str| Message::builder().message_id(id).partition_key("a").build("again").unwrap();
    for (path, id) in [("shop/orders", "ready"), ("shop/orders", "completed"), ("once", "same")] {
        let queue = broker.queue(path).unwrap();
        let before = queue.counts();
        queue.sender().unwrap().send(message(id)).await.unwrap();
        writeln!(out, "{id} again at {path}: {}", queue.counts() == before).unwrap();
    }
    let orders = broker.queue("shop/orders").unwrap();
    for id in ["scheduled", "cancelled"] {
        let number = orders.schedule(vec![message(id)], later()).await.unwrap();
        writeln!(out, "{id} again is {number:?}").unwrap();
    }
    let (topic, sink) = (broker.topic("prices").unwrap(), broker.queue("sink").unwrap());
    let before = sink.counts();
    topic.sender().send(message("once")).await.unwrap();
    writeln!(out, "once again at the topic: {}", sink.counts() == before).unwrap();
}

async fn sessions(out: &mut String, queue: &Queue) {
    for id in ["a", "b", "empty state", "no state"] {
        let mut session = queue.accept_session(id).unwrap();
        let (state, peeked) = (session.state().unwrap(), session.peek(10));
        let texts: Vec<_> = peeked.iter().map(text).collect();
        writeln!(out, "session {id}: {state:02x?}, {texts:?}").unwrap();
        if id == "a" {
            let first = session.receive().await.unwrap();
            let deferred = session.receive_deferred(&[SequenceNumber::new(4)]).unwrap();
            let read =
                [&first, &deferred[0]].map(|it| (text(&it.message), it.message.received().unwrap().delivery_count));
            writeln!(out, "  {read:?}").unwrap();
        }
    }
}

/// Receives all, and shows how often each was delivered.
async fn received(out: &mut String, queue: &Queue) {
    writeln!(out, "received from {}", queue.path()).unwrap();
    for delivery in receive(queue).await {
        let (text, received) = (text(&delivery.message), delivery.message.received().unwrap());
        let (number, count) = (received.sequence_number, received.delivery_count);
        writeln!(out, "  {number:?} {text:?} for the {count}. time, enqueued {:?}", received.enqueued_time).unwrap();
        delivery.complete().await.unwrap();
    }
}

fn number(message: &Message) -> SequenceNumber {
    message.received().unwrap().sequence_number
}
