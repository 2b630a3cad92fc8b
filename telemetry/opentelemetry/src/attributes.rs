//! Attributes of the span of one message. Texts of other programs are escaped.

use consign::{Message, message::Properties, transport::Escaped};
use opentelemetry::KeyValue;

use crate::names::{Names, attribute};

/// Returns a text of another program as it may be on a span.
pub(crate) fn escaped(text: &str) -> String {
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~') && byte != b'\\';
    if text.len() <= Escaped::LONGEST && text.bytes().all(is_plain) {
        return text.to_owned();
    }
    Escaped(text).to_string()
}

/// Returns the ids, by which a message is found. They are on spans only, never on metrics.
pub(crate) fn ids(properties: &Properties) -> [Option<KeyValue>; 2] {
    let of = |name: &'static str, id: Option<&str>| Some(KeyValue::new(name, escaped(id?)));
    [of(attribute::MESSAGE_ID, properties.message_id()), of(attribute::CONVERSATION_ID, properties.correlation_id())]
}

/// Returns what identifies a received message: its ids, and its delivery tag.
pub(crate) fn single(message: &Message, names: &Names) -> [Option<KeyValue>; 3] {
    let [id, conversation] = ids(message.properties());
    [id, conversation, delivery_tag(message, names)]
}

/// Returns the facts of a received message, with the size of its body if `has_body_size`.
pub(crate) fn received(message: &Message, names: &Names, has_body_size: bool) -> [Option<KeyValue>; 6] {
    let [id, conversation, tag] = single(message, names);
    let size = has_body_size.then(|| KeyValue::new(attribute::BODY_SIZE, number(message.body().size())));
    let (mut count, mut time) = (None, None);
    if let Some(received) = message.received() {
        count = Some(KeyValue::new(names.delivery_count, i64::from(received.delivery_count)));
        let enqueued = received.known_enqueued_time();
        time = enqueued.map(|at| KeyValue::new(names.enqueued_time, at.as_millis().div_euclid(1_000)));
    }
    [id, conversation, size, count, time, tag]
}

/// Returns the delivery tag of a message of RabbitMQ.
fn delivery_tag(message: &Message, names: &Names) -> Option<KeyValue> {
    let tag = message.received()?.delivery_tag?;
    Some(KeyValue::new(names.delivery_tag?, i64::try_from(tag.get()).unwrap_or(i64::MAX)))
}

pub(crate) fn number(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rules: O-30.
    #[test]
    fn plain_texts_are_copied_as_they_would_be_escaped() {
        for text in ["order-17 ~", "", "\\n", "a\tb", "é", "\u{7f}", &"x".repeat(256), &"x".repeat(257)] {
            assert_eq!(escaped(text), Escaped(text).to_string());
        }
    }

    #[test]
    fn an_unknown_enqueued_time_is_left_out() {
        use consign::{
            message::{Received, SequenceNumber},
            time::Timestamp,
        };

        let names = crate::Conventions::V1_44.names("rabbitmq");
        let of = |time| {
            let message = Message::new("").with_received(Received::new(SequenceNumber::new(1), time, 1));
            received(&message, &names, true).into_iter().flatten().any(|it| it.key.as_str() == names.enqueued_time)
        };
        assert!(!of(Timestamp::EPOCH) && of(Timestamp::from_millis(1_000)));
    }
}
