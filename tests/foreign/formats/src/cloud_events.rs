//! The SDKs of CloudEvents for Python, over RabbitMQ, and for JavaScript.

use consign::{
    Message,
    cloud_events::{CloudEvent, CloudEventBatch, Mode, Prefix},
    message::PropertyValue,
};
use serde_json::{Value, json};
use tower::BoxError;

use crate::{
    environment::{Environment, Order, codecs, same},
    nats, rabbitmq,
};

/// What the programs say of their event, as text.
const ATTRIBUTES: [(&str, &str); 9] = [
    ("id", "A-1"),
    ("source", "/my%20shop"),
    ("type", "com.example.order.placed"),
    ("subject", "order 7"),
    ("datacontenttype", "application/json"),
    ("dataschema", "https://shop.example/order"),
    ("comexampletext", "value"),
    ("comexamplenumber", "5"),
    ("comexampletruth", "true"),
];

fn event() -> Result<CloudEvent, BoxError> {
    Ok(CloudEvent::new("A-1", "/my%20shop", "com.example.order.placed")?
        .with_subject("order 7")?
        .with_time("2026-02-03T04:05:06.789Z")?
        .with_data_schema("https://shop.example/order")?
        .with_extension("comexampletext", "value")?
        .with_extension("comexamplenumber", 5)?
        .with_extension("comexampletruth", true)?
        .with_value(&codecs()?, &Order::new())?)
}

/// Whether it is the event that the programs send.
fn check(event: &CloudEvent) -> Result<(), BoxError> {
    for (name, expected) in ATTRIBUTES {
        let got = event.attribute(name).map(ToString::to_string);
        // A binding without types writes text, and Python begins a truth value with a capital letter.
        let got = got.map(|text| if name == "comexampletruth" { text.to_lowercase() } else { text });
        same(name, got.as_deref(), Some(expected))?;
    }
    // The same instant: with three digits of a second or six, and the zone as `Z` or as `+00:00`.
    let time = event.time().unwrap_or_default();
    let seconds = time.trim_end_matches("+00:00").trim_end_matches('Z').trim_end_matches('0');
    same("time", seconds, "2026-02-03T04:05:06.789")?;
    same("data", event.decode::<Order, _>(&codecs()?)?, Order::new())
}

pub(crate) async fn from_python(env: &Environment, binding: &str, mode: &str) -> Result<(), BoxError> {
    let arguments = json!({ "binding": binding, "mode": mode });
    let (message, _) = rabbitmq::from_python(env, "cloud_event_send", arguments).await?;
    check(&CloudEvent::from_message(&message)?)
}

/// Whether these are the attributes and the data of the event that is sent. Text stands for a value where a binding has
/// no types.
fn check_json(attributes: &Value, data: &Value) -> Result<(), BoxError> {
    for (name, expected) in ATTRIBUTES {
        let got = match &attributes[name] {
            Value::String(text) => text.to_lowercase(),
            value => value.to_string(),
        };
        same(name, got, expected.to_lowercase())?;
    }
    let time = attributes["time"].as_str().unwrap_or_default();
    same("time", time.starts_with("2026-02-03T04:05:06.789"), true)?;
    same("data", data, &serde_json::to_value(Order::new())?)
}

pub(crate) async fn to_python(env: &Environment, binding: &str, mode: Mode) -> Result<(), BoxError> {
    let message = event()?.to_message(mode)?;
    let got = rabbitmq::to_python(env, "cloud_event_receive", json!({ "binding": binding }), message).await?;
    check_json(&got["attributes"], &got["data"])
}

pub(crate) async fn from_python_by_nats(env: &Environment) -> Result<(), BoxError> {
    let (message, _) = nats::by_step(env, "cloud_event_nats_send").await?;
    check(&CloudEvent::from_message(&message)?)
}

pub(crate) async fn to_python_by_nats(env: &Environment) -> Result<(), BoxError> {
    let message = event()?.to_message(Mode::BinaryWith(Prefix::Ce))?;
    let got = nats::to_step(env, "cloud_event_nats_receive", message).await?;
    check_json(&got["attributes"], &got["data"])
}

fn batch() -> Result<CloudEventBatch, BoxError> {
    (0..3).map(|_| event()).collect()
}

/// Whether a message holds the event of the programs three times.
fn check_batch(message: &Message) -> Result<(), BoxError> {
    let batch = CloudEventBatch::from_message(message)?;
    same("the number of events", batch.events().len(), 3)?;
    batch.iter().try_for_each(check)
}

pub(crate) async fn batch_from_python(env: &Environment) -> Result<(), BoxError> {
    let (message, _) = rabbitmq::from_python(env, "cloud_event_batch_send", json!({})).await?;
    check_batch(&message)
}

pub(crate) async fn batch_to_python(env: &Environment) -> Result<(), BoxError> {
    let got = rabbitmq::to_python(env, "cloud_event_batch_receive", json!({}), batch()?.to_message()?).await?;
    let events = got["events"].as_array().ok_or("no events")?;
    same("the number of events", events.len(), 3)?;
    events.iter().try_for_each(|event| check_json(&event["attributes"], &event["data"]))
}

/// A message with the headers of HTTP as properties, as a bridge makes it.
fn message_of(sent: &Value) -> Result<Message, BoxError> {
    let mut message = Message::builder();
    if let Some(content_type) = sent["content_type"].as_str() {
        message = message.content_type(content_type.to_owned());
    }
    for (name, value) in sent["headers"].as_object().into_iter().flatten() {
        message = message.property(name.clone(), value.as_str().unwrap_or_default().to_owned());
    }
    Ok(message.build(sent["body"].as_str().unwrap_or_default().to_owned())?)
}

pub(crate) async fn from_node(env: &Environment) -> Result<(), BoxError> {
    let sent = env.node("write", None).await?;
    let check = |each: &Value| {
        let message = message_of(each)?;
        if each["name"] == "batch" { check_batch(&message) } else { check(&CloudEvent::from_message(&message)?) }
    };
    sent.as_array().into_iter().flatten().try_for_each(|each| check(each).map_err(|error| named(&each["name"], &error)))
}

fn named(name: &Value, error: &BoxError) -> BoxError {
    format!("{}: {error}", name.as_str().unwrap_or_default()).into()
}

pub(crate) async fn to_node(env: &Environment) -> Result<(), BoxError> {
    let binary = event()?.to_message(Mode::BinaryWith(Prefix::Ce))?;
    let sent = [binary, event()?.to_message(Mode::Structured)?, batch()?.to_message()?];
    let sent = sent.iter().map(headers).collect::<Result<Vec<_>, _>>()?;
    let got = env.node("read", Some(sent.into())).await?;
    for (name, events) in ["binary", "structured", "batch"].into_iter().zip(got.as_array().into_iter().flatten()) {
        let events = events.as_array().ok_or("no events")?;
        same(name, events.len(), if name == "batch" { 3 } else { 1 })?;
        let checked = events.iter().try_for_each(|event| check_json(event, &event["data"]));
        checked.map_err(|error| named(&name.into(), &error))?;
    }
    Ok(())
}

/// A message as the headers and the body of HTTP.
fn headers(message: &Message) -> Result<Value, BoxError> {
    let text = |(name, value): (&str, &PropertyValue)| Some((name.to_owned(), Value::from(value.as_str()?)));
    let headers: serde_json::Map<_, _> = message.application_properties().iter().filter_map(text).collect();
    let body = str::from_utf8(message.payload().unwrap_or_default())?;
    Ok(json!({ "content_type": message.content_type(), "headers": headers, "body": body }))
}
