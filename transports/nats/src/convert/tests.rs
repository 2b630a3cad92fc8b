use std::time::Duration;

use async_nats::HeaderValue;
use consign_conformance::golden::{random, samples};
use consign_core::{Disposition, message::PropertyValue, settlement::DeadLetterReason, time::Timestamp};

use super::*;

/// Rules: K-123.
#[test]
fn a_random_message_is_read_as_it_was_written() {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
    println!("replay: SEED={seed} cargo test --package consign-nats --lib a_random_message_is_read");
    let mut source = fastrand::Rng::with_seed(seed);
    for _ in 0..2_000 {
        let message = random::message(&mut source);
        let (headers, payload) = to_nats(&message).unwrap();
        assert_eq!(headers.get(NATS_MESSAGE_ID).is_some(), message.message_id().is_some());
        let read = from_nats(Some(&headers), payload).unwrap();
        assert!(read.properties() == message.properties(), "{read:?} instead of {message:?}");
        assert!(read.body() == message.body(), "{read:?} instead of {message:?}");
    }
}

/// Rules: K-123.
#[test]
fn every_sample_is_read_as_it_was_written() {
    for message in samples::all().into_iter().chain([samples::without_id()]) {
        let (headers, payload) = to_nats(&message).unwrap();
        let (again, second) = to_nats(&from_nats(Some(&headers), payload.clone()).unwrap()).unwrap();
        assert_eq!((again, second), (headers, payload), "{message:?}");
    }
}

/// Rules: K-123.
#[test]
fn times_that_nats_does_not_have_are_refused() {
    let lives = Message::builder().time_to_live(Duration::from_secs(1)).build("").unwrap();
    let later = Message::builder().scheduled_enqueue_time(Timestamp::from_millis(1)).build("").unwrap();
    for message in [lives, later] {
        assert_eq!(to_nats(&message).unwrap_err().kind(), ErrorKind::NotSupported);
    }
    let mut large = Message::new("");
    for name in ["a", "b", "c"] {
        large.properties_mut().application_properties_mut().insert(name, "%".repeat(10_000));
    }
    assert_eq!(to_nats(&large).unwrap_err().kind(), ErrorKind::MessageSizeExceeded);
}

/// Rules: K-123.
#[test]
fn an_unreadable_header_is_an_error_with_the_rest() {
    let mut headers = HeaderMap::new();
    headers.insert("Sb-P-count", "i32:many");
    headers.insert("tenant", "acme");
    let unreadable = from_nats(Some(&headers), "body".into()).unwrap_err();
    assert_eq!(unreadable.to_string(), "MalformedHeader: the header Sb-P-count cannot be read");
    let present = unreadable.message().application_properties();
    assert_eq!(present.get("Sb-P-count").and_then(PropertyValue::as_str), Some("i32:many"));
    assert_eq!(present.get("tenant").and_then(PropertyValue::as_str), Some("acme"));
    assert!(matches!(Disposition::from(unreadable), Disposition::DeadLetter(_)));
    headers.insert("Sb-P-count", "x".repeat(70_000));
    let dead = dead_letter(Some(&headers), "body".into(), DeadLetter::new(DeadLetterReason::HandlerPermanent, "why"));
    let (headers, payload) = dead.unwrap();
    assert!(wire::size(&headers) <= wire::MAX_HEADERS);
    assert_eq!(
        (headers.get("DeadLetterReason").map(HeaderValue::as_str), &payload[..]),
        (Some("HandlerPermanent"), &b"body"[..])
    );
}

/// Rules: K-123.
#[test]
fn an_unreadable_header_leaves_the_others() {
    let mut headers = HeaderMap::new();
    let readable = [
        ("Sb-Subject", "order.placed"),
        ("Sb-Correlation-Id", "cart-7"),
        ("Sb-Reply-To", "replies"),
        ("Sb-Session-Id", "customer-7"),
        ("Sb-Message-Id", "order-7"),
        ("Sb-P-cents", "i32:120"),
    ];
    for (name, value) in readable {
        headers.insert(name, value);
    }
    headers.insert("Sb-P-count", "i32:abc");
    for (body, bad) in [(None, "Sb-P-count"), (Some("value"), "Sb-Body")] {
        if let Some(body) = body {
            headers.insert("Sb-Body", body);
        }
        let unreadable = from_nats(Some(&headers), "not json".into()).unwrap_err();
        assert_eq!(unreadable.to_string(), format!("MalformedHeader: the header {bad} cannot be read"));
        let letter = unreadable.dead_letter().clone();
        let read = unreadable.into_message();
        assert_eq!((read.subject(), read.correlation_id()), (Some("order.placed"), Some("cart-7")));
        assert_eq!((read.reply_to(), read.session_id()), (Some("replies"), Some("customer-7")));
        assert_eq!((read.message_id(), read.payload()), (Some("order-7"), Some(&b"not json"[..])));
        assert_eq!(read.application_properties().get("cents"), Some(&120_i32.into()));
        assert_eq!(read.application_properties().get("Sb-P-count"), Some(&"i32:abc".into()));
        let (copy, payload) = dead_letter(Some(&headers), "not json".into(), letter).unwrap();
        for (name, value) in readable {
            assert_eq!(copy.get(name).map(HeaderValue::as_str), Some(value), "{name}");
        }
        let dead = from_nats(Some(&copy), payload).unwrap();
        assert_eq!(dead.application_properties().get("Sb-P-count"), Some(&"i32:abc".into()));
        assert_eq!(dead.dead_letter_reason(), Some("MalformedHeader"));
    }
}

/// Rules: K-100, K-123.
#[test]
fn a_header_with_the_prefix_of_this_crate_is_read_and_stays_on_copies() {
    let tenant = |message: &Message| message.application_properties().get("Sb-Tenant").cloned();
    let acme = Some(PropertyValue::from("acme 100%"));
    let mut headers = HeaderMap::new();
    headers.insert("Sb-Tenant", "acme 100%");
    for malformed in [None, Some("i32:many")] {
        if let Some(value) = malformed {
            headers.insert("Sb-P-count", value);
        }
        let read = from_nats(Some(&headers), "42".into());
        assert_eq!(read.is_err(), malformed.is_some());
        let read = read.unwrap_or_else(UnreadableMessage::into_message);
        assert_eq!(tenant(&read), acme, "{malformed:?}");
        let letter = DeadLetter::new(DeadLetterReason::HandlerPermanent, "why");
        let (copy, payload) = dead_letter(Some(&headers), "42".into(), letter).unwrap();
        assert_eq!(copy.get("Sb-Tenant").map(HeaderValue::as_str), Some("acme 100%"), "{malformed:?}");
        assert!(copy.get("Sb-P-Sb-Tenant").is_none(), "{copy:?}");
        let dead = from_nats(Some(&copy), payload).unwrap();
        assert_eq!(tenant(&dead), acme, "{malformed:?}");
        // A resubmission sends the message without its headers.
        let (sent, payload) = to_nats(&dead).unwrap();
        assert_eq!(tenant(&from_nats(Some(&sent), payload).unwrap()), acme, "{malformed:?}");
    }
}

/// Rules: K-123.
#[test]
fn a_dead_letter_is_no_larger_than_a_server_takes() {
    let letter = || DeadLetter::new(DeadLetterReason::HandlerPermanent, "x".repeat(4_000));
    for (bytes, most) in [(1_047_000, 1 << 20), (3 << 20, 3 << 20)] {
        let mut headers = HeaderMap::new();
        headers.insert("tenant", "x".repeat(1_000));
        let (copy, payload) = dead_letter(Some(&headers), vec![b'x'; bytes].into(), letter()).unwrap();
        let size = wire::size(&copy) + payload.len();
        assert!(size <= most + wire::size(&headers), "{size}");
        assert_eq!(payload.len(), bytes);
    }
}

/// Rules: K-123.
#[test]
fn a_dead_letter_takes_the_space_that_its_payload_leaves() {
    const MAX: usize = 1 << 20;
    let copied = |left: usize, from: &HeaderMap| {
        let payload = Bytes::from(vec![b'x'; MAX - left - if from.is_empty() { 0 } else { wire::size(from) }]);
        let mut message = from_nats(Some(from), payload).unwrap_or_else(UnreadableMessage::into_message);
        message.properties_mut().set_subject("orders.placed.in.some.country");
        let why = "the body is not JSON: expected value at line 1 column 1".repeat(4);
        copy(message, Some(from), DeadLetter::new(DeadLetterReason::DeserializationFailed, why), MAX)
    };
    let mut tagged = HeaderMap::new();
    tagged.insert("X-Tag", "a".repeat(64));
    tagged.insert("Content-Type", "application/json");
    tagged.insert("Sb-Message-Id", "order-7");
    for (left, from, tag) in [(300, HeaderMap::new(), false), (60, HeaderMap::new(), false), (100, tagged, true)] {
        let (headers, payload) = copied(left, &from).unwrap();
        let size = wire::size(&headers) + payload.len();
        assert!(size <= MAX, "{size}");
        let read = from_nats(Some(&headers), payload).unwrap();
        assert_eq!(read.dead_letter_reason(), Some("DeserializationFailed"));
        assert_eq!(headers.get("X-Tag").is_some(), tag);
        assert!(!tag || read.message_id() == Some("order-7"));
    }
    assert_eq!(copied(0, &HeaderMap::new()).unwrap_err().kind(), ErrorKind::MessageSizeExceeded);
}

/// Rules: K-123.
/// Other programs find a header by its exact spelling.
#[test]
fn a_dead_letter_keeps_the_spelling_of_headers() {
    let mut headers = HeaderMap::new();
    let came = [
        ("content-type", "text/plain"),
        ("content-encoding", "gzip"),
        ("traceParent", "00-1-2-3"),
        ("CE-Type", "a%20b"),
    ];
    for (name, value) in came {
        headers.insert(name, value);
    }
    let letter = || DeadLetter::new(DeadLetterReason::HandlerPermanent, "why");
    let (copy, payload) = dead_letter(Some(&headers), "42".into(), letter()).unwrap();
    let names: Vec<&str> = copy.iter().map(|(name, _)| name.as_ref()).collect();
    for (name, value) in came {
        assert_eq!(copy.get(name).map(HeaderValue::as_str), Some(value), "{name}");
        assert_eq!(names.iter().filter(|other| other.eq_ignore_ascii_case(name)).count(), 1, "{names:?}");
    }
    assert!(!names.contains(&"Sb-Content-Type"), "{names:?}");
    let read = from_nats(Some(&copy), payload).unwrap();
    assert_eq!(
        (read.content_type(), read.application_properties().get("ce-type")),
        (Some("text/plain"), Some(&"a b".into()))
    );
    // A header that the settlement has changed is written as this crate writes it.
    let mut changed = letter();
    changed.changes =
        [("traceparent", "00-4-5-6")].into_iter().collect::<consign_core::message::ApplicationProperties>().into();
    let (copy, _) = dead_letter(Some(&headers), "42".into(), changed).unwrap();
    assert_eq!(copy.get("traceparent").map(HeaderValue::as_str), Some("00-4-5-6"));
    assert!(copy.get("traceParent").is_none());
}

/// Rules: K-123.
#[test]
fn a_dead_letter_keeps_what_it_came_with() {
    let mut headers = HeaderMap::new();
    headers.append("X-Tag", "a");
    headers.append("X-Tag", "b");
    headers.insert(NATS_MESSAGE_ID, "order-7");
    headers.insert("Content-Type", "application/json");
    let letter = DeadLetter::new(DeadLetterReason::HandlerPermanent, "why");
    let (copy, payload) = dead_letter(Some(&headers), "{}".into(), letter).unwrap();
    assert_eq!(copy.get_all("X-Tag").map(HeaderValue::as_str).collect::<Vec<_>>(), ["a", "b"]);
    assert!(copy.get(NATS_MESSAGE_ID).is_none(), "a stream that has the message drops the second one");
    let read = from_nats(Some(&copy), payload).unwrap();
    assert_eq!((read.message_id(), read.content_type()), (Some("order-7"), Some("application/json")));
    assert_eq!((read.dead_letter_reason(), read.dead_letter_description()), (Some("HandlerPermanent"), Some("why")));
}

/// Rules: K-123.
#[test]
fn the_count_of_a_copy_is_added_to_that_of_jetstream() {
    let facts = |deliveries| Facts { deliveries, number: 7, delivered: 9, stored: Timestamp::EPOCH };
    assert_eq!(deliveries(&facts(3), &Message::new("")), 3);
    let cases: [(PropertyValue, u64, u32); 4] =
        [(2_u64.into(), 1, 3), (2_u64.into(), 4, 6), ("many".into(), 1, 1), (u64::MAX.into(), 2, u32::MAX)];
    for (count, delivered, number) in cases {
        let mut copy = Message::new("");
        copy.properties_mut().application_properties_mut().insert(COUNT, count);
        let (headers, payload) = to_nats(&copy).unwrap();
        assert_eq!(deliveries(&facts(delivered), &from_nats(Some(&headers), payload.clone()).unwrap()), number);
    }
}

/// Rules: K-123.
#[test]
fn a_dead_letter_has_no_count() {
    let mut copy = Message::new("");
    copy.properties_mut().application_properties_mut().insert(COUNT, 2_u64);
    copy.properties_mut().application_properties_mut().insert("tenant", "acme");
    let (counted, payload) = to_nats(&copy).unwrap();
    let mut of_another_client = counted.clone();
    of_another_client.insert(COUNT, "5");
    for headers in [counted, of_another_client] {
        let letter = DeadLetter::new(DeadLetterReason::HandlerPermanent, "why");
        let (headers, payload) = dead_letter(Some(&headers), payload.clone(), letter).unwrap();
        let dead = from_nats(Some(&headers), payload).unwrap();
        assert_eq!(dead.application_properties().get(COUNT), None);
        assert_eq!(dead.application_properties().get("tenant"), Some(&"acme".into()));
    }
}

/// Rules: K-123.
#[test]
fn an_id_is_what_other_clients_read_unless_it_reads_as_an_encoded_one() {
    for (id, header) in [("50%", "50%"), ("a%2Fb", "a%252Fb"), (" a", "%20a"), ("a\nb", "a%0Ab")] {
        let message = Message::builder().message_id(id).build("").unwrap();
        let (headers, payload) = to_nats(&message).unwrap();
        assert_eq!(headers.get(NATS_MESSAGE_ID).map(HeaderValue::as_str), Some(header));
        assert_eq!(from_nats(Some(&headers), payload).unwrap().message_id(), Some(id));
    }
    let mut headers = HeaderMap::new();
    headers.insert(NATS_MESSAGE_ID, "50%");
    assert_eq!(from_nats(Some(&headers), Bytes::new()).unwrap().message_id(), Some("50%"));
}
