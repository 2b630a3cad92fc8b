//! K-09 and K-10: which deliveries count as failed, and the maximum.

use super::prelude::*;

cases! {
    DeliveryCount:
        /// Rules: S-70.
        the_first_delivery_reads_1,
        /// Rules: S-71.
        each_abandon_counts,
        /// Rules: S-72.
        a_lock_that_ends_counts [LockDuration],
        /// Rules: S-74.
        a_release_does_not_count [Release],
        /// Rules: S-77.
        a_lock_that_ends_unseen_counts [LockDuration],
        /// Rules: S-78.
        a_peek_does_not_count [Peek],
        /// Rules: S-78.
        a_dead_letter_shows_the_failures_before_it [Peek, DeadLetterReason],
        /// Rules: S-79.
        a_deferral_does_not_count [Deferral],
        /// Rules: S-35.
        a_deferred_message_s_failure_counts [Deferral],
        /// Rules: S-80.
        in_the_dead_letter_queue_nothing_counts [DeadLetterReason],
        /// Rules: S-57.
        renewal_does_not_count [LockDuration, LockRenewal];
    MaxDeliveryCount:
        /// Rules: S-30.
        a_message_is_delivered_as_often_as_the_queue_says,
        /// Rules: S-30.
        one_delivery_may_be_all,
        /// Rules: S-30.
        a_lock_that_ends_may_be_the_last_delivery [LockDuration],
        /// Rules: S-30.
        released_messages_are_never_dead_lettered [Release],
        /// Rules: S-30.
        only_the_poisonous_message_goes,
        /// Rules: S-80.
        the_dead_letter_reads_its_deliveries,
        /// Rules: S-80.
        a_peek_shows_every_delivery_of_a_message_that_died_of_its_last_one [Peek, DeadLetterReason],
        /// Rules: S-90.
        the_dead_letter_says_so [DeadLetterReason];
}

/// Returns the delivery count of the next delivery. The message stays locked in `held`.
async fn next_count(bench: &Bench<'_>, queue: &EntityPath, held: &mut Vec<Delivery<DynLease>>) -> Result<u32, Failure> {
    held.push(bench.receive(queue).await?);
    facts(&held[held.len() - 1].message).map(|facts| facts.delivery_count)
}

async fn the_first_delivery_reads_1(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a", "b"]).await?;
    let messages = bench.drain_messages(2, &queue).await?;
    ensure_eq!(texts(&messages), ["a", "b"]);
    for message in &messages {
        ensure_eq!(facts(message)?.delivery_count, 1);
    }
    Ok(())
}

async fn each_abandon_counts(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a"]).await?;
    for count in 1..=5 {
        let delivery = bench.receive(&queue).await?;
        ensure_eq!(facts(&delivery.message)?.delivery_count, count);
        delivery.abandon().await?;
    }
    Ok(())
}

async fn a_lock_that_ends_counts(bench: &Bench<'_>) -> Verdict {
    let queue = bench.locking_queue().await?;
    bench.send_bodies(&queue, ["a"]).await?;
    let mut held = Vec::new();
    for count in 1..=3 {
        ensure_eq!(next_count(bench, &queue, &mut held).await?, count);
        bench.wait_past(bench.lock()).await;
    }
    Ok(())
}

async fn a_release_does_not_count(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a"]).await?;
    bench.receive(&queue).await?.lease.release().await?;
    bench.receive(&queue).await?.abandon().await?;
    bench.receive(&queue).await?.lease.release().await?;
    ensure_eq!(facts(&bench.take(&queue).await?)?.delivery_count, 2);
    Ok(())
}

async fn a_lock_that_ends_unseen_counts(bench: &Bench<'_>) -> Verdict {
    let queue = bench.locking_queue().await?;
    bench.send_bodies(&queue, ["a", "b"]).await?;
    let mut held = bench.receive_each(&queue, 2).await?;
    held.remove(0).complete().await?;
    bench.wait_past(bench.lock()).await;
    ensure_eq!(facts(&bench.take(&queue).await?)?.delivery_count, 2);
    Ok(())
}

async fn a_peek_does_not_count(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a"]).await?;
    for failures in 0..3 {
        for _ in 0..2 {
            let peeked = bench.peek(&queue).await?;
            ensure_eq!(peeked.len(), 1);
            ensure_eq!(facts(&peeked[0])?.delivery_count, failures, "a peek shows how many deliveries failed");
        }
        let delivery = bench.receive(&queue).await?;
        ensure_eq!(facts(&delivery.message)?.delivery_count, failures + 1);
        delivery.abandon().await?;
    }
    Ok(())
}

/// The delivery that dead-letters has not failed.
async fn a_dead_letter_shows_the_failures_before_it(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    for failures in 0..3 {
        bench.send_bodies(&queue, ["a"]).await?;
        for _ in 0..failures {
            bench.receive(&queue).await?.abandon().await?;
        }
        bench.receive(&queue).await?.dead_letter(DeadLetter::new(DeadLetterReason::HandlerPermanent, "")).await?;
        let peeked = bench.peek(&queue.dead_letter()).await?;
        ensure_eq!(peeked.len(), 1);
        ensure_eq!(facts(&peeked[0])?.delivery_count, failures, "a peek shows how many deliveries failed");
        bench.take(&queue.dead_letter()).await?;
    }
    Ok(())
}

async fn a_deferral_does_not_count(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a"]).await?;
    let delivery = bench.receive(&queue).await?;
    let number = number(&delivery.message)?;
    delivery.defer().await?;
    let fetched = bench.fetch(&queue, number).await?;
    ensure_eq!(facts(&fetched.message)?.delivery_count, 1);
    Ok(fetched.complete().await?)
}

async fn a_deferred_message_s_failure_counts(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a"]).await?;
    let delivery = bench.receive(&queue).await?;
    let number = number(&delivery.message)?;
    delivery.defer().await?;
    for count in 1..=3 {
        let fetched = bench.fetch(&queue, number).await?;
        ensure_eq!(facts(&fetched.message)?.delivery_count, count);
        fetched.abandon().await?;
    }
    Ok(())
}

async fn in_the_dead_letter_queue_nothing_counts(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a"]).await?;
    bench.receive(&queue).await?.dead_letter(DeadLetter::new(DeadLetterReason::HandlerPermanent, "")).await?;
    let first = bench.receive_dead(&queue).await?;
    let count = facts(&first.message)?.delivery_count;
    first.abandon().await?;
    for _ in 0..3 {
        let again = bench.receive_dead(&queue).await?;
        ensure_eq!(facts(&again.message)?.delivery_count, count);
        again.abandon().await?;
    }
    Ok(())
}

async fn renewal_does_not_count(bench: &Bench<'_>) -> Verdict {
    let queue = bench.locking_queue().await?;
    bench.send_bodies(&queue, ["a"]).await?;
    let held = bench.receive(&queue).await?;
    for _ in 0..3 {
        held.lease.renew().await?;
    }
    held.abandon().await?;
    ensure_eq!(facts(&bench.take(&queue).await?)?.delivery_count, 2);
    Ok(())
}

async fn dying_queue(bench: &Bench<'_>, deliveries: u32) -> Result<EntityPath, Failure> {
    bench.queue(QueueSettings::default().max_delivery_count(deliveries)).await
}

async fn a_message_is_delivered_as_often_as_the_queue_says(bench: &Bench<'_>) -> Verdict {
    let queue = dying_queue(bench, 3).await?;
    bench.send_bodies(&queue, ["a"]).await?;
    for _ in 0..3 {
        bench.nothing(&queue.dead_letter()).await?;
        bench.receive(&queue).await?.abandon().await?;
    }
    bench.nothing(&queue).await?;
    bench.expect(&queue.dead_letter(), ["a"]).await?;
    Ok(())
}

async fn one_delivery_may_be_all(bench: &Bench<'_>) -> Verdict {
    let queue = dying_queue(bench, 1).await?;
    bench.send_bodies(&queue, ["a", "b"]).await?;
    bench.receive(&queue).await?.abandon().await?;
    ensure_eq!(text(&bench.take(&queue).await?), "b");
    bench.expect(&queue.dead_letter(), ["a"]).await?;
    Ok(())
}

async fn a_lock_that_ends_may_be_the_last_delivery(bench: &Bench<'_>) -> Verdict {
    let spec = bench.locking().max_delivery_count(2);
    let queue = bench.queue(spec).await?;
    bench.send_bodies(&queue, ["a"]).await?;
    bench.receive(&queue).await?.abandon().await?;
    let _held = bench.receive(&queue).await?;
    bench.wait_past(bench.lock()).await;
    bench.expect(&queue.dead_letter(), ["a"]).await?;
    bench.nothing(&queue).await
}

async fn released_messages_are_never_dead_lettered(bench: &Bench<'_>) -> Verdict {
    let queue = dying_queue(bench, 1).await?;
    bench.send_bodies(&queue, ["a"]).await?;
    for _ in 0..3 {
        bench.receive(&queue).await?.lease.release().await?;
    }
    bench.nothing(&queue.dead_letter()).await?;
    bench.expect(&queue, ["a"]).await?;
    Ok(())
}

async fn only_the_poisonous_message_goes(bench: &Bench<'_>) -> Verdict {
    let queue = dying_queue(bench, 2).await?;
    bench.send_bodies(&queue, ["a", "poison", "b"]).await?;
    let (mut handled, mut deliveries) = (Vec::new(), 0);
    loop {
        // One of each of the others, and two of this.
        let wait = if deliveries < 4 { bench.arrival() } else { bench.receive_wait() };
        let Some(delivery) = bench.receive_within(wait, &queue, 1).await?.pop() else { break };
        deliveries += 1;
        let body = text(&delivery.message);
        if body == "poison" {
            delivery.abandon().await?;
        } else {
            handled.push(body);
            delivery.complete().await?;
        }
    }
    ensure_eq!(handled, ["a", "b"]);
    bench.expect(&queue.dead_letter(), ["poison"]).await?;
    Ok(())
}

async fn the_dead_letter_reads_its_deliveries(bench: &Bench<'_>) -> Verdict {
    let queue = dying_queue(bench, 2).await?;
    bench.send_bodies(&queue, ["a"]).await?;
    for _ in 0..2 {
        bench.receive(&queue).await?.abandon().await?;
    }
    let count = facts(&bench.take(&queue.dead_letter()).await?)?.delivery_count;
    ensure!(count >= 2, "the dead letter reads {count} deliveries of 2");
    Ok(())
}

/// Whether the broker counts, or a consumer dead-letters the last failed delivery itself.
async fn a_peek_shows_every_delivery_of_a_message_that_died_of_its_last_one(bench: &Bench<'_>) -> Verdict {
    for deliveries in [1, 3] {
        let queue = dying_queue(bench, deliveries).await?;
        for by_consumer in [false, true] {
            bench.send_bodies(&queue, ["a"]).await?;
            for _ in 1..deliveries {
                bench.receive(&queue).await?.abandon().await?;
            }
            let last = bench.receive(&queue).await?;
            if by_consumer {
                last.dead_letter(DeadLetter::max_delivery_count_exceeded(deliveries, Some("why"))).await?;
            } else {
                last.abandon().await?;
            }
            // A broker may need a while to dead-letter it.
            let dead = bench.receive_dead(&queue).await?;
            let peeked = bench.peek(&queue.dead_letter()).await?;
            ensure_eq!(peeked.len(), 1);
            ensure_eq!(facts(&peeked[0])?.delivery_count, deliveries, "a peek shows how many deliveries failed");
            dead.complete().await?;
        }
    }
    Ok(())
}

async fn the_dead_letter_says_so(bench: &Bench<'_>) -> Verdict {
    let queue = dying_queue(bench, 1).await?;
    bench.send_bodies(&queue, ["a"]).await?;
    bench.receive(&queue).await?.abandon().await?;
    let dead = bench.take(&queue.dead_letter()).await?;
    let description = "Message could not be consumed after 1 delivery attempts.";
    ensure_eq!(why(&dead), ("MaxDeliveryCountExceeded", description));
    ensure!(facts(&dead)?.dead_lettered, "the message does not say that it was dead-lettered");
    Ok(())
}
