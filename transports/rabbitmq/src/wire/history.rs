//! The history of a message that RabbitMQ has dead-lettered: the headers `x-death`, `x-first-death-*` and `x-last-death-*`.

use consign_core::{Message, message::Value};
use lapin::{
    BasicProperties,
    types::{AMQPValue, FieldArray, FieldTable},
};

use super::{names, nested, write};
use crate::log;

/// Adds the history of a delivered message to its copy, if it fits, without the queues of delays, whose names begin with this
/// prefix and a point. `queue` is for the log.
pub(crate) fn keep(raw: &BasicProperties, copy: &mut BasicProperties, delays: Option<&str>, queue: &str) {
    let Some(came) = raw.headers().as_ref().map(FieldTable::inner) else { return };
    let is_of_delay = |name: &str| {
        let prefix = ["x-first-death-", "x-last-death-"].into_iter().find(|prefix| name.starts_with(prefix));
        let queue = prefix.and_then(|prefix| came.get(format!("{prefix}queue").as_str()));
        queue.is_some_and(|queue| is_delay(queue, delays))
    };
    let mut history = Vec::new();
    for (name, value) in came {
        match value {
            AMQPValue::FieldArray(deaths) if name.as_str() == names::DEATHS => {
                let kept = without_delays(deaths, delays);
                if !kept.is_empty() {
                    history.push((name, AMQPValue::FieldArray(kept.into())));
                }
            }
            value if names::is_history(name.as_str()) && !is_of_delay(name.as_str()) => {
                history.push((name, value.clone()));
            }
            _ => {}
        }
    }
    if history.is_empty() {
        return;
    }
    let mut headers = copy.headers().as_ref().map_or_else(FieldTable::default, FieldTable::clone);
    for (name, value) in history {
        headers.insert(name.clone(), value);
    }
    match write::check_size(headers.inner()) {
        Ok(_) => *copy = std::mem::take(copy).with_headers(headers),
        Err(error) => log::history_left_out(queue, &error),
    }
}

/// Returns whether a queue is one of delays. Another program may have a queue `consign.delays-retry`.
fn is_delay(queue: &AMQPValue, delays: Option<&str>) -> bool {
    match (queue, delays) {
        (AMQPValue::LongString(queue), Some(delays)) => {
            queue.as_bytes().strip_prefix(delays.as_bytes()).is_some_and(|rest| rest.starts_with(b"."))
        }
        _ => false,
    }
}

/// Returns the entries of `x-death` of other queues than those of delays.
fn without_delays(deaths: &FieldArray, delays: Option<&str>) -> Vec<AMQPValue> {
    let is_of_delay = |death: &AMQPValue| match death {
        AMQPValue::FieldTable(death) => death.inner().get("queue").is_some_and(|queue| is_delay(queue, delays)),
        _ => false,
    };
    deaths.as_slice().iter().filter(|death| !is_of_delay(death)).cloned().collect()
}

/// Sets the annotation `x-death` of a message: its history without the queues of delays, whose names begin with this prefix
/// and a point.
pub(crate) fn annotate(raw: &BasicProperties, delays: Option<&str>, message: &mut Message) {
    let Some(AMQPValue::FieldArray(all)) =
        raw.headers().as_ref().and_then(|headers| headers.inner().get(names::DEATHS))
    else {
        return;
    };
    let value = nested::read(&AMQPValue::FieldArray(without_delays(all, delays).into()));
    if let Some(value) = value.filter(|value| matches!(value, Value::List(all) if !all.is_empty())) {
        let annotations = &mut message.properties_mut().pass_through_mut().annotations;
        annotations.retain(|(name, _)| name != names::DEATHS);
        annotations.push((names::DEATHS.into(), value));
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use consign_conformance::log::Lines;
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
        keep(&raw, &mut copy, Some("consign.delays"), "orders");
        let (kept, came) = (copy.headers().clone().unwrap(), raw.headers().clone().unwrap());
        for name in ["x-first-death-queue", "x-last-death-reason"] {
            assert_eq!(kept.inner().get(name), came.inner().get(name), "{name}");
        }
        // A message that is delayed on each abandon would have up to 26 more entries.
        assert_eq!(kept.inner().get("x-death"), Some(&AMQPValue::FieldArray(vec![death("retry", 4)].into())));
        assert!(!kept.contains_key("x-delivery-count"));
    }

    /// Rules: K-127.
    #[test]
    fn a_history_of_delays_alone_is_not_kept() {
        let mut headers = FieldTable::default();
        headers.insert("x-death".into(), AMQPValue::FieldArray(vec![death("consign.delays.level-03", 1)].into()));
        for prefix in ["x-first-death-", "x-last-death-"] {
            headers.insert(format!("{prefix}queue").as_str().into(), text("consign.delays.level-03"));
            headers.insert(format!("{prefix}reason").as_str().into(), text("expired"));
        }
        let (raw, mut copy) = (BasicProperties::default().with_headers(headers), BasicProperties::default());
        keep(&raw, &mut copy, Some("consign.delays"), "orders");
        assert_eq!(copy, BasicProperties::default());
    }

    /// Rules: K-127.
    #[test]
    fn a_history_of_a_queue_whose_name_begins_like_those_of_delays_is_kept() {
        let mut headers = FieldTable::default();
        headers.insert("x-death".into(), AMQPValue::FieldArray(vec![death("consign.delays-retry", 4)].into()));
        headers.insert("x-first-death-queue".into(), text("consign.delays-retry"));
        headers.insert("x-first-death-reason".into(), text("expired"));
        let raw = BasicProperties::default().with_headers(headers.clone());
        let mut copy = BasicProperties::default();
        keep(&raw, &mut copy, Some("consign.delays"), "orders");
        assert_eq!(copy.headers().as_ref(), Some(&headers));
        let (mut message, _) = read(&raw, Bytes::new(), |malformed| panic!("{malformed:?}"));
        annotate(&raw, Some("consign.delays"), &mut message);
        assert_eq!(message.pass_through().unwrap().annotations.len(), 1);
    }

    /// Rules: K-127.
    #[test]
    fn a_history_that_does_not_fit_is_left_out_and_logged() {
        let (lines, _guard) = Lines::capture();
        let raw = raw(vec![death(&"q".repeat(65_000), 1), death(&"r".repeat(65_000), 1)]);
        let mut copy = BasicProperties::default();
        keep(&raw, &mut copy, None, "orders");
        assert_eq!(copy, BasicProperties::default());
        let logged = lines.of("consign::rabbitmq");
        let begin = "INFO consign::rabbitmq: the history of a message does not fit into its copy";
        assert!(logged.len() == 1 && logged[0].starts_with(begin) && logged[0].contains("error="), "{logged:?}");
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
