//! A consumer that handles each MessageId once: `cargo run -p consign-rabbitmq --example dedup`.
use std::time::Duration;

use consign::{
    Message,
    administration::{Administration, QueueSettings},
    codecs::Codecs,
    consumer::{Consumer, Settings},
    message::EntityPath,
    middleware::{
        dedup::{DedupLayer, MemoryStore},
        retry::{Backoff, DelayPolicy, RetryLayer},
    },
    pipeline::Pipeline,
    routing::{Body, Router},
    settlement::Transient,
    transport::Sender,
};
use consign_rabbitmq::RabbitMq;
use tower::BoxError;

async fn placed(Body(id): Body<u64>) -> Result<(), Transient> {
    println!("order {id}");
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let url = std::env::var("CONSIGN_RABBITMQ").unwrap_or("amqp://guest:guest@127.0.0.1:5672/%2f".into());
    let rabbit = RabbitMq::connect(&url).await?;
    let queue = format!("dedup-{}", std::process::id());
    let settings = QueueSettings::default().max_delivery_count(5);
    rabbit.declare(&EntityPath::new(&queue)?, &settings.into()).await?;

    // A producer that has sent again because it got no answer: the MessageId is the same.
    let sender = rabbit.sender(&queue)?;
    for _ in 0..2 {
        sender.send(Message::builder().message_id("order-17").subject("order.placed").build("17")?).await?;
    }

    // The ids are lost with the process. Several processes share those of `consign-store-postgres`.
    let dedup = DedupLayer::new(MemoryStore::new(Duration::from_secs(3_600)), "orders");
    let duplicates = dedup.stats();
    let delays = DelayPolicy::new(sender, Backoff::exponential(Duration::from_secs(1)))?.deliveries(5);
    let settings = Settings::new().concurrency(32).drain_timeout(Duration::from_secs(20));
    let pipeline = Pipeline::receiving("orders")
        .consumer(&settings)
        .layer(RetryLayer::new().immediate(1).delayed(delays))
        .layer(dedup)
        .router(Router::new(Codecs::json()).route("order.placed", placed).build()?)?;

    let consumer = Consumer::configured(rabbit.receiver(&queue)?, pipeline.into_service(), &settings)?;
    let stats = consumer.run_until(tokio::time::sleep(Duration::from_secs(2))).await?;
    println!("{} completed, {} of them duplicates", stats.completed(), duplicates.duplicates());
    rabbit.delete(&queue).await?;
    Ok(())
}
