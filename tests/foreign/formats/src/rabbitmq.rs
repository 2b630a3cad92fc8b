//! kombu, which Celery uses, and pika.

use std::time::Duration;

use consign::{
    Message, MessageExt,
    consumer::Consumer,
    message::{EntityPath, PropertyValue},
    routing::Body,
    rpc::{Correlate, Reply, Responder},
    transport::SendService,
};
use consign_rabbitmq::QueueSettings;
use serde_json::{Value, json};
use tower::BoxError;

use crate::environment::{Environment, Order, codecs, order, receive, same, send, unique};

/// A queue that is deleted by its owner.
pub(crate) async fn queue(env: &Environment) -> Result<String, BoxError> {
    let queue = unique();
    env.rabbit.create_queue(&queue, QueueSettings::default()).await?;
    Ok(queue)
}

/// Sends by a step of Python, and receives the message.
pub(crate) async fn from_python(
    env: &Environment,
    step: &str,
    mut arguments: Value,
) -> Result<(Message, Value), BoxError> {
    let queue = queue(env).await?;
    arguments["url"] = json!(env.rabbit_url);
    arguments["queue"] = json!(queue);
    let answer = env.python(step, arguments).await?;
    let message = receive(env.rabbit.receiver(&queue)?).await?;
    env.rabbit.delete(&queue).await?;
    Ok((message, answer))
}

/// Sends a message, and receives it by a step of Python.
pub(crate) async fn to_python(
    env: &Environment,
    step: &str,
    mut arguments: Value,
    message: Message,
) -> Result<Value, BoxError> {
    let queue = queue(env).await?;
    send(env.rabbit.sender(&queue)?, message).await?;
    arguments["url"] = json!(env.rabbit_url);
    arguments["queue"] = json!(queue);
    let answer = env.python(step, arguments).await?;
    env.rabbit.delete(&queue).await?;
    Ok(answer)
}

pub(crate) async fn from_kombu(env: &Environment, serializer: &str) -> Result<(), BoxError> {
    let (message, _) = from_python(env, "kombu_send", json!({ "serializer": serializer })).await?;
    let origin = message.application_properties().get("origin").and_then(PropertyValue::as_str);
    same("the header", origin, Some("kombu"))?;
    same("the body", message.decode::<Order, _>(&codecs()?)?, Order::new())
}

pub(crate) async fn to_kombu(env: &Environment) -> Result<(), BoxError> {
    let message = order(Message::builder().property("origin", "consign"))?;
    let got = to_python(env, "kombu_receive", json!({}), message).await?;
    same("the body", &got["payload"], &serde_json::to_value(Order::new())?)?;
    same("the ContentType", got["content_type"].as_str(), Some("application/json"))?;
    same("the header", got["headers"]["origin"].as_str(), Some("consign"))
}

pub(crate) async fn from_pika(env: &Environment) -> Result<(), BoxError> {
    let (message, _) = from_python(env, "pika_send", json!({})).await?;
    same("the body", message.decode::<Order, _>(&codecs()?)?, Order::new())?;
    same("the MessageId", message.message_id(), Some("order-7"))?;
    same("the CorrelationId", message.correlation_id(), Some("trace-7"))?;
    same("the ReplyTo", message.reply_to(), Some("replies"))?;
    same("the Subject", message.subject(), Some("order.placed"))?;
    same("the time to live", message.time_to_live(), Some(Duration::from_secs(60)))?;
    let application = message.application_properties();
    same("text", application.get("text").and_then(PropertyValue::as_str), Some("value"))?;
    let integer = |name| match application.get(name)? {
        PropertyValue::I8(value) => Some((*value).into()),
        PropertyValue::I16(value) => Some((*value).into()),
        PropertyValue::I32(value) => Some((*value).into()),
        PropertyValue::I64(value) => Some(*value),
        _ => None,
    };
    same("number", integer("number"), Some(5))?;
    same("large", integer("large"), Some(5_000_000_000))?;
    same("negative", integer("negative"), Some(-5))?;
    same("truth", application.get("truth"), Some(&PropertyValue::Bool(true)))?;
    let names = ["text", "number", "large", "negative", "truth", "bytes", "instant"];
    let missing: Vec<_> = names.into_iter().filter(|name| application.get(name).is_none()).collect();
    same("missing headers", missing, Vec::<&str>::new())
}

pub(crate) async fn to_pika(env: &Environment) -> Result<(), BoxError> {
    let message = order(
        Message::builder()
            .message_id("order-7")
            .correlation_id("trace-7")
            .reply_to("replies")
            .subject("order.placed")
            .time_to_live(Duration::from_secs(60))
            .property("text", "value")
            .property("number", 5)
            .property("truth", true),
    )?;
    let got = to_python(env, "pika_receive", json!({}), message).await?;
    let body: Value = serde_json::from_str(got["body"].as_str().unwrap_or_default())?;
    same("the body", body, serde_json::to_value(Order::new())?)?;
    let properties = &got["properties"];
    for (name, expected) in [
        ("content_type", "application/json"),
        ("message_id", "order-7"),
        ("correlation_id", "trace-7"),
        ("reply_to", "replies"),
        ("type", "order.placed"),
        ("expiration", "60000"),
    ] {
        same(name, properties[name].as_str(), Some(expected))?;
    }
    let headers = &properties["headers"];
    same("text", headers["text"].as_str(), Some("value"))?;
    same("number", headers["number"].as_i64(), Some(5))?;
    same("truth", headers["truth"].as_bool(), Some(true))
}

/// A responder, which a client calls as RabbitMQ's tutorial says: with a CorrelationId, and without a MessageId.
pub(crate) async fn called_by_pika(env: &Environment, replies: &str) -> Result<(), BoxError> {
    let (queue, rabbit) = (queue(env).await?, env.rabbit.clone());
    let answer = async |Body(order): Body<Order>| Reply(order.total * 2.0);
    let responder = Responder::builder(move |to: &EntityPath| Ok(SendService::new(rabbit.sender(to.as_str())?)))
        .correlate(Correlate::CorrelationIdOrMessageId)
        .codecs(codecs()?)
        .answer("double", answer)
        .build()?;
    let consumer = tokio::spawn(Consumer::new(env.rabbit.receiver(&queue)?, responder).run());
    let got = env.python("pika_call", json!({ "url": env.rabbit_url, "queue": queue, "replies": replies })).await;
    consumer.abort();
    env.rabbit.delete(&queue).await?;
    let got = got?;
    same("the CorrelationId", got["correlation_id"].as_str(), Some("call-7"))?;
    same("the ContentType", got["content_type"].as_str(), Some("application/json"))?;
    same("the reply", got["body"].as_f64(), Some(Order::new().total * 2.0))
}
