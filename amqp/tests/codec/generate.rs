//! Random values of every type.

use consign_amqp::value::{
    Array, Decimal32, Decimal64, Decimal128, Described, List, Map, Symbol, Timestamp, Uuid, Value, ValueType,
};
use fastrand::Rng;

/// Small numbers as often as large ones.
fn bits(rng: &mut Rng) -> u64 {
    rng.u64(..) >> rng.u32(0..64)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "random bits")]
pub(crate) fn scalar(rng: &mut Rng, value_type: ValueType) -> Value {
    let text = |rng: &mut Rng| (0..rng.usize(0..20)).map(|_| rng.char(..)).collect::<String>();
    let many = |rng: &mut Rng| if rng.u8(..) == 0 { 300 } else { rng.usize(0..20) };
    match value_type {
        ValueType::Null => Value::Null,
        ValueType::Boolean => rng.bool().into(),
        ValueType::Ubyte => rng.u8(..).into(),
        ValueType::Ushort => (bits(rng) as u16).into(),
        ValueType::Uint => (bits(rng) as u32).into(),
        ValueType::Ulong => bits(rng).into(),
        ValueType::Byte => rng.i8(..).into(),
        ValueType::Short => (bits(rng) as i16).into(),
        ValueType::Int => (bits(rng) as i32).wrapping_mul(if rng.bool() { 1 } else { -1 }).into(),
        ValueType::Long => (bits(rng) as i64).wrapping_mul(if rng.bool() { 1 } else { -1 }).into(),
        ValueType::Float => rng.f32().into(),
        ValueType::Double => (rng.f64() * 1e300).into(),
        ValueType::Decimal32 => Decimal32(rng.u32(..).to_be_bytes()).into(),
        ValueType::Decimal64 => Decimal64(rng.u64(..).to_be_bytes()).into(),
        ValueType::Decimal128 => Decimal128(rng.u128(..).to_be_bytes()).into(),
        ValueType::Char => rng.char(..).into(),
        ValueType::Timestamp => Timestamp(bits(rng) as i64).into(),
        ValueType::Uuid => Uuid(rng.u128(..).to_be_bytes()).into(),
        ValueType::Binary => Value::Binary((0..many(rng)).map(|_| rng.u8(..)).collect::<Vec<_>>().into()),
        ValueType::String => text(rng).into(),
        _ => Symbol::try_from((0..many(rng)).map(|_| rng.alphanumeric()).collect::<String>()).unwrap().into(),
    }
}

pub(crate) const SCALARS: [ValueType; 21] = [
    ValueType::Null,
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
    ValueType::Decimal32,
    ValueType::Decimal64,
    ValueType::Decimal128,
    ValueType::Char,
    ValueType::Timestamp,
    ValueType::Uuid,
    ValueType::Binary,
    ValueType::String,
    ValueType::Symbol,
];

pub(crate) fn value(rng: &mut Rng, levels: u8) -> Value {
    let deeper = levels.saturating_sub(1);
    let count = |rng: &mut Rng| rng.usize(0..6);
    match if levels == 0 { 0 } else { rng.u8(0..10) } {
        6 => (0..count(rng)).map(|_| value(rng, deeper)).collect::<List>().into(),
        7 => (0..count(rng)).map(|_| (value(rng, deeper), value(rng, deeper))).collect::<Map>().into(),
        8 => array(rng, deeper).into(),
        9 => Described { descriptor: descriptor(rng), value: value(rng, deeper) }.into(),
        _ => {
            let value_type = SCALARS[rng.usize(..SCALARS.len())];
            scalar(rng, value_type)
        }
    }
}

fn descriptor(rng: &mut Rng) -> Value {
    let value_type = if rng.bool() { ValueType::Ulong } else { ValueType::Symbol };
    scalar(rng, value_type)
}

fn array(rng: &mut Rng, levels: u8) -> Array {
    let descriptors = (0..rng.usize(0..8).saturating_sub(5)).map(|_| descriptor(rng)).collect();
    let count = rng.usize(0..6);
    let (element, values): (_, Vec<_>) = match if levels == 0 { 0 } else { rng.u8(0..6) } {
        3 => (ValueType::List, (0..count).map(|_| List(vec![value(rng, levels - 1)]).into()).collect()),
        4 => (ValueType::Map, (0..count).map(|_| Map(vec![(value(rng, 0), value(rng, levels - 1))]).into()).collect()),
        5 => (ValueType::Array, (0..count).map(|_| array(rng, levels - 1).into()).collect()),
        _ => {
            let element = SCALARS[rng.usize(..SCALARS.len())];
            (element, (0..count).map(|_| scalar(rng, element)).collect())
        }
    };
    Array::described(descriptors, element, values).unwrap()
}
