//! The history of a message that RabbitMQ has dead-lettered: the headers `x-death`, `x-first-death-*` and `x-last-death-*`.

use consign_core::{Message, message::Value};
use lapin::{
    BasicProperties,
    types::{AMQPValue, FieldArray, FieldTable},
};

use super::{names, nested, write};

/// Adds the history of a delivered message to its copy, if it fits. RabbitMQ counts on when it dead-letters the copy.
pub(crate) fn keep(raw: &BasicProperties, copy: &mut BasicProperties) {
    let came = raw.headers().iter().flat_map(FieldTable::inner);
    let history: Vec<_> = came.filter(|(name, _)| names::is_history(name.as_str())).collect();
    if history.is_empty() {
        return;
    }
    let mut headers = copy.headers().as_ref().map_or_else(FieldTable::default, FieldTable::clone);
    for (name, value) in history {
        headers.insert(name.clone(), value.clone());
    }
    if write::check_size(headers.inner()).is_ok() {
        *copy = std::mem::take(copy).with_headers(headers);
    }
}

/// Sets the annotation `x-death` of a message: its history without the queues of delays, whose names begin with this prefix.
pub(crate) fn annotate(raw: &BasicProperties, delays: Option<&str>, message: &mut Message) {
    let Some(AMQPValue::FieldArray(all)) =
        raw.headers().as_ref().and_then(|headers| headers.inner().get(names::DEATHS))
    else {
        return;
    };
    let is_of_delay = |death: &AMQPValue| match (death, delays) {
        (AMQPValue::FieldTable(death), Some(delays)) => match death.inner().get("queue") {
            Some(AMQPValue::LongString(queue)) => queue.as_bytes().starts_with(delays.as_bytes()),
            _ => false,
        },
        _ => false,
    };
    let shown: Vec<_> = all.as_slice().iter().filter(|death| !is_of_delay(death)).cloned().collect();
    let value = nested::read(&AMQPValue::FieldArray(FieldArray::from(shown)));
    if let Some(value) = value.filter(|value| matches!(value, Value::List(all) if !all.is_empty())) {
        let annotations = &mut message.properties_mut().pass_through_mut().annotations;
        annotations.retain(|(name, _)| name != names::DEATHS);
        annotations.push((names::DEATHS.into(), value));
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use consign_core::message::PropertyValue;

    use super::{
        super::{again, read, tests::stamp},
        *,
    };

    fn text(text: &str) -> AMQPValue {
        AMQPValue::LongString(text.into())
    }

    fn death(queue: &str, count: i64) -> AMQPValue {
        let mut death = FieldTable::default();
        death.insert("queue".into(), text(queue));
        death.insert("count".into(), AMQPValue::LongLongInt(count));
        AMQPValue::FieldTable(death)
    }

    fn raw(deaths: Vec<AMQPValue>) -> BasicProperties {
        let mut headers = FieldTable::default();
        headers.insert("x-death".into(), AMQPValue::FieldArray(deaths.into()));
        headers.insert("x-first-death-queue".into(), text("retry"));
        headers.insert("x-last-death-reason".into(), text("expired"));
        headers.insert("x-delivery-count".into(), AMQPValue::LongLongInt(2));
        BasicProperties::default().with_headers(headers)
    }

    /// Rules: K-127.
    #[test]
    fn a_history_is_read_without_delays_and_only_kept_on_request() {
        let raw = raw(vec![death("consign.delays.3", 1), death("retry", 4)]);
        let (mut message, _) = read(&raw, Bytes::new(), |malformed| panic!("{malformed:?}"));
        annotate(&raw, Some("consign.delays"), &mut message);
        let entry = Value::Map(vec![
            (Value::from("count"), PropertyValue::I64(4).into()),
            (Value::from("queue"), Value::from("retry")),
        ]);
        let annotations = &message.pass_through().unwrap().annotations;
        assert_eq!(*annotations, [("x-death".into(), Value::List(vec![entry]))]);

        let mut copy = again(&message, &stamp(), &raw, Bytes::new()).unwrap().properties;
        let written = copy.headers().clone().unwrap();
        assert!(!written.contains_key("x-death") && !written.contains_key(names::ANNOTATIONS), "{written:?}");
        keep(&raw, &mut copy);
        let (kept, came) = (copy.headers().clone().unwrap(), raw.headers().clone().unwrap());
        for name in ["x-death", "x-first-death-queue", "x-last-death-reason"] {
            assert_eq!(kept.inner().get(name), came.inner().get(name), "{name}");
        }
        assert!(!kept.contains_key("x-delivery-count"));
    }

    /// Rules: K-127.
    /// A message that is sent on must not have the history of another one.
    #[test]
    fn a_history_is_not_sent() {
        let raw = raw(vec![death("retry", 4)]);
        let (mut message, _) = read(&raw, Bytes::new(), |malformed| panic!("{malformed:?}"));
        annotate(&raw, None, &mut message);
        let sent = write::write(&message, &stamp()).unwrap().properties;
        let headers = sent.headers().as_ref().map_or_else(FieldTable::default, FieldTable::clone);
        assert!(!headers.contains_key("x-death") && !headers.contains_key(names::ANNOTATIONS), "{headers:?}");
    }
}
