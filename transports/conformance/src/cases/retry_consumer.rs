//! K-23 and K-24: a consumer whose handler fails, with delayed retries.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use consign::{
    consumer::Consumer,
    middleware::{
        dedup::{DedupLayer, MemoryStore},
        retry::{Backoff, DelayPolicy, RetryHistory, RetryLayer},
    },
    time::ManualClock,
};
use tower::{BoxError, Layer, Service, service_fn};

use super::prelude::*;

cases! {
    DelayedRetry:
        /// Rules: Y-14.
        after_the_last_delivery_a_message_is_a_dead_letter [DeadLetterReason],
        /// Rules: Y-19, K-211.
        a_retry_is_known_by_its_first_id;
    DuplicateDetection:
        /// Rules: Y-16.
        a_retry_is_no_duplicate [DelayedRetry];
}

const DELAY: Duration = Duration::from_secs(5);

/// Runs a consumer with delayed retries, two deliveries at most, until its handler has answered once.
async fn deliver<S>(bench: &Bench<'_>, queue: &EntityPath, handler: S) -> Verdict
where
    S: Service<Message, Response = Disposition, Error = BoxError, Future: Send> + Clone + Send + 'static,
{
    let sender = bench.transport.sender(queue).await?;
    let clock = ManualClock::new(bench.backend.now().await);
    let later = DelayPolicy::new(sender, Backoff::fixed(DELAY))?.deliveries(2).clock(clock);
    let consumer = Consumer::new(bench.receiver(queue).await?, RetryLayer::new().delayed(later).layer(handler));
    let stats = consumer.stats();
    let done = bench.until(move || stats.handled() >= 1);
    consumer.run_until(done).await.map(drop).map_err(unexpected)
}

/// Sends a message whose first delivery has failed, and waits until the second one is due.
async fn failed_once<S>(bench: &Bench<'_>, queue: &EntityPath, handler: S) -> Verdict
where
    S: Service<Message, Response = Disposition, Error = BoxError, Future: Send> + Clone + Send + 'static,
{
    bench.send(queue, Message::builder().message_id("order-1").build("a")?).await?;
    deliver(bench, queue, handler).await?;
    bench.nothing(queue).await?;
    bench.wait_past(DELAY).await;
    Ok(())
}

async fn fails(_: Message) -> Result<Disposition, BoxError> {
    Err("away".into())
}

async fn after_the_last_delivery_a_message_is_a_dead_letter(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    failed_once(bench, &queue, service_fn(fails)).await?;
    deliver(bench, &queue, service_fn(fails)).await?;
    let dead = bench.take(&queue.dead_letter()).await?;
    ensure_eq!((why(&dead).0, dead.original_message_id()), ("RetriesExhausted", Some("order-1")));
    ensure!(why(&dead).1.contains("away"), "the description is {:?}", why(&dead).1);
    ensure_eq!(RetryHistory::of(dead.properties()).map(|history| history.failures), Some(2));
    bench.gone(&queue).await
}

async fn a_retry_is_known_by_its_first_id(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    let dedup = DedupLayer::new(MemoryStore::new(Duration::from_secs(3_600)), queue.as_str());
    let (seen, calls) = (dedup.stats(), Arc::new(AtomicUsize::new(0)));
    let handler = dedup.layer({
        let calls = Arc::clone(&calls);
        service_fn(move |_: Message| {
            let is_first = calls.fetch_add(1, Ordering::Relaxed) == 0;
            async move { if is_first { Err(BoxError::from("away")) } else { Ok(Disposition::Complete) } }
        })
    });
    failed_once(bench, &queue, handler.clone()).await?;
    deliver(bench, &queue, handler.clone()).await?;
    // The producer sends its message again.
    bench.send(&queue, Message::builder().message_id("order-1").build("a")?).await?;
    deliver(bench, &queue, handler).await?;
    ensure_eq!((calls.load(Ordering::Relaxed), seen.duplicates()), (2, 1));
    bench.gone(&queue).await
}

async fn a_retry_is_no_duplicate(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default().duplicate_detection(Duration::from_secs(60))).await?;
    failed_once(bench, &queue, service_fn(fails)).await?;
    let again = bench.take(&queue).await?;
    ensure_eq!((text(&again).as_str(), again.original_message_id()), ("a", Some("order-1")));
    bench.gone(&queue).await
}
