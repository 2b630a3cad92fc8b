//! Resubmission to an entity of the same transport.

use std::{collections::BTreeSet, time::Duration};

use consign::{
    Message,
    administration::{QueueSettings, SubscriptionSettings, TopicSettings},
    dead_letters::{
        ActionErrorKind, DeadLetterFilter, DeadLetters, EntityDeadLetters, RESUBMIT_COUNT, ResubmitGuarantee,
    },
    message::{EntityPath, PropertyValue},
    transport::{ErrorKind, SettleError},
};
use tokio::time::Instant;

use crate::support::{Bench, OTHER, UNDECODABLE};

fn path(path: &str) -> EntityPath {
    EntityPath::new(path).unwrap()
}

fn dead(bench: &Bench) -> DeadLetters<EntityDeadLetters> {
    DeadLetters::of(bench.broker.broker().clone(), &path("orders"))
}

/// Rules: L-25.
#[tokio::test(start_paused = true)]
async fn a_copy_and_its_removal_are_one_transaction() {
    let bench = Bench::new();
    bench.bury_many(0, 5, &OTHER).await;
    bench.bury_many(5, 2, &UNDECODABLE).await;
    let dead = dead(&bench);
    assert_eq!(dead.guarantee(&path("orders")), ResubmitGuarantee::Transaction);
    let filter = DeadLetterFilter::all().reason("HandlerPermanent");
    let mut reports = Vec::new();
    let run = dead.resubmit_to(filter, &path("orders")).await.unwrap().concurrency(2);
    let run = run.edit(|properties, _| {
        properties.set_subject("edited");
        Ok(())
    });
    let report = run.on_progress(|report| reports.push(report.resubmitted)).run().await.unwrap();
    assert_eq!((report.matching, report.resubmitted, report.purged, report.failures.len()), (5, 5, 0, 0));
    assert_eq!(report.missed, 0);
    assert!(reports.is_sorted(), "{reports:?}");
    let counts = bench.queue.counts();
    assert_eq!((counts.active, counts.dead_lettered), (5, 2));
    let copies = bench.queue.messages();
    let firsts: BTreeSet<_> = copies.iter().map(|copy| copy.original_message_id().unwrap().to_owned()).collect();
    assert_eq!(firsts, (0..5).map(|id| id.to_string()).collect());
    for copy in &copies {
        assert_eq!(copy.subject(), Some("edited"));
        assert_eq!(copy.dead_letter_reason(), None);
        assert_eq!(copy.application_properties().get(RESUBMIT_COUNT).and_then(PropertyValue::to_u64), Some(1));
    }
}

/// Rules: L-11, L-17, L-25.
#[tokio::test(start_paused = true)]
async fn a_refused_copy_leaves_its_dead_letter_unlocked_and_uncounted() {
    let bench = Bench::with(QueueSettings::default().max_message_size(2_000));
    bench.bury_many(0, 3, &OTHER).await;
    let dead = dead(&bench);
    let run = dead.resubmit_to(DeadLetterFilter::all(), &path("orders")).await.unwrap();
    let run = run.edit(|properties, body| {
        if properties.message_id() == Some("1") {
            *body = vec![0; 4_000].into();
        }
        Ok(())
    });
    let report = run.run().await.unwrap();
    assert_eq!((report.resubmitted, report.failures.len(), report.missed), (2, 1, 0));
    let error = &report.failures[0];
    assert_eq!(error.kind(), ActionErrorKind::Transaction);
    assert!(error.to_string().starts_with("not resubmitted: "), "{error}");
    let source = std::error::Error::source(error).unwrap().downcast_ref::<SettleError>().unwrap();
    assert_eq!(source.kind(), ErrorKind::MessageSizeExceeded);
    let [letter] = &bench.queue.dead_letters()[..] else { panic!("one stays") };
    assert_eq!(letter.message_id(), Some("1"));
    assert_eq!(bench.queue.dead_letter().counts().locked, 0);
    assert_eq!(bench.queue.counts().active, 2);
}

/// Rules: L-25.
#[tokio::test(start_paused = true)]
async fn a_dropped_run_and_the_next_one_double_nothing() {
    const COUNT: usize = 60;
    for ended_after in [0, 1, 2, 7, 30] {
        let bench = Bench::new();
        bench.bury_many(0, COUNT, &OTHER).await;
        let resubmit = dead(&bench);
        // A panic drops the run, as the end of the process would.
        let ended = tokio::spawn(async move {
            let run = resubmit.resubmit_to(DeadLetterFilter::all(), &path("orders")).await.unwrap().concurrency(8);
            run.on_progress(|report| assert!(report.resubmitted < ended_after)).run().await.unwrap()
        });
        ended.await.unwrap_err();
        tokio::time::sleep(Duration::from_secs(1)).await;
        let counts = bench.queue.counts();
        assert_eq!(counts.active + counts.dead_lettered, COUNT, "each is a dead letter or a copy");
        assert!(counts.dead_lettered > 0, "{counts:?}");
        let dead = dead(&bench);
        let report = dead.resubmit_to(DeadLetterFilter::all(), &path("orders")).await.unwrap().run().await.unwrap();
        assert_eq!(report.failures.len(), 0);
        let firsts: BTreeSet<_> =
            bench.queue.messages().iter().map(|copy| copy.original_message_id().unwrap().to_owned()).collect();
        assert_eq!((bench.queue.counts().active, firsts.len(), bench.queue.counts().dead_lettered), (COUNT, COUNT, 0));
    }
}

/// The ids of copies that a new process would send to another queue.
async fn ids_of_copies() -> Vec<String> {
    let bench = Bench::new();
    let archive = bench.broker.queue_with("archive", QueueSettings::default());
    bench.bury_many(0, 3, &OTHER).await;
    // Another message with the same id is another dead letter.
    bench.bury_many(0, 1, &OTHER).await;
    let dead = dead(&bench);
    assert_eq!(dead.guarantee(&path("archive")), ResubmitGuarantee::SameMessageId);
    dead.resubmit_to(DeadLetterFilter::all(), &path("archive")).await.unwrap().run().await.unwrap();
    assert_eq!((bench.queue.counts().dead_lettered, archive.counts().active), (0, 4));
    archive.messages().iter().map(|copy| copy.message_id().unwrap().to_owned()).collect()
}

/// Rules: L-26.
#[tokio::test(start_paused = true)]
async fn copies_to_another_entity_have_the_same_id_in_each_run() {
    let ids = ids_of_copies().await;
    assert_eq!(ids, ids_of_copies().await);
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 4, "{ids:?}");
    assert!(ids.iter().all(|id| id.len() < 100), "{ids:?}");
}

#[tokio::test]
async fn a_subscription_counts_as_its_topic() {
    let bench = Bench::new();
    let broker = bench.broker.broker();
    let topic = broker.create_topic("events", TopicSettings::default()).unwrap();
    topic.create_subscription("audit", SubscriptionSettings::default()).unwrap();
    let dead = DeadLetters::of(broker.clone(), &path("events/Subscriptions/audit"));
    assert_eq!(dead.guarantee(&path("EVENTS")), ResubmitGuarantee::Transaction);
    assert_eq!(dead.guarantee(&path("orders")), ResubmitGuarantee::SameMessageId);
}

#[tokio::test]
async fn an_entity_that_does_not_exist_is_an_error_before_the_run() {
    let bench = Bench::new();
    let error = dead(&bench).resubmit_to(DeadLetterFilter::all(), &path("nothing")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::EntityNotFound);
}

#[tokio::test(start_paused = true)]
async fn a_run_keeps_its_rate() {
    let bench = Bench::new();
    bench.bury_many(0, 20, &OTHER).await;
    bench.queue.send_message(Message::new("other"));
    bench.kill(UNDECODABLE).await;
    let began = Instant::now();
    let dead = dead(&bench);
    let filter = DeadLetterFilter::all().reason("HandlerPermanent");
    let run = dead.resubmit_to(filter, &path("orders")).await.unwrap().rate(2.0);
    assert_eq!(run.run().await.unwrap().resubmitted, 20);
    // The first is handled at once.
    let took = began.elapsed();
    assert!((Duration::from_millis(9_500)..Duration::from_millis(9_600)).contains(&took), "{took:?}");
}
