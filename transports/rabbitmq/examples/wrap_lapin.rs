//! Stacks around a plain lapin client: `cargo run -p consign-rabbitmq --example wrap_lapin -- URL QUEUE EXCHANGE`.
use consign::middleware::delivery_limit::DeliveryLimitLayer;
use consign::middleware::encode::{EncodeLayer, OutboundMessage};
use consign::middleware::{catch_panic::CatchPanicLayer, dead_letter::DeadLetterLayer, message_id::MessageIdLayer};
use consign::routing::{Body, Router};
use consign::transport::{SendError, SendExt};
use consign::{Disposition, Message, codecs::Codecs, settlement::Transient};
use consign_rabbitmq::{convert, convert::Settlement, lapin};
use futures_util::TryStreamExt;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions};
use lapin::{BasicProperties, Channel, types::FieldTable};
use std::time::Duration;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt, service_fn};

async fn priced(Body((sku, cents)): Body<(String, u64)>) -> Result<(), Transient> {
    if cents == 0 { Err(Transient::new(format!("{sku} has no price"))) } else { Ok(()) }
}

/// Publishes, and waits until RabbitMQ has stored the message in a queue.
async fn publish(channel: &Channel, to: [&str; 2], message: (BasicProperties, bytes::Bytes)) -> Result<(), SendError> {
    let (options, (properties, body)) = (BasicPublishOptions { mandatory: true, ..Default::default() }, message);
    convert::confirmed(channel.basic_publish(to[0].into(), to[1].into(), options, &body, properties).await).await
}

pub(crate) async fn place(channel: &Channel, queue: &str, order: (&str, u64)) -> Result<(), SendError> {
    let client = service_fn(async |message: Message| publish(channel, ["", queue], convert::to_lapin(&message)?).await);
    let layers = ServiceBuilder::new().layer(MessageIdLayer::new()).layer(EncodeLayer::new(Codecs::json()));
    layers.service(client).send(OutboundMessage::new(order)).await
}

/// Publishes a copy, again after a growing pause while RabbitMQ refuses it. The original stays unacknowledged: the limit of a
/// quorum queue would count each `nack`, and end with the loss of the message.
async fn replace(channel: &Channel, to: [&str; 2], copy: (BasicProperties, bytes::Bytes)) -> Result<(), SendError> {
    let mut pause = Duration::from_millis(100);
    loop {
        match publish(channel, to, copy.clone()).await {
            Err(error) if error.is_retryable() && channel.status().connected() => {
                eprintln!("the copy is published again in {pause:?}: {error}");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_secs(10));
            }
            // Ends the loop if no queue takes the copy, or if the channel has closed.
            published => return published,
        }
    }
}

pub(crate) async fn consume(channel: &Channel, queue: &str, exchange: &str) -> Result<(), BoxError> {
    // A quorum queue also counts the return of messages that were fetched, and not handled, when a consumer ended.
    let layers = ServiceBuilder::new().layer(DeadLetterLayer::new()).layer(DeliveryLimitLayer::new(20));
    let mut stack = layers.layer(CatchPanicLayer::new()).service(Router::new(Codecs::json()).fallback(priced).build()?);
    channel.basic_qos(32, BasicQosOptions::default()).await?;
    let options = BasicConsumeOptions::default();
    let mut deliveries = channel.basic_consume(queue.into(), "".into(), options, FieldTable::default()).await?;
    while let Some(delivery) = deliveries.try_next().await? {
        let disposition = match convert::from_delivery(&delivery) {
            Ok(message) => stack.ready().await?.call(message).await.unwrap_or(Disposition::ABANDON),
            Err(unreadable) => unreadable.into(),
        };
        match convert::settlement(&delivery, disposition)? {
            Settlement::DeadLetter(copy) => replace(channel, [exchange, convert::routing_key(&delivery)], copy).await?,
            // Only quorum queues count deliveries. The copy counts on each kind of queue.
            Settlement::Abandon(copy) => replace(channel, ["", queue], copy).await?,
            Settlement::Complete => {}
        }
        delivery.ack(BasicAckOptions::default()).await?;
    }
    // For example because the queue was deleted.
    Err("the subscription has ended".into())
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (Some(Ok(address)), [_, queue, exchange]) = (arguments.first().map(|url| url.parse()), &arguments[..]) else {
        eprintln!("usage: wrap_lapin URL QUEUE EXCHANGE, with a URL like amqp://guest:guest@127.0.0.1:5672/%2f");
        std::process::exit(2);
    };
    let connection = lapin::Connection::connect_uri(address, lapin::ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    channel.confirm_select(lapin::options::ConfirmSelectOptions::default()).await?;
    place(&channel, queue, ("pen", 120)).await?;
    consume(&channel, queue, exchange).await
}
