//! Stacks around a plain rdkafka client.
use std::time::Duration;

use consign::middleware::encode::{EncodeLayer, OutboundMessage};
use consign::middleware::{catch_panic::CatchPanicLayer, dead_letter::DeadLetterLayer};
use consign::middleware::{delivery_limit::DeliveryLimitLayer, message_id::MessageIdLayer};
use consign::routing::{Body, Router};
use consign::transport::{SendError, SendExt};
use consign::{Disposition, Message, codecs::Codecs, settlement::Transient};
use consign_convert_rdkafka::{Record, Settlement, confirmed, from_rdkafka, settlement, to_rdkafka};
use rdkafka::consumer::{CommitMode, Consumer, StreamConsumer};
use rdkafka::error::KafkaError;
use rdkafka::producer::FutureProducer;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt, service_fn};

async fn priced(Body((sku, cents)): Body<(String, u64)>) -> Result<(), Transient> {
    if cents == 0 { Err(Transient::new(format!("{sku} has no price"))) } else { Ok(()) }
}

/// Produces, and waits for the delivery report.
async fn produce(producer: &FutureProducer, topic: &str, record: &Record) -> Result<(), SendError> {
    confirmed(producer.send(record.to(topic), Duration::ZERO).await)
}

pub(crate) async fn place(producer: &FutureProducer, topic: &str, order: (&str, u64)) -> Result<(), SendError> {
    let client = service_fn(async |message: Message| produce(producer, topic, &to_rdkafka(&message)?).await);
    let layers = ServiceBuilder::new().layer(MessageIdLayer::new()).layer(EncodeLayer::new(Codecs::json()));
    layers.service(client).send(OutboundMessage::new(order)).await
}

/// Produces, again after an error that may pass.
async fn produce_again(producer: &FutureProducer, topic: &str, record: &Record) -> Result<(), SendError> {
    let mut pause = Duration::from_millis(100);
    loop {
        match produce(producer, topic, record).await {
            Err(error) if error.is_retryable() => eprintln!("a record is produced again: {error}"),
            produced => return produced,
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(10));
    }
}

/// `consumer` subscribes to its topics and to `retry`, which no other group reads.
pub(crate) async fn consume(
    consumer: &StreamConsumer,
    producer: &FutureProducer,
    [retry, dead]: [&str; 2],
) -> Result<(), BoxError> {
    let layers = ServiceBuilder::new().layer(DeadLetterLayer::new()).layer(DeliveryLimitLayer::new(3));
    let mut stack = layers.layer(CatchPanicLayer::new()).service(Router::new(Codecs::json()).fallback(priced).build()?);
    loop {
        let record = match consumer.recv().await {
            Ok(record) => record,
            Err(fatal @ KafkaError::MessageConsumptionFatal(_)) => return Err(fatal.into()),
            // The client goes on by itself, for example with the next address of the cluster.
            Err(error) => {
                eprintln!("{error}");
                continue;
            }
        };
        let disposition = match from_rdkafka(&record) {
            Ok(message) => stack.ready().await?.call(message).await.unwrap_or(Disposition::ABANDON),
            Err(unreadable) => unreadable.into(),
        };
        match settlement(&record, disposition) {
            Settlement::Complete => {}
            // The copy counts the deliveries, which Kafka does not.
            Settlement::Abandon(copy) => produce_again(producer, retry, &copy).await?,
            Settlement::DeadLetter(copy) => produce_again(producer, dead, &copy).await?,
        }
        consumer.commit_message(&record, CommitMode::Async)?;
    }
}
