//! K-20: deferred messages.

use super::prelude::*;

cases! {
    Deferral:
        /// Rules: S-32, T-20.
        a_deferred_message_is_not_received,
        /// Rules: S-33, T-21.
        a_deferred_message_is_received_by_its_number,
        /// Rules: S-33.
        another_receiver_may_fetch_it,
        /// Rules: T-22.
        one_wrong_number_locks_none,
        /// Rules: T-22.
        an_active_message_is_not_fetched [Release],
        /// Rules: T-22.
        a_locked_message_is_not_fetched_again,
        /// Rules: T-22.
        a_fetched_message_is_gone_when_it_is_completed,
        /// Rules: S-35.
        an_abandoned_one_is_deferred_again,
        /// Rules: S-35.
        one_whose_lock_ends_is_deferred_again [LockDuration],
        /// Rules: S-61.
        a_deferred_message_takes_changes_along,
        /// Rules: T-23.
        a_deferred_message_is_not_received_otherwise [LockDuration],
        /// Rules: S-33.
        several_are_fetched_at_once,
        /// Rules: K-40.
        a_message_whose_deferral_is_refused_is_redelivered;
}

/// Sends messages and defers them; returns their numbers.
async fn deferred<const N: usize>(
    bench: &Bench<'_>,
    queue: &EntityPath,
    bodies: [&'static str; N],
) -> Result<Vec<SequenceNumber>, Failure> {
    bench.send_bodies(queue, bodies).await?;
    let mut numbers = Vec::new();
    for _ in bodies {
        let delivery = bench.receive(queue).await?;
        numbers.push(number(&delivery.message)?);
        delivery.defer().await?;
    }
    Ok(numbers)
}

const NOT_FOUND: &[ErrorKind] = &[ErrorKind::MessageNotFound];

async fn a_deferred_message_is_not_received(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    deferred(bench, &queue, ["a"]).await?;
    bench.send_bodies(&queue, ["b"]).await?;
    bench.expect(&queue, ["b"]).await?;
    bench.nothing(&queue.dead_letter()).await
}

async fn a_deferred_message_is_received_by_its_number(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    let numbers = deferred(bench, &queue, ["a", "b"]).await?;
    let fetched = bench.fetch(&queue, numbers[1]).await?;
    ensure_eq!((text(&fetched.message).as_str(), number(&fetched.message)?), ("b", numbers[1]));
    ensure!(fetched.lease.must_settle(), "a message that was fetched is not locked");
    fetched.complete().await?;
    let fetched = bench.fetch(&queue, numbers[0]).await?;
    ensure_eq!(text(&fetched.message), "a");
    Ok(fetched.complete().await?)
}

async fn another_receiver_may_fetch_it(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a"]).await?;
    let mut receiver = bench.receiver(&queue).await?;
    let delivery = bench.receive_by(&mut receiver).await?;
    let number = number(&delivery.message)?;
    delivery.defer().await?;
    drop(receiver);
    Ok(bench.fetch(&queue, number).await?.complete().await?)
}

async fn one_wrong_number_locks_none(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    let numbers = deferred(bench, &queue, ["a"]).await?;
    let both = [numbers[0], SequenceNumber::new(1_000_000)];
    refused(bench.transport.receive_deferred(&queue, &both).await, NOT_FOUND)?;
    Ok(bench.fetch(&queue, numbers[0]).await?.complete().await?)
}

async fn an_active_message_is_not_fetched(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a"]).await?;
    let delivery = bench.receive(&queue).await?;
    let number = number(&delivery.message)?;
    refused(bench.fetch(&queue, number).await, NOT_FOUND)?;
    delivery.lease.release().await?;
    refused(bench.fetch(&queue, number).await, NOT_FOUND)?;
    bench.expect(&queue, ["a"]).await?;
    Ok(())
}

async fn a_locked_message_is_not_fetched_again(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    let numbers = deferred(bench, &queue, ["a"]).await?;
    let held = bench.fetch(&queue, numbers[0]).await?;
    refused(bench.fetch(&queue, numbers[0]).await, NOT_FOUND)?;
    Ok(held.complete().await?)
}

async fn a_fetched_message_is_gone_when_it_is_completed(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    let numbers = deferred(bench, &queue, ["a"]).await?;
    bench.fetch(&queue, numbers[0]).await?.complete().await?;
    refused(bench.fetch(&queue, numbers[0]).await, NOT_FOUND)?;
    bench.gone(&queue).await
}

async fn an_abandoned_one_is_deferred_again(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    let numbers = deferred(bench, &queue, ["a"]).await?;
    bench.fetch(&queue, numbers[0]).await?.abandon().await?;
    bench.nothing(&queue).await?;
    Ok(bench.fetch(&queue, numbers[0]).await?.complete().await?)
}

async fn one_whose_lock_ends_is_deferred_again(bench: &Bench<'_>) -> Verdict {
    let queue = bench.locking_queue().await?;
    let numbers = deferred(bench, &queue, ["a"]).await?;
    let _held = bench.fetch(&queue, numbers[0]).await?;
    bench.wait_past(bench.lock()).await;
    bench.nothing(&queue).await?;
    Ok(bench.fetch(&queue, numbers[0]).await?.complete().await?)
}

async fn a_deferred_message_takes_changes_along(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send(&queue, Message::builder().property("kept", 1_i64).build("a")?).await?;
    let delivery = bench.receive(&queue).await?;
    let number = number(&delivery.message)?;
    let changes: ApplicationProperties = [("progress", "half")].into_iter().collect();
    delivery.settle(Disposition::Defer(changes.into())).await?;
    let fetched = bench.fetch(&queue, number).await?;
    let progress = fetched.message.application_properties().get("progress").and_then(PropertyValue::as_str);
    ensure_eq!(progress, Some("half"));
    ensure_eq!(fetched.message.application_properties().get("kept"), Some(&PropertyValue::I64(1)));
    Ok(fetched.complete().await?)
}

async fn a_deferred_message_is_not_received_otherwise(bench: &Bench<'_>) -> Verdict {
    let queue = bench.locking_queue().await?;
    let numbers = deferred(bench, &queue, ["a"]).await?;
    bench.wait_past(bench.lock() * 3).await;
    bench.gone(&queue).await?;
    Ok(bench.fetch(&queue, numbers[0]).await?.complete().await?)
}

async fn several_are_fetched_at_once(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    let numbers = deferred(bench, &queue, ["a", "b", "c"]).await?;
    let fetched = bench.transport.receive_deferred(&queue, &[numbers[0], numbers[2]]).await?;
    let mut bodies = texts(fetched.iter().map(|delivery| &delivery.message));
    bodies.sort();
    ensure_eq!(bodies, ["a", "c"]);
    for delivery in fetched {
        delivery.complete().await?;
    }
    Ok(bench.fetch(&queue, numbers[1]).await?.complete().await?)
}

/// A settlement that is refused ends the lock, at the latest when its time is over.
async fn a_message_whose_deferral_is_refused_is_redelivered(bench: &Bench<'_>) -> Verdict {
    let queue = bench.short_locking_queue().await?;
    bench.send_bodies(&queue, ["a"]).await?;
    let delivery = bench.receive(&queue).await?;
    let number = number(&delivery.message)?;
    let Err(refusal) = delivery.defer().await else {
        return Ok(bench.fetch(&queue, number).await?.complete().await?);
    };
    bench.wait_past(bench.lock()).await;
    bench.expect(&queue, ["a"]).await?;
    bench.gone(&queue).await?;
    Err(refusal.into())
}
