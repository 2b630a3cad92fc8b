//! Attributes of the span of one message. Texts of other programs are escaped.

use consign::{Message, message::Properties, transport::Escaped};
use opentelemetry::KeyValue;

use crate::names::attribute;

/// Returns the ids, by which a message is found. They are on spans only, never on metrics.
pub(crate) fn ids(properties: &Properties) -> Vec<KeyValue> {
    let of = |name: &'static str, id: Option<&str>| Some(KeyValue::new(name, Escaped(id?).to_string()));
    let ids = [
        of(attribute::MESSAGE_ID, properties.message_id()),
        of(attribute::CONVERSATION_ID, properties.correlation_id()),
    ];
    ids.into_iter().flatten().collect()
}

/// Returns the facts of a received message.
pub(crate) fn received(message: &Message) -> Vec<KeyValue> {
    let mut attributes = ids(message.properties());
    attributes.push(KeyValue::new(attribute::BODY_SIZE, number(message.body().size())));
    if let Some(received) = message.received() {
        attributes.push(KeyValue::new(attribute::DELIVERY_COUNT, i64::from(received.delivery_count)));
        attributes.push(KeyValue::new(attribute::ENQUEUED_TIME, received.enqueued_time.as_millis().div_euclid(1_000)));
    }
    attributes
}

pub(crate) fn number(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
