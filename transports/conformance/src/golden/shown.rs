use consign::{
    Message,
    message::{MessageBody, PropertyValue, Value},
    time::Timestamp,
};
use serde_json::{Value as Json, json};

use super::{bytes, hex};

/// Returns everything that a message has, except what the broker adds. Numbers have their types and floating-point numbers
/// their bits, so two messages that are shown alike are equal, also where a number is not equal to itself.
#[must_use]
pub fn shown(message: &Message) -> Json {
    let texts = [
        message.content_type(),
        message.correlation_id(),
        message.message_id(),
        message.subject(),
        message.reply_to(),
        message.session_id(),
        message.reply_to_session_id(),
        message.partition_key(),
        message.transaction_partition_key(),
        message.to(),
    ];
    let mut application: Vec<_> =
        message.application_properties().iter().map(|(key, value)| json!([key, simple(value)])).collect();
    application.sort_by_key(Json::to_string);
    json!({
        "texts": texts,
        "is_stamped": message.is_message_id_stamped(),
        "time_to_live": message.time_to_live().map(|ttl| ttl.as_nanos().to_string()),
        "scheduled": message.scheduled_enqueue_time().map(Timestamp::as_millis),
        "application": application,
        "pass_through": pass_through(message),
        "body": body(message.body()),
        "source": message.dead_letter_source(),
    })
}

fn pass_through(message: &Message) -> Json {
    let Some(rest) = message.pass_through() else { return Json::Null };
    let pairs = |pairs: &[(std::borrow::Cow<'static, str>, Value)]| {
        pairs.iter().map(|(key, of)| json!([&**key, value(of)])).collect::<Vec<_>>()
    };
    json!({
        "user_id": rest.user_id.as_deref().map(bytes),
        "content_encoding": rest.content_encoding.as_deref(),
        "group_sequence": rest.group_sequence,
        "creation_time": rest.creation_time.map(Timestamp::as_millis),
        "durable": rest.durable,
        "priority": rest.priority,
        "first_acquirer": rest.first_acquirer,
        "force_persistence": rest.force_persistence,
        "annotations": pairs(&rest.annotations),
        "footer": pairs(&rest.footer),
    })
}

fn body(body: &MessageBody) -> Json {
    match body {
        MessageBody::Data(data) => {
            json!({ "data": data.sections().iter().map(|section| bytes(section)).collect::<Vec<_>>() })
        }
        MessageBody::Value(of) => json!({ "value": value(of) }),
        MessageBody::Sequence(sections) => {
            let sections = sections.iter().map(|values| values.iter().map(value).collect::<Vec<_>>());
            json!({ "sequence": sections.collect::<Vec<_>>() })
        }
    }
}

fn value(of: &Value) -> Json {
    let all = |values: &[Value]| values.iter().map(value).collect::<Vec<_>>();
    match of {
        Value::Simple(of) => simple(of),
        Value::Symbol(text) => json!(["symbol", &**text]),
        Value::List(values) => json!(["list", all(values)]),
        Value::Array(values) => json!(["array", all(values)]),
        Value::Map(entries) => {
            json!(["map", entries.iter().map(|(key, of)| json!([value(key), value(of)])).collect::<Vec<_>>()])
        }
        Value::Described(pair) => json!(["described", value(&pair.0), value(&pair.1)]),
    }
}

fn simple(of: &PropertyValue) -> Json {
    match of {
        PropertyValue::Null => json!(["null"]),
        PropertyValue::Bool(it) => json!(["bool", it]),
        PropertyValue::U8(it) => json!(["u8", it]),
        PropertyValue::U16(it) => json!(["u16", it]),
        PropertyValue::U32(it) => json!(["u32", it]),
        PropertyValue::U64(it) => json!(["u64", it]),
        PropertyValue::I8(it) => json!(["i8", it]),
        PropertyValue::I16(it) => json!(["i16", it]),
        PropertyValue::I32(it) => json!(["i32", it]),
        PropertyValue::I64(it) => json!(["i64", it]),
        PropertyValue::F32(it) => json!(["f32", hex(&it.to_bits().to_be_bytes())]),
        PropertyValue::F64(it) => json!(["f64", hex(&it.to_bits().to_be_bytes())]),
        PropertyValue::Char(it) => json!(["char", it]),
        PropertyValue::String(it) => json!(["string", &**it]),
        PropertyValue::Decimal(it) => json!(["decimal", hex(it)]),
        PropertyValue::Uuid(it) => json!(["uuid", hex(it)]),
        PropertyValue::DateTime(it) => json!(["date_time", it.as_millis()]),
        PropertyValue::DateTimeOffset(it) => json!(["date_time_offset", it]),
        PropertyValue::TimeSpan(it) => json!(["time_span", it]),
        PropertyValue::Uri(it) => json!(["uri", &**it]),
        PropertyValue::Bytes(it) => json!(["bytes", hex(it)]),
    }
}
