//! Calls of other clients, many at once, to a responder of this library.

use consign::{
    Message,
    codecs::Codecs,
    consumer::Consumer,
    message::EntityPath,
    routing::Body,
    rpc::{Reply, ReplySenders, Responder},
    transport::{SendService, Sender},
};
use consign_nats::Nats;
use serde_json::json;
use tower::{BoxError, service_fn};

use crate::{
    environment::{Environment, unique},
    suite::same,
};

/// How many calls wait at once.
const CALLS: u64 = 100;

/// The answer to a call. Each is another, so that a reply to another call shows.
async fn square(Body(number): Body<u64>) -> Reply<u64> {
    Reply(number * number)
}

/// Calls by pika as RabbitMQ's tutorial makes them: with a CorrelationId and a ReplyTo, and without a MessageId, a
/// ContentType and a type.
pub(crate) async fn of_pika(env: &Environment, replies: &str) -> Result<(), BoxError> {
    let (queue, rabbit) = (unique(), env.rabbit.clone());
    env.rabbit.create_queue(&queue, consign_rabbitmq::QueueSettings::default()).await?;
    let responder = Responder::builder(move |to: &EntityPath| Ok(SendService::new(rabbit.sender(to.as_str())?)))
        .codecs(Codecs::json())
        .fallback(square)
        .build()?;
    let consumer = tokio::spawn(Consumer::new(env.rabbit.receiver(&queue)?, responder).run());
    let arguments = json!({ "url": env.rabbit_url, "queue": queue, "replies": replies, "calls": CALLS });
    let got = env.python("calls.py", "pika", arguments).await;
    consumer.abort();
    env.rabbit.delete(&queue).await?;
    same("the replies", &got?, &json!({ "matched": CALLS, "wrong": 0, "unknown": 0 }))
}

/// The senders of NATS are looked up, which takes a round trip.
fn by_nats(nats: &Nats) -> impl ReplySenders + use<> {
    let nats = nats.clone();
    move |to: &EntityPath| {
        let (nats, to) = (nats.clone(), to.clone());
        Ok(service_fn(move |reply: Message| {
            let (nats, to) = (nats.clone(), to.clone());
            async move { nats.sender(to.as_str()).await?.send(reply).await }
        }))
    }
}

/// Requests of core NATS, `nc.request`, without a header.
pub(crate) async fn of_nats(env: &Environment) -> Result<(), BoxError> {
    let subject = unique();
    let requests = env.nats.wrap_subscription(env.nats.client().subscribe(subject.clone()).await?);
    // The server knows of the subscription when it has answered.
    env.nats.client().flush().await?;
    let responder = Responder::builder(by_nats(&env.nats)).codecs(Codecs::json()).fallback(square).build()?;
    let consumer = tokio::spawn(Consumer::new(requests, responder).run());
    let arguments = json!({ "url": env.nats_url, "subject": subject, "calls": CALLS });
    let got = env.python("calls.py", "nats_request", arguments).await;
    consumer.abort();
    same("the replies", &got?, &json!({ "matched": CALLS, "wrong": 0, "unknown": 0 }))
}

/// Requests that a stream keeps, with the reply subject and an id in headers, for the server answers `nc.request` itself.
pub(crate) async fn of_jetstream(env: &Environment) -> Result<(), BoxError> {
    let queue = unique();
    env.nats.create_queue(&queue, consign_nats::QueueSettings::default()).await?;
    let responder = Responder::builder(by_nats(&env.nats)).codecs(Codecs::json()).fallback(square).build()?;
    let consumer = tokio::spawn(Consumer::new(env.nats.receiver(&queue).await?, responder).run());
    let arguments = json!({ "url": env.nats_url, "subject": format!("peers.{queue}.m"), "calls": CALLS });
    let got = env.python("calls.py", "jetstream", arguments).await;
    consumer.abort();
    env.nats.delete(&queue).await?;
    same("the replies", &got?, &json!({ "matched": CALLS, "wrong": 0, "unknown": 0 }))
}
