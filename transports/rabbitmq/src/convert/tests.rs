use consign_conformance::golden::{random, samples};
use consign_core::{
    Disposition,
    message::{ApplicationProperties, PropertyValue},
    settlement::DeadLetterReason,
    transport::ErrorKind,
};
use lapin::{message::BasicReturnMessage, types::AMQPValue};

use super::*;

fn table(all: &[(&str, AMQPValue)]) -> FieldTable {
    let mut table = FieldTable::default();
    for (name, value) in all {
        table.insert((*name).into(), value.clone());
    }
    table
}

fn delivery(properties: BasicProperties, body: &[u8]) -> Delivery {
    let mut delivery = Delivery::mock(9, "".into(), "orders".into(), true, body.to_vec());
    delivery.properties = properties;
    delivery
}

/// Rules: K-120.
#[test]
fn a_random_message_is_read_as_it_was_written() {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
    println!("replay: SEED={seed} cargo test --package consign-rabbitmq --lib a_random_message_is_read");
    let mut source = fastrand::Rng::with_seed(seed);
    for _ in 0..2_000 {
        let mut message = random::message(&mut source);
        if source.bool() {
            message.properties_mut().set_time_to_live(random::time_to_live(&mut source)).unwrap();
        }
        let (properties, payload) = to_lapin(&message).unwrap();
        let read = from_lapin(&properties, payload.clone()).unwrap();
        assert!(
            read.properties() == message.properties(),
            "{:#?}\ninstead of {:#?}",
            read.properties(),
            message.properties()
        );
        assert!(read.body() == message.body(), "{read:?} instead of {message:?}");
        assert_eq!(properties.message_id().is_some(), message.message_id().is_some());
        assert_eq!(from_delivery(&delivery(properties, &payload)).unwrap().body(), message.body());
    }
}

/// Rules: K-120.
#[test]
fn every_sample_is_read_as_it_was_written() {
    for message in samples::all().into_iter().chain(samples::timed()).chain([samples::without_id()]) {
        let (properties, payload) = to_lapin(&message).unwrap();
        let (again, second) = to_lapin(&from_lapin(&properties, payload.clone()).unwrap()).unwrap();
        assert_eq!((again, second), (properties, payload), "{message:?}");
    }
}

/// Rules: K-120.
#[test]
fn only_counted_deliveries_have_a_number() {
    let first = from_delivery(&delivery(BasicProperties::default(), b"")).unwrap();
    assert_eq!(first.received().map(|received| received.delivery_count), None);
    for (count, number) in [(AMQPValue::LongLongInt(2), 3), (AMQPValue::LongInt(1), 2), (AMQPValue::LongLongInt(-1), 1)]
    {
        let counted = BasicProperties::default().with_headers(table(&[("x-delivery-count", count)]));
        let received = *from_delivery(&delivery(counted, b"")).unwrap().received().unwrap();
        assert_eq!((received.delivery_count, received.sequence_number.get()), (number, 9));
        assert_eq!(received.delivery_tag.map(std::num::NonZeroU64::get), Some(9));
    }
    // From RabbitMQ 4.3 on, a `nack` counts in the second header only.
    for (counts, number) in
        [(&[("x-acquired-count", 3)][..], 4), (&[("x-delivery-count", 1), ("x-acquired-count", 3)], 4)]
    {
        let headers: Vec<_> = counts.iter().map(|(name, count)| (*name, AMQPValue::LongLongInt(*count))).collect();
        let read = from_delivery(&delivery(BasicProperties::default().with_headers(table(&headers)), b"")).unwrap();
        assert_eq!(read.received().map(|received| received.delivery_count), Some(number));
        assert!(read.application_properties().is_empty(), "it is the broker's");
    }
    // The copy of a loop that counts by itself.
    let mut counted = Message::new("");
    counted.properties_mut().application_properties_mut().insert("x-delivery-count", 4_u64);
    let (properties, payload) = to_lapin(&counted).unwrap();
    let read = from_delivery(&delivery(properties.clone(), &payload)).unwrap();
    assert!(read.received().is_none());
    assert_eq!(read.application_properties().get("x-delivery-count").and_then(PropertyValue::to_u64), Some(4));
    // A quorum queue delivers this copy again.
    let mut headers = properties.headers().clone().unwrap();
    headers.insert("x-delivery-count".into(), AMQPValue::LongLongInt(2));
    let read = from_delivery(&delivery(properties.with_headers(headers), &payload)).unwrap();
    assert_eq!(read.received().map(|received| received.delivery_count), Some(7));
}

/// Rules: K-120.
/// A program that publishes received properties again publishes these headers too, and RabbitMQ keeps them on the first delivery.
#[test]
fn counts_of_a_publisher_are_not_those_of_the_queue() {
    let counts = ["x-delivery-count", "x-acquired-count"].map(|name| (name, AMQPValue::LongLongInt(5)));
    let mut first = delivery(BasicProperties::default().with_headers(table(&counts)), b"");
    first.redelivered = false;
    assert!(from_delivery(&first).unwrap().received().is_none());
    let (copy, payload) = abandoned(&first, Changes::NONE).unwrap();
    assert_eq!(counted(&from_lapin(&copy, payload).unwrap()), Some(1));
}

/// Rules: K-126.
#[test]
fn a_routed_delivery_has_its_routing_key_as_the_subject() {
    let routed = |exchange: &str, properties: BasicProperties| {
        let mut routed = delivery(properties, b"");
        (routed.exchange, routed.routing_key) = (exchange.into(), "order.placed".into());
        routed
    };
    for (exchange, raw, subject) in [
        ("events", BasicProperties::default(), Some("order.placed")),
        ("events", BasicProperties::default().with_type("".into()), Some("order.placed")),
        ("events", BasicProperties::default().with_type("typed".into()), Some("typed")),
        ("", BasicProperties::default(), None),
    ] {
        let routed = routed(exchange, raw);
        assert_eq!(from_routed_delivery(&routed).unwrap().subject(), subject);
        assert_eq!(from_delivery(&routed).unwrap().subject(), subject.filter(|subject| *subject == "typed"));
    }
    let headers = table(&[("sb-session-id", AMQPValue::LongInt(42))]);
    let unreadable = from_routed_delivery(&routed("events", BasicProperties::default().with_headers(headers)));
    let unreadable = unreadable.unwrap_err();
    assert_eq!(unreadable.dead_letter().reason.as_str(), "MalformedHeader");
    assert_eq!(unreadable.message().subject(), Some("order.placed"));
}

/// Rules: K-120.
#[test]
fn an_unreadable_part_is_an_error_with_the_rest() {
    let raw = BasicProperties::default().with_type("order".into()).with_headers(table(&[
        ("sb-body", AMQPValue::LongString("amqp-1.0".into())),
        ("tenant", AMQPValue::LongString("acme".into())),
    ]));
    let unreadable = from_lapin(&raw, &b"no sections"[..]).unwrap_err();
    assert!(
        unreadable.to_string().starts_with("MalformedHeader: the header sb-body cannot be decoded"),
        "{unreadable}"
    );
    assert_eq!(
        (unreadable.message().subject(), unreadable.message().payload()),
        (Some("order"), Some(&b"no sections"[..]))
    );
    let Disposition::DeadLetter(letter) = Disposition::from(unreadable) else { panic!("a dead letter") };
    assert_eq!(letter.reason.as_str(), "MalformedHeader");
    let large = AMQPValue::LongString("x".repeat(60_000).into());
    let raw = BasicProperties::default().with_headers(table(&[("stack", large), ("tenant", AMQPValue::Boolean(true))]));
    let unreadable = from_delivery(&delivery(raw, b"")).unwrap_err();
    assert_eq!(unreadable.dead_letter().reason, DeadLetterReason::HeaderSizeExceeded);
    assert_eq!(unreadable.into_message().application_properties().len(), 1);
}

/// Rules: K-119, K-120.
#[test]
fn a_header_of_another_type_or_value_is_left_out_and_named() {
    let long = AMQPValue::LongString("x".repeat(200).into());
    for (name, value, cause) in [
        ("sb-session-id", AMQPValue::LongInt(42), "the header is not a text"),
        ("sb-session-id", long, "longer than 128"),
        ("sb-scheduled-time-ms", AMQPValue::LongString("tomorrow".into()), "the header is not a time"),
        ("sb-group-sequence", AMQPValue::LongLongInt(-1), "the header is not an integer of 32 bits"),
    ] {
        let raw = BasicProperties::default().with_headers(table(&[(name, value)]));
        let unreadable = from_lapin(&raw, &b"body"[..]).unwrap_err();
        let said = unreadable.to_string();
        assert!(said.contains(name) && said.contains(cause), "{said}");
        assert_eq!(unreadable.message().session_id(), None);
    }
}

/// Rules: K-120.
#[test]
fn a_dead_letter_keeps_what_it_came_with() {
    let headers = table(&[
        ("stack", AMQPValue::FieldArray(vec![AMQPValue::Void, AMQPValue::LongInt(5)].into())),
        ("DeadLetterReason", AMQPValue::LongString("an earlier one".into())),
        ("x-delivery-count", AMQPValue::LongLongInt(2)),
        ("x-acquired-count", AMQPValue::LongLongInt(2)),
        ("x-death", AMQPValue::FieldArray(vec![AMQPValue::FieldTable(FieldTable::default())].into())),
    ]);
    let raw = BasicProperties::default()
        .with_headers(headers.clone())
        .with_timestamp(1_700_000_000)
        .with_app_id("app".into())
        .with_expiration("1000".into());
    let letter = DeadLetter::new(DeadLetterReason::HandlerPermanent, "x".repeat(5_000));
    let (copy, payload) = dead_letter(&delivery(raw.clone(), b"body"), letter).unwrap();
    let kept = copy.headers().as_ref().unwrap();
    for name in ["stack", "x-death"] {
        assert_eq!(kept.inner().get(name), headers.inner().get(name), "{name}");
    }
    for name in ["x-delivery-count", "x-acquired-count", "sb-sequence-number"] {
        assert!(!kept.contains_key(name), "{name}");
    }
    assert_eq!((copy.timestamp(), copy.app_id(), copy.expiration()), (raw.timestamp(), raw.app_id(), &None));
    let read = from_lapin(&copy, payload).unwrap();
    assert_eq!((read.dead_letter_reason(), read.payload()), (Some("HandlerPermanent"), Some(&b"body"[..])));
    assert_eq!(read.dead_letter_description().map(|text| text.chars().count()), Some(4_096));
}

/// Rules: K-119, K-120.
#[test]
fn copies_keep_headers_that_cannot_be_read() {
    for (name, value) in [
        ("sb-session-id", AMQPValue::LongInt(7)),
        ("sb-time-to-live-ms", AMQPValue::LongLongInt(-5)),
        ("sb-annotations", AMQPValue::ByteArray([0xd1, 0, 0, 0, 9][..].into())),
        ("sb-sequence-number", AMQPValue::LongString("first".into())),
    ] {
        let nested = AMQPValue::FieldArray(vec![AMQPValue::LongInt(5)].into());
        let raw = BasicProperties::default().with_headers(table(&[(name, value.clone()), ("stack", nested.clone())]));
        let delivered = delivery(raw, b"body");
        let why = from_delivery(&delivered).unwrap_err().dead_letter().clone();
        assert!(why.description.contains(name), "{why:?}");
        let dead = dead_letter(&delivered, why.clone()).unwrap();
        let failed = abandoned(&delivered, Changes::NONE).unwrap();
        for (copy, payload) in [dead, failed] {
            let kept = copy.headers().as_ref().unwrap().inner();
            assert_eq!((kept.get(name), kept.get("stack")), (Some(&value), Some(&nested)), "{name}");
            let again = from_lapin(&copy, payload).unwrap_err();
            assert_eq!(again.dead_letter(), &why);
            assert!(again.message().dead_letter_reason().is_none_or(|reason| reason == "MalformedHeader"));
        }
    }
    let types = AMQPValue::LongString("u8".into());
    let untyped = delivery(BasicProperties::default().with_headers(table(&[("sb-types", types.clone())])), b"");
    let (dead, _) = dead_letter(&untyped, DeadLetter::ttl_expired()).unwrap();
    assert_eq!(dead.headers().as_ref().unwrap().inner().get("sb-types"), Some(&types));
    // A value of the copy counts.
    let (failed, payload) = abandoned(&untyped, Changes::NONE).unwrap();
    assert_eq!(counted(&from_lapin(&failed, payload).unwrap()), Some(1));
    let headers = table(&[("sb-time-to-live-ms", AMQPValue::LongLongInt(-5))]);
    let timed = BasicProperties::default().with_headers(headers).with_expiration("5000".into());
    let (copy, payload) = abandoned(&delivery(timed, b""), Changes::NONE).unwrap();
    assert_eq!(from_lapin(&copy, payload).unwrap().time_to_live(), Some(std::time::Duration::from_secs(5)));
}

/// Rules: K-120.
#[test]
fn a_property_that_amqp_cannot_have_is_refused() {
    let mut message = Message::new("");
    message.properties_mut().application_properties_mut().insert("n".repeat(256), 1);
    assert_eq!(to_lapin(&message).unwrap_err().kind(), ErrorKind::Serialization);
}

/// Rules: K-120, K-127.
#[test]
fn an_abandoned_copy_keeps_what_it_came_with_and_the_first_routing_key() {
    let headers = table(&[
        ("stack", AMQPValue::FieldArray(vec![AMQPValue::Void, AMQPValue::LongInt(5)].into())),
        ("latin", AMQPValue::LongString(vec![0xe9].into())),
        ("x-delivery-count", AMQPValue::LongLongInt(2)),
        ("x-death", AMQPValue::FieldArray(vec![AMQPValue::FieldTable(FieldTable::default())].into())),
    ]);
    let raw = BasicProperties::default().with_headers(headers.clone()).with_expiration("1000".into());
    let mut first = Delivery::mock(9, "events".into(), "order.placed".into(), true, b"body".to_vec());
    first.properties = raw;
    let changes: ApplicationProperties = [("why", "no price")].into_iter().collect();
    let (copy, payload) = abandoned(&first, changes.into()).unwrap();
    let kept = copy.headers().as_ref().unwrap();
    for name in ["stack", "latin", "x-death"] {
        assert_eq!(kept.inner().get(name), headers.inner().get(name), "{name}");
    }
    assert!(!kept.contains_key("x-delivery-count"));
    assert_eq!(copy.expiration().as_ref().map(lapin::types::ShortString::as_str), Some("1000"));

    // It is delivered by its queue, fails again, and becomes a dead letter.
    let second = delivery(copy, &payload);
    assert_eq!(routing_key(&second), "order.placed");
    let read = from_routed_delivery(&second).unwrap();
    assert_eq!((read.subject(), counted(&read)), (Some("order.placed"), Some(3)));
    assert_eq!(read.application_properties().get("why").and_then(PropertyValue::as_str), Some("no price"));
    let (copy, payload) = abandoned(&second, Changes::NONE).unwrap();
    let third = delivery(copy, &payload);
    assert_eq!((routing_key(&third), counted(&from_delivery(&third).unwrap())), ("order.placed", Some(4)));
    let (dead, body) = dead_letter(&third, DeadLetter::new(DeadLetterReason::HandlerPermanent, "why")).unwrap();
    assert_eq!(
        counted(&from_lapin(&dead, body).unwrap()),
        None,
        "published to its queue again, it has all its attempts"
    );
    let kept = dead.headers().as_ref().unwrap();
    assert!(kept.contains_key("x-death") && !kept.contains_key("sb-routing-key"));
    // One that was published to its queue keeps no key, and no header changes that.
    let (copy, _) = abandoned(&delivery(BasicProperties::default(), b""), Changes::NONE).unwrap();
    assert!(!copy.headers().as_ref().unwrap().contains_key("sb-routing-key"));
}

/// Rules: K-126.
#[test]
fn the_routing_key_of_a_delay_is_not_a_subject() {
    let mut delayed = Delivery::mock(9, "consign.delays.due".into(), "0.0.1".into(), true, Vec::new());
    assert_eq!(routed_subject(&delayed, Some("consign.delays")), None);
    assert_eq!(routed_subject(&delayed, Some("others")), Some("0.0.1"));
    delayed.properties =
        BasicProperties::default().with_headers(table(&[("sb-destination", AMQPValue::LongString("orders".into()))]));
    assert_eq!(from_routed_delivery(&delayed).unwrap().subject(), None);
}

#[test]
fn a_confirmation_is_the_result_of_a_send() {
    let returned = || {
        let delivery = delivery(BasicProperties::default(), b"");
        Some(BasicReturnMessage { delivery, reply_code: 312, reply_text: "NO_ROUTE".into() })
    };
    let kind = |confirmation| result_of(confirmation).map_err(|error| (error.kind(), error.is_retryable()));
    assert_eq!(kind(Ok(Confirmation::Ack(None))), Ok(()));
    assert_eq!(kind(Ok(Confirmation::Nack(None))), Err((ErrorKind::ServiceBusy, true)));
    for unroutable in [Confirmation::Ack(returned()), Confirmation::Nack(returned())] {
        let error = result_of(Ok(unroutable)).unwrap_err();
        assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::EntityNotFound, false));
        assert!(error.to_string().contains("no queue has taken the message: NO_ROUTE"), "{error}");
    }
    assert_eq!(kind(Ok(Confirmation::NotRequested)), Err((ErrorKind::InvalidOperation, false)));
    let lost = lapin::ErrorKind::ChannelsLimitReached.into();
    let error = result_of(Err(lost)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Throttled);
    assert!(std::error::Error::source(&error).is_some());
}

#[test]
fn a_disposition_is_what_a_loop_publishes() {
    let delivered = delivery(BasicProperties::default(), b"body");
    assert_eq!(settlement(&delivered, Disposition::Complete).unwrap(), Settlement::Complete);
    let changes = || Changes::from([("why", "no price")].into_iter().collect::<ApplicationProperties>());
    let abandoned = abandoned(&delivered, changes()).unwrap();
    for disposition in [Disposition::Abandon(changes()), Disposition::Defer(changes())] {
        assert_eq!(settlement(&delivered, disposition).unwrap(), Settlement::Abandon(abandoned.clone()));
    }
    let letter = DeadLetter::new(DeadLetterReason::HandlerPermanent, "why");
    let dead = dead_letter(&delivered, letter.clone()).unwrap();
    assert_eq!(
        settlement(&delivered, Disposition::DeadLetter(Box::new(letter))).unwrap(),
        Settlement::DeadLetter(dead)
    );
    // The number of failed deliveries has no space beside these headers.
    let long = || AMQPValue::LongString("x".repeat(32_760).into());
    let full = delivery(BasicProperties::default().with_headers(table(&[("a", long()), ("b", long())])), b"");
    let Settlement::DeadLetter((dead, _)) = settlement(&full, Disposition::ABANDON).unwrap() else { panic!("counted") };
    let headers = dead.headers().as_ref().unwrap().inner();
    assert_eq!(headers.get(DeadLetter::REASON), Some(&AMQPValue::LongString("HeaderSizeExceeded".into())));
}
