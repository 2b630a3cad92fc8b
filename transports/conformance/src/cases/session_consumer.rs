//! K-27: `SessionConsumer` works on several sessions at once, and on each in order.

use std::{collections::BTreeMap, sync::Arc};

use consign::{
    consumer::{SessionConsumer, Stats},
    transport::Sessions,
};
use parking_lot::Mutex;
use tower::{BoxError, Service, service_fn};

use super::{
    prelude::*,
    sessions::{accept, queue, send},
};

cases! {
    NextSession:
        /// Rules: N-04, N-07.
        a_consumer_handles_the_messages_of_each_session_in_order [Sessions],
        /// Rules: N-07.
        a_consumer_handles_a_failed_message_before_those_behind_it [Sessions],
        /// Rules: N-09.
        a_consumer_that_stops_closes_its_sessions [Sessions];
}

/// The bodies that were handled, by session.
type Handled = Arc<Mutex<BTreeMap<String, Vec<String>>>>;

/// Records a message; returns how many of its session were recorded.
fn record(handled: &Handled, message: &Message) -> usize {
    let mut handled = handled.lock();
    let bodies = handled.entry(message.session_id().unwrap_or_default().to_owned()).or_default();
    bodies.push(text(message));
    bodies.len()
}

fn of(handled: &Handled, session: &str) -> Vec<String> {
    handled.lock().get(session).cloned().unwrap_or_default()
}

/// Runs a consumer of two sessions at once until `completed` messages are completed.
async fn consume<S>(bench: &Bench<'_>, queue: &EntityPath, handler: S, completed: u64) -> Result<Stats, Failure>
where
    S: Service<Message, Response = Disposition, Error = BoxError, Future: Send> + Clone + Send + 'static,
{
    let consumer = SessionConsumer::new(bench.transport.sessions(queue).await?, handler).concurrency(2);
    let stats = consumer.stats();
    let done = bench.until(move || stats.completed() >= completed);
    consumer.run_until(done).await.map_err(unexpected)
}

async fn a_consumer_handles_the_messages_of_each_session_in_order(bench: &Bench<'_>) -> Verdict {
    let queue = queue(bench).await?;
    let messages = [("one", "a"), ("two", "b"), ("three", "c"), ("one", "d"), ("two", "e"), ("one", "f")];
    send(bench, &queue, messages).await?;
    let handled = Handled::default();
    let handler = {
        let handled = Arc::clone(&handled);
        service_fn(move |message: Message| {
            record(&handled, &message);
            async { Ok(Disposition::Complete) }
        })
    };
    let stats = consume(bench, &queue, handler, 6).await?;
    ensure_eq!((stats.completed(), stats.abandoned()), (6, 0));
    ensure_eq!(of(&handled, "one"), ["a", "d", "f"]);
    ensure_eq!(of(&handled, "two"), ["b", "e"]);
    ensure_eq!(of(&handled, "three"), ["c"]);
    bench.nothing(&queue.dead_letter()).await
}

async fn a_consumer_handles_a_failed_message_before_those_behind_it(bench: &Bench<'_>) -> Verdict {
    let queue = queue(bench).await?;
    send(bench, &queue, [("one", "a"), ("one", "b")]).await?;
    let handled = Handled::default();
    let handler = {
        let handled = Arc::clone(&handled);
        service_fn(move |message: Message| {
            let is_first = record(&handled, &message) == 1;
            async move { if is_first { Err("away".into()) } else { Ok(Disposition::Complete) } }
        })
    };
    consume(bench, &queue, handler, 2).await?;
    ensure_eq!(of(&handled, "one"), ["a", "a", "b"]);
    Ok(())
}

async fn a_consumer_that_stops_closes_its_sessions(bench: &Bench<'_>) -> Verdict {
    let queue = queue(bench).await?;
    send(bench, &queue, [("one", "a")]).await?;
    consume(bench, &queue, service_fn(async |_: Message| Ok(Disposition::Complete)), 1).await?;
    send(bench, &queue, [("one", "b")]).await?;
    let mut session = accept(bench, &queue, "one").await?;
    let delivery = bench.receive_by(&mut session).await?;
    ensure_eq!((text(&delivery.message).as_str(), facts(&delivery.message)?.delivery_count), ("b", 1));
    delivery.complete().await?;
    Ok(session.close().await?)
}
