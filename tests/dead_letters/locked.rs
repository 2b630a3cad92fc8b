//! A transport without peek and without sequence numbers.

use std::time::Duration;

use consign::{
    Message,
    broker::{Broker, QueueLease, QueueReceiver, QueueSender},
    dead_letters::{DeadLetterFilter, DeadLetters, EntityDeadLetters},
    message::{EntityPath, SequenceNumber},
    settlement::DeadLetter,
    transport::{
        Capabilities, Capability, DynTransport, Level, ReceiveError, ReceiveMode, ReceiverExt, SendError, Transport,
    },
};

use crate::support::{Bench, OTHER, UNDECODABLE, sending};

/// The embedded broker, as if it had nothing more than what every transport has.
#[derive(Clone)]
struct Plain(Broker);

impl Transport for Plain {
    type Sender = QueueSender;
    type Lease = QueueLease;
    type Receiver = QueueReceiver;

    fn capabilities(&self) -> Capabilities {
        let broker = Transport::capabilities(&self.0);
        broker.with(Capability::Peek, Level::Unsupported).with(Capability::SequenceNumbers, Level::Unsupported)
    }

    async fn sender(&self, path: &EntityPath) -> Result<QueueSender, SendError> {
        Transport::sender(&self.0, path).await
    }

    async fn receiver(&self, path: &EntityPath, mode: ReceiveMode) -> Result<QueueReceiver, ReceiveError> {
        Transport::receiver(&self.0, path, mode).await
    }
}

fn dead(bench: &Bench) -> DeadLetters<EntityDeadLetters> {
    let plain = DynTransport::builder(Plain(bench.broker.broker().clone())).build();
    DeadLetters::of(plain, &EntityPath::new("orders").unwrap())
}

fn free(bench: &Bench) -> (usize, usize) {
    let counts = bench.queue.dead_letter().counts();
    (counts.active, counts.locked)
}

#[tokio::test(start_paused = true)]
async fn dead_letters_are_listed_under_locks_that_are_released_uncounted() {
    let bench = Bench::new();
    bench.bury_many(0, 3, &UNDECODABLE).await;
    bench.bury_many(3, 2, &OTHER).await;
    let dead = dead(&bench);
    let ids = |letters: &[consign::dead_letters::Explained]| -> Vec<String> {
        letters.iter().map(|letter| letter.message().message_id().unwrap().to_owned()).collect()
    };
    let listed = dead.list(&DeadLetterFilter::all(), SequenceNumber::default(), 10).await.unwrap();
    assert_eq!(ids(&listed), ["0", "1", "2", "3", "4"]);
    assert_eq!(listed[0].reason(), Some("DeserializationFailed"));
    let page = dead
        .list(&DeadLetterFilter::all().reason(OTHER.as_str()), listed[3].sequence_number().next(), 10)
        .await
        .unwrap();
    assert_eq!(ids(&page), ["4"]);
    assert_eq!(free(&bench), (5, 0));
    for letter in bench.queue.dead_letters() {
        assert_eq!(letter.received().unwrap().delivery_count, 0, "a list does not count");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_ends_when_no_dead_letter_is_left_and_leaves_its_own_copies() {
    let bench = Bench::new();
    bench.bury_many(0, 20, &UNDECODABLE).await;
    bench.bury_many(20, 2, &OTHER).await;
    // Each copy is dead-lettered again at once.
    let again = bench.queue.clone();
    let sender = sending(move |copy: Message| {
        let queue = again.clone();
        Box::pin(async move {
            queue.send_message(copy);
            let delivery = queue.receiver().receive().await.unwrap();
            delivery.dead_letter(DeadLetter::new(UNDECODABLE, "again")).await.unwrap();
            Ok(())
        })
    });
    let undecodable = DeadLetterFilter::all().reason(UNDECODABLE.as_str());
    let report = dead(&bench).resubmit(undecodable, sender).lock_wait(Duration::from_millis(100)).run().await.unwrap();
    assert_eq!((report.matching, report.resubmitted, report.failures.len(), report.missed), (20, 20, 0, 0));
    assert_eq!(free(&bench), (22, 0), "the copies stay, and the two others");

    let report = dead(&bench).purge(DeadLetterFilter::all()).run().await.unwrap();
    assert_eq!((report.purged, free(&bench)), (22, (0, 0)));
}
