//! The notation of values in `vectors/values.json`: the type, and its content as JSON.

use consign_amqp::value::{
    Array, Decimal32, Decimal64, Decimal128, Described, List, Map, Symbol, Timestamp, Uuid, Value, ValueType,
};
use serde_json::{Value as Json, json};

use crate::{hex, to_hex};

pub(crate) fn value(json: &Json) -> Value {
    let text = || json[1].as_str().expect("a text");
    macro_rules! number {
        () => {
            text().parse().expect("a number")
        };
    }
    macro_rules! bytes {
        () => {
            hex(text()).as_ref().try_into().expect("its width")
        };
    }
    match json[0].as_str().expect("a type") {
        "null" => Value::Null,
        "boolean" => json[1].as_bool().expect("a truth value").into(),
        "ubyte" => Value::Ubyte(number!()),
        "ushort" => Value::Ushort(number!()),
        "uint" => Value::Uint(number!()),
        "ulong" => Value::Ulong(number!()),
        "byte" => Value::Byte(number!()),
        "short" => Value::Short(number!()),
        "int" => Value::Int(number!()),
        "long" => Value::Long(number!()),
        "timestamp" => Timestamp(number!()).into(),
        "float" => f32::from_be_bytes(bytes!()).into(),
        "double" => f64::from_be_bytes(bytes!()).into(),
        "decimal32" => Decimal32(bytes!()).into(),
        "decimal64" => Decimal64(bytes!()).into(),
        "decimal128" => Decimal128(bytes!()).into(),
        "char" => char::from_u32(number!()).expect("a scalar").into(),
        "uuid" => Uuid(bytes!()).into(),
        "binary" => Value::Binary(hex(text()).into()),
        "string" => text().into(),
        "symbol" => Symbol::try_from(text()).expect("ASCII").into(),
        "list" => List(values(&json[1])).into(),
        "map" => values(&json[1]).chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect::<Map>().into(),
        "described" => Described { descriptor: value(&json[1]), value: value(&json[2]) }.into(),
        "array" => Array::described(values(&json[2]), value_type(text()), values(&json[3])).expect("one type").into(),
        other => panic!("{other} is not a type"),
    }
}

fn values(json: &Json) -> Vec<Value> {
    json.as_array().expect("values").iter().map(value).collect()
}

/// The notation of a value.
#[allow(dead_code, reason = "the exchange with other encoders uses it")]
pub(crate) fn of(value: &Value) -> Json {
    let name = value.value_type().name();
    let all = |values: &[Value]| values.iter().map(of).collect::<Json>();
    match value {
        Value::Null => json!([name]),
        Value::Boolean(value) => json!([name, value]),
        Value::Timestamp(at) => json!([name, at.0.to_string()]),
        Value::Float(number) => json!([name, to_hex(&number.to_be_bytes())]),
        Value::Double(number) => json!([name, to_hex(&number.to_be_bytes())]),
        Value::Decimal32(bytes) => json!([name, to_hex(&bytes.0)]),
        Value::Decimal64(bytes) => json!([name, to_hex(&bytes.0)]),
        Value::Decimal128(bytes) => json!([name, to_hex(&bytes.0)]),
        Value::Uuid(bytes) => json!([name, to_hex(&bytes.0)]),
        Value::Binary(bytes) => json!([name, to_hex(bytes)]),
        Value::Char(scalar) => json!([name, u32::from(*scalar).to_string()]),
        Value::String(text) => json!([name, text.as_str()]),
        Value::Symbol(text) => json!([name, text.as_str()]),
        Value::List(list) => json!([name, all(&list.0)]),
        Value::Map(map) => {
            json!([name, map.0.iter().flat_map(|(key, value)| [of(key), of(value)]).collect::<Json>()])
        }
        Value::Array(array) => {
            json!([name, array.element_type().name(), all(array.descriptors()), all(array)])
        }
        Value::Described(described) => json!(["described", of(&described.descriptor), of(&described.value)]),
        number => json!([name, number.as_integer().unwrap_or_default().to_string()]),
    }
}

fn value_type(name: &str) -> ValueType {
    let all = [
        ValueType::Null,
        ValueType::Decimal32,
        ValueType::Decimal64,
        ValueType::Decimal128,
        ValueType::Boolean,
        ValueType::Ubyte,
        ValueType::Ushort,
        ValueType::Uint,
        ValueType::Ulong,
        ValueType::Byte,
        ValueType::Short,
        ValueType::Int,
        ValueType::Long,
        ValueType::Float,
        ValueType::Double,
        ValueType::Char,
        ValueType::Timestamp,
        ValueType::Uuid,
        ValueType::Binary,
        ValueType::String,
        ValueType::Symbol,
        ValueType::List,
        ValueType::Map,
        ValueType::Array,
    ];
    all.into_iter().find(|candidate| candidate.name() == name).expect("the type of an array")
}
