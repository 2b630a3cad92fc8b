//! K-05 to K-08: how long a lock holds, what extends it, and what happens after its end.

use super::prelude::*;

cases! {
    LockDuration:
        /// Rules: S-28.
        a_lock_ends_when_its_time_is_over,
        /// Rules: S-25, M-09.
        a_lock_runs_from_the_receive,
        /// Rules: S-01.
        each_entity_has_its_own_lock_duration,
        /// Rules: S-60.
        each_message_of_one_receive_has_its_own_lock,
        /// Rules: S-28.
        a_lock_ends_while_a_receiver_waits;
    LockRenewal:
        /// Rules: S-57.
        a_renewed_lock_holds_from_then_on [LockDuration],
        /// Rules: S-57.
        a_renewed_lock_ends_too [LockDuration],
        /// Rules: S-57.
        a_lock_can_be_renewed_again_and_again,
        /// Rules: S-53.
        a_lock_that_is_lost_is_not_renewed [LockDuration, LockFencing],
        /// Rules: S-40.
        a_dead_letter_s_lock_is_renewed_too [LockDuration, DeadLetterReason];
    LockFencing:
        /// Rules: S-54.
        a_complete_after_the_lock_fails [LockDuration],
        /// Rules: S-54.
        no_settlement_after_the_lock_has_an_effect [LockDuration, DeadLetterReason, Deferral],
        /// Rules: S-54.
        the_old_lock_does_not_settle_the_new_delivery [LockDuration],
        /// Rules: S-54.
        the_old_lock_is_not_released_or_renewed [LockDuration, LockRenewal, Release],
        /// Rules: S-54.
        a_failed_settlement_does_not_count_twice [LockDuration],
        /// Rules: S-56.
        after_a_failed_complete_the_message_is_redelivered [LockDuration],
        /// Rules: M-10.
        each_delivery_has_a_lock_token_of_its_own;
    SettleElsewhere:
        /// Rules: S-64.
        a_message_is_completed_when_its_receiver_is_gone,
        /// Rules: S-64.
        a_message_is_dead_lettered_elsewhere [DeadLetterReason],
        /// Rules: S-64.
        a_message_is_abandoned_elsewhere,
        /// Rules: S-64.
        a_lost_lock_is_lost_elsewhere_too [LockDuration, LockFencing];
}

const LOST: &[ErrorKind] = &[ErrorKind::MessageLockLost];

async fn a_lock_ends_when_its_time_is_over(bench: &Bench<'_>) -> Verdict {
    let queue = bench.locking_queue().await?;
    bench.send_bodies(&queue, ["a"]).await?;
    let _held = bench.receive(&queue).await?;
    bench.wait_almost(bench.lock()).await;
    bench.nothing(&queue).await?;
    bench.wait(bench.margin() * 2).await;
    ensure_eq!(text(&bench.receive(&queue).await?.message), "a");
    Ok(())
}

async fn a_lock_runs_from_the_receive(bench: &Bench<'_>) -> Verdict {
    let queue = bench.locking_queue().await?;
    bench.send_bodies(&queue, ["a"]).await?;
    bench.wait(bench.lock()).await;
    let expected = bench.in_future(bench.lock()).await;
    let held = bench.receive(&queue).await?;
    let until = facts(&held.message)?.locked_until.unwrap_or_default();
    ensure!(bench.is_near(until, expected), "the lock holds until {until:?}, and should until {expected:?}");
    ensure_eq!(held.lease.lock_duration(), Some(bench.lock()));
    bench.wait_almost(bench.lock()).await;
    Ok(held.complete().await?)
}

async fn each_entity_has_its_own_lock_duration(bench: &Bench<'_>) -> Verdict {
    let short = bench.locking_queue().await?;
    let spec = QueueSettings::default().lock_duration(bench.lock() * 2);
    let long = bench.queue(spec).await?;
    bench.send_bodies(&short, ["a"]).await?;
    bench.send_bodies(&long, ["b"]).await?;
    let _held = (bench.receive(&short).await?, bench.receive(&long).await?);
    bench.wait_past(bench.lock()).await;
    ensure_eq!(text(&bench.receive(&short).await?.message), "a");
    bench.nothing(&long).await?;
    bench.wait_past(bench.lock()).await;
    ensure_eq!(text(&bench.receive(&long).await?.message), "b");
    Ok(())
}

async fn each_message_of_one_receive_has_its_own_lock(bench: &Bench<'_>) -> Verdict {
    let queue = bench.locking_queue().await?;
    bench.send_bodies(&queue, ["a", "b", "c"]).await?;
    let mut held = bench.receive_each(&queue, 3).await?;
    bench.wait(bench.lock() / 2).await;
    held.remove(1).complete().await?;
    bench.wait_past(bench.lock() / 2).await;
    bench.expect(&queue, ["a", "c"]).await?;
    Ok(())
}

async fn a_lock_ends_while_a_receiver_waits(bench: &Bench<'_>) -> Verdict {
    let queue = bench.locking_queue().await?;
    bench.send_bodies(&queue, ["a"]).await?;
    let _held = bench.receive(&queue).await?;
    let waiting = bench.receive_in_task(bench.receiver(&queue).await?).within(bench.lock() + bench.margin());
    let (_other, delivery) = waiting.received().await?;
    Ok(delivery.complete().await?)
}

async fn a_renewed_lock_holds_from_then_on(bench: &Bench<'_>) -> Verdict {
    let queue = bench.locking_queue().await?;
    bench.send_bodies(&queue, ["a"]).await?;
    let held = bench.receive(&queue).await?;
    bench.wait(bench.lock() / 2).await;
    let expected = bench.in_future(bench.lock()).await;
    let until = held.lease.renew().await?;
    ensure!(bench.is_near(until, expected), "the lock holds until {until:?}, and should until {expected:?}");
    bench.wait_past(bench.lock() / 2).await;
    bench.nothing(&queue).await?;
    Ok(held.complete().await?)
}

async fn a_renewed_lock_ends_too(bench: &Bench<'_>) -> Verdict {
    let queue = bench.locking_queue().await?;
    bench.send_bodies(&queue, ["a"]).await?;
    let held = bench.receive(&queue).await?;
    bench.wait(bench.lock() / 4).await;
    held.lease.renew().await?;
    // Not added to the old end.
    bench.wait_past(bench.lock()).await;
    ensure_eq!(text(&bench.receive(&queue).await?.message), "a");
    drop(held);
    Ok(())
}

async fn a_lock_can_be_renewed_again_and_again(bench: &Bench<'_>) -> Verdict {
    let queue = bench.short_locking_queue().await?;
    bench.send_bodies(&queue, ["a"]).await?;
    let held = bench.receive(&queue).await?;
    for _ in 0..4 {
        bench.wait(bench.lock() / 2).await;
        held.lease.renew().await?;
    }
    bench.nothing(&queue).await?;
    held.abandon().await?;
    // However long it was held, it failed once.
    ensure_eq!(facts(&bench.take(&queue).await?)?.delivery_count, 2);
    Ok(())
}

async fn a_lock_that_is_lost_is_not_renewed(bench: &Bench<'_>) -> Verdict {
    let queue = bench.locking_queue().await?;
    bench.send_bodies(&queue, ["a"]).await?;
    let held = bench.receive(&queue).await?;
    bench.wait_past(bench.lock()).await;
    refused(held.lease.renew().await, LOST)?;
    ensure_eq!(text(&bench.receive(&queue).await?.message), "a");
    Ok(())
}

async fn a_dead_letter_s_lock_is_renewed_too(bench: &Bench<'_>) -> Verdict {
    let queue = bench.locking_queue().await?;
    bench.send_bodies(&queue, ["a"]).await?;
    bench.receive(&queue).await?.dead_letter(DeadLetter::new(DeadLetterReason::HandlerPermanent, "")).await?;
    let held = bench.receive_dead(&queue).await?;
    bench.wait(bench.lock() / 2).await;
    held.lease.renew().await?;
    bench.wait_past(bench.lock() / 2).await;
    bench.nothing(&queue.dead_letter()).await?;
    Ok(held.complete().await?)
}

/// Returns a delivery of the only message whose lock has run out.
async fn stale(bench: &Bench<'_>, queue: &EntityPath) -> Result<Delivery<DynLease>, Failure> {
    bench.send_bodies(queue, ["a"]).await?;
    let held = bench.receive(queue).await?;
    bench.wait_past(bench.lock()).await;
    Ok(held)
}

async fn a_complete_after_the_lock_fails(bench: &Bench<'_>) -> Verdict {
    let queue = bench.locking_queue().await?;
    let error = stale(bench, &queue).await?.complete().await.err();
    ensure!(error.is_some_and(|error| error.is_lock_lost()), "the settlement did not fail as a lost lock");
    bench.expect(&queue, ["a"]).await?;
    Ok(())
}

async fn no_settlement_after_the_lock_has_an_effect(bench: &Bench<'_>) -> Verdict {
    let dead = Disposition::dead_letter(DeadLetterReason::HandlerPermanent, "late");
    for disposition in [Disposition::Complete, Disposition::ABANDON, dead, Disposition::DEFER] {
        let queue = bench.locking_queue().await?;
        let held = stale(bench, &queue).await?;
        refused(held.settle(disposition).await, LOST)?;
        let again = bench.take(&queue).await?;
        ensure_eq!(facts(&again)?.delivery_count, 2);
        bench.gone(&queue).await?;
    }
    Ok(())
}

async fn the_old_lock_does_not_settle_the_new_delivery(bench: &Bench<'_>) -> Verdict {
    let queue = bench.locking_queue().await?;
    let old = stale(bench, &queue).await?;
    let new = bench.receive(&queue).await?;
    refused(old.complete().await, LOST)?;
    bench.nothing(&queue).await?;
    new.complete().await?;
    bench.gone(&queue).await
}

async fn the_old_lock_is_not_released_or_renewed(bench: &Bench<'_>) -> Verdict {
    let queue = bench.locking_queue().await?;
    let old = stale(bench, &queue).await?;
    let new = bench.receive(&queue).await?;
    refused(old.lease.renew().await, LOST)?;
    refused(old.lease.release().await, LOST)?;
    bench.nothing(&queue).await?;
    Ok(new.complete().await?)
}

async fn a_failed_settlement_does_not_count_twice(bench: &Bench<'_>) -> Verdict {
    let queue = bench.locking_queue().await?;
    let held = stale(bench, &queue).await?;
    refused(held.abandon().await, LOST)?;
    ensure_eq!(facts(&bench.take(&queue).await?)?.delivery_count, 2);
    Ok(())
}

async fn after_a_failed_complete_the_message_is_redelivered(bench: &Bench<'_>) -> Verdict {
    let queue = bench.locking_queue().await?;
    let held = stale(bench, &queue).await?;
    let (id, old) = (held.message.message_id().map(String::from), number(&held.message)?);
    refused(held.complete().await, LOST)?;
    let again = bench.take(&queue).await?;
    ensure_eq!(again.message_id().map(String::from), id);
    ensure_eq!(number(&again)?, old);
    Ok(())
}

/// Only if the transport shows it to the application.
async fn each_delivery_has_a_lock_token_of_its_own(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a", "b"]).await?;
    let held = bench.receive_each(&queue, 2).await?;
    let tokens: Vec<_> = held.iter().filter_map(|delivery| delivery.lease.lock_token()).collect();
    ensure!(tokens.is_empty() || (tokens.len() == 2 && tokens[0] != tokens[1]), "the tokens are {tokens:?}");
    for delivery in held {
        delivery.abandon().await?;
    }
    let again = bench.receive(&queue).await?;
    ensure!(again.lease.lock_token().is_none_or(|token| !tokens.contains(&token)), "a token was used again");
    Ok(())
}

/// Returns a delivery whose receiver is dropped.
async fn orphan(bench: &Bench<'_>, queue: &EntityPath) -> Result<DynLease, Failure> {
    bench.send_bodies(queue, ["a"]).await?;
    let mut receiver = bench.receiver(queue).await?;
    Ok(bench.receive_by(&mut receiver).await?.lease)
}

async fn a_message_is_completed_when_its_receiver_is_gone(bench: &Bench<'_>) -> Verdict {
    let queue = bench.short_locking_queue().await?;
    let lease = orphan(bench, &queue).await?;
    bench.backend.settle_elsewhere(lease, Disposition::Complete).await?;
    bench.wait_past(bench.lock()).await;
    bench.gone(&queue).await
}

async fn a_message_is_dead_lettered_elsewhere(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    let lease = orphan(bench, &queue).await?;
    let dead = Disposition::dead_letter(DeadLetterReason::Application("Elsewhere".into()), "far");
    bench.backend.settle_elsewhere(lease, dead).await?;
    ensure_eq!(why(&bench.take(&queue.dead_letter()).await?), ("Elsewhere", "far"));
    bench.nothing(&queue).await
}

async fn a_message_is_abandoned_elsewhere(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    let lease = orphan(bench, &queue).await?;
    bench.backend.settle_elsewhere(lease, Disposition::ABANDON).await?;
    ensure_eq!(facts(&bench.take(&queue).await?)?.delivery_count, 2);
    Ok(())
}

async fn a_lost_lock_is_lost_elsewhere_too(bench: &Bench<'_>) -> Verdict {
    let queue = bench.locking_queue().await?;
    let lease = orphan(bench, &queue).await?;
    bench.wait_past(bench.lock()).await;
    refused(bench.backend.settle_elsewhere(lease, Disposition::Complete).await, LOST)?;
    bench.expect(&queue, ["a"]).await?;
    Ok(())
}
