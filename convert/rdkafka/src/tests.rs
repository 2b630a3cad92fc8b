use std::time::Duration;

use consign::middleware::delivery_limit::count_delivery;
use consign_conformance::golden::{random, samples};
use consign_core::{
    Disposition, Message,
    message::{ApplicationProperties, MessageBody, PassThrough, PropertyValue},
    settlement::{Changes, DeadLetter, DeadLetterReason},
    time::Timestamp,
    transport::{ErrorKind, SendError},
};
use rdkafka::{
    error::{KafkaError, RDKafkaErrorCode},
    message::{Header, Headers, OwnedHeaders, OwnedMessage, Timestamp as Time},
    producer::future_producer::Delivery,
};

use super::*;

/// A record as a consumer receives it.
fn consumed(record: &Record) -> OwnedMessage {
    let owned = |bytes: &Option<bytes::Bytes>| bytes.as_ref().map(|bytes| bytes.to_vec());
    let time = record.timestamp.map_or(Time::NotAvailable, Time::CreateTime);
    let (payload, key) = (owned(&record.payload), owned(&record.key));
    OwnedMessage::new(payload, key, "orders".into(), time, 2, 41, Some(record.headers.clone()))
}

fn with_headers(headers: &[(&str, Option<&[u8]>)]) -> OwnedMessage {
    let all = headers.iter().fold(OwnedHeaders::new(), |all, (key, value)| all.insert(Header { key, value: *value }));
    OwnedMessage::new(Some(b"body".into()), None, "orders".into(), Time::NotAvailable, 2, 41, Some(all))
}

fn headers(record: &Record) -> Vec<(String, Option<Vec<u8>>)> {
    record.headers.iter().map(|header| (header.key.to_owned(), header.value.map(<[u8]>::to_vec))).collect()
}

fn read(record: &Record) -> Message {
    let mut read = from_rdkafka(&consumed(record)).unwrap();
    if read.properties().is_message_id_stamped() && read.message_id() == Some("orders-2-41") {
        read.properties_mut().clear_message_id();
    }
    read
}

fn text<'m>(message: &'m Message, name: &str) -> Option<&'m str> {
    message.application_properties().get(name).and_then(PropertyValue::as_str)
}

/// Rules: K-130.
#[test]
fn a_random_message_is_read_as_it_was_written() {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
    println!("replay: SEED={seed} cargo test --package consign-convert-rdkafka --lib a_random_message_is_read");
    let mut source = fastrand::Rng::with_seed(seed);
    for _ in 0..2_000 {
        let mut message = random::message(&mut source);
        if message.session_id().is_none() && source.bool() {
            message.properties_mut().set_partition_key(format!("k{}", source.u8(..))).unwrap();
        }
        let read = read(&to_rdkafka(&message).unwrap());
        assert!(
            read.properties() == message.properties(),
            "{:#?}\ninstead of {:#?}",
            read.properties(),
            message.properties()
        );
        assert!(read.body() == message.body(), "{read:?} instead of {message:?}");
    }
}

/// Rules: K-130.
#[test]
fn every_sample_is_read_as_it_was_written() {
    let mut nul = Message::new("");
    for name in ["", "a\0b", "content-type", "Content-Encoding", "Sb-Body", "tracestate", KEY, "x-delivery-count"] {
        nul.properties_mut().application_properties_mut().insert(name, "text");
    }
    for message in samples::all().into_iter().chain([samples::without_id(), nul]) {
        // A number that is not equal to itself has the same text.
        let written = to_rdkafka(&message).unwrap();
        let again = to_rdkafka(&read(&written)).unwrap();
        assert_eq!(headers(&again), headers(&written), "{message:?}");
        assert_eq!((again.key, again.payload), (written.key, written.payload), "{message:?}");
    }
}

/// Rules: K-130.
#[test]
fn headers_are_those_of_the_bindings() {
    let message = Message::builder()
        .content_type("application/json")
        .message_id("order-7")
        .property("tenant", "acme")
        .property("count", 5)
        .build("{}")
        .unwrap();
    let text = |name: &str, value: &str| (name.to_owned(), Some(value.as_bytes().to_vec()));
    let expected = [
        text("content-type", "application/json"),
        text("Sb-Message-Id", "order-7"),
        text("Sb-P-count", "i32:5"),
        text("tenant", "acme"),
    ];
    let mut written = headers(&to_rdkafka(&message).unwrap());
    written.sort_by_key(|(name, _)| expected.iter().position(|(expected, _)| expected == name));
    assert_eq!(written, expected);
}

/// librdkafka ends a name at its first NUL.
/// Rules: K-130.
#[test]
fn a_name_that_a_header_cannot_have_is_a_token() {
    for (name, header) in
        [("a\0b", "Sb-P-a=00b"), ("", "Sb-P-="), ("Sb-x", "Sb-P-Sb-x"), ("Content-Type", "Sb-P-Content-Type")]
    {
        let mut message = Message::new("body");
        message.properties_mut().application_properties_mut().insert(name, "plain");
        let record = to_rdkafka(&message).unwrap();
        let names: Vec<_> = headers(&record).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, [header]);
        assert_eq!(text(&read(&record), name), Some("plain"));
    }
}

/// Rules: K-131.
#[test]
fn the_key_is_the_session_or_the_partition_key() {
    let key = |message: &Message| to_rdkafka(message).unwrap().key.map(|key| key.to_vec());
    let of_session = Message::builder().session_id("s").build("").unwrap();
    let of_key = Message::builder().partition_key("p").build("").unwrap();
    assert_eq!((key(&of_session), key(&of_key), key(&Message::new(""))), (Some(b"s".into()), Some(b"p".into()), None));
    assert_eq!(read(&to_rdkafka(&of_session).unwrap()).partition_key(), None);
    // Of other producers.
    let long = "k".repeat(129).into_bytes();
    for (bytes, is_partition_key) in [(&b"customer-7"[..], true), (b"", true), (b"\0\xff", false), (&long, false)] {
        let record = Record { key: Some(bytes::Bytes::copy_from_slice(bytes)), ..Record::default() };
        let message = read(&record);
        assert_eq!(message.partition_key().map(str::as_bytes) == Some(bytes), is_partition_key, "{bytes:?}");
        assert_eq!(message.application_properties().get(KEY).is_none(), is_partition_key, "{bytes:?}");
        assert_eq!(key(&message).as_deref(), Some(bytes), "the key of a message that is sent on");
    }
}

/// Rules: K-131.
#[test]
fn what_kafka_sets_is_received() {
    let time = Timestamp::from_millis(1_700_000_000_123);
    let mut message = Message::new("body");
    message.properties_mut().pass_through_mut().creation_time = Some(time);
    let read = from_rdkafka(&consumed(&to_rdkafka(&message).unwrap())).unwrap();
    let received = read.received().unwrap();
    assert_eq!((received.sequence_number.get(), received.partition_id), (41, Some(2)));
    assert_eq!((received.enqueued_time, received.delivery_count), (time, 0));
    assert_eq!((read.message_id(), read.properties().is_message_id_stamped()), (Some("orders-2-41"), true));
    // 0 would be the present time, and what is not known is none.
    message.properties_mut().pass_through_mut().creation_time = Some(Timestamp::EPOCH);
    assert_eq!(to_rdkafka(&message).unwrap().timestamp, None);
    let unknown = from_rdkafka(&with_headers(&[])).unwrap();
    assert_eq!(unknown.received().unwrap().enqueued_time, Timestamp::EPOCH);
}

/// Rules: K-131.
#[test]
fn a_tombstone_is_not_an_empty_payload() {
    let empty = to_rdkafka(&Message::new("")).unwrap();
    assert_eq!(empty.payload.as_deref(), Some(&b""[..]));
    let tombstone = Record { key: Some("k".into()), ..Record::default() };
    let message = read(&tombstone);
    assert_eq!(message.payload(), Some(&b""[..]));
    assert!(message.pass_through().unwrap().annotation(PassThrough::NO_BODY).is_some());
    let again = to_rdkafka(&message).unwrap();
    assert_eq!((&again.payload, &again.key), (&None, &tombstone.key));
    assert_eq!(again.headers.count(), 0);
    // A layer that adds a body makes a message with one.
    assert_eq!(to_rdkafka(&message.with_body("x")).unwrap().payload.as_deref(), Some(&b"x"[..]));
    assert_eq!(
        dead_letter(&consumed(&tombstone), DeadLetter::new(DeadLetterReason::HandlerPermanent, "")).payload,
        None
    );
}

/// Rules: K-131.
#[test]
fn headers_of_other_producers_are_properties() {
    let record = with_headers(&[
        ("Content-Type", Some(b"text/plain")),
        ("ce_id", Some(b"7")),
        ("retry", Some(b"1")),
        ("retry", Some(b"2")),
        ("tracestate", Some(b"a=1")),
        ("tracestate", Some(b"b=2")),
        ("raw", Some(b"\xff")),
        ("none", None),
        ("Sb-Later", Some(b"of a later version")),
    ]);
    let read = from_rdkafka(&record).unwrap();
    assert_eq!(
        (read.content_type(), text(&read, "ce_id"), text(&read, "retry")),
        (Some("text/plain"), Some("7"), Some("2"))
    );
    assert_eq!(text(&read, "tracestate"), Some("a=1, b=2"));
    let property = |name| read.application_properties().get(name);
    assert_eq!(property("raw"), Some(&bytes::Bytes::from_static(b"\xff").into()));
    assert_eq!((property("none"), property("Sb-Later")), (Some(&PropertyValue::Null), None));
}

/// Rules: K-130.
#[test]
fn times_that_kafka_does_not_have_are_refused() {
    let lives = Message::builder().time_to_live(Duration::from_secs(1)).build("").unwrap();
    let later = Message::builder().scheduled_enqueue_time(Timestamp::from_millis(1)).build("").unwrap();
    for message in [lives, later] {
        assert_eq!(to_rdkafka(&message).unwrap_err().kind(), ErrorKind::NotSupported);
    }
    let mut large = Message::new("");
    large.properties_mut().application_properties_mut().insert("a", "x".repeat(40_000));
    assert_eq!(to_rdkafka(&large).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

/// Rules: K-132.
#[test]
fn an_unreadable_header_is_named_with_what_was_expected() {
    let long = "x".repeat(129);
    let id = "a text of at most 128 characters";
    for (name, value, expected) in [
        ("content-type", &b"\xff"[..], "text in UTF-8"),
        ("Content-Encoding", b"\xff", "text in UTF-8"),
        ("Sb-Subject", b"\xff", "text in UTF-8"),
        ("Sb-P-count", b"i32:many", "TYPE:VALUE, a type and a value of it"),
        ("Sb-P-count", b"\xff", "text in UTF-8"),
        ("Sb-P-=f", b"i32:1", "a name with =XX for each byte of other characters"),
        ("Sb-Message-Id", b"", "a text of 1 to 128 characters"),
        ("Sb-Session-Id", long.as_bytes(), id),
        ("Sb-Reply-To-Session-Id", long.as_bytes(), id),
        ("Sb-Transaction-Partition-Key", long.as_bytes(), id),
        (
            "Sb-Partition-Key",
            long.as_bytes(),
            "a text of at most 128 characters, which is the SessionId if there is one",
        ),
        ("Sb-Pass-Through", b"{\"user_id\":5}", "the fields of PassThrough in JSON"),
        ("Sb-Pass-Through", b"{\"user_id\":\"0\"}", "the fields of PassThrough in JSON"),
        ("Sb-Sections", b"2,1", "the lengths of the sections of the payload, with commas between"),
        ("Sb-Body", b"value", "value or sequence, and a payload of that in JSON"),
        ("Sb-Body", b"sequence", "value or sequence, and a payload of that in JSON"),
        ("Sb-Body", b"other", "value or sequence, and a payload of that in JSON"),
    ] {
        let record = with_headers(&[("tenant", Some(b"acme")), (name, Some(value)), ("Sb-To", Some(b"there"))]);
        let unreadable = from_rdkafka(&record).unwrap_err();
        assert_eq!(
            unreadable.to_string(),
            format!("MalformedHeader: the header {name} cannot be read: expected {expected}")
        );
        let rest = unreadable.message();
        assert_eq!(
            (rest.to(), rest.payload(), text(rest, "tenant")),
            (Some("there"), Some(&b"body"[..]), Some("acme"))
        );
        let kept = match rest.application_properties().get(name).unwrap() {
            PropertyValue::Bytes(bytes) => bytes.to_vec(),
            other => other.as_str().unwrap().as_bytes().to_vec(),
        };
        assert_eq!(kept, value, "{name}");
        let Disposition::DeadLetter(letter) = Disposition::from(unreadable) else { panic!("a dead letter") };
        // Its dead letter can be read.
        let dead = from_rdkafka(&consumed(&dead_letter(&record, *letter))).unwrap();
        assert_eq!((dead.dead_letter_reason(), dead.to()), (Some("MalformedHeader"), Some("there")));
        assert_eq!(dead.application_properties().get(name), rest_of(&record).application_properties().get(name));
    }
    let missing = with_headers(&[("Sb-To", None)]);
    let said = from_rdkafka(&missing).unwrap_err().to_string();
    assert_eq!(said, "MalformedHeader: the header Sb-To cannot be read: expected a value");
}

/// Rules: K-132.
#[test]
fn a_dead_letter_without_a_readable_id_has_that_of_its_record() {
    let long = "x".repeat(129);
    let record = with_headers(&[("Sb-Message-Id", Some(long.as_bytes()))]);
    let letter = from_rdkafka(&record).unwrap_err().dead_letter().clone();
    let names: Vec<_> = headers(&dead_letter(&record, letter)).into_iter().map(|(name, _)| name).collect();
    assert!(
        names.contains(&"Sb-Message-Id".to_owned()) && names.contains(&"Sb-Message-Id-Stamped".to_owned()),
        "{names:?}"
    );
}

fn rest_of(record: &OwnedMessage) -> Message {
    from_rdkafka(record).unwrap_err().into_message()
}

/// Rules: K-132.
#[test]
fn headers_beyond_the_limits_are_in_the_dead_letter_only() {
    let large = vec![b'x'; 70_000];
    let record = with_headers(&[("large", Some(&large)), ("small", Some(b"a"))]);
    let unreadable = from_rdkafka(&record).unwrap_err();
    assert_eq!(unreadable.dead_letter().reason, DeadLetterReason::HeaderSizeExceeded);
    assert_eq!(unreadable.message().application_properties().len(), 1);
    let copy = dead_letter(&record, unreadable.dead_letter().clone());
    assert!(headers(&copy).contains(&("large".into(), Some(large))));
}

/// Rules: K-132.
#[test]
fn a_dead_letter_keeps_what_it_came_with() {
    let raw: [(&str, Option<&[u8]>); 7] = [
        ("tag", Some(b"a")),
        ("DeadLetterReason", Some(b"an earlier one")),
        ("Sb-P-x-delivery-count", Some(b"u64:2")),
        ("raw", Some(b"\xff")),
        ("tag", Some(b"b")),
        ("none", None),
        ("changed", Some(b"before")),
    ];
    let mut letter = DeadLetter::new(DeadLetterReason::HandlerPermanent, "why");
    letter.changes = [("changed", "after")].into_iter().collect::<ApplicationProperties>().into();
    let copy = dead_letter(&with_headers(&raw), letter);
    let text = |name: &str, value: &str| (name.to_owned(), Some(value.as_bytes().to_vec()));
    let all = headers(&copy);
    let kept = [text("tag", "a"), ("raw".into(), Some(vec![0xff])), text("tag", "b"), ("none".into(), None)];
    assert_eq!(all[..4], kept, "in their order");
    assert_eq!(all[4..6], [text("Sb-Message-Id", "orders-2-41"), text("Sb-Message-Id-Stamped", "1")]);
    let mut added = all[6..].to_vec();
    added.sort();
    let expected = [
        text("DeadLetterErrorDescription", "why"),
        text("DeadLetterReason", "HandlerPermanent"),
        text("changed", "after"),
    ];
    assert_eq!(added, expected);
    assert_eq!((copy.timestamp, copy.payload.as_deref()), (None, Some(&b"body"[..])));
}

/// Rules: K-132.
#[test]
fn an_abandoned_copy_counts() {
    let changes: ApplicationProperties = [("why", "no price"), (DeadLetter::REASON, "not here")].into_iter().collect();
    let mut record = with_headers(&[("tag", Some(b"a"))]);
    for failed in 1..4_u64 {
        let message = from_rdkafka(&record).unwrap();
        let counted = count_delivery(&message);
        let copy = abandoned(&record, Changes::from(changes.clone())).unwrap();
        record = consumed(&copy);
        let read = from_rdkafka(&record).unwrap();
        assert_eq!(read.application_properties().get("x-delivery-count"), Some(&failed.into()));
        assert_eq!(
            read.application_properties().get("x-delivery-count"),
            counted.application_properties().get("x-delivery-count")
        );
        assert_eq!((text(&read, "why"), text(&read, "tag")), (Some("no price"), Some("a")));
        assert_eq!((read.message_id(), read.dead_letter_reason()), (Some("orders-2-41"), None));
    }
}

/// Rules: K-132.
#[test]
fn a_disposition_is_what_a_loop_produces() {
    let record = with_headers(&[]);
    assert!(matches!(settlement(&record, Disposition::Complete), Settlement::Complete));
    for disposition in [Disposition::ABANDON, Disposition::DEFER] {
        let Settlement::Abandon(copy) = settlement(&record, disposition) else { panic!("a copy") };
        assert!(headers(&copy).contains(&("Sb-P-x-delivery-count".into(), Some(b"u64:1".into()))));
    }
    let rejected = Disposition::dead_letter(DeadLetterReason::HandlerPermanent, "why");
    let Settlement::DeadLetter(copy) = settlement(&record, rejected) else { panic!("a dead letter") };
    assert!(headers(&copy).contains(&("DeadLetterReason".into(), Some(b"HandlerPermanent".into()))));
    // There is no space for the count.
    let long = vec![b'x'; 32_764];
    let full = with_headers(&[("a", Some(&long)), ("b", Some(&long))]);
    let Settlement::DeadLetter(copy) = settlement(&full, Disposition::ABANDON) else { panic!("a dead letter") };
    assert!(headers(&copy).contains(&("DeadLetterReason".into(), Some(b"HeaderSizeExceeded".into()))));
}

#[test]
fn a_record_is_what_a_producer_sends() {
    let message = Message::builder().partition_key("p").build("body").unwrap();
    let record = Record { timestamp: Some(5), ..to_rdkafka(&message).unwrap() };
    let (future, base) = (record.to("orders"), record.to_base("orders"));
    assert_eq!((future.topic, future.key, future.payload), ("orders", Some(&b"p"[..]), Some(&b"body"[..])));
    assert_eq!((future.timestamp, future.partition), (Some(5), None));
    assert_eq!((base.topic, base.key, base.payload), (future.topic, future.key, future.payload));
    assert_eq!((base.timestamp, base.headers.map(|headers| headers.count())), (Some(5), Some(record.headers.count())));
}

#[test]
fn a_delivery_report_is_the_result_of_a_send() {
    let result = |error: KafkaError| -> SendError { confirmed(Err((error, with_headers(&[])))).unwrap_err() };
    assert!(confirmed(Ok(Delivery { partition: 0, offset: 1, timestamp: Time::NotAvailable })).is_ok());
    for (code, kind, is_retryable) in [
        (RDKafkaErrorCode::UnknownTopicOrPartition, ErrorKind::EntityNotFound, false),
        (RDKafkaErrorCode::MessageSizeTooLarge, ErrorKind::MessageSizeExceeded, false),
        (RDKafkaErrorCode::TopicAuthorizationFailed, ErrorKind::Unauthorized, false),
        (RDKafkaErrorCode::QueueFull, ErrorKind::Throttled, true),
        (RDKafkaErrorCode::NotEnoughReplicas, ErrorKind::ServiceBusy, true),
        (RDKafkaErrorCode::InvalidRecord, ErrorKind::InvalidArgument, false),
        (RDKafkaErrorCode::Fatal, ErrorKind::InvalidOperation, false),
        (RDKafkaErrorCode::MessageTimedOut, ErrorKind::ServiceTimeout, true),
        (RDKafkaErrorCode::BrokerTransportFailure, ErrorKind::CommunicationProblem, true),
        (RDKafkaErrorCode::Fail, ErrorKind::General, true),
    ] {
        let error = result(KafkaError::MessageProduction(code));
        assert_eq!((error.kind(), error.is_retryable()), (kind, is_retryable), "{code:?}");
        assert!(std::error::Error::source(&error).is_some());
    }
    assert_eq!(result(KafkaError::Canceled).kind(), ErrorKind::CommunicationProblem);
}

/// Rules: K-130.
#[test]
fn a_body_of_values_is_json() {
    let record = to_rdkafka(&Message::new(consign_core::message::Value::from(5_i64))).unwrap();
    assert_eq!(record.payload.as_deref(), Some(&b"\"i64:5\""[..]));
    let sections = MessageBody::sections(vec!["ab".into(), "c".into()]);
    let record = to_rdkafka(&Message::new(sections)).unwrap();
    assert_eq!(record.payload.as_deref(), Some(&b"abc"[..]));
    assert!(headers(&record).contains(&("Sb-Sections".into(), Some(b"2,1".into()))));
}
