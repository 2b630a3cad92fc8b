//! K-04: a consumer with `DedupLayer` handles each message once.

use std::sync::Arc;

use consign::{
    consumer::{Consumer, Stats},
    middleware::dedup::{DedupLayer, MemoryStore},
};
use parking_lot::Mutex;
use tower::{BoxError, Layer, Service, ServiceExt, service_fn};

use super::prelude::*;

cases! {
    PeekLock:
        /// Rules: W-01.
        a_message_that_was_sent_twice_is_handled_once,
        /// Rules: W-05.
        a_message_whose_settlement_was_lost_is_not_handled_again,
        /// Rules: W-06.
        a_message_that_failed_is_handled_when_it_is_redelivered;
}

/// Longer than a case takes.
const WINDOW: Duration = Duration::from_secs(3_600);

/// The bodies of the messages that a handler has handled.
#[derive(Clone, Default)]
struct Handled(Arc<Mutex<Vec<String>>>);

impl Handled {
    fn push(&self, message: &Message) -> usize {
        let mut handled = self.0.lock();
        handled.push(text(message));
        handled.len()
    }

    fn bodies(&self) -> Vec<String> {
        self.0.lock().clone()
    }

    /// Returns a handler that completes all messages.
    fn handler(
        &self,
    ) -> impl Service<Message, Response = Disposition, Error = BoxError, Future: Send> + Clone + Send + 'static {
        let handled = self.clone();
        service_fn(move |message: Message| {
            handled.push(&message);
            async { Ok(Disposition::Complete) }
        })
    }
}

fn layer(queue: &EntityPath) -> DedupLayer<MemoryStore> {
    DedupLayer::new(MemoryStore::new(WINDOW), queue.as_str())
}

/// Runs a consumer until `completed` messages are completed.
async fn consume<S>(bench: &Bench<'_>, queue: &EntityPath, stack: S, completed: u64) -> Result<Stats, Failure>
where
    S: Service<Message, Response = Disposition, Future: Send> + Clone + Send + 'static,
    S::Error: Into<BoxError> + Send,
{
    let consumer = Consumer::new(bench.receiver(queue).await?, stack);
    let stats = consumer.stats();
    let done = bench.until(move || stats.completed() >= completed);
    consumer.run_until(done).await.map_err(unexpected)
}

async fn a_message_that_was_sent_twice_is_handled_once(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    for (id, body) in [("order-1", "a"), ("order-1", "a"), ("order-2", "b"), ("order-1", "a")] {
        bench.send(&queue, Message::builder().message_id(id).build(body)?).await?;
    }
    let (handled, dedup) = (Handled::default(), layer(&queue));
    let seen = dedup.stats();
    consume(bench, &queue, dedup.layer(handled.handler()), 4).await?;
    let mut bodies = handled.bodies();
    bodies.sort();
    ensure_eq!(bodies, ["a", "b"]);
    ensure_eq!((seen.handled(), seen.duplicates()), (2, 2));
    bench.gone(&queue).await
}

async fn a_message_whose_settlement_was_lost_is_not_handled_again(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send(&queue, Message::builder().message_id("order-1").build("a")?).await?;
    let (handled, dedup) = (Handled::default(), layer(&queue));
    let stack = dedup.layer(handled.handler());
    // A process that dies after the handler, and before the settlement.
    let delivery = bench.receive(&queue).await?;
    ensure_eq!(stack.clone().oneshot(delivery.message.clone()).await.map_err(unexpected)?, Disposition::Complete);
    delivery.abandon().await?;
    consume(bench, &queue, stack, 1).await?;
    ensure_eq!(handled.bodies(), ["a"]);
    bench.gone(&queue).await
}

async fn a_message_that_failed_is_handled_when_it_is_redelivered(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send(&queue, Message::builder().message_id("order-1").build("a")?).await?;
    let (handled, dedup) = (Handled::default(), layer(&queue));
    let handler = {
        let handled = handled.clone();
        service_fn(move |message: Message| {
            let is_first = handled.push(&message) == 1;
            async move { if is_first { Err(BoxError::from("away")) } else { Ok(Disposition::Complete) } }
        })
    };
    consume(bench, &queue, dedup.layer(handler), 1).await?;
    ensure_eq!(handled.bodies(), ["a", "a"]);
    bench.gone(&queue).await
}
