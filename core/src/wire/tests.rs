use bytes::Bytes;
use fastrand::Rng;
use serde::de::DeserializeOwned;

use super::{
    Problem, Type,
    binary::{self, Reader},
    from_hex,
    json::{As, Form, Natural, Tagged, Text},
    text,
};
use crate::{
    message::{PropertyValue, Value, limits::VALUE_LEVELS},
    time::Timestamp,
};

/// A random generator from the variable `SEED`, or from another seed each time, which a failed test shows.
fn random(test: &str) -> Rng {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
    eprintln!("SEED={seed} cargo test --lib {test}");
    Rng::with_seed(seed)
}

fn some_text(random: &mut Rng) -> Box<str> {
    let text: String = (0..random.usize(0..12)).map(|_| random.char(..)).collect();
    text.into()
}

fn number(random: &mut Rng) -> u64 {
    random.u64(..) >> random.u32(0..64)
}

/// A value of this type.
fn simple(kind: Type, random: &mut Rng) -> PropertyValue {
    let signed = number(random).cast_signed().wrapping_mul(if random.bool() { 1 } else { -1 });
    match kind {
        Type::Null => PropertyValue::Null,
        Type::Bool => random.bool().into(),
        Type::U8 => random.u8(..).into(),
        Type::U16 => random.u16(..).into(),
        Type::U32 => random.u32(..).into(),
        Type::U64 => number(random).into(),
        Type::I8 => random.i8(..).into(),
        Type::I16 => random.i16(..).into(),
        Type::I32 => random.i32(..).into(),
        Type::I64 => signed.into(),
        Type::F32 => f32::from_bits(random.u32(..)).into(),
        Type::F64 => f64::from_bits(random.u64(..)).into(),
        Type::Char => random.char(..).into(),
        Type::String => PropertyValue::String(some_text(random)),
        Type::Decimal => PropertyValue::Decimal(random.u128(..).to_le_bytes()),
        Type::Uuid => PropertyValue::Uuid(random.u128(..).to_le_bytes()),
        Type::DateTime => Timestamp::from_millis(signed).into(),
        Type::DateTimeOffset => PropertyValue::DateTimeOffset(signed),
        Type::TimeSpan => PropertyValue::TimeSpan(signed),
        Type::Uri => PropertyValue::Uri(some_text(random)),
        Type::Bytes => (0..random.usize(0..40)).map(|_| random.u8(..)).collect::<Bytes>().into(),
    }
}

fn any_simple(random: &mut Rng) -> PropertyValue {
    simple(Type::ALL[random.usize(..Type::ALL.len())], random)
}

fn any(random: &mut Rng, levels: usize) -> Value {
    fn some(random: &mut Rng, levels: usize) -> Vec<Value> {
        (0..random.usize(0..4)).map(|_| any(random, levels - 1)).collect()
    }
    match if levels == 1 { 0 } else { random.u8(..7) } {
        0 | 1 => any_simple(random).into(),
        2 => Value::Symbol(some_text(random)),
        3 => Value::List(some(random, levels)),
        4 => Value::Array(some(random, levels)),
        5 => Value::Map(some(random, levels).into_iter().map(|key| (key, any(random, levels - 1))).collect()),
        _ => Value::Described(Box::new((any(random, levels - 1), any(random, levels - 1)))),
    }
}

/// The bytes say whether two values are the same, also of a number that is not equal to itself.
fn bytes(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    binary::value(&mut out, value);
    out
}

fn json<F: Form>(value: &Value) -> String {
    serde_json::to_string(&As::<F, _>::new(value)).unwrap()
}

fn from_json<F: Form>(text: &str) -> Result<Value, serde_json::Error>
where
    As<F, Value>: DeserializeOwned,
{
    serde_json::from_str::<As<F, Value>>(text).map(As::into_inner)
}

/// The only NaN of a text.
fn canonical(value: PropertyValue) -> PropertyValue {
    match value {
        PropertyValue::F32(value) if value.is_nan() => f32::NAN.into(),
        PropertyValue::F64(value) if value.is_nan() => f64::NAN.into(),
        value => value,
    }
}

#[test]
fn types_have_one_number_and_one_name() {
    for (number, kind) in (0..).zip(Type::ALL) {
        assert_eq!((kind.number(), Type::from_number(number)), (number, Some(*kind)));
        assert_eq!(Type::from_name(kind.name()), Some(*kind));
        assert_eq!(Type::from_short_name(kind.short_name()), Some(*kind));
        assert_eq!(Type::of(&simple(*kind, &mut Rng::with_seed(0))), *kind);
    }
    assert_eq!((Type::from_number(21), Type::from_name("s"), Type::from_short_name("string")), (None, None, None));
}

#[test]
fn values_are_read_as_they_were_written() {
    let mut random = random("values_are_read_as_they_were_written");
    for nth in 0..5_000 {
        let of = any(&mut random, 1 + nth % 5);
        let written = bytes(&of);
        let mut reader = Reader::new(&written);
        assert_eq!(bytes(&reader.value(5).unwrap()), written);
        reader.finish().unwrap();
        assert_eq!(bytes(&from_json::<Tagged>(&json::<Tagged>(&of)).unwrap()), written);
        assert_eq!(bytes(&from_json::<Natural>(&json::<Natural>(&of)).unwrap()), written);
        let read = from_json::<Text>(&json::<Text>(&of)).unwrap();
        assert_eq!(json::<Text>(&read), json::<Text>(&of));
        let of = any_simple(&mut random);
        let read = text::read(&text::write(&of)).unwrap();
        assert_eq!(bytes(&read.into()), bytes(&canonical(of).into()));
    }
}

#[test]
fn no_bytes_make_a_reader_panic_or_allocate() {
    let mut random = random("no_bytes_make_a_reader_panic_or_allocate");
    for nth in 0..20_000 {
        let mut written = bytes(&any(&mut random, 4));
        if nth % 2 == 0 {
            written = (0..random.usize(0..64)).map(|_| random.u8(..)).collect();
        }
        for _ in 0..random.usize(0..4) {
            let at = random.usize(..=written.len());
            match random.u8(..3) {
                0 => written.truncate(at),
                1 => written.insert(at, random.u8(..)),
                _ => written.iter_mut().skip(at).take(1).for_each(|byte| *byte = random.u8(..)),
            }
        }
        let mut reader = Reader::new(&written);
        match reader.value(VALUE_LEVELS) {
            Ok(read) => assert!(read.is_within(VALUE_LEVELS)),
            Err(error) => assert!(error.at() <= written.len(), "{error}"),
        }
        let json = String::from_utf8_lossy(&written);
        let _ = (from_json::<Text>(&json).is_ok(), from_json::<Tagged>(&json).is_ok(), text::read(&json).is_ok());
        let _ = from_json::<Natural>(&json).is_ok();
    }
    // A milliard of values in six bytes.
    let milliard = [33, 0x80, 0x94, 0xeb, 0xdc, 3];
    let error = Reader::new(&milliard).value(2).unwrap_err();
    assert_eq!((error.problem(), error.expected(), error.at()), (Problem::Truncated, "list of values", 6));
}

#[test]
fn changed_json_is_refused_or_read() {
    let mut random = random("changed_json_is_refused_or_read");
    for _ in 0..5_000 {
        let of = any(&mut random, 4);
        for mut text in [json::<Text>(&of), json::<Tagged>(&of), json::<Natural>(&of)] {
            let at = random.usize(..text.len());
            if text.is_char_boundary(at) && text.is_char_boundary(at + 1) {
                let other = ["", "0", "\"", "[", "}", "null", "u8"][random.usize(..7)];
                text.replace_range(at..=at, other);
            }
            let _ = (from_json::<Text>(&text).is_ok(), from_json::<Tagged>(&text).is_ok());
            let _ = from_json::<Natural>(&text).is_ok();
        }
    }
}

#[test]
fn no_value_has_more_levels_than_are_read() {
    let wrap: [fn(Value) -> Value; 4] = [
        |inner| Value::List(vec![inner]),
        |inner| Value::Array(vec![inner]),
        |inner| Value::Map(vec![(Value::from("k"), inner)]),
        |inner| Value::Described(Box::new((Value::Symbol("d".into()), inner))),
    ];
    for wrap in wrap {
        let nested = |levels: usize| (1..levels).fold(Value::from(1_u8), |inner, _| wrap(inner));
        let (most, more) = (nested(VALUE_LEVELS), nested(VALUE_LEVELS + 1));
        assert_eq!(Reader::new(&bytes(&most)).value(VALUE_LEVELS).as_ref(), Ok(&most));
        let error = Reader::new(&bytes(&more)).value(VALUE_LEVELS).unwrap_err();
        assert_eq!(error.problem(), Problem::TooDeep);
        assert_eq!(from_json::<Text>(&json::<Text>(&most)).unwrap(), most);
        let refused = from_json::<Text>(&json::<Text>(&more)).unwrap_err();
        assert!(refused.to_string().starts_with("expected fewer levels"));
        let (most, more) = (nested(Tagged::LEVELS), nested(Tagged::LEVELS + 1));
        assert_eq!(from_json::<Tagged>(&json::<Tagged>(&most)).unwrap(), most);
        let refused = from_json::<Tagged>(&json::<Tagged>(&more)).unwrap_err();
        assert!(refused.to_string().starts_with("expected fewer levels"));
        let (most, more) = (nested(Natural::LEVELS), nested(Natural::LEVELS + 1));
        assert_eq!(from_json::<Natural>(&json::<Natural>(&most)).unwrap(), most);
        assert!(from_json::<Natural>(&json::<Natural>(&more)).is_err());
    }
}

#[test]
fn an_error_has_its_place_and_what_was_expected() {
    for (text, expected) in [
        ("u8:256", "not a u8, at byte 3"),
        ("time:soon", "not a date_time, at byte 5"),
        ("u9:1", "not a type of a value, at byte 0"),
        ("no colon", "not a type of a value, at byte 0"),
        ("uuid:00", "not a uuid, at byte 5"),
    ] {
        assert_eq!(text::read(text).unwrap_err().to_string(), expected);
    }
    for (bytes, expected) in [
        (&[1, 2][..], "not a truth value, at byte 2"),
        (&[21], "not a kind of a value, at byte 1"),
        (&[12, 0x80, 0xb0, 3], "not a character, at byte 4"),
        (&[13, 2, 0], "the bytes end within a string of bytes, at byte 2"),
        (&[13, 1, 0xff], "not a text, at byte 3"),
        (&[3, 0xff, 0xff, 4], "not a number, at byte 4"),
        (&[34, 1, 0], "the bytes end within a list of values, at byte 2"),
    ] {
        assert_eq!(Reader::new(bytes).value(9).unwrap_err().to_string(), expected);
    }
    let mut reader = Reader::new(&[0, 0]);
    reader.value(1).unwrap();
    assert_eq!(reader.finish().unwrap_err().to_string(), "bytes follow the value, at byte 1");
}

/// The table of the module, which other programs rely on.
#[test]
fn each_form_is_written_as_documented() {
    let decimal = "00".repeat(15) + "ff";
    let simple = |value: PropertyValue| Value::Simple(value);
    let text = || Value::from("a");
    for (value, as_text, tagged, natural) in [
        (simple(PropertyValue::Null), r#""null:""#, r#"{"simple":"null"}"#, "null"),
        (true.into(), r#""bool:true""#, r#"{"simple":{"bool":true}}"#, "true"),
        (5_i64.into(), r#""i64:5""#, r#"{"simple":{"i64":5}}"#, "5"),
        (5_u8.into(), r#""u8:5""#, r#"{"simple":{"u8":5}}"#, r#"{"u8":5}"#),
        (1.5_f32.into(), r#""f32:1.5""#, r#"{"simple":{"f32":1069547520}}"#, r#"{"f32":"1.5"}"#),
        (1.5_f64.into(), r#""f64:1.5""#, r#"{"simple":{"f64":4609434218613702656}}"#, r#"{"f64":"1.5"}"#),
        (f64::NEG_INFINITY.into(), r#""f64:-inf""#, r#"{"simple":{"f64":18442240474082181120}}"#, r#"{"f64":"-inf"}"#),
        ('a'.into(), r#""char:a""#, r#"{"simple":{"char":"a"}}"#, r#"{"char":"a"}"#),
        (text(), r#""s:a""#, r#"{"simple":{"string":"a"}}"#, r#""a""#),
        (
            simple(PropertyValue::Decimal(from_hex(&decimal).unwrap().try_into().unwrap())),
            &format!("\"decimal:{}\"", decimal.to_uppercase()),
            &format!(r#"{{"simple":{{"decimal":"{decimal}"}}}}"#),
            r#"{"decimal":"AAAAAAAAAAAAAAAAAAAA/w=="}"#,
        ),
        (
            simple(PropertyValue::Uuid([0; 16])),
            &format!("\"uuid:{}\"", "00".repeat(16)),
            &format!(r#"{{"simple":{{"uuid":"{}"}}}}"#, "00".repeat(16)),
            r#"{"uuid":"00000000-0000-0000-0000-000000000000"}"#,
        ),
        (Timestamp::from_millis(5).into(), r#""time:5""#, r#"{"simple":{"date_time":5}}"#, r#"{"date_time":5}"#),
        (Bytes::from_static(&[255]).into(), r#""bytes:FF""#, r#"{"simple":{"bytes":"ff"}}"#, r#"{"bytes":"/w=="}"#),
        (Value::Symbol("a".into()), r#"{"symbol":"a"}"#, r#"{"symbol":"a"}"#, r#"{"symbol":"a"}"#),
        (
            Value::List(vec![text()]),
            r#"{"list":["s:a"]}"#,
            r#"{"list":[{"simple":{"string":"a"}}]}"#,
            r#"["list","a"]"#,
        ),
        (Value::Array(vec![]), r#"{"array":[]}"#, r#"{"array":[]}"#, r#"["array"]"#),
        (
            Value::Map(vec![(text(), 5_i64.into())]),
            r#"{"map":[["s:a","i64:5"]]}"#,
            r#"{"map":[[{"simple":{"string":"a"}},{"simple":{"i64":5}}]]}"#,
            r#"["map","a",5]"#,
        ),
        (
            Value::Described(Box::new((text(), 5_i64.into()))),
            r#"{"described":["s:a","i64:5"]}"#,
            r#"{"described":[{"simple":{"string":"a"}},{"simple":{"i64":5}}]}"#,
            r#"["described","a",5]"#,
        ),
    ] {
        let written = (json::<Text>(&value), json::<Tagged>(&value), json::<Natural>(&value));
        assert_eq!((&*written.0, &*written.1, &*written.2), (as_text, tagged, natural));
        for read in [from_json::<Text>(as_text), from_json::<Tagged>(tagged), from_json::<Natural>(natural)] {
            assert_eq!(read.unwrap(), value);
        }
    }
}

#[test]
fn digits_that_are_none_are_named() {
    let tagged = from_json::<Tagged>(r#"{"simple":{"bytes":"/w=="}}"#).unwrap_err().to_string();
    let natural = from_json::<Natural>(r#"{"bytes":"ff"}"#).unwrap_err().to_string();
    assert!(
        tagged.starts_with("expected hexadecimal digits") && natural.starts_with("expected base64"),
        "{tagged} {natural}"
    );
}

#[test]
fn output_of_another_form_is_refused() {
    for bad in [r#"{"u8":1}"#, "1", "null", r#"{"list":["u8:256"]}"#, r#"{"list":[],"array":[]}"#, r#"["list"]"#, "{}"]
    {
        assert!(from_json::<Text>(bad).is_err(), "{bad}");
    }
    for bad in
        [r#""null""#, r#"{"u8":1}"#, r#"{"simple":{"u8":1,"u16":1}}"#, r#"{"simple":{"u8":256}}"#, r#"{"map":[[]]}"#]
    {
        assert!(from_json::<Tagged>(bad).is_err(), "{bad}");
    }
    for bad in [
        r#"{"string":"a"}"#,
        r#"{"list":[]}"#,
        r#"{"array":[]}"#,
        r#"{"map":[]}"#,
        r#"{"described":["a","b"]}"#,
        r#"{"simple":1}"#,
        r#"{"f32":"0x100000000"}"#,
        r#"["map",1]"#,
    ] {
        assert!(from_json::<Natural>(bad).is_err(), "{bad}");
    }
    // An error shows nothing of the contents.
    for bad in [r#"{"canary":1}"#, r#"{"u8":"canary"}"#, r#""u8:canary""#, r#"{"symbol":["canary"]}"#] {
        assert!(!from_json::<Text>(bad).unwrap_err().to_string().contains("canary"), "{bad}");
    }
}
