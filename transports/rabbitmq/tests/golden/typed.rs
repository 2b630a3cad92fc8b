//! Headers of AMQP 0-9-1 as JSON: each is a list of its type and its value.

use consign_conformance::golden;
use consign_rabbitmq::lapin::types::{AMQPValue, DecimalValue, FieldTable, ShortString};
use serde_json::{Value as Json, json};

pub(crate) fn table(table: &FieldTable) -> Json {
    table.into_iter().map(|(name, header)| (name.as_str().to_owned(), value(header))).collect()
}

fn value(header: &AMQPValue) -> Json {
    match header {
        AMQPValue::Void => json!(["void"]),
        AMQPValue::Boolean(it) => json!(["boolean", it]),
        AMQPValue::ShortShortInt(it) => json!(["short-short", it]),
        AMQPValue::ShortShortUInt(it) => json!(["short-short-unsigned", it]),
        AMQPValue::ShortInt(it) => json!(["short", it]),
        AMQPValue::ShortUInt(it) => json!(["short-unsigned", it]),
        AMQPValue::LongInt(it) => json!(["long", it]),
        AMQPValue::LongUInt(it) => json!(["long-unsigned", it]),
        AMQPValue::LongLongInt(it) => json!(["long-long", it]),
        AMQPValue::Float(it) => json!(["float", it.to_bits()]),
        AMQPValue::Double(it) => json!(["double", it.to_bits()]),
        AMQPValue::Timestamp(it) => json!(["timestamp", it]),
        AMQPValue::DecimalValue(it) => json!(["decimal", [it.scale, it.value]]),
        AMQPValue::LongString(it) => json!(["long-string", golden::bytes(it.as_bytes())]),
        AMQPValue::ByteArray(it) => json!(["bytes", golden::bytes(it.as_slice())]),
        AMQPValue::FieldArray(it) => json!(["array", it.as_slice().iter().map(value).collect::<Vec<_>>()]),
        AMQPValue::FieldTable(it) => json!(["table", table(it)]),
        AMQPValue::ShortString(_) => panic!("a header that is not written: {header:?}"),
    }
}

pub(crate) fn table_of(json: &Json) -> FieldTable {
    let mut table = FieldTable::default();
    for (name, value) in json.as_object().unwrap() {
        table.insert(ShortString::from(name.as_str()), value_of(value));
    }
    table
}

fn value_of(json: &Json) -> AMQPValue {
    let it = &json[1];
    let signed = || it.as_i64().unwrap();
    let unsigned = || it.as_u64().unwrap();
    match json[0].as_str().unwrap() {
        "void" => AMQPValue::Void,
        "boolean" => AMQPValue::Boolean(it.as_bool().unwrap()),
        "short-short" => AMQPValue::ShortShortInt(signed().try_into().unwrap()),
        "short-short-unsigned" => AMQPValue::ShortShortUInt(unsigned().try_into().unwrap()),
        "short" => AMQPValue::ShortInt(signed().try_into().unwrap()),
        "short-unsigned" => AMQPValue::ShortUInt(unsigned().try_into().unwrap()),
        "long" => AMQPValue::LongInt(signed().try_into().unwrap()),
        "long-unsigned" => AMQPValue::LongUInt(unsigned().try_into().unwrap()),
        "long-long" => AMQPValue::LongLongInt(signed()),
        "float" => AMQPValue::Float(f32::from_bits(unsigned().try_into().unwrap())),
        "double" => AMQPValue::Double(f64::from_bits(unsigned())),
        "timestamp" => AMQPValue::Timestamp(unsigned()),
        "decimal" => AMQPValue::DecimalValue(DecimalValue {
            scale: it[0].as_u64().unwrap().try_into().unwrap(),
            value: it[1].as_u64().unwrap().try_into().unwrap(),
        }),
        "long-string" => AMQPValue::LongString(golden::bytes_of(it).into()),
        "bytes" => AMQPValue::ByteArray(golden::bytes_of(it).into()),
        "array" => AMQPValue::FieldArray(it.as_array().unwrap().iter().map(value_of).collect::<Vec<_>>().into()),
        "table" => AMQPValue::FieldTable(table_of(it)),
        other => panic!("{other} is no type"),
    }
}
