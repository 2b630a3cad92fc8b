//! K-09 and K-12: what a consumer does after a panic of its handler, and with a body that cannot be decoded.

use std::sync::Arc;

use consign::{
    codecs::Codecs,
    consumer::Consumer,
    message::{MessageBody, PropertyValue},
    routing::{Body, Router},
};
use parking_lot::Mutex;

use super::prelude::*;

cases! {
    DeliveryCount:
        /// Rules: S-71.
        a_panic_of_a_handler_counts;
    DeadLetterIntact:
        /// Rules: P-43, S-98, S-105.
        a_body_that_cannot_be_decoded_is_dead_lettered_unchanged [DeadLetterReason];
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
