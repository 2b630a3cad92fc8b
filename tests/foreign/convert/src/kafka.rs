//! confluent-kafka, and rdkafka.

use std::time::Duration;

use consign::{
    Disposition, Message,
    cloud_events::{CloudEvent, Mode, Prefix},
    message::{PassThrough, PropertyValue},
    settlement::{DeadLetter, DeadLetterReason},
    transport::{ErrorKind, SendError},
};
use consign_convert_rdkafka::{
    Record, Settlement, confirmed, dead_letter as copy, from_rdkafka, settlement, to_rdkafka,
};
use rdkafka::{
    ClientConfig,
    consumer::{Consumer, StreamConsumer},
    message::OwnedMessage,
    mocking::MockCluster,
    producer::FutureProducer,
    types::{RDKafkaApiKey, RDKafkaRespErr},
};
use serde_json::{Value as Json, json};
use tower::BoxError;

use crate::{
    environment::{self, Environment, excerpts, property, same, unique},
    wrap_rdkafka,
};

async fn produce(env: &Environment, topic: &str, record: &Record) -> Result<(), BoxError> {
    let producer: FutureProducer = ClientConfig::new().set("bootstrap.servers", &env.kafka).create()?;
    Ok(confirmed(producer.send(record.to(topic), Duration::ZERO).await)?)
}

async fn consume(env: &Environment, topic: &str, count: usize) -> Result<Vec<OwnedMessage>, BoxError> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", &env.kafka).set("group.id", unique()).set("auto.offset.reset", "earliest");
    let consumer: StreamConsumer = config.create()?;
    consumer.subscribe(&[topic])?;
    let mut all = Vec::new();
    while all.len() < count {
        all.push(consumer.recv().await?.detach());
    }
    Ok(all)
}

async fn consume_one(env: &Environment, topic: &str) -> Result<OwnedMessage, BoxError> {
    consume(env, topic, 1).await?.pop().ok_or_else(|| "no record".into())
}

async fn by_python(
    env: &Environment,
    topic: &str,
    key: &str,
    value: Json,
    headers: Json,
) -> Result<OwnedMessage, BoxError> {
    let arguments = json!({ "servers": env.kafka, "topic": topic, "key": key, "value": value, "headers": headers });
    same("what was not sent", env.python("kafka_send", arguments).await?, json!(0))?;
    consume_one(env, topic).await
}

pub(crate) async fn from_python(env: &Environment) -> Result<(), BoxError> {
    let headers = json!([
        ["content-type", "application/json"],
        ["tenant", "acme"],
        ["retry", "1"],
        ["retry", "2"],
        ["raw", [0, 255]],
        ["none", null],
    ]);
    let record = by_python(env, &unique(), "customer-7", json!("{\"id\":7}"), headers).await?;
    let message = from_rdkafka(&record)?;
    same("the body", message.payload(), Some(&br#"{"id":7}"#[..]))?;
    same("the ContentType", message.content_type(), Some("application/json"))?;
    same("the key", message.partition_key(), Some("customer-7"))?;
    same("a header", property(&message, "tenant").and_then(PropertyValue::as_str), Some("acme"))?;
    same("the last of two", property(&message, "retry").and_then(PropertyValue::as_str), Some("2"))?;
    same("bytes", property(&message, "raw"), Some(&PropertyValue::Bytes(vec![0, 0xff].into())))?;
    same("null", property(&message, "none"), Some(&PropertyValue::Null))?;
    let facts = message.received().ok_or("nothing that Kafka has set")?;
    same("the offset", facts.sequence_number.get(), 0)?;
    same("the time", facts.enqueued_time.as_millis(), 1_700_000_000_123)
}

pub(crate) async fn to_python(env: &Environment) -> Result<(), BoxError> {
    let topic = unique();
    let message = Message::builder()
        .content_type("application/json")
        .message_id("order-7")
        .session_id("customer-7")
        .property("tenant", "acme")
        .property("count", 5)
        .build(r#"{"id":7}"#)?;
    produce(env, &topic, &to_rdkafka(&message)?).await?;
    let got = env.confluent("kafka_receive", &topic).await?;
    same("the body", got["value"].as_str(), Some(r#"{"id":7}"#))?;
    same("the key", got["key"].as_str(), Some("customer-7"))?;
    let headers = got["headers"].as_array().ok_or("no headers")?;
    for expected in [
        json!(["content-type", "application/json"]),
        json!(["Sb-Message-Id", "order-7"]),
        json!(["Sb-Session-Id", "customer-7"]),
        json!(["tenant", "acme"]),
        json!(["Sb-P-count", "i32:5"]),
    ] {
        same("a header", headers.contains(&expected).then_some(&expected), Some(&expected))?;
    }
    same("the headers", headers.len(), 5)
}

pub(crate) async fn tombstone_from_python(env: &Environment) -> Result<(), BoxError> {
    for (value, is_tombstone) in [(Json::Null, true), (json!(""), false)] {
        let record = by_python(env, &unique(), "customer-7", value, json!([])).await?;
        let message = from_rdkafka(&record)?;
        let note = message.pass_through().and_then(|rest| rest.annotation(PassThrough::NO_BODY));
        same("a tombstone", note.is_some(), is_tombstone)?;
        same("the payload", to_rdkafka(&message)?.payload.is_none(), is_tombstone)?;
    }
    Ok(())
}

pub(crate) async fn tombstone_to_python(env: &Environment) -> Result<(), BoxError> {
    let record = by_python(env, &unique(), "customer-7", Json::Null, json!([])).await?;
    let (again, empty) = (unique(), unique());
    produce(env, &again, &to_rdkafka(&from_rdkafka(&record)?)?).await?;
    let got = env.confluent("kafka_receive", &again).await?;
    same("the value", &got["value"], &Json::Null)?;
    same("the key", got["key"].as_str(), Some("customer-7"))?;
    produce(env, &empty, &to_rdkafka(&Message::new(""))?).await?;
    same("an empty value", env.confluent("kafka_receive", &empty).await?["value"].as_str(), Some(""))
}

pub(crate) async fn dead_letter(env: &Environment) -> Result<(), BoxError> {
    let (topic, dead) = (unique(), unique());
    let headers = json!([["tag", "a"], ["raw", [0, 255]], ["tag", "b"], ["none", null]]);
    let record = by_python(env, &topic, "customer-7", json!("{}"), headers).await?;
    let letter = DeadLetter::new(DeadLetterReason::HandlerPermanent, "no price");
    produce(env, &dead, &copy(&record, letter)).await?;
    let got = env.confluent("kafka_receive", &dead).await?;
    same("the body", got["value"].as_str(), Some("{}"))?;
    same("the key", got["key"].as_str(), Some("customer-7"))?;
    let headers = got["headers"].as_array().ok_or("no headers")?;
    let kept = [json!(["tag", "a"]), json!(["raw", { "base64": "AP8=" }]), json!(["tag", "b"]), json!(["none", null])];
    same("the headers in their order", &headers[..4], &kept[..])?;
    let reason = json!(["DeadLetterReason", "HandlerPermanent"]);
    same("the reason", headers.contains(&reason), true)?;
    same(
        "the id",
        headers.contains(&json!(["Sb-Message-Id", format!("{topic}-{}-0", rdkafka::Message::partition(&record))])),
        true,
    )
}

pub(crate) async fn event_from_python(env: &Environment) -> Result<(), BoxError> {
    let topic = unique();
    same("what was not sent", env.confluent("event_send", &topic).await?, json!(0))?;
    let event = CloudEvent::from_message(&from_rdkafka(&consume_one(env, &topic).await?)?)?;
    same("the id", event.attribute("id").map(ToString::to_string), Some("A-1".into()))?;
    same("the type", event.attribute("type").map(ToString::to_string), Some("order.placed".into()))?;
    let data: Json = serde_json::from_slice(event.data().ok_or("no data")?)?;
    same("the data", data, json!({ "id": 7 }))
}

pub(crate) async fn event_to_python(env: &Environment) -> Result<(), BoxError> {
    let topic = unique();
    let event = CloudEvent::new("A-1", "/shop", "order.placed")?.with_data("application/json", r#"{"id":7}"#)?;
    let message = event.with_extension("number", 5)?.to_message(Mode::BinaryWith(Prefix::Kafka))?;
    produce(env, &topic, &to_rdkafka(&message)?).await?;
    let got = env.confluent("event_receive", &topic).await?;
    let attribute = |name: &str| got["attributes"][name].as_str();
    same("the id", attribute("id"), Some("A-1"))?;
    same("the type", attribute("type"), Some("order.placed"))?;
    same("the type of the data", attribute("datacontenttype"), Some("application/json"))?;
    same("a number", attribute("number"), Some("5"))?;
    same("the data", &got["data"], &json!({ "id": 7 }))
}

pub(crate) async fn everything(env: &Environment) -> Result<(), BoxError> {
    for message in environment::everything()? {
        let topic = unique();
        produce(env, &topic, &to_rdkafka(&message)?).await?;
        let read = from_rdkafka(&consume_one(env, &topic).await?)?;
        same("the properties", read.properties(), message.properties())?;
        same("the body", read.body() == message.body(), true)?;
    }
    Ok(())
}

pub(crate) async fn abandoned(env: &Environment) -> Result<(), BoxError> {
    let topic = unique();
    let message = Message::builder().message_id("order-7").partition_key("customer-7").build("body")?;
    produce(env, &topic, &to_rdkafka(&message)?).await?;
    for failed in 1..4 {
        let record = consume(env, &topic, failed).await?.pop().ok_or("no record")?;
        let Settlement::Abandon(copy) = settlement(&record, Disposition::ABANDON) else {
            return Err("it is not abandoned".into());
        };
        produce(env, &topic, &copy).await?;
    }
    let last = from_rdkafka(&consume(env, &topic, 4).await?.pop().ok_or("no record")?)?;
    same("the count", property(&last, "x-delivery-count"), Some(&PropertyValue::from(3_u64)))?;
    same("the id", last.message_id(), Some("order-7"))?;
    same("the key", last.partition_key(), Some("customer-7"))
}

pub(crate) async fn errors(env: &Environment) -> Result<(), BoxError> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", &env.kafka).set("message.max.bytes", "2000");
    let producer: FutureProducer = config.create()?;
    let record = to_rdkafka(&Message::new(vec![b'x'; 4_000]))?;
    let topic = unique();
    let error: SendError = confirmed(producer.send(record.to(&topic), Duration::ZERO).await).unwrap_err();
    same("a large record", (error.kind(), error.is_retryable()), (ErrorKind::MessageSizeExceeded, false))?;
    let lost: FutureProducer =
        ClientConfig::new().set("bootstrap.servers", "127.0.0.1:1").set("message.timeout.ms", "500").create()?;
    let error: SendError = confirmed(lost.send(record.to(&topic), Duration::ZERO).await).unwrap_err();
    same("no broker", (error.kind(), error.is_outcome_unknown()), (ErrorKind::ServiceTimeout, true))
}

pub(crate) async fn wrapped(_: &Environment) -> Result<(), BoxError> {
    excerpts("wrap_rdkafka.rs", include_str!("wrap_rdkafka.rs"), 4)?;
    // Other cases do not get the errors of this cluster.
    let cluster = MockCluster::new(1)?;
    let [topic, retry, others, dead] = [unique(), unique(), unique(), unique()];
    for topic in [&topic, &retry, &others, &dead] {
        cluster.create_topic(topic, 1, 1)?;
    }
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", cluster.bootstrap_servers()).set("auto.offset.reset", "earliest");
    let producer: FutureProducer = config.create()?;
    config.set("enable.auto.commit", "false");
    let mut group = || config.set("group.id", unique()).create::<StreamConsumer>();
    let (consumer, other, letters) = (group()?, group()?, group()?);
    for order in [("pen", 120), ("nut", 0)] {
        wrap_rdkafka::place(&producer, &topic, order).await?;
    }
    consumer.subscribe(&[&topic, &retry])?;
    // Another group has a retry topic of its own.
    other.subscribe(&[&topic, &others])?;
    letters.subscribe(&[&dead])?;
    // The broker refuses the first copy.
    cluster.request_errors(RDKafkaApiKey::Produce, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_THROTTLING_QUOTA_EXCEEDED]);
    let collecting = async {
        let record = letters.recv().await?.detach();
        letters.recv().await?;
        let more = tokio::time::timeout(Duration::from_secs(3), letters.recv()).await;
        same("one dead letter of each group", more.is_err(), true)?;
        Ok::<_, BoxError>(record)
    };
    let record = tokio::select! {
        ended = wrap_rdkafka::consume(&consumer, &producer, [&retry, &dead]) => return ended,
        ended = wrap_rdkafka::consume(&other, &producer, [&others, &dead]) => return ended,
        record = collecting => record?,
    };
    let read = from_rdkafka(&record)?;
    same("the body", read.payload(), Some(&br#"["nut",0]"#[..]))?;
    same("the reason", read.dead_letter_reason(), Some("MaxDeliveryCountExceeded"))?;
    let description = read.dead_letter_description().unwrap_or_default();
    same("the last error", description.contains("nut has no price"), true)
}
