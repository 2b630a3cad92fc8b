//! K-11: `consign::dead_letters` on the dead letters of every transport.

use std::sync::Arc;

use consign::{
    codecs::{Codecs, Json, MessagePack, TrailEntry},
    consumer::Consumer,
    dead_letters::{
        DeadLetterFilter, DeadLetters, EntityDeadLetters, Explained, RESUBMIT_COUNT, Report, ResubmitGuarantee, Run,
    },
    message::Properties,
    routing::{Body, Router},
};

use tokio::sync::Notify;

use super::prelude::*;

cases! {
    DeadLetterReason:
        /// Rules: L-01.
        a_list_has_reasons_and_descriptions,
        /// Rules: L-01.
        a_list_has_the_attempts_to_decode_a_body,
        /// Rules: L-05.
        a_list_locks_and_counts_nothing,
        /// Rules: L-04.
        a_filter_selects_dead_letters,
        /// Rules: L-10, L-13.
        a_resubmitted_copy_has_a_new_id_and_the_first_one,
        /// Rules: L-14.
        a_run_resubmits_what_passes,
        /// Rules: L-16.
        a_copy_is_edited,
        /// Rules: L-23.
        a_copy_is_written_in_another_format,
        /// Rules: L-25, L-26.
        a_resubmission_to_an_entity_removes_the_dead_letters,
        /// Rules: L-12, L-20, L-25, L-26.
        a_dropped_resubmission_to_an_entity_is_repeated,
        /// Rules: L-18.
        a_purge_removes_what_passes;
    DuplicateDetection:
        /// Rules: L-10.
        a_resubmitted_copy_is_no_duplicate [DeadLetterReason];
}

fn tool(bench: &Bench<'_>, queue: &EntityPath) -> DeadLetters<EntityDeadLetters> {
    DeadLetters::of(bench.transport.clone(), queue)
}

/// Dead-letters a message for each pair of a subject and a reason. Its body is the subject.
async fn bury<const N: usize>(
    bench: &Bench<'_>,
    queue: &EntityPath,
    letters: [(&'static str, &'static str); N],
) -> Verdict {
    for (subject, reason) in letters {
        bench.send(queue, Message::builder().message_id(subject).subject(subject).build(subject)?).await?;
        let because = DeadLetter::new(DeadLetterReason::Application(reason.into()), format!("about {subject}"));
        bench.receive(queue).await?.dead_letter(because).await?;
    }
    Ok(())
}

async fn list(bench: &Bench<'_>, queue: &EntityPath, filter: &DeadLetterFilter) -> Result<Vec<Explained>, Failure> {
    Ok(tool(bench, queue).list(filter, SequenceNumber::default(), 100).await?)
}

/// Returns the subjects of listed dead letters, in alphabetical order.
async fn subjects(bench: &Bench<'_>, queue: &EntityPath, filter: &DeadLetterFilter) -> Result<Vec<String>, Failure> {
    let listed = list(bench, queue, filter).await?;
    let mut subjects: Vec<_> = listed.iter().map(|dead| dead.message().subject().unwrap_or_default().into()).collect();
    subjects.sort();
    Ok(subjects)
}

/// Checks that a run has done `count` and has no failure.
fn check(report: &Report, done: u64, count: u64) -> Verdict {
    ensure!(done == count && report.failures.is_empty(), "the run reports: {report}");
    Ok(())
}

async fn a_list_has_reasons_and_descriptions(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bury(bench, &queue, [("a", "NoSuchArticle"), ("b", "NoSuchCustomer")]).await?;
    let mut listed = list(bench, &queue, &DeadLetterFilter::all()).await?;
    listed.sort_by_key(|dead| dead.message().subject().map(String::from));
    let shown: Vec<_> = listed.iter().map(|dead| (dead.reason(), dead.description())).collect();
    let expected = [(Some("NoSuchArticle"), Some("about a")), (Some("NoSuchCustomer"), Some("about b"))];
    ensure_eq!(shown, expected);
    ensure_eq!(texts(listed.iter().map(Explained::message)), ["a", "b"]);
    ensure_eq!(listed[0].original_message_id(), Some("a"));
    Ok(())
}

async fn a_list_has_the_attempts_to_decode_a_body(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send(&queue, Message::builder().content_type("application/json").build("no JSON")?).await?;
    let router = Router::new(Codecs::json()).fallback(async |Body(_): Body<u64>| {}).build().map_err(unexpected)?;
    let consumer = Consumer::new(bench.receiver(&queue).await?, router);
    let stats = consumer.stats();
    let done = bench.until(move || stats.dead_lettered() >= 1);
    consumer.run_until(done).await.map_err(unexpected)?;
    let listed = list(bench, &queue, &DeadLetterFilter::all().reason("DeserializationFailed").codec("json")).await?;
    ensure_eq!(listed.len(), 1);
    ensure_eq!(listed[0].attempts().iter().map(TrailEntry::codec).collect::<Vec<_>>(), ["json"]);
    Ok(())
}

async fn a_list_locks_and_counts_nothing(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bury(bench, &queue, [("a", "Why"), ("b", "Why")]).await?;
    for _ in 0..2 {
        ensure_eq!(list(bench, &queue, &DeadLetterFilter::all()).await?.len(), 2);
    }
    let dead = [bench.take(&queue.dead_letter()).await?, bench.take(&queue.dead_letter()).await?];
    for message in &dead {
        // The delivery that was dead-lettered, and this one.
        ensure!(facts(message)?.delivery_count <= 2, "the list has counted a delivery");
    }
    bench.gone(&queue).await
}

async fn a_filter_selects_dead_letters(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bury(bench, &queue, [("a", "One"), ("b", "Two"), ("c", "Two")]).await?;
    ensure_eq!(subjects(bench, &queue, &DeadLetterFilter::all()).await?, ["a", "b", "c"]);
    ensure_eq!(subjects(bench, &queue, &DeadLetterFilter::all().reason("Two")).await?, ["b", "c"]);
    ensure_eq!(subjects(bench, &queue, &DeadLetterFilter::all().reason("Two").not()).await?, ["a"]);
    ensure_eq!(subjects(bench, &queue, &DeadLetterFilter::all().reason("Two").subject("c")).await?, ["c"]);
    let first_or_last = DeadLetterFilter::all().subject("a").or(DeadLetterFilter::all().subject("c"));
    ensure_eq!(subjects(bench, &queue, &first_or_last).await?, ["a", "c"]);
    Ok(())
}

async fn a_resubmitted_copy_has_a_new_id_and_the_first_one(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bury(bench, &queue, [("a", "Why")]).await?;
    let sender = bench.transport.sender(&queue).await?;
    let dead = tool(bench, &queue);
    let report =
        dead.resubmit(DeadLetterFilter::all(), sender).lock_wait(bench.arrival()).run().await.map_err(unexpected)?;
    check(&report, report.resubmitted, 1)?;
    let copy = bench.take(&queue).await?;
    ensure_eq!((text(&copy).as_str(), copy.original_message_id()), ("a", Some("a")));
    ensure!(copy.message_id().is_some_and(|id| id != "a"), "the copy has the id {:?}", copy.message_id());
    ensure_eq!((copy.dead_letter_reason(), copy.dead_letter_description()), (None, None));
    ensure!(copy.application_properties().get(RESUBMIT_COUNT).is_some(), "the copy does not count its resubmissions");
    bench.gone(&queue).await
}

async fn a_resubmitted_copy_is_no_duplicate(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default().duplicate_detection(Duration::from_secs(60))).await?;
    bury(bench, &queue, [("a", "Why")]).await?;
    let sender = bench.transport.sender(&queue).await?;
    let dead = tool(bench, &queue);
    let report =
        dead.resubmit(DeadLetterFilter::all(), sender).lock_wait(bench.arrival()).run().await.map_err(unexpected)?;
    check(&report, report.resubmitted, 1)?;
    bench.expect(&queue, ["a"]).await?;
    bench.gone(&queue).await
}

async fn a_run_resubmits_what_passes(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bury(bench, &queue, [("a", "One"), ("b", "Two"), ("c", "One")]).await?;
    let sender = bench.transport.sender(&queue).await?;
    let dead = tool(bench, &queue);
    let run = dead.resubmit(DeadLetterFilter::all().reason("One"), sender);
    let report = run.lock_wait(bench.arrival()).run().await.map_err(unexpected)?;
    check(&report, report.resubmitted, 2)?;
    let mut copies = bench.drain_count(2, &queue).await?;
    copies.sort();
    ensure_eq!(copies, ["a", "c"]);
    bench.expect(&queue.dead_letter(), ["b"]).await?;
    Ok(())
}

async fn a_copy_is_edited(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bury(bench, &queue, [("a", "Why")]).await?;
    let sender = bench.transport.sender(&queue).await?;
    let dead = tool(bench, &queue);
    let run = dead.resubmit(DeadLetterFilter::all(), sender).edit(|properties: &mut Properties, body| {
        properties.application_properties_mut().insert("corrected", true);
        *body = "b".into();
        Ok(())
    });
    let report = run.lock_wait(bench.arrival()).run().await.map_err(unexpected)?;
    check(&report, report.resubmitted, 1)?;
    let copy = bench.take(&queue).await?;
    ensure_eq!(text(&copy), "b");
    ensure_eq!(copy.application_properties().get("corrected"), Some(&PropertyValue::Bool(true)));
    bench.gone(&queue).await
}

async fn a_copy_is_written_in_another_format(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    let order = Message::builder().content_type("application/msgpack").build(b"\x92\xa5sku-7\x03")?;
    bench.send(&queue, order).await?;
    bench.receive(&queue).await?.dead_letter(DeadLetter::new(DeadLetterReason::HandlerPermanent, "")).await?;
    let codecs = Codecs::builder().with(Json::default()).with(MessagePack).build().map_err(unexpected)?;
    let sender = bench.transport.sender(&queue).await?;
    let dead = tool(bench, &queue);
    let run: Run<'_, _, _> = dead.resubmit(DeadLetterFilter::all(), sender).transcode(codecs, "application/json");
    let report = run.lock_wait(bench.arrival()).run().await.map_err(unexpected)?;
    check(&report, report.resubmitted, 1)?;
    let copy = bench.take(&queue).await?;
    ensure_eq!((copy.content_type(), text(&copy).as_str()), (Some("application/json"), r#"["sku-7",3]"#));
    bench.gone(&queue).await
}

/// The subjects of the copies in a queue, and their ids, which this removes.
async fn copies(bench: &Bench<'_>, queue: &EntityPath, count: usize) -> Result<Vec<(String, String)>, Failure> {
    let mut copies = Vec::new();
    while copies.len() < count {
        let copy = bench.take(queue).await?;
        let id = copy.message_id().unwrap_or_default().to_owned();
        copies.push((copy.original_message_id().unwrap_or_default().to_owned(), id));
    }
    copies.sort();
    Ok(copies)
}

async fn a_resubmission_to_an_entity_removes_the_dead_letters(bench: &Bench<'_>) -> Verdict {
    let (queue, other) = (bench.queue(QueueSettings::default()).await?, bench.queue(QueueSettings::default()).await?);
    bury(bench, &queue, [("a", "One"), ("b", "Two"), ("c", "One")]).await?;
    let dead = tool(bench, &queue);
    let is_transactional = bench.capabilities().supports(Capability::Transactions);
    ensure_eq!(dead.guarantee(&queue) == ResubmitGuarantee::Transaction, is_transactional);
    ensure!(dead.guarantee(&other) != ResubmitGuarantee::Transaction, "a transaction is on one entity");
    for (reason, to, expected) in [("One", &queue, &["a", "c"][..]), ("Two", &other, &["b"])] {
        let run = dead.resubmit_to(DeadLetterFilter::all().reason(reason), to).await?;
        let report = run.lock_wait(bench.arrival()).run().await.map_err(unexpected)?;
        check(&report, report.resubmitted, expected.len() as u64)?;
        let copies = copies(bench, to, expected.len()).await?;
        let firsts: Vec<_> = copies.iter().map(|(first, _)| first.as_str()).collect();
        ensure_eq!(firsts, expected);
        ensure!(
            copies.iter().all(|(first, id)| first != id),
            "a copy has the MessageId of its dead letter: {copies:?}"
        );
        bench.nothing(to).await?;
    }
    bench.nothing(&queue.dead_letter()).await
}

async fn a_dropped_resubmission_to_an_entity_is_repeated(bench: &Bench<'_>) -> Verdict {
    const CONCURRENCY: usize = 2;
    let queue = bench.queue(QueueSettings::default()).await?;
    let letters = ["a", "b", "c", "d", "e", "f", "g", "h"];
    bury(bench, &queue, letters.map(|letter| (letter, "Why"))).await?;
    let dead = tool(bench, &queue);
    let dropped = Arc::new(Notify::new());
    {
        let seen = Arc::clone(&dropped);
        let run = dead.resubmit_to(DeadLetterFilter::all(), &queue).await?.concurrency(CONCURRENCY);
        let run = run.on_progress(move |report| {
            if report.resubmitted >= 2 {
                seen.notify_one();
            }
        });
        tokio::select! {
            biased;
            () = dropped.notified() => {}
            ended = run.lock_wait(bench.arrival()).run() => {
                ended.map_err(unexpected)?;
            }
        }
    }
    let mut resubmitted = 2;
    for _ in 0..10 {
        let run = dead.resubmit_to(DeadLetterFilter::all(), &queue).await?;
        let report = run.lock_wait(bench.arrival()).run().await.map_err(unexpected)?;
        resubmitted += report.resubmitted;
        if report.matching == 0 {
            break;
        }
    }
    let mut firsts = bench.drain_count(letters.len(), &queue).await?;
    firsts.sort();
    let copies = firsts.len();
    firsts.dedup();
    ensure_eq!(firsts, letters);
    let doubled = copies - letters.len();
    let most = if dead.guarantee(&queue) == ResubmitGuarantee::Transaction { 0 } else { CONCURRENCY };
    ensure!(doubled <= most, "{doubled} copies are doubled, of {resubmitted}");
    bench.nothing(&queue.dead_letter()).await
}

async fn a_purge_removes_what_passes(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bury(bench, &queue, [("a", "One"), ("b", "Two"), ("c", "One")]).await?;
    let dead = tool(bench, &queue);
    let run = dead.purge(DeadLetterFilter::all().reason("One")).lock_wait(bench.arrival());
    let report = run.run().await.map_err(unexpected)?;
    check(&report, report.purged, 2)?;
    bench.nothing(&queue).await?;
    bench.expect(&queue.dead_letter(), ["b"]).await?;
    Ok(())
}
