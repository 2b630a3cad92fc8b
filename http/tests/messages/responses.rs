use bytes::Bytes;
use consign_core::{
    Message,
    message::{LockToken, MessageState, Received, SequenceNumber, Value},
    time::Timestamp,
};
use consign_http::{from_request, from_response, lock_token, to_request, to_response};
use serde_json::{Value as Json, json};

/// Whole seconds.
const AT: Timestamp = Timestamp::from_millis(1_700_000_000_000);

fn received() -> Message {
    let mut received = Received::new(SequenceNumber::new(u64::MAX), AT, 3);
    received.enqueued_sequence_number = SequenceNumber::new(5);
    received.locked_until = Some(AT);
    received.state = MessageState::Deferred;
    let message = Message::builder().message_id("\u{1F600}").property("key", "value").build("body").unwrap();
    message.with_received(received).with_dead_letter_source("a/b")
}

/// Rules: HT-10, HT-11, HT-12.
#[test]
fn a_response_has_the_properties_of_the_broker() {
    let token = LockToken::from_bytes([0x22; 16]);
    let (headers, body) = to_response(&received(), Some(token), false);
    let broker: Json = serde_json::from_slice(headers["brokerproperties"].as_bytes()).unwrap();
    let expected = json!({
        "MessageId": "\u{1F600}",
        "TimeToLive": 922_337_203_685.477_5_f64,
        "SequenceNumber": u64::MAX,
        "EnqueuedSequenceNumber": 5,
        "DeliveryCount": 3,
        "State": "Deferred",
        "DeadLetterSource": "a/b",
        "EnqueuedTimeUtc": "Tue, 14 Nov 2023 22:13:20 GMT",
        "LockedUntilUtc": "Tue, 14 Nov 2023 22:13:20 GMT",
        "LockToken": "22222222-2222-2222-2222-222222222222",
    });
    assert_eq!(broker, expected);
    assert!(headers["brokerproperties"].to_str().is_ok());
    assert_eq!(headers["key"], "\"value\"");
    assert_eq!(lock_token(&headers).unwrap(), Some(token));

    let read = from_response(&headers, body.unwrap()).unwrap();
    assert_eq!((read.received(), read.properties()), (received().received(), received().properties()));
    assert_eq!((read.payload(), read.dead_letter_source()), (Some(&b"body"[..]), Some("a/b")));
}

#[test]
fn a_response_without_a_lock_shows_none() {
    let (headers, _) = to_response(&received(), None, false);
    assert_eq!(lock_token(&headers).unwrap(), None);
    assert!(!headers["brokerproperties"].to_str().unwrap().contains("Lock"));
}

#[test]
fn each_content_type_survives() {
    for content_type in ["application/vnd.müller+json", "text/\nplain", "text/plain ", "", "text/plain; charset=utf-8"]
    {
        let message = Message::builder().content_type(content_type).build("a").unwrap();
        let (headers, body) = to_request(&message, false).unwrap();
        assert_eq!(from_request(&headers, body).unwrap().content_type(), Some(content_type), "{headers:?}");
        let (headers, body) = to_response(&message, None, false);
        let read = from_response(&headers, body.unwrap()).unwrap();
        assert_eq!(read.content_type(), Some(content_type), "{headers:?}");
    }
}

#[test]
fn a_body_that_is_not_data_is_left_to_the_caller() {
    let message = Message::new(Value::from("text"));
    assert_eq!(to_response(&message, None, false).1, None);
    assert_eq!(to_response(&Message::new(""), None, false).1, Some(Bytes::new()));
}

/// Attacks: 50, 51.
#[test]
fn a_property_that_no_header_represents_is_left_out() {
    let message = Message::builder().property("a b", 1).property("host", 2).property("ok", "a\nb").property("c", 3);
    let message = message.build("").unwrap();
    let (headers, _) = to_response(&message, None, false);
    let names: Vec<_> = headers.keys().map(http::HeaderName::as_str).collect();
    assert_eq!(names, ["brokerproperties", "c"]);
    let (headers, body) = to_response(&message, None, true);
    let read = from_response(&headers, body.unwrap()).unwrap();
    assert_eq!(read.application_properties(), message.application_properties());
}
