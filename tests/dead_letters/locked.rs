//! A transport without peek and without sequence numbers.

use std::{collections::BTreeMap, time::Duration};

use consign::{
    Message,
    broker::{Broker, Queue, QueueLease, QueueReceiver, QueueSender},
    dead_letters::{DeadLetterFilter, DeadLetterQueue, DeadLetters, EntityDeadLetters, ListLimit, RunOutcome},
    message::{EntityPath, Properties, SequenceNumber},
    settlement::DeadLetter,
    testing::{DeliveryFault, Faults, Link, LinkReceiver, LinkSettings, Recorder},
    transport::{
        Capabilities, Capability, DynTransport, ErrorKind, Level, ReceiveError, ReceiveMode, ReceiverExt, SendError,
        Transport,
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

/// Rules: L-05.
#[tokio::test(start_paused = true)]
async fn a_list_that_cannot_lock_all_is_an_error_with_what_it_has_found() {
    let bench = Bench::new();
    bench.bury_many(0, ListLimit::MAX - 1, &OTHER).await;
    bench.bury_many(ListLimit::MAX - 1, 1, &UNDECODABLE).await;
    let (dead, all, start) = (dead(&bench), DeadLetterFilter::all(), SequenceNumber::default());
    let undecodable = DeadLetterFilter::all().reason(UNDECODABLE.as_str());
    assert_eq!(dead.list(&all, start, usize::MAX).await.unwrap().len(), ListLimit::MAX, "these are all");

    bench.bury_many(ListLimit::MAX, 1, &UNDECODABLE).await;
    assert_eq!(dead.list(&all, start, ListLimit::MAX).await.unwrap().len(), ListLimit::MAX);
    assert_eq!(dead.list(&undecodable, start, 1).await.unwrap().len(), 1);
    for (filter, found) in [(&all, ListLimit::MAX), (&undecodable, 1)] {
        let error = dead.list(filter, start, usize::MAX).await.unwrap_err();
        let limit = ListLimit::of(&error).unwrap();
        assert_eq!((error.kind(), limit.found().len()), (ErrorKind::NotSupported, found), "{error}");
        assert_eq!(limit.found().last().unwrap().sequence_number().get(), ListLimit::MAX as u64);
    }
    assert_eq!(free(&bench), (ListLimit::MAX + 1, 0));
}

/// Dead letters with this MessageId and this body, of which some were resubmitted before.
async fn bury(bench: &Bench, id: &'static str, body: &'static str, first: Option<(&'static str, u32)>) {
    let mut message = Message::builder().message_id(id);
    if let Some((first, hops)) = first {
        message = message.property(Properties::ORIGINAL_MESSAGE_ID, first).property("x-resubmit-count", hops);
    }
    bench.bury(message.build(body).unwrap(), UNDECODABLE).await;
}

fn bodies(copies: &Recorder) -> Vec<String> {
    let body = |message: &Message| String::from_utf8(message.payload().unwrap().to_vec()).unwrap();
    let mut bodies: Vec<_> = copies.sent().iter().map(|copy| body(&copy.message)).collect();
    bodies.sort_unstable();
    bodies
}

/// Rules: L-15, L-18.
#[tokio::test(start_paused = true)]
async fn dead_letters_with_one_message_id_or_first_id_are_all_handled() {
    let bench = Bench::new();
    let fill = async || {
        for body in ["1", "2", "3"] {
            bury(&bench, "a", body, None).await;
        }
        bury(&bench, "b", "4", Some(("first", 1))).await;
        bury(&bench, "c", "5", Some(("first", 1))).await;
    };
    fill().await;
    let copies = Recorder::new();
    let report = dead(&bench).resubmit(DeadLetterFilter::all(), copies.accepting()).run().await.unwrap();
    assert_eq!((report.matching, report.resubmitted, report.missed, report.end), (5, 5, 0, RunOutcome::Done));
    assert_eq!((bodies(&copies), free(&bench)), (["1", "2", "3", "4", "5"].map(String::from).to_vec(), (0, 0)));

    fill().await;
    let report = dead(&bench).purge(DeadLetterFilter::all()).concurrency(1).run().await.unwrap();
    assert_eq!((report.matching, report.purged, report.missed, free(&bench)), (5, 5, 0, (0, 0)));
}

/// Rules: L-14.
#[tokio::test(start_paused = true)]
async fn what_may_be_a_copy_of_the_run_is_missed_and_handled_by_the_next_one() {
    let bench = Bench::new();
    bury(&bench, "a", "1", None).await;
    bury(&bench, "b", "2", Some(("a", 1))).await;
    let copies = Recorder::new();
    let resubmit = async || dead(&bench).resubmit(DeadLetterFilter::all(), copies.accepting()).run().await.unwrap();
    let report = resubmit().await;
    assert_eq!((report.matching, report.resubmitted, report.missed, free(&bench)), (2, 1, 1, (1, 0)));
    let report = resubmit().await;
    assert_eq!((report.matching, report.resubmitted, report.missed, free(&bench)), (1, 1, 0, (0, 0)));
    assert_eq!(bodies(&copies), ["1", "2"]);
}

/// Dead letters without peek, over a connection.
struct Linked(Queue, Link);

impl DeadLetterQueue for Linked {
    type Receiver = LinkReceiver<QueueReceiver>;

    async fn receiver(&self) -> Result<Self::Receiver, ReceiveError> {
        Ok(self.1.receiver(self.0.receiver()))
    }

    async fn peek(&self, _: SequenceNumber, _: usize) -> Result<Vec<Message>, ReceiveError> {
        Err(ReceiveError::new(ErrorKind::NotSupported))
    }

    fn can_peek(&self) -> bool {
        false
    }
}

/// Rules: L-12, L-15.
#[tokio::test(start_paused = true)]
async fn one_whose_removal_is_in_doubt_is_known_by_its_id_and_others_with_that_id_are_handled() {
    for (lost, copied) in [(1, "1"), (2, "2")] {
        let bench = Bench::new();
        for body in ["1", "2", "3"] {
            bury(&bench, "a", body, None).await;
        }
        let fault = DeliveryFault::LoseSettlement(ErrorKind::CommunicationProblem);
        let link = Link::new(LinkSettings::default().faults(Faults::none().on_delivery(lost, fault)));
        let (dead, copies) = (DeadLetters::new(Linked(bench.queue.dead_letter(), link)), Recorder::new());
        let report = dead.resubmit(DeadLetterFilter::all(), copies.accepting()).concurrency(3).run().await.unwrap();
        assert_eq!((report.matching, report.resubmitted, report.missed), (3, 3, 0), "{lost}: {report}");
        assert!(report.failures.is_empty(), "{report}");
        let mut sent: BTreeMap<String, usize> = BTreeMap::new();
        for body in bodies(&copies) {
            *sent.entry(body).or_default() += 1;
        }
        assert_eq!((sent.len(), sent[copied], free(&bench)), (3, 1, (0, 0)), "{lost}");
    }
}
