use std::time::Duration;

use bytes::Bytes;
use consign_core::{
    Message,
    message::{PropertyValue, TraceContext, Value},
    time::Timestamp,
};
use consign_http::{EXACT_PROPERTIES, MessageErrorKind as Kind, from_request, to_request};

use crate::headers;

fn read(pairs: &[(&str, &str)]) -> Message {
    from_request(&headers(pairs), Bytes::from_static(b"body")).unwrap()
}

fn refusal(pairs: &[(&str, &str)]) -> Kind {
    let error = from_request(&headers(pairs), Bytes::new()).unwrap_err();
    assert!(!error.to_string().contains("canary"), "{error}");
    error.kind()
}

/// Rules: HT-10, HT-11, HT-12, HT-16.
#[test]
fn a_request_has_the_properties_of_a_message() {
    let broker = r#"{"ViaPartitionKey": "v", "Label":"M1","TimeToLive":10.5,"SessionId":"s","PartitionKey":"s","MessageId":"\u00fc","CorrelationId":"c",
        "ReplyTo":"r","ReplyToSessionId":"rs","To":"t","ScheduledEnqueueTimeUtc":"Sun, 06 Nov 2044 08:49:37 GMT"}"#
        .replace('\n', " ");
    let message = read(&[
        ("Content-Type", "application/json; charset=utf-8"),
        ("BrokerProperties", &broker),
        ("Priority", "High"),
        ("customer", "12345,\"a\""),
        ("Count", "5"),
        ("traceparent", "00-1-2-3"),
        ("Authorization", "SharedAccessSignature canary"),
        ("ServiceBusSupplementaryAuthorization", "canary"),
        ("ServiceBusDlqSupplementaryAuthorization", "canary"),
        ("x-ms-retrypolicy", "NoRetry"),
        ("User-Agent", "curl"),
        ("Content-Length", "4"),
        ("Accept-Encoding", "gzip"),
        ("Host", "h"),
    ]);
    assert_eq!(message.payload(), Some(&b"body"[..]));
    assert_eq!(message.content_type(), Some("application/json; charset=utf-8"));
    let texts = [
        (message.message_id(), "\u{fc}"),
        (message.subject(), "M1"),
        (message.session_id(), "s"),
        (message.partition_key(), "s"),
        (message.transaction_partition_key(), "v"),
        (message.correlation_id(), "c"),
        (message.reply_to(), "r"),
        (message.reply_to_session_id(), "rs"),
        (message.to(), "t"),
    ];
    for (found, text) in texts {
        assert_eq!(found, Some(text));
    }
    assert_eq!(message.time_to_live(), Some(Duration::from_millis(10_500)));
    assert_eq!(message.scheduled_enqueue_time(), Some(Timestamp::from_millis(2_362_034_977_000)));
    let properties: Vec<_> = message.application_properties().iter().collect();
    assert_eq!(
        properties,
        [
            ("count", &PropertyValue::I64(5)),
            ("customer", &"12345,\"a\"".into()),
            ("priority", &"High".into()),
            ("traceparent", &"00-1-2-3".into()),
        ]
    );
}

/// Rules: V-15.
/// Attacks: 53.
#[test]
fn unknown_keys_and_those_of_the_broker_are_ignored() {
    let message =
        read(&[("BrokerProperties", r#"{"Novelty":{"a":[1]},"SequenceNumber":7,"DeliveryCount":9,"Label":null}"#)]);
    assert!(message.received().is_none() && message.subject().is_none());
}

/// Rules: HT-12.
#[test]
fn a_time_to_live_of_dotnet_is_unlimited() {
    for seconds in ["922337203685.47754", "100000000000", "1e300"] {
        assert_eq!(read(&[("BrokerProperties", &format!("{{\"TimeToLive\":{seconds}}}"))]).time_to_live(), None);
    }
    let nearly = read(&[("BrokerProperties", "{\"TimeToLive\":99999999999}")]).time_to_live();
    assert_eq!(nearly, Some(Duration::from_secs(99_999_999_999)));
}

/// Rules: HT-12.
#[test]
fn a_time_to_live_may_be_a_span_of_dotnet() {
    let read = |properties: &str| read(&[("BrokerProperties", properties)]).time_to_live();
    for (span, millis) in [("00:00:10", 10_000), ("1.02:03:04.5", 93_784_500), ("00:00:00.0010000", 1)] {
        let time = Some(std::time::Duration::from_millis(millis));
        assert_eq!(read(&format!("{{\"TimeToLiveTimeSpan\":\"{span}\"}}")), time, "{span}");
    }
    assert_eq!(read("{\"TimeToLiveTimeSpan\":\"10675199.02:48:05.4775807\"}"), None);
    let both = read("{\"TimeToLive\":1,\"TimeToLiveTimeSpan\":\"00:00:10\"}");
    assert_eq!(both, Some(std::time::Duration::from_secs(1)));
}

/// Attacks: 52.
#[test]
fn what_is_not_a_message_is_refused_without_its_values() {
    for (broker, kind) in [
        ("canary", Kind::Header),
        ("[]", Kind::Header),
        ("{\"MessageId\":\"canary\"", Kind::Header),
        ("{} {}", Kind::Header),
        ("\"canary\"", Kind::Header),
        ("", Kind::Header),
        (r#"{"MessageId":1}"#, Kind::BrokerProperty),
        (r#"{"MessageId":["canary"]}"#, Kind::BrokerProperty),
        (r#"{"TimeToLive":"canary"}"#, Kind::BrokerProperty),
        (r#"{"TimeToLive":-1}"#, Kind::BrokerProperty),
        (r#"{"TimeToLive":0}"#, Kind::InvalidArgument),
        (r#"{"TimeToLiveTimeSpan":1}"#, Kind::BrokerProperty),
        (r#"{"TimeToLiveTimeSpan":"canary"}"#, Kind::BrokerProperty),
        (r#"{"TimeToLiveTimeSpan":"00:60:00"}"#, Kind::BrokerProperty),
        (r#"{"TimeToLiveTimeSpan":"24:00:00"}"#, Kind::BrokerProperty),
        (r#"{"TimeToLiveTimeSpan":"-00:00:01"}"#, Kind::BrokerProperty),
        (r#"{"TimeToLiveTimeSpan":"00:00:00"}"#, Kind::InvalidArgument),
        (r#"{"ScheduledEnqueueTimeUtc":"canary"}"#, Kind::BrokerProperty),
        (r#"{"ScheduledEnqueueTimeUtc":"2044-11-06T08:49:37Z"}"#, Kind::BrokerProperty),
        (r#"{"MessageId":""}"#, Kind::InvalidArgument),
        (r#"{"SessionId":"a","PartitionKey":"b"}"#, Kind::InvalidArgument),
    ] {
        assert_eq!(refusal(&[("BrokerProperties", broker)]), kind, "{broker}");
    }
    let long = format!("{{\"MessageId\":\"{}\"}}", "a".repeat(129));
    assert_eq!(refusal(&[("BrokerProperties", &long)]), Kind::InvalidArgument);
    let deep = format!("{{\"a\":{}", "[".repeat(10_000));
    assert_eq!(refusal(&[("BrokerProperties", &deep)]), Kind::Header);
    assert_eq!(refusal(&[("BrokerProperties", "{}"), ("brokerproperties", "{}")]), Kind::Header);
    assert_eq!(refusal(&[("a", "canary"), ("A", "canary")]), Kind::Header);
    assert_eq!(refusal(&[("Content-Type", "a"), ("Content-Type", "b")]), Kind::Header);
    assert_eq!(refusal(&[("Content-Type", "\u{fc}")]), Kind::Header);
    assert_eq!(refusal(&[("x-prop-names", "{\"a\":{\"i32\":\"canary\"}}")]), Kind::Header);
    assert_eq!(refusal(&[("a", &"x".repeat(40_000))]), Kind::InvalidArgument);
    let mut latin = headers(&[]);
    latin.insert("a", http::HeaderValue::from_bytes(b"\xfc").unwrap());
    assert_eq!(from_request(&latin, Bytes::new()).unwrap_err().kind(), Kind::Header);
}

/// Attacks: 10.
/// Dates of RFC 2822 may have comments inside one another.
#[test]
fn a_date_has_no_comments() {
    let date = format!("{}{} Sun, 06 Nov 1994 08:49:37 GMT", "(".repeat(10_000), ")".repeat(10_000));
    let scheduled = format!("{{\"ScheduledEnqueueTimeUtc\":\"{date}\"}}");
    assert_eq!(refusal(&[("BrokerProperties", &scheduled)]), Kind::BrokerProperty);
    let quoted = format!("\"{date}\"");
    assert_eq!(read(&[("at", &quoted)]).application_properties().get("at"), Some(&PropertyValue::from(date)));
}

/// Rules: HT-17, O-01.
#[test]
fn the_trace_of_an_older_client_has_its_name() {
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let message = read(&[("Diagnostic-Id", parent), ("Other-Id", "a")]);
    let names: Vec<_> = message.application_properties().iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["Diagnostic-Id", "other-id"]);
    let context = TraceContext::of(message.properties()).unwrap().unwrap();
    assert_eq!(context.to_string(), parent);
    let (headers, body) = to_request(&message, false).unwrap();
    assert_eq!(from_request(&headers, body).unwrap().properties(), message.properties());
}

/// Rules: HT-17.
/// Attacks: 50.
#[test]
fn exact_properties_keep_names_types_and_values() {
    let mut message = Message::builder().property("Ab", 5_u8).property("aB", 'c').property("with space", "a\nb\u{0}");
    message = message.property("Content-Type", PropertyValue::Uuid([7; 16])).property("\u{fc}", PropertyValue::Null);
    let message = message.property("time", PropertyValue::DateTime(Timestamp::from_millis(1_234))).build("").unwrap();
    let (headers, body) = to_request(&message, true).unwrap();
    assert!(headers[EXACT_PROPERTIES].to_str().is_ok());
    let read = from_request(&headers, body).unwrap();
    assert_eq!(read.application_properties(), message.application_properties());
    assert_eq!(to_request(&message, false).unwrap_err().kind(), Kind::ApplicationProperty);
}

#[test]
fn a_body_that_is_not_data_has_no_request() {
    let error = to_request(&Message::new(Value::from("text")), false).unwrap_err();
    assert_eq!(error.kind(), Kind::Body);
}

/// Rules: HT-15.
#[test]
fn other_types_become_strings() {
    for (value, text) in [
        (PropertyValue::Uuid([0x11; 16]), "11111111-1111-1111-1111-111111111111"),
        (PropertyValue::TimeSpan(864_000_000_000), "1.00:00:00"),
        (PropertyValue::Uri("http://a/".into()), "http://a/"),
        (PropertyValue::Bytes(Bytes::from_static(b"\x01\xff")), "01ff"),
        (PropertyValue::Char('c'), "c"),
    ] {
        let message = Message::builder().property("k", value).build("").unwrap();
        let (headers, body) = to_request(&message, false).unwrap();
        let read = from_request(&headers, body).unwrap();
        let found = read.application_properties().get("k").and_then(|value| value.as_str().map(str::to_lowercase));
        assert_eq!(found.as_deref(), Some(text));
    }
}
