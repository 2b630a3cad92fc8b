//! Stacks around a plain async-nats client:
//! `cargo run -p consign-nats --example wrap_async_nats -- URL STREAM CONSUMER SUBJECT DEAD`.
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::consumer::{PullConsumer, pull::MessagesErrorKind};
use async_nats::jetstream::{AckKind, Context, Message as Delivery};
use consign::middleware::encode::{EncodeLayer, OutboundMessage};
use consign::middleware::{catch_panic::CatchPanicLayer, dead_letter::DeadLetterLayer};
use consign::middleware::{delivery_limit::DeliveryLimitLayer, message_id::MessageIdLayer};
use consign::routing::{Body, Router};
use consign::settlement::{DeadLetter, Transient};
use consign::transport::{ErrorKind, SendError, SendExt};
use consign::{Disposition, Message, codecs::Codecs};
use consign_nats::{async_nats, convert};
use futures_util::TryStreamExt;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt, service_fn};

async fn priced(Body((sku, cents)): Body<(String, u64)>) -> Result<(), Transient> {
    if cents == 0 { Err(Transient::new(format!("{sku} has no price"))) } else { Ok(()) }
}

/// Publishes, and waits until a stream has stored the message.
async fn publish(jetstream: &Context, subject: &str, message: (HeaderMap, bytes::Bytes)) -> Result<(), SendError> {
    let (headers, payload) = message;
    convert::confirmed(jetstream.publish_with_headers(subject.to_owned(), headers, payload).await).await
}

pub(crate) async fn place(jetstream: &Context, subject: &str, order: (&str, u64)) -> Result<(), SendError> {
    let client = service_fn(async |message: Message| publish(jetstream, subject, convert::to_nats(&message)?).await);
    let layers = ServiceBuilder::new().layer(MessageIdLayer::new()).layer(EncodeLayer::new(Codecs::json()));
    layers.service(client).send(OutboundMessage::new(order)).await
}

/// Publishes the dead letter of a delivery, again after an error that may pass. The delivery stays locked meanwhile.
async fn bury(jetstream: &Context, dead: &str, delivery: &Delivery, why: DeadLetter) -> Result<(), SendError> {
    let copy = convert::dead_letter_of(delivery, why)?;
    let mut pause = Duration::from_millis(100);
    loop {
        match publish(jetstream, dead, copy.clone()).await {
            Err(error) if error.is_retryable() => eprintln!("the dead letter is published again: {error}"),
            published => return published,
        }
        // If it cannot be sent, the message is delivered again.
        let _ = delivery.ack_with(AckKind::Progress).await;
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(10));
    }
}

pub(crate) async fn consume(jetstream: &Context, consumer: &PullConsumer, dead: &str) -> Result<(), BoxError> {
    // One delivery less than the server allows, which is left for a dead letter that could not be published. Without
    // `max_deliver` the layer's default applies.
    let allowed = u32::try_from(consumer.cached_info().config.max_deliver - 1);
    let limit = allowed.map_or(DeliveryLimitLayer::DEFAULT, |limit| limit.max(1));
    let layers = ServiceBuilder::new().layer(DeadLetterLayer::new()).layer(DeliveryLimitLayer::new(limit));
    let router = Router::new(Codecs::json()).fallback(priced).build()?;
    let mut stack = layers.layer(CatchPanicLayer::new()).service(router);
    // The acknowledgement wait of a message runs while it waits in the client.
    let mut deliveries = consumer.stream().max_messages_per_batch(1).messages().await?;
    loop {
        let delivery = match deliveries.try_next().await {
            Ok(delivery) => delivery.ok_or("the deliveries have ended")?,
            Err(error) if error.kind() == MessagesErrorKind::ConsumerDeleted => return Err(error.into()),
            Err(error) => {
                eprintln!("the client pulls again: {error}");
                tokio::time::sleep(Duration::from_secs(1)).await;
                continue;
            }
        };
        let disposition = match convert::from_jetstream(&delivery) {
            Ok(message) => stack.ready().await?.call(message).await,
            Err(unreadable) => Ok(unreadable.into()),
        };
        match disposition {
            Ok(Disposition::Complete) => delivery.ack().await?,
            Ok(Disposition::DeadLetter(why)) => match bury(jetstream, dead, &delivery, *why).await {
                Ok(()) => delivery.ack_with(AckKind::Term).await?,
                // It stays in the stream, until more bytes are permitted or someone removes it.
                Err(error) if error.kind() == ErrorKind::MessageSizeExceeded => {
                    eprintln!("a message cannot be dead-lettered: {error}");
                    delivery.ack_with(AckKind::Nak(Some(Duration::from_secs(60)))).await?;
                }
                Err(error) => return Err(error.into()),
            },
            _ => delivery.ack_with(AckKind::Nak(Some(Duration::from_millis(100)))).await?,
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let server = arguments.first().map(|url| url.parse::<async_nats::ServerAddr>());
    let (Some(Ok(server)), [_, stream, name, subject, dead]) = (server, &arguments[..]) else {
        eprintln!("usage: wrap_async_nats URL STREAM CONSUMER SUBJECT DEAD, with a URL like nats://127.0.0.1:4222");
        std::process::exit(2);
    };
    let jetstream = async_nats::jetstream::new(async_nats::connect(server).await?);
    let consumer = jetstream.get_consumer_from_stream(name, stream).await?;
    place(&jetstream, subject, ("pen", 120)).await?;
    consume(&jetstream, &consumer, dead).await
}
