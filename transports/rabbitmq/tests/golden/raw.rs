//! What the broker stores, read and written by its client alone.

use std::{collections::BTreeMap, time::Duration};

use consign_conformance::golden;
use consign_rabbitmq::lapin::{
    BasicProperties, Channel, Confirmation, Connection, ConnectionProperties,
    message::Delivery,
    options::{BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions},
    types::{FieldTable, ShortString},
};
use futures_util::StreamExt;
use serde_json::{Value as Json, json};

use crate::{support, typed};

/// What stands in a file for the beginning of all names, which no two runs share.
const PREFIX: &str = "PREFIX";
/// What stands for a time: nothing expires before it.
pub(crate) const TIME: i64 = 4_102_444_800_000;
/// When a sample was scheduled.
const PASSED: i64 = 1_600_000_000_001;

pub(crate) struct Raw {
    pub(crate) channel: Channel,
    _connection: Connection,
    prefix: String,
}

impl Raw {
    pub(crate) async fn new(prefix: &str) -> Self {
        let connection = Connection::connect(&support::address(), ConnectionProperties::default()).await.unwrap();
        let channel = connection.create_channel().await.unwrap();
        channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
        Self { channel, _connection: connection, prefix: prefix.to_owned() }
    }

    /// Takes as many messages from each queue as it must have.
    pub(crate) async fn read(&self, queues: &[(&str, usize)]) -> Vec<Json> {
        let mut entries = Vec::new();
        let mut numbers = Numbers::default();
        for (name, count) in queues {
            let name = format!("{}{name}", self.prefix);
            let options = BasicConsumeOptions::default();
            let consuming = self.channel.basic_consume(name.as_str().into(), "".into(), options, FieldTable::default());
            let mut consumer = consuming.await.unwrap();
            for nth in 0..*count {
                let taken = tokio::time::timeout(Duration::from_secs(20), consumer.next()).await;
                let taken = taken.unwrap_or_else(|_| panic!("{name} has {nth} messages")).unwrap().unwrap();
                taken.acker.ack(BasicAckOptions::default()).await.unwrap();
                entries.push(entry(&name, &taken, &mut numbers));
            }
            let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::durable() };
            let left = self.channel.queue_declare(name.as_str().into(), passive, FieldTable::default()).await.unwrap();
            assert_eq!(left.message_count(), 0, "{name}");
        }
        let text = json!(entries).to_string().replace(&self.prefix, PREFIX);
        serde_json::from_str(&text).unwrap()
    }

    /// Stores what [`read`](Self::read) has returned, where it was sent to.
    pub(crate) async fn write(&self, entries: &[Json]) {
        let text = json!(entries).to_string().replace(PREFIX, &self.prefix);
        let entries: Vec<Json> = serde_json::from_str(&text).unwrap();
        for entry in &entries {
            let exchange = entry["exchange"].as_str().unwrap();
            let key = match exchange {
                "" => entry["queue"].as_str().unwrap().to_owned(),
                // The shortest delay: a digit for each of 26 levels, the last of which is set.
                _ if exchange.contains(".level-") => format!("{}1", "0.".repeat(25)),
                _ => String::new(),
            };
            let properties = properties(&entry["properties"]);
            let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
            let body = golden::bytes_of(&entry["body"]);
            let publishing =
                self.channel.basic_publish(exchange.into(), key.as_str().into(), options, &body, properties);
            let confirmed = publishing.await.unwrap().await.unwrap();
            assert!(matches!(confirmed, Confirmation::Ack(None)), "{entry}: {confirmed:?}");
        }
    }
}

/// What stands for the first sequence number: a number has the time of its message, in units of 2^-20 ms.
pub(crate) const FIRST_NUMBER: i64 = (TIME << 20) + 1;

/// Sequence numbers and versions of records by the order in which they are seen: both have the time.
#[derive(Default)]
struct Numbers(BTreeMap<i64, i64>, BTreeMap<i64, usize>);

impl Numbers {
    fn of(&mut self, number: i64) -> i64 {
        let next = FIRST_NUMBER + i64::try_from(self.0.len()).unwrap();
        *self.0.entry(number).or_insert(next)
    }

    fn of_version(&mut self, version: i64) -> usize {
        let next = self.1.len() + 1;
        let last = self.1.keys().next_back();
        assert!(
            self.1.contains_key(&version) || last.is_none_or(|last| *last < version),
            "a later record has a higher version"
        );
        *self.1.entry(version).or_insert(next)
    }

    /// What stands for a MessageId that a sender has made: it has the number of its message.
    fn id_of(&mut self, id: String) -> String {
        let Some(digits) = id.strip_prefix("consign1-") else { return id };
        let number = self.of(i64::from_str_radix(&digits[..16], 16).unwrap());
        made_id(number)
    }
}

pub(crate) fn made_id(number: i64) -> String {
    format!("consign1-{number:016x}{:016x}", 0)
}

fn entry(queue: &str, taken: &Delivery, numbers: &mut Numbers) -> Json {
    let of = &taken.properties;
    let short = |text: &Option<ShortString>| text.as_ref().map(|text| text.as_str().to_owned());
    let mut headers = typed::table(of.headers().as_ref().unwrap_or(&FieldTable::default()));
    let all = headers.as_object_mut().unwrap();
    // The broker's own, of messages that were given back.
    all.retain(|name, _| name != "x-delivery-count" && name != "x-acquired-count");
    for (name, value) in all.iter_mut() {
        match name.as_str() {
            "sb-enqueued-time-ms" => *value = json!(["long-long", TIME]),
            "sb-scheduled-time-ms" if value[1] != PASSED => *value = json!(["long-long", TIME]),
            "sb-sequence-number" => value[1] = json!(numbers.of(value[1].as_i64().unwrap())),
            "sb-version" => value[1] = json!(numbers.of_version(value[1].as_i64().unwrap())),
            "sb-failures" => {
                let failures = value[1].as_object().unwrap().iter();
                let failures =
                    failures.map(|(key, count)| (numbers.of(key.parse().unwrap()).to_string(), count.clone()));
                value[1] = failures.collect();
            }
            _ => {}
        }
    }
    let id = short(of.message_id()).map(|id| numbers.id_of(id));
    json!({
        "queue": queue,
        "exchange": taken.exchange.as_str(),
        "properties": {
            "content_type": short(of.content_type()),
            "content_encoding": short(of.content_encoding()),
            "headers": headers,
            "delivery_mode": of.delivery_mode(),
            "priority": of.priority(),
            "correlation_id": short(of.correlation_id()),
            "reply_to": short(of.reply_to()),
            "expiration": short(of.expiration()),
            "message_id": id,
            "timestamp": of.timestamp().map(|_| TIME / 1_000),
            "type": short(of.kind()),
            "user_id": short(of.user_id()),
            "app_id": short(of.app_id()),
        },
        "body": golden::bytes(&taken.data),
    })
}

fn properties(from: &Json) -> BasicProperties {
    let mut properties = BasicProperties::default().with_headers(typed::table_of(&from["headers"]));
    let short = |name: &str| from[name].as_str().map(ShortString::from);
    macro_rules! set {
        ($($name:literal $with:ident $value:expr;)*) => {$(
            if let Some(value) = $value($name) {
                properties = properties.$with(value);
            }
        )*};
    }
    let byte = |name: &str| from[name].as_u64().map(|number| u8::try_from(number).unwrap());
    set! {
        "content_type" with_content_type short;
        "content_encoding" with_content_encoding short;
        "delivery_mode" with_delivery_mode byte;
        "priority" with_priority byte;
        "correlation_id" with_correlation_id short;
        "reply_to" with_reply_to short;
        "expiration" with_expiration short;
        "message_id" with_message_id short;
        "timestamp" with_timestamp |name: &str| from[name].as_u64();
        "type" with_type short;
        "user_id" with_user_id short;
        "app_id" with_app_id short;
    }
    properties
}
