//! Bytes whose owner is the user's, in bodies and in properties: its drop is the user's code, and never runs under the
//! broker's lock. There a call of the broker would never end.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use consign::{
    Disposition, Message,
    administration::{SubscriptionSettings, TopicSettings},
    broker::Queue,
    message::{ApplicationProperties, PropertyValue},
    rules::{CorrelationFilter, Rule},
    settlement::{Changes, DeadLetter, DeadLetterReason},
    transport::{Batch, Delivery, ErrorKind, Lease, ReceiverExt, Sender},
};
use tokio_test::task;

use crate::support::{Bench, Ended, LOCK, MS, settings, take};

/// Uses the queue when it is dropped.
struct Owner(Queue, Arc<AtomicUsize>);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        b"some bytes"
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let _ = self.0.counts();
        self.1.fetch_add(1, Ordering::Relaxed);
    }
}

#[derive(Default)]
struct Owners(Arc<AtomicUsize>);

impl Owners {
    fn bytes(&self, bench: &Bench) -> Bytes {
        Bytes::from_owner(Owner(bench.queue.clone(), Arc::clone(&self.0)))
    }

    fn changes<const N: usize>(&self, bench: &Bench, keys: [&'static str; N]) -> Changes {
        let values = keys.map(|key| (key, PropertyValue::Bytes(self.bytes(bench))));
        values.into_iter().collect::<ApplicationProperties>().into()
    }

    fn dropped(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

#[test]
fn the_owner_of_a_body_is_dropped_outside_of_the_lock() {
    let (bench, owners) = (Bench::new(settings().max_message_size(100)), Owners::default());
    let body = || owners.bytes(&bench);
    let refused = || Message::builder().subject("x".repeat(100)).build(body()).unwrap();

    bench.try_send(Message::new(body())).unwrap();
    let Delivery { message, lease } = bench.try_receive().unwrap();
    drop(message);
    lease.settle(Disposition::Complete).wait().unwrap();
    assert_eq!(owners.dropped(), 1, "completed");

    bench.try_send(Message::builder().time_to_live(MS).build(body()).unwrap()).unwrap();
    bench.advance(MS);
    assert_eq!(bench.counts(), [0, 0, 0, 0]);
    assert_eq!(owners.dropped(), 2, "expired");

    bench.try_send(refused()).unwrap_err();
    bench.queue.sender().unwrap().send_batch(Batch::from([refused()])).wait().unwrap_err();
    assert_eq!(owners.dropped(), 4, "refused");

    bench.try_send(Message::new(body())).unwrap();
    drop(take(&mut bench.queue.receive_and_delete(), 1));
    assert_eq!(owners.dropped(), 5, "received and deleted");

    bench.try_send(Message::new(body())).unwrap();
    bench.broker.delete("orders").unwrap();
    assert_eq!(owners.dropped(), 6, "deleted");
}

#[test]
fn the_owner_of_a_property_is_dropped_outside_of_the_lock() {
    let (bench, owners) = (Bench::new(settings()), Owners::default());
    bench.send(["a"]);
    let late = bench.receive();
    bench.advance(LOCK);
    late.lease.settle(Disposition::Abandon(owners.changes(&bench, ["a"]))).wait().unwrap_err();
    assert_eq!(owners.dropped(), 1, "refused");

    bench.receive().lease.settle(Disposition::Abandon(owners.changes(&bench, ["a"]))).ok();
    bench.receive().lease.settle(Disposition::Abandon(owners.changes(&bench, ["a"]))).ok();
    assert_eq!(owners.dropped(), 2, "replaced");

    let by_broker = owners.changes(&bench, [DeadLetter::REASON, DeadLetter::DESCRIPTION]);
    bench.receive().lease.settle(Disposition::Abandon(by_broker)).ok();
    assert_eq!(owners.dropped(), 4, "not for an application to change");

    let mut dead_letter = DeadLetter::new(DeadLetterReason::HandlerPermanent, "as it is");
    dead_letter.changes = owners.changes(&bench, ["a", DeadLetter::REASON, DeadLetter::DESCRIPTION]);
    bench.receive().dead_letter(dead_letter).ok();
    assert_eq!(owners.dropped(), 7, "replaced in a dead letter");
    bench.receive_dead().complete().ok();
    assert_eq!(owners.dropped(), 8, "completed");

    let with_reason = || Message::builder().property(DeadLetter::REASON, owners.bytes(&bench)).build("").unwrap();
    bench.try_send(with_reason()).unwrap();
    bench.queue.sender().unwrap().send_batch(Batch::from([with_reason()])).wait().unwrap();
    let mut transaction = bench.broker.transaction();
    transaction.send(&bench.queue.sender().unwrap(), with_reason()).unwrap();
    transaction.commit().wait().unwrap();
    assert_eq!(owners.dropped(), 11, "taken out of what was sent");

    let mut transaction = bench.broker.transaction();
    let late = bench.receive();
    transaction.settle(late.lease, Disposition::Abandon(owners.changes(&bench, ["a"]))).unwrap();
    bench.advance(LOCK);
    drop(transaction.commit().wait().unwrap_err());
    assert_eq!(owners.dropped(), 12, "refused in a transaction");
}

#[test]
fn the_owner_of_a_value_in_a_rule_is_dropped_outside_of_the_lock() {
    let (bench, owners) = (Bench::new(settings()), Owners::default());
    let rule = || {
        let filter = CorrelationFilter::builder().property("key", owners.bytes(&bench)).build().unwrap();
        Rule::new("one", filter).unwrap()
    };
    let topic = bench.broker.create_topic("events", TopicSettings::default()).unwrap();
    let with_rule = |name| topic.create_subscription_with(name, SubscriptionSettings::default(), rule());
    let subscription = with_rule("s").unwrap();
    assert_eq!(with_rule("s").unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(owners.dropped(), 1, "refused with its subscription");
    assert_eq!(subscription.create_rule(rule()).unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(owners.dropped(), 2, "refused");
    bench.broker.delete(subscription.path().as_str()).unwrap();
    assert_eq!(owners.dropped(), 3, "deleted with its subscription");
}

/// One call drops a message that has expired, and has someone to wake.
#[tokio::test(start_paused = true)]
async fn an_owner_whose_drop_panics_costs_no_wake_up() {
    struct Panics;

    impl AsRef<[u8]> for Panics {
        fn as_ref(&self) -> &[u8] {
            b""
        }
    }

    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("the owner's");
        }
    }

    let bench = Bench::new(settings());
    let other = bench.broker.create_queue("others", settings()).unwrap();
    let body = Bytes::from_owner(Panics);
    bench.try_send(Message::builder().time_to_live(MS).build(body).unwrap()).unwrap();
    let mut receiver = other.receiver();
    let mut waiting = task::spawn(receiver.receive());
    assert!(waiting.poll().is_pending());
    bench.advance(MS);
    let send = AssertUnwindSafe(|| other.sender().unwrap().send(Message::new("a")));
    assert!(catch_unwind(send).is_ok(), "the call is not the owner's");
    assert!(waiting.is_woken() && waiting.poll().is_ready());
}
