//! K-01 and K-02: entities are listed, their messages are counted, and their paths are compared.

use consign::administration::{Counts, EntityKind};

use super::prelude::*;
use crate::NoCall;

cases! {
    Acceptance:
        /// Rules: K-42.
        entities_are_listed_until_they_are_deleted,
        /// Rules: K-43.
        messages_that_wait_are_counted,
        /// Rules: K-43.
        dead_letters_are_counted [DeadLetterReason];
    Rejection:
        /// Rules: K-44.
        paths_that_differ_in_case_name_one_queue_everywhere_or_nowhere;
}

async fn entities_are_listed_until_they_are_deleted(bench: &Bench<'_>) -> Verdict {
    let (kept, deleted) = (bench.queue(QueueSettings::default()).await?, bench.queue(QueueSettings::default()).await?);
    let listed = detail(bench.transport.list().await)?;
    let kind = |path: &EntityPath| listed.iter().find(|entity| entity.path == *path).map(|entity| entity.kind);
    ensure_eq!((kind(&kept), kind(&deleted)), (Some(EntityKind::Queue), Some(EntityKind::Queue)));
    ensure!(listed.is_sorted_by_key(|entity| entity.path.as_str().to_lowercase()), "the list is not in order");
    bench.transport.delete(&deleted).await?;
    let listed = bench.transport.list().await?;
    let has = |path: &EntityPath| listed.iter().any(|entity| entity.path == *path);
    ensure_eq!((has(&kept), has(&deleted)), (true, false));
    Ok(())
}

/// Checks the counts of messages that are in no lock. A broker may count them a moment later.
async fn counted(bench: &Bench<'_>, path: &EntityPath, active: usize, dead_lettered: usize) -> Verdict {
    let mut counts = Counts::default();
    for _ in 0..10 {
        counts = detail(bench.transport.counts(path).await)?;
        if (counts.active, counts.locked, counts.dead_lettered) == (active, 0, dead_lettered) {
            break;
        }
        bench.wait(bench.arrival() / 10).await;
    }
    ensure_eq!((counts.active, counts.locked, counts.dead_lettered), (active, 0, dead_lettered), "{path} is counted");
    ensure_eq!((counts.deferred, counts.scheduled, counts.transfer_dead_lettered), (0, 0, 0));
    Ok(())
}

/// Checks the counts of an entity with `total` messages, of which one is locked and none a dead letter. It is counted once: as
/// locked or as active, or not at all by a broker that cannot see it. Returns whether it is counted.
async fn counted_with_a_lock(bench: &Bench<'_>, path: &EntityPath, total: usize) -> Result<bool, Failure> {
    let mut counts = Counts::default();
    for _ in 0..10 {
        counts = bench.transport.counts(path).await?;
        if counts.locked <= 1 && counts.active + counts.locked == total {
            return Ok(true);
        }
        bench.wait(bench.arrival() / 10).await;
    }
    ensure_eq!((counts.active, counts.locked), (total - 1, 0), "{path} with one of {total} locked is counted");
    Ok(false)
}

async fn messages_that_wait_are_counted(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    counted(bench, &queue, 0, 0).await?;
    bench.send_bodies(&queue, ["a", "b", "c"]).await?;
    counted(bench, &queue, 3, 0).await?;
    bench.take(&queue).await?;
    bench.receive(&queue).await?.abandon().await?;
    counted(bench, &queue, 2, 0).await?;
    let held = bench.receive(&queue).await?;
    counted_with_a_lock(bench, &queue, 2).await?;
    held.complete().await?;
    counted(bench, &queue, 1, 0).await?;
    let nowhere = bench.fresh_path()?;
    refused(bench.transport.counts(&nowhere).await, &[ErrorKind::EntityNotFound])
}

async fn dead_letters_are_counted(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a", "b", "c"]).await?;
    for _ in 0..2 {
        bench.receive(&queue).await?.dead_letter(DeadLetter::new(DeadLetterReason::HandlerPermanent, "")).await?;
    }
    counted(bench, &queue, 1, 2).await?;
    let held = bench.receive_dead(&queue).await?;
    let is_counted = counted_with_a_lock(bench, &queue.dead_letter(), 2).await?;
    counted(bench, &queue, 1, if is_counted { 2 } else { 1 }).await?;
    held.complete().await?;
    counted(bench, &queue, 1, 1).await?;
    counted(bench, &queue.dead_letter(), 1, 0).await
}

async fn paths_that_differ_in_case_name_one_queue_everywhere_or_nowhere(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    let upper = EntityPath::new(&queue.as_str().to_uppercase())?;
    bench.send_bodies(&queue, ["a"]).await?;
    let created = bench.create(&upper, QueueSettings::default()).await;
    if created.is_ok() {
        bench.send_bodies(&upper, ["b"]).await?;
        bench.expect(&queue, ["a"]).await?;
        bench.expect(&upper, ["b"]).await?;
        return detail(Err(NoCall::new("the broker compares names with case")));
    }
    refused(created, &[ErrorKind::AlreadyExists])?;
    bench.send_bodies(&upper, ["b"]).await?;
    bench.expect(&upper, ["a", "b"]).await?;
    bench.gone(&queue).await?;
    bench.transport.settings(&upper).await?;
    bench.transport.delete(&upper).await?;
    refused(bench.send(&queue, Message::new("c")).await, &[ErrorKind::EntityNotFound])
}
