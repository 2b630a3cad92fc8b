//! Stacks around a plain lapin client: `cargo run -p consign-rabbitmq --example wrap_lapin -- QUEUE DEAD-LETTER-EXCHANGE`.
use std::time::Duration;

use consign::middleware::delivery_limit::DeliveryLimitLayer;
use consign::middleware::encode::{EncodeLayer, OutboundMessage};
use consign::middleware::{catch_panic::CatchPanicLayer, dead_letter::DeadLetterLayer, message_id::MessageIdLayer};
use consign::routing::{Body, Router};
use consign::settlement::{Changes, DeadLetter, DeadLetterReason::HeaderSizeExceeded, Transient};
use consign::transport::{SendError, SendExt};
use consign::{Disposition, Message, codecs::Codecs};
use consign_rabbitmq::{convert, lapin};
use futures_util::TryStreamExt;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicNackOptions, BasicPublishOptions, BasicQosOptions};
use lapin::{BasicProperties, Channel, types::FieldTable};
use tower::{BoxError, Service, ServiceBuilder, ServiceExt, service_fn};

async fn priced(Body((sku, cents)): Body<(String, u64)>) -> Result<(), Transient> {
    if cents == 0 { Err(Transient::new(format!("{sku} has no price"))) } else { Ok(()) }
}

/// Publishes, and waits until RabbitMQ has stored the message in a queue.
async fn publish(channel: &Channel, to: [&str; 2], message: (BasicProperties, bytes::Bytes)) -> Result<(), SendError> {
    let (options, (properties, body)) = (BasicPublishOptions { mandatory: true, ..Default::default() }, message);
    let sent = async { channel.basic_publish(to[0].into(), to[1].into(), options, &body, properties).await?.await };
    convert::confirmed(sent.await)
}

pub(crate) async fn place(channel: &Channel, queue: &str, order: (&str, u64)) -> Result<(), SendError> {
    let client = service_fn(async |message: Message| publish(channel, ["", queue], convert::to_lapin(&message)?).await);
    let layers = ServiceBuilder::new().layer(MessageIdLayer::new()).layer(EncodeLayer::new(Codecs::json()));
    layers.service(client).send(OutboundMessage::new(order)).await
}

pub(crate) async fn consume(channel: &Channel, queue: &str, dead_letters: &str) -> Result<(), BoxError> {
    let layers = ServiceBuilder::new().layer(DeadLetterLayer::new()).layer(DeliveryLimitLayer::new(3));
    let mut stack = layers.layer(CatchPanicLayer::new()).service(Router::new(Codecs::json()).fallback(priced).build()?);
    channel.basic_qos(32, BasicQosOptions::default()).await?;
    let options = BasicConsumeOptions::default();
    let mut deliveries = channel.basic_consume(queue.into(), "".into(), options, FieldTable::default()).await?;
    while let Some(delivery) = deliveries.try_next().await? {
        let disposition = match convert::from_delivery(&delivery) {
            Ok(message) => stack.ready().await?.call(message).await,
            Err(unreadable) => Ok(unreadable.into()),
        };
        let dead_letter = async |why| {
            let to = [dead_letters, convert::routing_key(&delivery)];
            publish(channel, to, convert::dead_letter(&delivery, why)?).await
        };
        let published = match disposition {
            Ok(Disposition::Complete) => Ok(()),
            Ok(Disposition::DeadLetter(why)) => dead_letter(*why).await,
            // Only quorum queues count deliveries. The copy counts on each kind of queue.
            _ => match convert::abandoned(&delivery, Changes::NONE) {
                Ok(copy) => publish(channel, ["", queue], copy).await,
                Err(error) => dead_letter(DeadLetter::new(HeaderSizeExceeded, error.to_string())).await,
            },
        };
        if let Err(error) = published {
            // Without a queue for it, the message would be redelivered without an end.
            if !error.is_retryable() {
                return Err(error.into());
            }
            eprintln!("the message is redelivered: {error}");
            tokio::time::sleep(Duration::from_millis(100)).await;
            delivery.nack(BasicNackOptions { requeue: true, ..Default::default() }).await?;
        } else {
            delivery.ack(BasicAckOptions::default()).await?;
        }
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let address = std::env::var("CONSIGN_RABBITMQ").unwrap_or("amqp://guest:guest@127.0.0.1:5672/%2f".into());
    let [queue, exchange] = [1, 2].map(|index| std::env::args().nth(index).unwrap_or_default());
    let connection = lapin::Connection::connect(&address, lapin::ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    channel.confirm_select(lapin::options::ConfirmSelectOptions::default()).await?;
    place(&channel, &queue, ("pen", 120)).await?;
    consume(&channel, &queue, &exchange).await
}
