//! K-21, K-22, K-23 and K-37: how a message is redelivered.

use consign::{
    middleware::retry::{Backoff, DelayPolicy, RetryHistory, RetryLayer},
    time::ManualClock,
};
use tower::{BoxError, Layer, ServiceExt, service_fn};

use super::prelude::*;

cases! {
    AbandonInPlace:
        /// Rules: S-52.
        an_abandoned_message_comes_before_later_ones,
        /// Rules: S-52.
        several_come_back_in_their_order,
        /// Rules: S-52.
        a_message_whose_lock_ends_keeps_its_place [LockDuration],
        /// Rules: S-52.
        new_messages_stay_behind;
    Release:
        /// Rules: S-36.
        a_released_message_is_there_at_once,
        /// Rules: S-36.
        a_released_message_keeps_its_place,
        /// Rules: S-36.
        a_release_continues_when_its_future_is_dropped,
        /// Rules: S-36.
        release_changes_nothing,
        /// Rules: S-36.
        a_deferred_message_is_deferred_again [Deferral],
        /// Rules: S-36.
        a_lost_lock_is_not_released [LockDuration, LockFencing];
    DelayedRetry:
        /// Rules: S-61.
        a_retry_comes_after_its_delay,
        /// Rules: S-61.
        a_retry_has_the_same_content,
        /// Rules: S-61.
        a_retry_comes_once [LockDuration],
        /// Rules: K-211.
        each_failure_waits_and_is_in_the_history;
    PeekLock:
        /// Rules: S-28, S-29.
        a_lost_receiver_s_message_is_redelivered_at_the_latest_when_its_lock_ends;
    ReleaseOnDisconnect:
        /// Rules: S-29.
        a_lost_receiver_s_messages_come_back,
        /// Rules: S-73.
        a_lost_receiver_does_not_count,
        /// Rules: S-29.
        others_keep_what_they_have,
        /// Rules: S-29.
        they_come_back_in_their_order;
}

async fn an_abandoned_message_comes_before_later_ones(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a", "b", "c"]).await?;
    bench.receive(&queue).await?.abandon().await?;
    bench.expect(&queue, ["a", "b", "c"]).await?;
    Ok(())
}

async fn several_come_back_in_their_order(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a", "b", "c", "d"]).await?;
    let mut held = bench.receive_each(&queue, 3).await?;
    // In another order than that of the deliveries.
    for index in [1, 0, 0] {
        held.remove(index).abandon().await?;
    }
    bench.expect(&queue, ["a", "b", "c", "d"]).await?;
    Ok(())
}

async fn a_message_whose_lock_ends_keeps_its_place(bench: &Bench<'_>) -> Verdict {
    let queue = bench.locking_queue().await?;
    bench.send_bodies(&queue, ["a", "b", "c"]).await?;
    let _held = bench.receive_each(&queue, 2).await?;
    bench.wait_past(bench.lock()).await;
    bench.expect(&queue, ["a", "b", "c"]).await?;
    Ok(())
}

async fn new_messages_stay_behind(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a"]).await?;
    let held = bench.receive(&queue).await?;
    bench.send_bodies(&queue, ["b"]).await?;
    held.abandon().await?;
    bench.send_bodies(&queue, ["c"]).await?;
    bench.expect(&queue, ["a", "b", "c"]).await?;
    Ok(())
}

async fn a_released_message_is_there_at_once(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a"]).await?;
    let mut other = bench.receiver(&queue).await?;
    bench.receive(&queue).await?.lease.release().await?;
    let delivery = bench.receive_by(&mut other).await?;
    ensure_eq!(facts(&delivery.message)?.delivery_count, 1);
    Ok(delivery.complete().await?)
}

async fn a_released_message_keeps_its_place(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a", "b", "c"]).await?;
    let mut held = bench.receive_each(&queue, 2).await?;
    for index in [1, 0] {
        held.remove(index).lease.release().await?;
    }
    bench.expect(&queue, ["a", "b", "c"]).await?;
    Ok(())
}

async fn a_release_continues_when_its_future_is_dropped(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a"]).await?;
    // The refusal of a transport that cannot release is in the future.
    bench.receive(&queue).await?.lease.release().await?;
    drop(bench.receive(&queue).await?.lease.release());
    let again = bench.receive(&queue).await?;
    ensure_eq!((text(&again.message).as_str(), facts(&again.message)?.delivery_count), ("a", 1));
    Ok(again.complete().await?)
}

async fn release_changes_nothing(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send(&queue, Message::builder().message_id("m-1").property("n", 7_i64).build("a")?).await?;
    let first = bench.receive(&queue).await?;
    let (number, enqueued) = (number(&first.message)?, facts(&first.message)?.enqueued_time);
    first.lease.release().await?;
    let again = bench.take(&queue).await?;
    ensure_eq!((facts(&again)?.sequence_number, facts(&again)?.enqueued_time), (number, enqueued));
    ensure_eq!((again.message_id(), again.application_properties().len()), (Some("m-1"), 1));
    Ok(())
}

async fn a_deferred_message_is_deferred_again(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a"]).await?;
    let delivery = bench.receive(&queue).await?;
    let number = number(&delivery.message)?;
    delivery.defer().await?;
    bench.fetch(&queue, number).await?.lease.release().await?;
    bench.nothing(&queue).await?;
    let fetched = bench.fetch(&queue, number).await?;
    ensure_eq!(facts(&fetched.message)?.delivery_count, 1);
    Ok(fetched.complete().await?)
}

async fn a_lost_lock_is_not_released(bench: &Bench<'_>) -> Verdict {
    let queue = bench.locking_queue().await?;
    bench.send_bodies(&queue, ["a"]).await?;
    let held = bench.receive(&queue).await?;
    bench.wait_past(bench.lock()).await;
    refused(held.lease.release().await, &[ErrorKind::MessageLockLost])?;
    ensure_eq!(facts(&bench.take(&queue).await?)?.delivery_count, 2);
    Ok(())
}

const DELAY: Duration = Duration::from_secs(5);

/// Fails a delivery under a policy of delayed retries, and settles it by the answer of the stack.
async fn retry(bench: &Bench<'_>, queue: &EntityPath, delivery: Delivery<DynLease>) -> Verdict {
    let sender = bench.transport.sender(queue).await?;
    let clock = ManualClock::new(bench.backend.now().await);
    let later = DelayPolicy::new(sender, Backoff::fixed(DELAY))?.clock(clock);
    let fails = service_fn(async |_: Message| Err::<Disposition, BoxError>("on purpose".into()));
    let answer = RetryLayer::new().delayed(later).layer(fails).oneshot(delivery.message.clone()).await;
    let disposition = answer.map_err(|error| Failure::behaviour(format!("it is not delivered later: {error}")))?;
    ensure!(matches!(disposition, Disposition::Complete | Disposition::Abandon(_)), "{disposition:?}");
    Ok(delivery.settle(disposition).await?)
}

async fn a_retry_comes_after_its_delay(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a", "b"]).await?;
    retry(bench, &queue, bench.receive(&queue).await?).await?;
    bench.expect(&queue, ["b"]).await?;
    bench.wait_almost(DELAY).await;
    bench.nothing(&queue).await?;
    bench.wait(bench.margin() * 2).await;
    bench.expect(&queue, ["a"]).await?;
    Ok(())
}

async fn a_retry_has_the_same_content(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    let message = Message::builder().content_type("text/plain").subject("s").correlation_id("c").property("n", 7_i64);
    bench.send(&queue, message.build("a body")?).await?;
    retry(bench, &queue, bench.receive(&queue).await?).await?;
    bench.wait_past(DELAY).await;
    let again = bench.take(&queue).await?;
    ensure_eq!((text(&again).as_str(), again.content_type()), ("a body", Some("text/plain")));
    ensure_eq!((again.subject(), again.correlation_id()), (Some("s"), Some("c")));
    ensure_eq!(again.application_properties().get("n"), Some(&PropertyValue::I64(7)));
    Ok(())
}

async fn a_retry_comes_once(bench: &Bench<'_>) -> Verdict {
    let queue = bench.locking_queue().await?;
    bench.send_bodies(&queue, ["a"]).await?;
    retry(bench, &queue, bench.receive(&queue).await?).await?;
    bench.wait_past(DELAY + bench.lock()).await;
    bench.expect(&queue, ["a"]).await?;
    bench.wait_past(DELAY + bench.lock()).await;
    bench.gone(&queue).await
}

async fn each_failure_waits_and_is_in_the_history(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a"]).await?;
    for failures in 1..=2 {
        retry(bench, &queue, bench.receive(&queue).await?).await?;
        bench.nothing(&queue).await?;
        bench.wait_past(DELAY).await;
        let again = bench.receive(&queue).await?;
        let history = RetryHistory::of(again.message.properties());
        ensure_eq!(
            history.map(|history| (history.failures, history.last_error)),
            Some((failures, "on purpose".into()))
        );
        if failures == 2 {
            return Ok(again.complete().await?);
        }
        again.lease.release().await?;
    }
    Ok(())
}

/// Receives `count` messages by a receiver of its own, and breaks it.
async fn lose(bench: &Bench<'_>, queue: &EntityPath, count: usize) -> Verdict {
    let mut separate = bench.backend.separate_receiver(queue).await?;
    let mut held = Vec::new();
    while held.len() < count {
        held.push(bench.receive_by(separate.receiver()).await?);
    }
    Ok(separate.disconnect(held).await?)
}

/// Whether the broker counts the delivery, and how long it holds the lock, is not tested here.
async fn a_lost_receiver_s_message_is_redelivered_at_the_latest_when_its_lock_ends(bench: &Bench<'_>) -> Verdict {
    let queue = bench.short_locking_queue().await?;
    bench.send_bodies(&queue, ["a"]).await?;
    let mut separate = detail(bench.backend.separate_receiver(&queue).await)?;
    let held = bench.receive_by(separate.receiver()).await?;
    let lock = held.lease.lock_duration();
    separate.disconnect(vec![held]).await?;
    bench.wait_past(lock.unwrap_or_default()).await;
    bench.expect(&queue, ["a"]).await?;
    bench.gone(&queue).await
}

/// Receives all available messages, which must be these bodies in this order, uncounted.
async fn drain_uncounted<const N: usize>(bench: &Bench<'_>, queue: &EntityPath, bodies: [&str; N]) -> Verdict {
    let messages = bench.drain_messages(N, queue).await?;
    ensure_eq!(texts(&messages), bodies);
    for message in &messages {
        ensure_eq!(facts(message)?.delivery_count, 1, "the delivery count of {:?}", text(message));
    }
    Ok(())
}

async fn a_lost_receiver_s_messages_come_back(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a"]).await?;
    lose(bench, &queue, 1).await?;
    drain_uncounted(bench, &queue, ["a"]).await?;
    bench.gone(&queue).await
}

async fn a_lost_receiver_does_not_count(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a"]).await?;
    for _ in 0..3 {
        lose(bench, &queue, 1).await?;
    }
    drain_uncounted(bench, &queue, ["a"]).await
}

async fn others_keep_what_they_have(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a", "b"]).await?;
    let held = bench.receive(&queue).await?;
    lose(bench, &queue, 1).await?;
    drain_uncounted(bench, &queue, ["b"]).await?;
    Ok(held.complete().await?)
}

async fn they_come_back_in_their_order(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a", "b", "c", "d"]).await?;
    lose(bench, &queue, 3).await?;
    drain_uncounted(bench, &queue, ["a", "b", "c", "d"]).await
}
