//! The settings of entities, stored on the server, where every process finds them.
//!
//! AMQP 0-9-1 does not return the arguments of a queue, but it compares them, and it uses them. So an entity has a queue beside
//! it, `orders/$settings`, that never holds a message. Each message expires there at once, and RabbitMQ dead-letters it with the
//! routing key that is an argument of the queue: the settings. A process asks by a message with an id of its own in a header,
//! and gets the answer through a headers exchange of the same name. Any number of processes ask at the same time.
//!
//! The first declaration decides. RabbitMQ refuses another with other arguments, so processes that create an entity at the same
//! time agree on its settings.
//!
//! The queue of a subscription answers through the exchange of its topic, and is bound to a fanout exchange,
//! `prices/$subscriptions`. So a process can ask all subscriptions of a topic.

mod ask;
mod find;
mod text;

use std::time::Duration;

use consign_core::{message::EntityPath, transport::ErrorKind};
use lapin::{
    BasicProperties, ExchangeKind,
    options::{
        ExchangeDeclareOptions, ExchangeDeleteOptions, QueueBindOptions, QueueDeclareOptions, QueueDeleteOptions,
    },
    types::{AMQPValue, FieldTable},
};
use tokio::time::{Instant, sleep};

pub(crate) use crate::entities::Known;
use crate::{
    arguments::quorum,
    client::Shared,
    error::Failure,
    link::Leased,
    publisher::{Publication, Route},
};

const SUFFIX: &str = "/$settings";

/// The pause before a queue that is not available is asked again.
const PAUSE: Duration = Duration::from_millis(20);

/// The queue that has the settings.
fn queue(path: &EntityPath) -> String {
    format!("{path}{SUFFIX}")
}

/// The exchange that the answers go through.
fn answers(path: &EntityPath) -> String {
    match path.subscription() {
        Some((topic, _)) => format!("{topic}{SUFFIX}"),
        None => format!("{path}{SUFFIX}"),
    }
}

/// The exchange by which all subscriptions of a topic are asked.
fn subscriptions(topic: impl std::fmt::Display) -> String {
    format!("{topic}/$subscriptions")
}

/// Stores settings. Returns whether those that are stored now are the same.
pub(crate) async fn store(shared: &Shared, path: &EntityPath, known: &Known) -> Result<bool, Failure> {
    let topic = match known {
        Known::Topic(_) => Some(path.as_str()),
        Known::Queue(_) => path.subscription().map(|(topic, _)| topic),
    };
    let is_subscription = path.subscription().is_some();
    let mut arguments = quorum();
    let text = |text: &str| AMQPValue::LongString(text.into());
    arguments.insert("x-message-ttl".into(), AMQPValue::LongLongInt(0));
    arguments.insert("x-dead-letter-exchange".into(), text(&answers(path)));
    arguments.insert("x-dead-letter-routing-key".into(), text(&text::write(known)));
    let storing = async |leased: &Leased| {
        let channel = &leased.channel;
        let none = FieldTable::default;
        let durable = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
        channel.exchange_declare(answers(path).into(), ExchangeKind::Headers, durable, none()).await?;
        if let Some(topic) = topic {
            channel.exchange_declare(subscriptions(topic).into(), ExchangeKind::Fanout, durable, none()).await?;
        }
        channel.queue_declare(queue(path).into(), QueueDeclareOptions::durable(), arguments.into()).await?;
        if let Some(topic) = topic.filter(|_| is_subscription) {
            let (this, all) = (queue(path).into(), subscriptions(topic).into());
            channel.queue_bind(this, all, "".into(), QueueBindOptions::default(), none()).await?;
        }
        Ok(())
    };
    match shared.manage("the settings of an entity", storing).await {
        Ok(()) => Ok(true),
        // An argument differs.
        Err(failure) if failure.kind() == ErrorKind::InvalidOperation => Ok(false),
        Err(failure) => Err(failure),
    }
}

/// Reads settings; `None` if none are stored.
pub(crate) async fn read(shared: &Shared, path: &EntityPath) -> Result<Option<Known>, Failure> {
    // It expires there. Without the queue RabbitMQ returns it, which costs no channel, as a `queue.declare` does.
    let knock = Publication {
        exchange: "".into(),
        key: queue(path).into(),
        route: Route::Mandatory,
        properties: BasicProperties::default(),
        payload: bytes::Bytes::new(),
    };
    let until = Instant::now() + shared.link.deadline();
    loop {
        match shared.moves().publish(knock.clone()).await {
            Ok(()) => {
                let asked = ask::one(shared, path).await;
                return asked.map_err(|failure| failure.explained(shared.link.blocked()));
            }
            Err(failure) if failure.kind() == ErrorKind::EntityNotFound => return Ok(None),
            // A quorum queue that is being created has no leader so far, and refuses.
            Err(failure) if failure.kind() == ErrorKind::General && Instant::now() < until => sleep(PAUSE).await,
            Err(failure) => return Err(failure.explained(shared.link.blocked())),
        }
    }
}

/// Deletes the settings of a queue or a subscription.
pub(crate) async fn delete(shared: &Shared, path: &EntityPath) -> Result<(), Failure> {
    let is_subscription = path.subscription().is_some();
    let deleting = async |leased: &Leased| {
        leased.channel.queue_delete(queue(path).into(), QueueDeleteOptions::default()).await?;
        if !is_subscription {
            leased.channel.exchange_delete(answers(path).into(), ExchangeDeleteOptions::default()).await?;
        }
        Ok(())
    };
    shared.manage("the settings of an entity", deleting).await
}

/// Returns the subscriptions of a topic, except those that were created a moment ago.
pub(crate) async fn subscriptions_of(shared: &Shared, topic: &EntityPath) -> Result<Vec<(EntityPath, Known)>, Failure> {
    ask::several(shared, topic).await
}

/// Deletes the settings of a topic. Returns `false`, and deletes nothing, while it has subscriptions.
pub(crate) async fn delete_topic(shared: &Shared, topic: &EntityPath) -> Result<bool, Failure> {
    let unused = ExchangeDeleteOptions { if_unused: true, ..ExchangeDeleteOptions::default() };
    let deleting = async |leased: &Leased| leased.channel.exchange_delete(subscriptions(topic).into(), unused).await;
    match shared.manage("exchange.delete", deleting).await {
        Ok(()) => delete(shared, topic).await.map(|()| true),
        Err(failure) if failure.kind() == ErrorKind::InvalidOperation => Ok(false),
        Err(failure) => Err(failure),
    }
}
