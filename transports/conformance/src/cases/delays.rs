//! K-23: messages that the transport itself gives back for a delay.

use std::sync::Arc;

use consign::{
    consumer::Consumer,
    middleware::retry::{Backoff, DelayedRetries, RetryHistory, RetryLayer},
    transport::{Capability, Level, ManageError, Session},
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
        /// Rules: Y-211.
        a_consumer_leaves_the_delay_of_a_retry_to_the_transport;
}

const DELAY: Duration = Duration::from_secs(5);

/// Ends the case on a transport that does not say that it delays messages itself: its leases need not.
fn is_native<B: Backend>(bench: &Bench<'_, B>) -> Verdict {
    if bench.backend.capabilities().level(Capability::DelayedRetry) == Level::Native {
        return Ok(());
    }
    detail(Err(ManageError::from(NoCall::new("its leases have no delays"))))
}

/// What the lease answers to a delay, which it must be able to do.
fn delayed<T, L>(answer: Result<T, L>) -> Result<T, Failure> {
    answer.map_err(|_| Failure::behaviour("the lease cannot delay its message"))
}

/// The message, which must come after the delay, and not before.
async fn comes_after<B: Backend>(bench: &Bench<'_, B>, queue: &EntityPath) -> Result<Message, Failure> {
    bench.wait_almost(DELAY).await;
    bench.nothing(queue).await?;
    bench.wait(bench.margin() * 2).await;
    bench.take(queue).await
}

async fn a_release_for_a_delay_does_not_count<B: Backend>(bench: &Bench<'_, B>) -> Verdict {
    is_native(bench)?;
    let queue = bench.queue(QueueSpec::default()).await?;
    bench.send_bodies(&queue, ["a"]).await?;
    delayed(bench.receive(&queue).await?.lease.release_after(DELAY))?.await?;
    ensure_eq!(facts(&comes_after(bench, &queue).await?)?.delivery_count, 1);
    Ok(())
}

async fn an_abandon_for_a_delay_counts<B: Backend>(bench: &Bench<'_, B>) -> Verdict {
    is_native(bench)?;
    let queue = bench.queue(QueueSpec::default()).await?;
    bench.send_bodies(&queue, ["a"]).await?;
    delayed(bench.receive(&queue).await?.abandon_after(DELAY))?.await?;
    ensure_eq!(facts(&comes_after(bench, &queue).await?)?.delivery_count, 2);
    Ok(())
}

async fn the_last_delivery_is_not_delayed<B: Backend>(bench: &Bench<'_, B>) -> Verdict {
    is_native(bench)?;
    let queue = bench.queue(QueueSpec { max_delivery_count: Some(2), ..QueueSpec::default() }).await?;
    bench.send_bodies(&queue, ["a"]).await?;
    for delay in [Duration::from_millis(1), Duration::from_secs(3_600)] {
        delayed(bench.receive(&queue).await?.abandon_after(delay))?.await?;
    }
    ensure_eq!(why(&bench.take(&queue.dead_letter()).await?).0, "MaxDeliveryCountExceeded");
    Ok(())
}

/// Those behind it would pass it.
async fn a_message_of_a_session_is_not_delayed<B: Backend>(bench: &Bench<'_, B>) -> Verdict {
    is_native(bench)?;
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
async fn a_consumer_leaves_the_delay_of_a_retry_to_the_transport<B: Backend>(bench: &Bench<'_, B>) -> Verdict {
    is_native(bench)?;
    let queue = bench.queue(QueueSpec::default()).await?;
    bench.send(&queue, Message::builder().message_id("m-1").build("a")?).await?;
    let later = DelayedRetries::new(bench.backend.sender(&queue).await?, Backoff::fixed(DELAY))?;
    let called = Arc::new(Notify::new());
    let calls = Arc::clone(&called);
    let handler = service_fn(move |_: Message| {
        calls.notify_one();
        async { Err::<Disposition, BoxError>("away".into()) }
    });
    let consumer = Consumer::new(bench.receiver(&queue).await?, RetryLayer::new().delayed(later).layer(handler));
    let stats = consumer.run_until(timeout(bench.arrival(), called.notified())).await;
    let stats = stats.map_err(|error| Failure::behaviour(error.to_string()))?;
    ensure_eq!((stats.handled(), stats.abandoned(), stats.completed(), stats.held()), (1, 1, 0, 0));
    let again = comes_after(bench, &queue).await?;
    ensure_eq!((again.message_id(), facts(&again)?.delivery_count), (Some("m-1"), 2));
    ensure_eq!(RetryHistory::of(again.properties()).map(|history| history.failures), Some(1));
    bench.gone(&queue).await
}
