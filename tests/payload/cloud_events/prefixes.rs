use bytes::Bytes;
use consign::{
    Message,
    cloud_events::{CloudEvent, CloudEventError, Mode, Prefix},
    message::PropertyValue,
    time::Timestamp,
};

use super::{binary, event, structured};

fn with(message: &mut Message, name: &str, value: impl Into<PropertyValue>) {
    message.properties_mut().application_properties_mut().insert(name, value);
}

/// What is read of one attribute.
fn attribute(prefix: &str, name: &str, value: impl Into<PropertyValue>) -> Result<Option<String>, CloudEventError> {
    let mut message = binary(prefix);
    with(&mut message, &format!("{prefix}{name}"), value);
    let name = name.to_ascii_lowercase();
    Ok(CloudEvent::from_message(&message)?.attribute(&name).map(ToString::to_string))
}

/// Rules: H-121.
#[test]
fn every_prefix_is_read_and_headers_have_no_case() {
    let expected = CloudEvent::from_message(&binary("cloudEvents_")).unwrap();
    for prefix in ["cloudEvents:", "ce-", "CE-", "Ce_", "ce_"] {
        assert_eq!(CloudEvent::from_message(&binary(prefix)).unwrap(), expected, "{prefix}");
    }
    assert_eq!(attribute("ce-", "Subject", "s"), Ok(Some("s".into())));
    for prefix in ["cloudevents:", "CloudEvents_", "ce", "ce.", "xce-"] {
        assert_eq!(CloudEvent::from_message(&binary(prefix)), Err(CloudEventError::NotAnEvent), "{prefix}");
    }
    // The AMQP binding has a case.
    assert_eq!(attribute("cloudEvents_", "Subject", "s"), Ok(None));
}

/// Rules: H-121.
#[test]
fn a_prefix_counts_by_its_specversion() {
    let expected = CloudEvent::from_message(&binary("cloudEvents_")).unwrap();
    let mut message = binary("cloudEvents_");
    with(&mut message, "ce-total", 7);
    with(&mut message, "cloudEvents:subject", "s");
    assert_eq!(CloudEvent::from_message(&message).unwrap(), expected);

    let neither = Message::builder().property("ce-total", 7).build("").unwrap();
    assert_eq!(CloudEvent::from_message(&neither), Err(CloudEventError::Version));

    with(&mut message, "ce-specversion", "1.0");
    with(&mut message, "ce-id", "1234-1234-1234");
    let both = CloudEvent::from_message(&message).unwrap();
    assert_eq!(both.attribute("total"), Some(&7.into()));
    with(&mut message, "cloudEvents_total", "7");
    assert_eq!(CloudEvent::from_message(&message).unwrap().attribute("total"), Some(&"7".into()));
    with(&mut message, "ce-id", "another");
    assert_eq!(CloudEvent::from_message(&message), Err(CloudEventError::Twice("id".into())));
}

/// Rules: H-121.
#[test]
fn the_content_type_may_be_an_attribute() {
    let mut message = binary("ce-");
    with(&mut message, "ce-datacontenttype", "application/json; charset=utf-8");
    assert!(CloudEvent::from_message(&message).is_ok());
    with(&mut message, "ce-datacontenttype", "text/plain");
    assert_eq!(CloudEvent::from_message(&message), Err(CloudEventError::Invalid("datacontenttype".into())));

    // As an attribute under two prefixes it has one value, with and without a ContentType.
    let mut message = binary("ce-");
    with(&mut message, "cloudEvents_specversion", "1.0");
    let twice = Err(CloudEventError::Twice("datacontenttype".into()));
    for (other, content_type) in [("text/plain", Some("text/html")), ("text/html", Some("text/plain")), ("a/b", None)] {
        match content_type {
            Some(content_type) => message.properties_mut().set_content_type(content_type),
            None => message.properties_mut().clear_content_type(),
        };
        with(&mut message, "ce-datacontenttype", "text/html");
        with(&mut message, "cloudEvents_datacontenttype", other);
        if other == "text/html" {
            assert_eq!(CloudEvent::from_message(&message), Err(CloudEventError::Invalid("datacontenttype".into())));
        } else {
            assert_eq!(CloudEvent::from_message(&message), twice);
        }
        with(&mut message, "cloudEvents_datacontenttype", "text/html");
        let read = CloudEvent::from_message(&message);
        assert_eq!(read.is_ok(), content_type != Some("text/plain"), "{read:?}");
    }

    let nats = Message::builder()
        .property("ce-specversion", "1.0")
        .property("ce-id", "1")
        .property("ce-source", "/s")
        .property("ce-type", "t")
        .property("ce-datacontenttype", "text/plain");
    let event = CloudEvent::from_message(&nats.build("").unwrap()).unwrap();
    assert_eq!((event.data_content_type(), event.data()), (Some("text/plain"), Some(&b""[..])));
}

/// Rules: H-122.
#[test]
fn time_is_an_instant_a_text_or_milliseconds() {
    let text = || Ok(Some("2026-02-03T04:05:06.789Z".to_owned()));
    let millis = 1_770_091_506_789_i64;
    assert_eq!(attribute("cloudEvents_", "time", Timestamp::from_millis(millis)), text());
    assert_eq!(attribute("cloudEvents:", "time", PropertyValue::I64(millis)), text());
    assert_eq!(attribute("ce-", "time", PropertyValue::U64(millis.unsigned_abs())), text());
    assert_eq!(attribute("ce-", "time", "2026-02-03T04:05:06.789Z"), text());
    assert_eq!(attribute("ce-", "time", "2026-02-03 04:05:06.789Z"), text());
    assert_eq!(attribute("ce-", "time", 0), Ok(Some("1970-01-01T00:00:00.000Z".into())));
    // Ticks of 100 ns since the year 1.
    let ticks = |ticks| attribute("cloudEvents_", "time", PropertyValue::DateTimeOffset(ticks));
    let of_1970 = 621_355_968_000_000_000;
    assert_eq!(ticks(of_1970 + millis * 10_000), text());
    assert_eq!(ticks(of_1970 + 12_345_678), Ok(Some("1970-01-01T00:00:01.2345678Z".into())));
    // Microseconds are beyond the year 9999.
    for wrong in [i64::MIN, -99_999_999_999_999, 253_402_300_800_000, 1_770_091_506_789_000, i64::MAX] {
        assert_eq!(attribute("ce-", "time", wrong), Err(CloudEventError::Invalid("time".into())), "{wrong}");
    }
    assert_eq!(ticks(i64::MAX), Err(CloudEventError::Invalid("time".into())));
    assert_eq!(ticks(i64::MIN), Err(CloudEventError::Invalid("time".into())));
    assert_eq!(attribute("ce-", "time", u64::MAX), Err(CloudEventError::Invalid("time".into())));
    assert_eq!(attribute("ce-", "time", "1770091506789"), Err(CloudEventError::Invalid("time".into())));
}

/// Rules: H-122.
#[test]
fn other_values_are_read_as_their_text() {
    let ext = |value: PropertyValue| attribute("cloudEvents_", "ext", value);
    for (value, text) in [
        (PropertyValue::Bool(true), "true"),
        (PropertyValue::I64(-5), "-5"),
        (PropertyValue::U32(5), "5"),
        (PropertyValue::U64(u64::MAX), "18446744073709551615"),
        (PropertyValue::I64(5_000_000_000), "5000000000"),
        (PropertyValue::Bytes(Bytes::from_static(b"\x00\xff")), "AP8="),
        (PropertyValue::Uri("https://x.example".into()), "https://x.example"),
    ] {
        assert_eq!(ext(value.clone()), Ok(Some(text.into())), "{value:?}");
    }
    assert_eq!(ext(PropertyValue::Null), Ok(None));
    assert_eq!(ext(PropertyValue::F64(1.5)), Err(CloudEventError::Invalid("ext".into())));
    // Kafka's headers are bytes.
    assert_eq!(attribute("ce_", "ext", Bytes::from_static("é".as_bytes())), Ok(Some("é".into())));
    assert_eq!(attribute("ce_", "ext", Bytes::from_static(b"\xff")), Err(CloudEventError::Invalid("ext".into())));
    let json =
        r#"{"specversion":"1.0","id":"1","source":"/s","type":"t","a":5000000000,"b":18446744073709551615,"c":-1}"#;
    let event = CloudEvent::from_message(&structured(json)).unwrap();
    let values = ["a", "b", "c"].map(|name| event.attribute(name).unwrap().clone());
    assert_eq!(values, ["5000000000".into(), "18446744073709551615".into(), (-1).into()]);
}

/// Rules: H-123.
#[test]
fn names_are_read_as_sdks_let_them_through_and_written_as_specified() {
    let long = "a".repeat(128);
    for name in ["Upper", "under_score", "da-sh", "do.t", &long] {
        let json = format!(r#"{{"specversion":"1.0","id":"1","source":"/s","type":"t","{name}":"x"}}"#);
        let event = CloudEvent::from_message(&structured(json)).unwrap();
        assert_eq!(event.attribute(name), Some(&"x".into()));
        for mode in [Mode::Binary, Mode::Structured] {
            let written = event.to_message(mode);
            if name == long {
                assert_eq!(CloudEvent::from_message(&written.unwrap()).unwrap(), event);
            } else {
                assert_eq!(written.unwrap_err(), CloudEventError::WrittenName(name.into()));
            }
        }
    }
    let longer = "a".repeat(129);
    for name in ["", " ", "a/b", "data", "data_base64", &longer] {
        let cut = CloudEventError::Name(name.chars().take(40).collect::<String>().into());
        assert_eq!(attribute("ce-", name, "x"), Err(cut), "{name}");
    }
    for name in ["Upper", "under_score", "", "data", "specversion", &longer] {
        let cut = CloudEventError::WrittenName(name.chars().take(40).collect::<String>().into());
        assert_eq!(event().with_extension(name, "x"), Err(cut), "{name}");
    }
    let shown = event().with_extension("Upper", "x").unwrap_err().to_string();
    assert_eq!(shown, "`Upper` cannot be written as the name of an attribute: expected 1 to 128 of a to z and 0 to 9");
}

/// Rules: H-124.
#[test]
fn a_prefix_is_chosen_when_an_event_is_written() {
    let event = event().with_extension("number", 5).unwrap().with_extension("truth", true).unwrap();
    let event = event.with_data("text/plain", "x").unwrap();
    for (prefix, number) in [
        (Prefix::Underscore, 5.into()),
        (Prefix::Colon, 5.into()),
        (Prefix::Ce, PropertyValue::from("5")),
        (Prefix::Kafka, PropertyValue::from("5")),
    ] {
        let message = event.to_message(Mode::BinaryWith(prefix)).unwrap();
        let names: Vec<_> = message.application_properties().iter().map(|(name, _)| name).collect();
        let expected = ["id", "number", "source", "specversion", "truth", "type"];
        assert_eq!(names, expected.map(|name| format!("{}{name}", prefix.as_str())));
        assert_eq!(message.application_properties().get(&format!("{}number", prefix.as_str())), Some(&number));
        assert_eq!(message.content_type(), Some("text/plain"));
        assert!(CloudEvent::from_message(&message).is_ok());
    }
    let default = event.to_message(Mode::Binary).unwrap();
    assert_eq!(
        default.application_properties(),
        event.to_message(Mode::BinaryWith(Prefix::default())).unwrap().application_properties()
    );
}
