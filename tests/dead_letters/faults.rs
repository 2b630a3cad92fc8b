//! What goes wrong: sends, settlements, locks, receives, and the run itself.

use std::{
    collections::BTreeSet,
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use consign::{
    Message,
    administration::QueueSettings,
    broker::{Queue, QueueReceiver},
    dead_letters::{ActionErrorKind, DeadLetterFilter, DeadLetterQueue, DeadLetters, Report, RunOutcome},
    message::SequenceNumber,
    testing::{
        DeliveryFault, Faults, Link, LinkReceiver, LinkSettings, RecordedReceiver, Recorder, SendFault, Settlement,
    },
    transport::{ErrorKind, Lease, ReceiveError, Sender},
};
use tokio_test::task;

use crate::support::{Bench, OTHER, UNDECODABLE, sending};

const LOCK: Duration = Duration::from_secs(10);

/// A dead-letter queue that is received from over a connection, with a record.
struct Linked {
    queue: Queue,
    link: Link,
    deliveries: Recorder,
}

impl DeadLetterQueue for Linked {
    type Receiver = RecordedReceiver<LinkReceiver<QueueReceiver>>;

    async fn receiver(&self) -> Result<Self::Receiver, ReceiveError> {
        Ok(self.deliveries.receiver(self.link.receiver(self.queue.receiver())))
    }

    async fn peek(&self, from: SequenceNumber, max: usize) -> Result<Vec<Message>, ReceiveError> {
        Ok(self.queue.peek(from, max))
    }
}

fn link(faults: Faults) -> Link {
    Link::new(LinkSettings::default().round_trip(Duration::from_millis(10)).faults(faults))
}

fn linked(bench: &Bench, faults: Faults) -> DeadLetters<Linked> {
    over(bench, link(faults), &Recorder::new())
}

fn over(bench: &Bench, link: Link, deliveries: &Recorder) -> DeadLetters<Linked> {
    DeadLetters::new(Linked { queue: bench.queue.dead_letter(), link, deliveries: deliveries.clone() })
}

fn bench() -> Bench {
    Bench::with(QueueSettings::default().lock_duration(LOCK))
}

fn assert_free(bench: &Bench, count: usize) {
    let counts = bench.queue.dead_letter().counts();
    assert_eq!((counts.active, counts.locked), (count, 0));
    for dead in bench.queue.dead_letters() {
        assert_eq!(dead.received().unwrap().delivery_count, 0, "{dead:?}");
    }
}

/// Rules: L-11.
#[tokio::test(start_paused = true)]
async fn a_dead_letter_stays_until_its_copy_is_accepted() {
    let bench = bench();
    bench.bury_many(0, 5, &OTHER).await;
    let (dead, seen) = (bench.queue.dead_letter(), Arc::new(AtomicU64::new(0)));
    let counted = Arc::clone(&seen);
    let sender = sending(move |message| {
        let (dead, counted) = (dead.clone(), Arc::clone(&counted));
        Box::pin(async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let left = dead.peek(SequenceNumber::default(), 10);
            assert!(left.iter().any(|dead| dead.message_id() == message.original_message_id()));
            counted.fetch_add(1, Ordering::Relaxed);
            Ok(())
        })
    });
    let report = bench.dead().resubmit(DeadLetterFilter::all(), sender).concurrency(5).run().await.unwrap();
    assert_eq!((report.resubmitted, seen.load(Ordering::Relaxed)), (5, 5));
    assert_free(&bench, 0);
}

/// Rules: L-11.
#[tokio::test(start_paused = true)]
async fn one_whose_copy_is_refused_stays_and_the_others_go() {
    let bench = bench();
    bench.bury_many(0, 5, &OTHER).await;
    let faults = Faults::none()
        .on_send(2, SendFault::Reject(ErrorKind::QuotaExceeded))
        .on_send(4, SendFault::LoseMessage(ErrorKind::CommunicationProblem));
    let copies = Recorder::new();
    let sender = link(faults).sender(copies.accepting());
    let report = bench.dead().resubmit(DeadLetterFilter::all(), sender).run().await.unwrap();
    assert_eq!((report.resubmitted, report.failures.len(), report.missed), (3, 2, 0));
    let failed: BTreeSet<_> = report.failures.iter().map(|failure| failure.sequence_number().get()).collect();
    assert_eq!(failed, BTreeSet::from([2, 4]));
    assert!(report.failures.iter().all(|failure| failure.kind() == ActionErrorKind::Send && !failure.is_copied()));
    assert_free(&bench, 2);

    let again = bench.dead().resubmit(DeadLetterFilter::all(), copies.accepting()).run().await.unwrap();
    assert_eq!(again.resubmitted, 2);
    copies.assert_sent_count(5);
    assert_free(&bench, 0);
}

/// Rules: L-12.
#[tokio::test(start_paused = true)]
async fn a_lost_settlement_sends_no_second_copy_in_the_same_run() {
    let bench = bench();
    bench.bury_many(0, 3, &OTHER).await;
    let lost = DeliveryFault::LoseSettlement(ErrorKind::CommunicationProblem);
    let copies = Recorder::new();
    let dead = linked(&bench, Faults::none().on_delivery(2, lost));
    let report = dead.resubmit(DeadLetterFilter::all(), copies.accepting()).run().await.unwrap();
    assert_eq!((report.resubmitted, report.missed, report.purged, report.examined), (3, 0, 0, 4));
    assert!(report.failures.is_empty(), "{report}");
    copies.assert_sent_count(3);
    assert_free(&bench, 0);
}

/// Rules: L-12.
#[tokio::test(start_paused = true)]
async fn a_lost_settlement_makes_the_next_run_send_a_copy_with_the_same_first_id() {
    let bench = bench();
    bench.bury(Message::builder().message_id("first").build("body").unwrap(), OTHER).await;
    let copies = Recorder::new();
    // Nothing can be settled.
    let lost = DeliveryFault::LoseSettlement(ErrorKind::CommunicationProblem);
    let dead = linked(&bench, Faults::seeded(1).deliveries(1.0, lost));
    let report = dead.resubmit(DeadLetterFilter::all(), copies.accepting()).run().await.unwrap();
    let [failure] = &report.failures[..] else { panic!("{report}") };
    assert!(failure.is_copied() && report.resubmitted == 1, "{report}");
    copies.assert_sent_count(1);
    assert_eq!(bench.queue.dead_letters().len(), 1);

    let report = bench.dead().resubmit(DeadLetterFilter::all(), copies.accepting()).run().await.unwrap();
    assert_eq!((report.resubmitted, report.failures.len()), (1, 0));
    let [one, two] = &copies.sent()[..] else { panic!("two") };
    assert_ne!(one.message.message_id(), two.message.message_id());
    for copy in [one, two] {
        assert_eq!(copy.message.original_message_id(), Some("first"));
    }
    assert_free(&bench, 0);
}

/// Rules: L-12.
#[tokio::test(start_paused = true)]
async fn failed_removals_end_a_purge() {
    let bench = bench();
    bench.bury_many(0, 3, &OTHER).await;
    let lost = DeliveryFault::LoseSettlement(ErrorKind::CommunicationProblem);
    let report =
        linked(&bench, Faults::seeded(1).deliveries(1.0, lost)).purge(DeadLetterFilter::all()).run().await.unwrap();
    assert_eq!((report.purged, report.failures.len(), report.end), (0, 3, RunOutcome::Done));
    assert!(report.failures.iter().all(|failure| failure.kind() == ActionErrorKind::Settle { copied: false }));
    assert_eq!(bench.queue.dead_letters().len(), 3);
}

/// Rules: L-15.
#[tokio::test(start_paused = true)]
async fn a_transport_that_delivers_twice_makes_no_second_copy() {
    let bench = bench();
    bench.bury_many(0, 50, &OTHER).await;
    let copies = Recorder::new();
    let dead = linked(&bench, Faults::seeded(1).deliveries(0.5, DeliveryFault::Duplicate));
    let report = dead.resubmit(DeadLetterFilter::all(), copies.accepting()).run().await.unwrap();
    assert_eq!((report.resubmitted, report.failures.len()), (50, 0));
    copies.assert_sent_count(50);
    assert_free(&bench, 0);
}

/// Rules: L-17.
#[tokio::test(start_paused = true)]
async fn skipped_dead_letters_are_received_once_and_released_uncounted() {
    let bench = bench();
    bench.bury_many(0, 200, &OTHER).await;
    bench.bury_many(200, 20, &UNDECODABLE).await;
    // Each send takes longer than a lock holds.
    let (copies, slow) = (Recorder::new(), LOCK * 5 / 2);
    let accepting = copies.accepting();
    let sender = sending(move |message| {
        let sent = accepting.send(message);
        Box::pin(async move {
            tokio::time::sleep(slow).await;
            sent.await
        })
    });
    let filter = DeadLetterFilter::all().reason(UNDECODABLE.as_str());
    let report = bench.dead().resubmit(filter, sender).concurrency(4).run().await.unwrap();
    assert_eq!((report.skipped, report.resubmitted, report.examined), (200, 20, 220));
    copies.assert_sent_count(20);
    assert_free(&bench, 200);
}

/// Rules: L-17.
#[tokio::test(start_paused = true)]
async fn a_held_dead_letter_is_not_tried_again_when_its_lock_is_lost() {
    let bench = bench();
    bench.bury_many(0, 3, &OTHER).await;
    let (queue, copies, edits) = (bench.queue.dead_letter(), Recorder::new(), Arc::new(AtomicU64::new(0)));
    let accepting = copies.accepting();
    let sender = sending(move |message| {
        if message.original_message_id() == Some("1") {
            queue.lose_locks();
        }
        Box::pin(accepting.send(message))
    });
    let counted = Arc::clone(&edits);
    let deliveries = Recorder::new();
    let dead = over(&bench, link(Faults::none()), &deliveries);
    let run = dead.resubmit(DeadLetterFilter::all(), sender).concurrency(1).edit(move |properties, _| {
        if properties.message_id() != Some("0") {
            return Ok(());
        }
        counted.fetch_add(1, Ordering::Relaxed);
        Err("no".into())
    });
    let report = run.run().await.unwrap();
    assert_eq!((report.resubmitted, report.failures.len(), report.missed), (2, 1, 0), "{report}");
    assert_eq!((edits.load(Ordering::Relaxed), report.examined), (1, 5));
    copies.assert_sent_count(2);
    assert!(deliveries.settled().iter().all(|settled| settled.settlement != Settlement::Dropped));
    assert_free(&bench, 1);
}

/// Rules: L-15.
#[tokio::test(start_paused = true)]
async fn dead_letters_held_elsewhere_are_waited_for_and_missed() {
    let bench = bench();
    bench.bury_many(0, 3, &OTHER).await;
    let [one, two] = [0, 1].map(|_| bench.queue.receive_dead_letter_now().unwrap());
    let dead = bench.dead();
    let mut run = task::spawn(dead.purge(DeadLetterFilter::all()).lock_wait(LOCK / 4).run());
    assert!(run.poll().is_pending());
    one.lease.release().await.unwrap();
    let report = run.await.unwrap();
    assert_eq!((report.matching, report.purged, report.missed, report.end), (3, 2, 1, RunOutcome::Done));
    two.lease.release().await.unwrap();
    assert_free(&bench, 1);
}

/// Rules: L-19.
#[tokio::test(start_paused = true)]
async fn a_run_ends_at_a_hundred_failures() {
    let bench = bench();
    bench.bury_many(0, 150, &OTHER).await;
    let refusing = link(Faults::seeded(1).sends(1.0, SendFault::Reject(ErrorKind::QuotaExceeded)));
    let sender = refusing.sender(Recorder::new().accepting());
    let report = bench.dead().resubmit(DeadLetterFilter::all(), sender).run().await.unwrap();
    assert_eq!((report.failures.len(), report.end), (Report::MAX_FAILURES, RunOutcome::TooManyFailures));
    assert_eq!((report.resubmitted, report.missed), (0, 50));
    assert_free(&bench, 150);
    let dead = bench.dead();
    let edited = dead.resubmit(DeadLetterFilter::all(), Recorder::new().accepting()).edit(|_, _| Err("no".into()));
    assert_eq!(edited.run().await.unwrap().failures.len(), Report::MAX_FAILURES);
    assert_free(&bench, 150);
}

/// Rules: L-19.
#[tokio::test(start_paused = true)]
async fn a_run_holds_no_more_than_it_may() {
    let bench = bench();
    bench.bury_many(0, 100, &OTHER).await;
    bench.bury_many(100, 1, &UNDECODABLE).await;
    let purge = || bench.dead();
    let filter = DeadLetterFilter::all().reason(UNDECODABLE.as_str());
    let report = purge().purge(filter.clone()).max_held(100).run().await.unwrap();
    assert_eq!((report.end, report.purged, report.skipped, report.missed), (RunOutcome::TooManyHeld, 0, 100, 1));
    assert_free(&bench, 101);
    let report = purge().purge(filter).max_held(101).run().await.unwrap();
    assert_eq!((report.end, report.purged, report.skipped), (RunOutcome::Done, 1, 100));
    assert_free(&bench, 100);
}

/// Rules: L-20.
#[tokio::test(start_paused = true)]
async fn a_run_that_is_dropped_loses_nothing_and_leaves_no_lock() {
    let bench = bench();
    bench.bury_many(0, 10, &OTHER).await;
    bench.bury_many(10, 10, &UNDECODABLE).await;
    let copies = Recorder::new();
    let (accepting, answers) = (copies.accepting(), Arc::new(AtomicBool::new(false)));
    let answering = Arc::clone(&answers);
    // The copy is accepted, and the answer does not come.
    let sender = Arc::new(move |message| {
        let (sent, answering) = (accepting.send(message), Arc::clone(&answering));
        Box::pin(async move {
            sent.await?;
            if answering.load(Ordering::Relaxed) { Ok(()) } else { pending().await }
        }) as _
    });
    let to = || {
        let sender = Arc::clone(&sender);
        sending(move |message| sender(message))
    };
    let deliveries = Recorder::new();
    let dead = over(&bench, Link::new(LinkSettings::default()), &deliveries);
    let filter = DeadLetterFilter::all().reason(UNDECODABLE.as_str());
    let mut run = task::spawn(dead.resubmit(filter.clone(), to()).concurrency(4).run());
    assert!(run.poll().is_pending());
    assert_eq!(bench.queue.dead_letter().counts().locked, 14);
    drop(run);
    assert_free(&bench, 20);
    let settled = deliveries.settled();
    assert_eq!(settled.len(), 14);
    assert!(settled.iter().all(|settled| settled.settlement == Settlement::Released), "{settled:?}");

    answers.store(true, Ordering::Relaxed);
    assert_eq!(dead.resubmit(filter, to()).run().await.unwrap().resubmitted, 10);
    let sent = copies.sent();
    let first_ids: BTreeSet<_> = sent.iter().filter_map(|copy| copy.message.original_message_id()).collect();
    // The four whose outcome nobody knew were sent twice, under one first id each.
    assert_eq!((sent.len(), first_ids.len()), (14, 10));
    assert_free(&bench, 10);
}

/// Rules: L-20.
#[tokio::test(start_paused = true)]
async fn a_receive_that_fails_ends_the_run_with_what_was_done() {
    let bench = bench();
    bench.bury_many(0, 40, &OTHER).await;
    let link = link(Faults::none());
    let dead = over(&bench, link.clone(), &Recorder::new());
    let copies = Recorder::new();
    let accepting = copies.accepting();
    let sender = sending(move |message| {
        if copies.sent().len() == 9 {
            link.disconnect();
        }
        Box::pin(accepting.send(message))
    });
    let error = dead.resubmit(DeadLetterFilter::all(), sender).concurrency(1).run().await.unwrap_err();
    assert_eq!(
        (error.receive_error().kind(), error.report().end),
        (ErrorKind::CommunicationProblem, RunOutcome::Failed)
    );
    assert_eq!((error.report().resubmitted, error.report().failures.len()), (10, 1));
    assert_eq!(bench.queue.dead_letter().counts().active, 31);
}

/// Rules: L-21.
#[tokio::test(start_paused = true)]
async fn ten_thousand_dead_letters() {
    let bench = bench();
    bench.bury_many(0, 10_000, &OTHER).await;
    let hundredth = DeadLetterFilter::all().matching(|dead| dead.sequence_number().get() % 100 == 0);
    let report = bench.dead().purge(hundredth).run().await.unwrap();
    assert_eq!((report.matching, report.purged, report.skipped, report.examined), (100, 100, 9_900, 10_000));
    assert_eq!(bench.queue.dead_letter().counts().locked, 0);
    let copies = Recorder::new();
    let report = bench.dead().resubmit(DeadLetterFilter::all(), copies.accepting()).run().await.unwrap();
    assert_eq!((report.resubmitted, report.missed), (9_900, 0));
    assert_free(&bench, 0);
}
