mod golden;

use std::{
    error::Error,
    io::{self, BufReader, Read},
    time::Duration,
};

use bytes::Bytes;
use consign_core::{
    Message,
    message::{MessageBody, MessageState, Properties, PropertyValue, Received, SequenceNumber, Stored, Value},
    time::Timestamp,
};

use super::{Line, LineError, MAX_LINE, read_messages, write_message};
use crate::{
    durable::samples::{every_body, every_property, random, random_message},
    engine::record::MAX_DEPTH,
};

fn written(line: &Line) -> String {
    let mut out = Vec::new();
    write_message(&mut out, line).unwrap();
    String::from_utf8(out).unwrap()
}

fn read(text: &str) -> Result<Line, LineError> {
    let mut lines = read_messages(text.as_bytes(), MAX_LINE);
    let first = lines.next().unwrap();
    assert!(lines.next().is_none());
    first
}

fn line(message: Message) -> Line {
    Line { entity: None, message }
}

/// Reads back what is written, and compares every part.
fn round_trip(line: &Line) -> Line {
    let text = written(line);
    assert_eq!(text.find('\n'), Some(text.len() - 1), "{text}");
    let again = read(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let parts = |line: &Line| {
        let Line { entity, message } = line.clone();
        let source = message.dead_letter_source().map(str::to_owned);
        (entity, message.properties().clone(), message.body().clone(), source, message.received().copied())
    };
    assert_eq!(parts(&again), parts(line), "{text}");
    again
}

#[test]
fn every_property_and_every_body_comes_back() {
    let mut properties = every_property();
    // Milliseconds are what counts.
    properties.set_time_to_live(Duration::from_millis(3_500)).unwrap();
    let mut stored = Stored::new(Message::from_parts(properties, MessageBody::empty()));
    stored.set_dead_letter_source("orders");
    let mut received = Received::new(SequenceNumber::new(1 << 63), Timestamp::from_millis(4), u32::MAX);
    received.enqueued_sequence_number = SequenceNumber::new(u64::MAX);
    received.expires_at = Timestamp::from_millis(5);
    received.locked_until = Some(Timestamp::from_millis(-6));
    received.state = MessageState::Deferred;
    received.dead_lettered = true;
    received.partition_id = Some(-1);
    let message = stored.into_message().with_received(received);
    round_trip(&Line { entity: Some("orders/$deadletterqueue".to_owned()), message });
    for body in every_body() {
        round_trip(&line(Message::new(body)));
    }
    for state in [MessageState::Active, MessageState::Scheduled] {
        let mut received = Received::new(SequenceNumber::new(1), Timestamp::EPOCH, 1);
        received.state = state;
        round_trip(&line(Message::new("").with_received(received)));
    }
}

#[test]
fn random_messages_come_back() {
    let mut random = random("random_messages_come_back");
    for _ in 0..2_000 {
        let message = random_message(&mut random).into_message();
        round_trip(&Line { entity: random.bool().then(|| "e".to_owned()), message });
    }
}

#[test]
fn a_nan_keeps_its_bits() {
    for bits in [f64::NAN.to_bits(), 0xfff4_0000_0000_0001, f64::INFINITY.to_bits(), (-0.0_f64).to_bits()] {
        let again = read(&written(&line(Message::new(Value::from(f64::from_bits(bits)))))).unwrap();
        let MessageBody::Value(value) = again.message.body() else { panic!("a value") };
        assert!(matches!(**value, Value::Simple(PropertyValue::F64(value)) if value.to_bits() == bits));
    }
    for bits in [f32::NAN.to_bits(), 0xffa0_0001, f32::NEG_INFINITY.to_bits(), 1] {
        let again = read(&written(&line(Message::new(Value::from(f32::from_bits(bits)))))).unwrap();
        let MessageBody::Value(value) = again.message.body() else { panic!("a value") };
        assert!(matches!(**value, Value::Simple(PropertyValue::F32(value)) if value.to_bits() == bits));
    }
}

#[test]
fn a_value_as_deep_as_can_be_stored_comes_back() {
    let mut value = Value::from(1_u8);
    for level in 0..MAX_DEPTH {
        value = match level % 4 {
            0 => Value::List(vec![value]),
            1 => Value::Map(vec![(0_i64.into(), value)]),
            2 => Value::Array(vec![value]),
            _ => Value::Described(Box::new((value, 0_i64.into()))),
        };
    }
    let mut properties = Properties::new();
    properties.pass_through_mut().footer.push(("f".into(), value.clone()));
    round_trip(&line(Message::from_parts(properties, MessageBody::Sequence([vec![value]].into()))));
}

/// The form is what files of users have.
#[test]
fn the_form_is_the_documented_one() {
    let message = Message::builder()
        .message_id("m-1")
        .time_to_live(Duration::from_secs(60))
        .property("attempt", 3_i64)
        .property("rate", 1.5)
        .build(r#"{"id":1}"#)
        .unwrap();
    let expected = concat!(
        r#"{"entity":"orders","message_id":"m-1","time_to_live":60000,"#,
        r#""properties":{"attempt":3,"rate":{"f64":"1.5"}},"body":{"text":"{\"id\":1}"}}"#,
        "\n"
    );
    assert_eq!(written(&Line { entity: Some("orders".to_owned()), message }), expected);
    for (body, expected) in [
        (MessageBody::from(&[0, 0xff]), r#"{"body":{"bytes":"AP8="}}"#),
        (MessageBody::from("a\tb\r\n"), r#"{"body":{"text":"a\tb\r\n"}}"#),
        (MessageBody::from("\0"), r#"{"body":{"bytes":"AA=="}}"#),
        (MessageBody::sections(vec![Bytes::new(), Bytes::from_static(b"a")]), r#"{"body":{"sections":["","YQ=="]}}"#),
        (Value::Map(vec![("k".into(), Value::List(vec![]))]).into(), r#"{"body":{"value":["map","k",["list"]]}}"#),
        (MessageBody::Sequence([vec![true.into()]].into()), r#"{"body":{"sequence":[[true]]}}"#),
        (Value::Symbol("s".into()).into(), r#"{"body":{"value":{"symbol":"s"}}}"#),
    ] {
        assert_eq!(written(&line(Message::new(body))), format!("{expected}\n"));
    }
}

#[test]
fn missing_members_have_their_defaults() {
    let Line { entity, message } = read("{}").unwrap();
    assert_eq!((entity, message.properties(), message.body()), (None, &Properties::new(), &MessageBody::empty()));
    assert_eq!((message.received(), message.dead_letter_source()), (None, None));
    let message = read(r#"{"message_id":null,"received":{"sequence_number":7,"enqueued_time":8,"delivery_count":1}}"#);
    let expected = Received::new(SequenceNumber::new(7), Timestamp::from_millis(8), 1);
    assert_eq!(message.unwrap().message.received(), Some(&expected));
}

#[test]
fn a_bad_line_is_named_and_the_next_one_is_read() {
    for (bad, expected) in [
        ("x", "line 2, column 1: not JSON"),
        ("{", "line 2, column 1: not JSON"),
        ("{} {}", "line 2, column 4: not JSON"),
        ("\u{feff}{}", "line 2, column 1: not JSON"),
        ("[]", "line 2, column 0: not valid in a message"),
        ("7", "line 2, column 1: not valid in a message"),
        (r#"{"bdy":{}}"#, "line 2, column 6: not valid in a message"),
        (r#"{"subject":1}"#, "line 2, column 12: not valid in a message"),
        (r#"{"subject":"a","subject":"b"}"#, "line 2, column 24: not valid in a message"),
        (r#"{"time_to_live":-1}"#, "line 2, column 18: not valid in a message"),
        (r#"{"time_to_live":0}"#, "line 2: TimeToLive must be greater than zero"),
        (r#"{"message_id":""}"#, "line 2: MessageId must not be empty"),
        (r#"{"session_id":"a","partition_key":"b"}"#, "line 2: PartitionKey must equal SessionId when both are set"),
        (r#"{"scheduled_enqueue_time":"tomorrow"}"#, "line 2, column 36: not valid in a message"),
        (r#"{"received":{"sequence_number":1}}"#, "line 2, column 33: not valid in a message"),
    ] {
        check_bad(bad, expected);
    }
    for bad in [
        r#"{"properties":[]}"#,
        r#"{"properties":{"a":1,"a":2}}"#,
        r#"{"properties":{"a":["list"]}}"#,
        r#"{"properties":{"a":1.5}}"#,
        r#"{"properties":{"a":9223372036854775808}}"#,
        r#"{"properties":{"a":{"u8":256}}}"#,
        r#"{"properties":{"a":{"u8":1,"u16":2}}}"#,
        r#"{"properties":{"a":{}}}"#,
        r#"{"properties":{"a":{"u128":1}}}"#,
        r#"{"properties":{"a":{"f64":1.5}}}"#,
        r#"{"properties":{"a":{"f64":"0xg"}}}"#,
        r#"{"properties":{"a":{"f64":"one"}}}"#,
        r#"{"properties":{"a":{"char":"ab"}}}"#,
        r#"{"properties":{"a":{"uuid":"0"}}}"#,
        r#"{"properties":{"a":{"decimal":"AA=="}}}"#,
        r#"{"properties":{"a":{"bytes":"A"}}}"#,
        r#"{"properties":{"a":{"bytes":"A\u0000=="}}}"#,
        r#"{"properties":{"a":"\ud800"}}"#,
        r#"{"received":[1,1,1]}"#,
        r#"{"pass_through":[]}"#,
        r#"{"body":"text"}"#,
        r#"{"body":{}}"#,
        r#"{"body":{"text":"a","bytes":""}}"#,
        r#"{"body":{"bytes":[0]}}"#,
        r#"{"body":{"value":[]}}"#,
        r#"{"body":{"value":["set"]}}"#,
        r#"{"body":{"value":["map",1]}}"#,
        r#"{"body":{"value":["described",1]}}"#,
        r#"{"body":{"sequence":[1]}}"#,
        r#"{"pass_through":{"priority":256}}"#,
        r#"{"pass_through":{"footer":[["a"]]}}"#,
        r#"{"received":{"sequence_number":1,"enqueued_time":1,"delivery_count":1,"state":"locked"}}"#,
    ] {
        check_bad(bad, "line 2, column ");
    }
    check_bad(&format!(r#"{{"body":{{"value":{}"#, r#"["list","#.repeat(200)), "line 2, column ");
}

fn check_bad(bad: &str, expected: &str) {
    let text = format!("{{}}\n{bad}\r\n\n{{\"subject\":\"last\"}}");
    let mut lines = read_messages(text.as_bytes(), MAX_LINE);
    lines.next().unwrap().unwrap();
    let error = lines.next().unwrap().expect_err(bad);
    assert!(error.to_string().starts_with(expected), "{bad}: {error}");
    assert_eq!(error.line(), 2);
    assert_eq!(lines.next().unwrap().unwrap().message.subject(), Some("last"));
    assert!(lines.next().is_none());
}

#[test]
fn an_error_names_what_is_expected() {
    for (bad, expected) in [
        (r#"{"subject":1}"#, "expected a string"),
        (
            r#"{"properties":{"rate":1.5}}"#,
            r#"expected a simple value; a floating-point number is an object such as {"f64":"1.5"}"#,
        ),
        (r#"{"properties":{"n":{"u64":"18446744073709551615"}}}"#, "expected u64"),
        (r#"{"properties":{"n":{"f64":"one"}}}"#, "expected a floating-point number"),
        (r#"{"bdy":{}}"#, "expected one of `entity`, `received`"),
        (r#"{"body":{"base64":"aa"}}"#, "expected one of `text`, `bytes`"),
        (r#"{"body":{"bytes":"?"}}"#, "not base64"),
        (r#"{"body":"x"}"#, "expected "),
        (r#"{"received":{"sequence_number":1}}"#, "missing field `enqueued_time`"),
        (r#"{"subject":"a","subject":"b"}"#, "duplicate field `subject`"),
        ("[]", "expected an object"),
    ] {
        let error = read(bad).unwrap_err().to_string();
        assert!(error.contains(&format!(": not valid in a message: {expected}")), "{bad}: {error}");
    }
}

/// Rules: I-40.
#[test]
fn an_error_shows_nothing_of_the_line() {
    for bad in [
        r#"{"priority":"canary"}"#,
        r#"{"canary":1}"#,
        r#"{"body":{"canary":1}}"#,
        r#"{"time_to_live":"canary"}"#,
        r#"{"properties":{"a":{"f64":"canary"}}}"#,
        r#"{"properties":{"a":{"canary":1}}}"#,
        r#"{"canary, expected canary":1}"#,
        r#"{"canary at line 1":1}"#,
        r#"{"body":{"expected canary":1}}"#,
        r#"{"body":"a, expected canary"}"#,
        r#"{"time_to_live":"1, expected canary"}"#,
        r#"{"body":{"bytes":"canary"}}"#,
        r#"{"properties":{"canary":1,"canary":2}}"#,
    ] {
        let error = read(bad).unwrap_err();
        let shown = format!("{error} {error:?} {:?}", error.source().map(ToString::to_string));
        assert!(!shown.contains("canary"), "{shown}");
    }
}

#[test]
fn a_line_is_as_long_as_the_limit_and_no_longer() {
    let text =
        "{\"to\":\"abc\"}\n{\"to\":\"abcd\"}\n{\"to\":\"abc\"}\r\n{\"to\":\"a long one\"}\n{}\n{\"to\":\"abcd\"}";
    let tos = |limit| -> Vec<Result<Option<String>, String>> {
        let to = |line: Line| line.message.to().map(str::to_owned);
        read_messages(text.as_bytes(), limit).map(|line| line.map(to).map_err(|error| error.to_string())).collect()
    };
    let abc = || Ok(Some("abc".to_owned()));
    let too_long = |line| Err(format!("line {line}: longer than 12 bytes"));
    assert_eq!(tos(12), [abc(), too_long(2), abc(), too_long(4), Ok(None), too_long(6)]);
    assert_eq!(tos(13).iter().filter(|line| line.is_err()).count(), 1);
    assert!(tos(usize::MAX).iter().all(Result::is_ok));
}

#[test]
fn an_error_of_the_input_is_the_last() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("broken"))
        }
    }
    for start in ["{}\n", "{}\n{", "{}\n{\"subject\":"] {
        let mut lines = read_messages(BufReader::new(start.as_bytes().chain(Broken)), 5);
        lines.next().unwrap().unwrap();
        assert_eq!(lines.next().unwrap().unwrap_err().to_string(), "line 2: broken");
        assert!(lines.next().is_none());
    }
    let mut none = [0_u8; 0];
    assert!(write_message(&mut &mut none[..], &line(Message::new(""))).is_err());
}
