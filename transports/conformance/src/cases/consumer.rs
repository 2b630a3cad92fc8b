//! K-09 and K-12: what a consumer does after a panic of its handler, with a body that cannot be decoded, and with dead letters that
//! fail again.

use std::{sync::Arc, time::Duration};

use consign::{
    codecs::Codecs,
    consumer::{Consumer, Stats},
    message::{MessageBody, PropertyValue},
    routing::{Body, Router},
};
use parking_lot::Mutex;
use tokio::time::sleep;
use tower::{BoxError, Service, service_fn};

use super::prelude::*;

cases! {
    DeliveryCount:
        /// Rules: S-71.
        a_panic_of_a_handler_counts;
    DeadLetterIntact:
        /// Rules: P-43, S-98, S-105.
        a_body_that_cannot_be_decoded_is_dead_lettered_unchanged [DeadLetterReason],
        /// Rules: J-234, P-47.
        a_dead_letter_that_cannot_be_decoded_again_stays [DeadLetterReason],
        /// Rules: J-234.
        a_dead_letter_whose_handler_fails_again_stays [DeadLetterReason];
}

async fn a_panic_of_a_handler_counts(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a"]).await?;
    let counts = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&counts);
    let handler = move |message: Message| {
        let count = facts(&message).map_or(0, |facts| facts.delivery_count);
        seen.lock().push(count);
        async move {
            assert!(count > 1, "a panic of the first delivery, which the case is about");
            Disposition::Complete
        }
    };
    let consumer = Consumer::new(bench.receiver(&queue).await?, handler);
    let stats = consumer.stats();
    let done = bench.until(move || stats.completed() >= 1);
    consumer.run_until(done).await.map_err(unexpected)?;
    ensure_eq!(*counts.lock(), [1, 2]);
    bench.gone(&queue).await
}

async fn a_body_that_cannot_be_decoded_is_dead_lettered_unchanged(bench: &Bench<'_>) -> Verdict {
    const BODY: &[u8] = b"{\"id\": \xff\x00";
    let queue = bench.queue(QueueSettings::default()).await?;
    let message = Message::builder().content_type("application/json").message_id("order-1").property("tenant", 7_i64);
    bench.send(&queue, message.build(BODY)?).await?;
    bench.send(&queue, Message::builder().content_type("application/json").build("1")?).await?;
    let router = Router::new(Codecs::json()).fallback(async |Body(_): Body<u64>| {}).build().map_err(unexpected)?;
    let consumer = Consumer::new(bench.receiver(&queue).await?, router);
    let stats = consumer.stats();
    let done = bench.until(move || stats.handled() >= 2);
    let stats = consumer.run_until(done).await.map_err(unexpected)?;
    ensure_eq!((stats.completed(), stats.dead_lettered(), stats.abandoned()), (1, 1, 0));
    bench.nothing(&queue).await?;

    let dead = bench.receive_dead(&queue).await?;
    ensure_eq!(dead.message.dead_letter_reason(), Some("DeserializationFailed"));
    ensure!(*dead.message.body() == MessageBody::from(BODY), "the body has become {:?}", dead.message.body());
    ensure_eq!(dead.message.content_type(), Some("application/json"));
    ensure_eq!(dead.message.message_id(), Some("order-1"));
    ensure_eq!(dead.message.application_properties().get("tenant"), Some(&PropertyValue::from(7_i64)));
    dead.complete().await?;
    bench.gone(&queue).await
}

/// A dead letter that fails again does so at once, after 1 s and after 2 s more: twice in this time.
const WATCHED: Duration = Duration::from_millis(2_500);
/// Until the third time.
const REST: Duration = Duration::from_millis(1_500);

/// Runs a consumer on two dead letters, of which the first fails and the second is completed. Returns the counts, and the first one
/// if it was undeliverable.
async fn fail_again<S>(bench: &Bench<'_>, queue: &EntityPath, service: S) -> Result<(Stats, Option<Message>), Failure>
where
    S: Service<Message, Response = Disposition> + Clone,
    S::Error: Into<BoxError>,
{
    for body in ["no JSON", "1"] {
        bench.send(queue, Message::builder().message_id(body).content_type("application/json").build(body)?).await?;
        let first = DeadLetter::new(DeadLetterReason::Application("First".into()), "");
        bench.receive(queue).await?.dead_letter(first).await?;
    }
    let sunk = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&sunk);
    let consumer = Consumer::new(bench.receiver(&queue.dead_letter()).await?, service)
        .concurrency(1)
        .on_undeliverable(move |undeliverable| sink.lock().push(undeliverable.message));
    let stats = consumer.run_until(sleep(WATCHED)).await.map_err(unexpected)?;
    ensure_eq!(stats.completed(), 1, "{stats:?}");
    ensure!((2..=3).contains(&stats.handled()), "the dead letter is redelivered too often: {stats:?}");
    ensure_eq!((stats.dead_lettered(), stats.settle_failed(), stats.lock_lost()), (0, 0, 0));
    sleep(REST).await;
    let mut sunk = std::mem::take(&mut *sunk.lock());
    ensure!(sunk.len() <= 1, "the message is undeliverable {} times", sunk.len());
    Ok((stats, sunk.pop()))
}

/// Checks that it is as it was dead-lettered first.
fn is_unchanged(dead: &Message) -> Verdict {
    ensure_eq!((text(dead), why(dead).0), ("no JSON".to_owned(), "First"));
    Ok(())
}

async fn a_dead_letter_that_cannot_be_decoded_again_stays(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    let router = Router::new(Codecs::json()).fallback(async |Body(_): Body<u64>| {}).build().map_err(unexpected)?;
    let (stats, sunk) = fail_again(bench, &queue, router).await?;
    let Some(sunk) = sunk else { return Err(Failure::behaviour("the sink did not get the message")) };
    ensure_eq!(stats.undeliverable(), 1);
    if stats.deferred() == 1 {
        let deferred = bench.fetch(&queue.dead_letter(), number(&sunk)?).await?;
        is_unchanged(&deferred.message)?;
        deferred.complete().await?;
    } else {
        is_unchanged(&bench.take(&queue.dead_letter()).await?)?;
    }
    bench.gone(&queue).await
}

async fn a_dead_letter_whose_handler_fails_again_stays(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    let handler = service_fn(async |message: Message| match message.message_id() {
        Some("1") => Ok(Disposition::Complete),
        _ => Err::<_, BoxError>("failed again".into()),
    });
    let (stats, _) = fail_again(bench, &queue, handler).await?;
    ensure_eq!((stats.undeliverable(), stats.deferred()), (0, 0));
    is_unchanged(&bench.take(&queue.dead_letter()).await?)?;
    bench.gone(&queue).await
}
