//! Stacks around a plain async-nats client:
//! `cargo run -p consign-nats --example wrap_async_nats -- URL STREAM CONSUMER SUBJECT DEAD`.
use std::time::Duration;

use async_nats::jetstream::{AckKind, Context, consumer::PullConsumer};
use consign::middleware::encode::{EncodeLayer, OutboundMessage};
use consign::middleware::{catch_panic::CatchPanicLayer, dead_letter::DeadLetterLayer};
use consign::middleware::{delivery_limit::DeliveryLimitLayer, message_id::MessageIdLayer};
use consign::routing::{Body, Router};
use consign::transport::{ErrorKind, SendError, SendExt};
use consign::{Disposition, Message, codecs::Codecs, settlement::Transient};
use consign_nats::{async_nats, convert};
use futures_util::TryStreamExt;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt, service_fn};

async fn priced(Body((sku, cents)): Body<(String, u64)>) -> Result<(), Transient> {
    if cents == 0 { Err(Transient::new(format!("{sku} has no price"))) } else { Ok(()) }
}

pub(crate) async fn place(jetstream: &Context, subject: &str, order: (&str, u64)) -> Result<(), SendError> {
    let client = service_fn(async |message: Message| {
        let (headers, payload) = convert::to_nats(&message)?;
        let sent = async { jetstream.publish_with_headers(subject.to_owned(), headers, payload).await?.await };
        let failed = |error| SendError::new(ErrorKind::CommunicationProblem).with_source(error);
        sent.await.map(drop).map_err(failed)
    });
    let layers = ServiceBuilder::new().layer(MessageIdLayer::new()).layer(EncodeLayer::new(Codecs::json()));
    layers.service(client).send(OutboundMessage::new(order)).await
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
    while let Some(delivery) = deliveries.try_next().await? {
        let disposition = match convert::from_jetstream(&delivery) {
            Ok(message) => stack.ready().await?.call(message).await,
            Err(unreadable) => Ok(unreadable.into()),
        };
        match disposition {
            Ok(Disposition::Complete) => delivery.ack().await?,
            Ok(Disposition::DeadLetter(why)) => {
                let (headers, payload) = convert::dead_letter_of(&delivery, *why)?;
                jetstream.publish_with_headers(dead.to_owned(), headers, payload).await?.await?;
                delivery.ack_with(AckKind::Term).await?;
            }
            _ => delivery.ack_with(AckKind::Nak(Some(Duration::from_millis(100)))).await?,
        }
    }
    Ok(())
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
