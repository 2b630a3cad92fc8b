//! K-23: messages that the transport itself gives back for a delay.

use std::sync::Arc;

use consign::{
    consumer::Consumer,
    middleware::retry::{Backoff, DelayPolicy, RetryHistory, RetryLayer},
    transport::Level,
};
use tokio::{sync::Notify, time::timeout};
use tower::{BoxError, Layer, service_fn};

use super::{prelude::*, sessions};
use crate::NoCall;

cases! {
    DelayedRetry:
        /// Rules: K-212.
        a_release_for_a_delay_does_not_count,
        /// Rules: K-212.
        an_abandon_for_a_delay_counts,
        /// Rules: K-212.
        the_last_delivery_is_not_delayed [MaxDeliveryCount, DeadLetterReason],
        /// Rules: K-212.
        a_message_of_a_session_is_not_delayed [Sessions],
        /// Rules: K-212.
        a_consumer_leaves_the_delay_of_an_abandon_to_the_transport,
        /// Rules: Y-211.
        a_consumer_leaves_the_delay_of_a_retry_to_the_transport;
}

const DELAY: Duration = Duration::from_secs(5);

/// What the lease answers to a delay. A transport that delays messages natively must do it by its leases, and another one may.
fn delayed<T, L>(bench: &Bench<'_>, answer: Result<T, L>) -> Result<T, Failure> {
    match answer {
        Ok(settle) => Ok(settle),
        Err(_) if is_native(bench) => Err(Failure::behaviour("the lease cannot delay its message")),
        Err(_) => detail(Err(NoCall::new("its leases have no delays"))),
    }
}

fn is_native(bench: &Bench<'_>) -> bool {
    bench.capabilities().level(Capability::DelayedRetry) == Level::Native
}

/// The message, which must come after the delay, and not before.
async fn comes_after(bench: &Bench<'_>, queue: &EntityPath) -> Result<Message, Failure> {
    bench.wait_almost(DELAY).await;
    bench.nothing(queue).await?;
    bench.wait(bench.margin() * 2).await;
    bench.take(queue).await
}

async fn a_release_for_a_delay_does_not_count(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a"]).await?;
    delayed(bench, bench.receive(&queue).await?.lease.release_after(DELAY))?.await?;
    ensure_eq!(facts(&comes_after(bench, &queue).await?)?.delivery_count, 1);
    Ok(())
}

async fn an_abandon_for_a_delay_counts(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a"]).await?;
    delayed(bench, bench.receive(&queue).await?.abandon_after(DELAY))?.await?;
    ensure_eq!(facts(&comes_after(bench, &queue).await?)?.delivery_count, 2);
    Ok(())
}

async fn the_last_delivery_is_not_delayed(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default().max_delivery_count(2)).await?;
    bench.send_bodies(&queue, ["a"]).await?;
    for delay in [Duration::from_millis(1), Duration::from_secs(3_600)] {
        delayed(bench, bench.receive(&queue).await?.abandon_after(delay))?.await?;
    }
    ensure_eq!(why(&bench.take(&queue.dead_letter()).await?).0, "MaxDeliveryCountExceeded");
    Ok(())
}

/// Those behind it would pass it.
async fn a_message_of_a_session_is_not_delayed(bench: &Bench<'_>) -> Verdict {
    let queue = sessions::queue(bench).await?;
    sessions::send(bench, &queue, [("s", "a"), ("s", "b")]).await?;
    let mut session = sessions::accept(bench, &queue, "s").await?;
    let Err(delivery) = bench.receive_by(&mut session).await?.abandon_after(DELAY) else {
        return Err(Failure::behaviour("an abandoned message of a session is delayed"));
    };
    let Err(lease) = delivery.lease.release_after(DELAY) else {
        return Err(Failure::behaviour("a released message of a session is delayed"));
    };
    // Nothing has happened to it.
    lease.settle(Disposition::Complete).await?;
    ensure_eq!(bench.drain_by(&mut session).await?, ["b"]);
    Ok(session.close().await?)
}

/// The consumer is shut down while the message waits. One that it had kept would come at once.
async fn a_consumer_leaves_the_delay_of_an_abandon_to_the_transport(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a"]).await?;
    delayed(bench, bench.receive(&queue).await?.abandon_after(Duration::from_millis(1)))?.await?;
    let called = Arc::new(Notify::new());
    let calls = Arc::clone(&called);
    let handler = service_fn(move |_: Message| {
        calls.notify_one();
        async { Ok::<_, BoxError>(Disposition::abandon_after(DELAY)) }
    });
    let consumer = Consumer::new(bench.receiver(&queue).await?, handler);
    let stats = consumer.run_until(timeout(bench.arrival(), called.notified())).await;
    let stats = stats.map_err(|error| Failure::behaviour(error.to_string()))?;
    ensure_eq!((stats.handled(), stats.abandoned(), stats.held()), (1, 1, 0));
    ensure_eq!(facts(&comes_after(bench, &queue).await?)?.delivery_count, 3);
    bench.gone(&queue).await
}

/// The consumer is shut down while the message waits. One that it had kept would come at once.
async fn a_consumer_leaves_the_delay_of_a_retry_to_the_transport(bench: &Bench<'_>) -> Verdict {
    if !is_native(bench) {
        return detail(Err(NoCall::new("a retry is a scheduled copy")));
    }
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send(&queue, Message::builder().message_id("m-1").build("a")?).await?;
    let later = DelayPolicy::new(bench.transport.sender(&queue).await?, Backoff::fixed(DELAY))?;
    let called = Arc::new(Notify::new());
    let calls = Arc::clone(&called);
    let handler = service_fn(move |_: Message| {
        calls.notify_one();
        async { Err::<Disposition, BoxError>("away".into()) }
    });
    let consumer = Consumer::new(bench.receiver(&queue).await?, RetryLayer::new().delayed(later).layer(handler));
    let stats = consumer.run_until(timeout(bench.arrival(), called.notified())).await;
    let stats = stats.map_err(unexpected)?;
    ensure_eq!((stats.handled(), stats.abandoned(), stats.completed(), stats.held()), (1, 1, 0, 0));
    let again = comes_after(bench, &queue).await?;
    ensure_eq!((again.message_id(), facts(&again)?.delivery_count), (Some("m-1"), 2));
    ensure_eq!(RetryHistory::of(again.properties()).map(|history| history.failures), Some(1));
    bench.gone(&queue).await
}
