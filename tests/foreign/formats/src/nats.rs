//! nats-py, over JetStream.

use std::time::Duration;

use consign::{Message, MessageExt, message::PropertyValue};
use consign_nats::QueueSettings;
use serde_json::{Value, json};
use tower::BoxError;

use crate::environment::{Environment, Order, codecs, order, receive, same, send, unique};

/// A queue that is deleted by its owner.
pub(crate) async fn queue(env: &Environment) -> Result<String, BoxError> {
    let queue = unique();
    env.nats.create_queue(&queue, QueueSettings::default()).await?;
    Ok(queue)
}

/// Sends by a step of Python, and receives the message.
pub(crate) async fn by_step(env: &Environment, step: &str) -> Result<(Message, Value), BoxError> {
    let queue = queue(env).await?;
    let subject = format!("foreign.{queue}.m");
    let answer = env.python(step, json!({ "url": env.nats_url, "subject": subject })).await?;
    let message = receive(env.nats.receiver(&queue).await?).await?;
    env.nats.delete(&queue).await?;
    Ok((message, answer))
}

/// Sends a message, and receives it by a step of Python.
pub(crate) async fn to_step(env: &Environment, step: &str, message: Message) -> Result<Value, BoxError> {
    let queue = unique();
    let mut settings = QueueSettings::default();
    // It sends the MessageId as a header of NATS.
    settings.duplicate_detection = Some(Duration::from_secs(60));
    env.nats.create_queue(&queue, settings).await?;
    send(env.nats.sender(&queue).await?, message).await?;
    let stream = format!("foreign_{queue}");
    let answer = env.python(step, json!({ "url": env.nats_url, "stream": stream })).await?;
    env.nats.delete(&queue).await?;
    Ok(answer)
}

pub(crate) async fn from_python(env: &Environment) -> Result<(), BoxError> {
    let (message, _) = by_step(env, "nats_json_send").await?;
    same("the body", message.decode::<Order, _>(&codecs()?)?, Order::new())?;
    same("the ContentType", message.content_type(), Some("application/json"))?;
    same("the MessageId", message.message_id(), Some("order-7"))?;
    same("the header", message.application_properties().get("tenant").and_then(PropertyValue::as_str), Some("acme"))
}

pub(crate) async fn to_python(env: &Environment) -> Result<(), BoxError> {
    let message = order(Message::builder().message_id("order-7"))?;
    let got = to_step(env, "nats_receive", message).await?;
    let body: Value = serde_json::from_str(got["body"].as_str().unwrap_or_default())?;
    same("the body", body, serde_json::to_value(Order::new())?)?;
    same("the ContentType", got["headers"]["Content-Type"].as_str(), Some("application/json"))?;
    same("the MessageId", got["headers"]["Nats-Msg-Id"].as_str(), Some("order-7"))
}
