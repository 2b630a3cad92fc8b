use std::{collections::HashMap, time::Duration};

use aws_sdk_sqs::{
    error::{ErrorMetadata, SdkError},
    operation::send_message::{SendMessageError, SendMessageOutput, builders::SendMessageInputBuilder},
    primitives::Blob,
    types::{self, MessageAttributeValue, MessageSystemAttributeName as System, error::QueueDoesNotExist},
};
use consign_conformance::golden::{random, samples};
use consign_core::{
    Disposition, Message,
    message::{ApplicationProperties, MessageBody, PropertyValue},
    settlement::{Changes, DeadLetter, DeadLetterReason},
    time::Timestamp,
    transport::{ErrorKind, SendError},
};

use super::*;

const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

fn standard(message: &Message) -> SendMessageInputBuilder {
    to_sqs(message, Queue::Standard, NOW).unwrap()
}

/// A request as SQS would check it, and the message as it would be received.
fn received(request: &SendMessageInputBuilder) -> types::Message {
    let body = request.get_message_body().clone().unwrap();
    let attributes = request.get_message_attributes().clone();
    assert!(names::is_text(&body), "{body:?}");
    let all = attributes.iter().flatten();
    let mut bytes = body.len();
    for (name, value) in all {
        bytes += name.len() + value.data_type().len();
        bytes += value.string_value().map_or(0, str::len) + value.binary_value().map_or(0, |blob| blob.as_ref().len());
        assert!(value.string_value().is_none_or(names::is_text), "{name}: {value:?}");
        assert!(value.binary_value().is_none_or(|blob| !blob.as_ref().is_empty()), "{name}: {value:?}");
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        assert!(name.bytes().all(is_name) && (1..=256).contains(&name.len()), "{name}");
        let lower = name.to_ascii_lowercase();
        assert!(!lower.starts_with("aws.") && !lower.starts_with("amazon.") && !name.contains(".."), "{name}");
        let base = value.data_type().split('.').next().unwrap();
        assert_eq!(value.binary_value().is_some(), base == "Binary", "{name}: {value:?}");
        if base == "Number" {
            assert!(value.string_value().unwrap().parse::<f64>().is_ok_and(f64::is_finite), "{name}: {value:?}");
        }
    }
    assert!(attributes.as_ref().map_or(0, HashMap::len) <= 10 && bytes <= 1 << 20, "{bytes} bytes");
    let group = request.get_message_group_id().clone();
    if let Some(id) = &group {
        assert!((1..=128).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic()), "{id}");
    }
    let facts = group.map(|group| HashMap::from([(System::MessageGroupId, group)]));
    let received = types::Message::builder().message_id("of-sqs").body(body).set_attributes(facts);
    received.set_message_attributes(attributes).build()
}

fn read_again(request: &SendMessageInputBuilder) -> Message {
    let mut read = from_sqs(&received(request)).unwrap();
    if read.properties().is_message_id_stamped() && read.message_id() == Some("of-sqs") {
        read.properties_mut().clear_message_id();
    }
    read
}

fn string(data_type: &str, value: &str) -> MessageAttributeValue {
    MessageAttributeValue::builder().data_type(data_type).string_value(value).build().unwrap()
}

fn with_attributes_of(all: &[(&str, MessageAttributeValue)]) -> types::Message {
    let message = types::Message::builder().message_id("of-sqs").body("body");
    all.iter().fold(message, |message, (name, value)| message.message_attributes(*name, value.clone())).build()
}

fn attribute_of(request: &SendMessageInputBuilder, name: &str) -> Option<(String, String)> {
    let value = request.get_message_attributes().as_ref()?.get(name)?;
    Some((value.data_type().to_owned(), value.string_value()?.to_owned()))
}

fn text<'m>(message: &'m Message, name: &str) -> Option<&'m str> {
    message.application_properties().get(name).and_then(PropertyValue::as_str)
}

/// Rules: K-133.
#[test]
fn a_random_message_is_read_as_it_was_written() {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
    println!("replay: SEED={seed} cargo test --package consign-convert-sqs --lib a_random_message_is_read");
    let mut source = fastrand::Rng::with_seed(seed);
    for _ in 0..2_000 {
        let mut message = random::message(&mut source);
        if source.bool() {
            message
                .properties_mut()
                .set_scheduled_enqueue_time(NOW.saturating_add(Duration::from_millis(source.u64(..900_000))));
        }
        let mut read = vec![read_again(&standard(&message))];
        if message.session_id().is_some() && message.scheduled_enqueue_time().is_none() {
            read.push(read_again(&to_sqs(&message, Queue::Fifo, NOW).unwrap()));
        }
        for read in read {
            assert!(
                read.properties() == message.properties(),
                "{:#?}\ninstead of {:#?}",
                read.properties(),
                message.properties()
            );
            assert!(read.body() == message.body(), "{read:?} instead of {message:?}");
        }
    }
}

/// Rules: K-133.
#[test]
fn every_sample_is_read_as_it_was_written() {
    let mut odd = Message::new("");
    for name in
        ["", "AWS.x", "aWs.y", "Amazon.z", ".a", "a.", "a..b", "a b", "Sb-Body", "content-type", "\u{ffff}", "a\0"]
    {
        odd.properties_mut().application_properties_mut().insert(name, "\u{fffe} \u{1}");
    }
    let (_, scheduled) = (samples::timed().remove(0), samples::timed().remove(1));
    for message in samples::all().into_iter().chain([samples::without_id(), scheduled, odd]) {
        // A number that is not equal to itself has the same text.
        let written = standard(&message);
        assert_eq!(standard(&read_again(&written)), written, "{message:?}");
    }
}

/// Rules: K-133.
#[test]
fn attributes_have_the_types_of_sqs() {
    let message = Message::builder()
        .content_type("application/json")
        .message_id("order-7")
        .property("tenant", "acme")
        .property("count", 5)
        .property("price", 1.5)
        .property("paid", true)
        .property("tiny", f64::MIN_POSITIVE)
        .build("{}")
        .unwrap();
    let request = standard(&message);
    let found = |name: &str| attribute_of(&request, name);
    let expected = |data_type: &str, value: &str| Some((data_type.to_owned(), value.to_owned()));
    assert_eq!(found("Content-Type"), expected("String", "application/json"));
    assert_eq!(found("Sb-Message-Id"), expected("String", "order-7"));
    assert_eq!(found("tenant"), expected("String", "acme"));
    assert_eq!(found("count"), expected("Number.sb-i32", "5"));
    assert_eq!(found("price"), expected("Number.sb-f64", "1.5"));
    assert_eq!(found("paid"), expected("String.sb-bool", "true"));
    assert_eq!(found("tiny").unwrap().0, "String.sb-f64", "a Number has at most 38 digits");
    assert_eq!(request.get_message_body().as_deref(), Some("{}"));
    assert_eq!((request.get_message_group_id(), request.get_message_deduplication_id()), (&None, &None));
}

/// Rules: K-134.
#[test]
fn a_body_is_text_or_says_how_it_is_encoded() {
    for (body, text, kind) in [
        (MessageBody::from("text \t\r\né🦀"), "text \t\r\né🦀", None),
        (MessageBody::from(""), "-", Some("empty")),
        (MessageBody::from(vec![0, 0xff]), "AP8=", Some("base64")),
        (MessageBody::from("\u{b}"), "Cw==", Some("base64")),
        (MessageBody::from("\u{fffe}"), "77++", Some("base64")),
        (MessageBody::from(consign_core::message::Value::from("\u{ffff}")), "\"s:\\uffff\"", Some("value")),
    ] {
        let request = standard(&Message::new(body.clone()));
        assert_eq!(request.get_message_body().as_deref(), Some(text));
        assert_eq!(attribute_of(&request, "Sb-Body").map(|(_, kind)| kind).as_deref(), kind, "{text}");
        assert!(*read_again(&request).body() == body, "{text}");
    }
    for sections in [vec![], vec!["ab".into(), "c".into()]] {
        let body = MessageBody::sections(sections);
        assert!(*read_again(&standard(&Message::new(body.clone()))).body() == body);
    }
}

/// Rules: K-134.
#[test]
fn what_ten_attributes_do_not_hold_is_packed() {
    let of = |count: usize| {
        let mut message = Message::builder().message_id("m").build("body").unwrap();
        let all = message.properties_mut().application_properties_mut();
        for nth in 0..count {
            all.insert(format!("key-{nth:02}"), format!("value {nth}"));
        }
        message
    };
    for (count, attributes, is_packed) in [(9, 10, false), (10, 10, true), (100, 10, true), (1_000, 10, true)] {
        let message = of(count);
        let request = standard(&message);
        assert_eq!(request.get_message_attributes().as_ref().map(HashMap::len), Some(attributes));
        assert_eq!(attribute_of(&request, "Sb-Packed").is_some(), is_packed, "{count}");
        assert!(attribute_of(&request, "Sb-Message-Id").is_some());
        assert!(read_again(&request).properties() == message.properties());
    }
    // One that no attribute can hold needs the packed one too.
    let mut message = of(9);
    message.properties_mut().application_properties_mut().insert("empty", "");
    let request = standard(&message);
    let (_, packed) = attribute_of(&request, "Sb-Packed").unwrap();
    assert!(packed.contains("\"Sb-P-empty\":\"s:\""), "{packed}");
    assert_eq!(request.get_message_attributes().as_ref().map(HashMap::len), Some(10));
    assert!(read_again(&request).properties() == message.properties());
}

/// Rules: K-134.
#[test]
fn a_message_has_a_mebibyte() {
    let own = "Content-Type".len() + "String".len() + 1;
    let message = |bytes| Message::builder().content_type("c").build(vec![b'x'; bytes]).unwrap();
    assert!(to_sqs(&message((1 << 20) - own), Queue::Standard, NOW).is_ok());
    let error = to_sqs(&message((1 << 20) - own + 1), Queue::Standard, NOW).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MessageSizeExceeded);
    assert!(error.to_string().contains("have 1048577 bytes, and SQS takes 1048576"), "{error}");
    // In base64 it is longer.
    assert!(to_sqs(&Message::new(vec![0; 800_000]), Queue::Standard, NOW).is_err());
}

/// Rules: K-135.
#[test]
fn a_fifo_queue_has_the_session_and_the_id() {
    let fifo = |session: &str, id: &str| {
        let message = Message::builder().session_id(session.to_owned()).message_id(id.to_owned()).build("").unwrap();
        to_sqs(&message, Queue::Fifo, NOW)
    };
    for (session, group) in [("customer/7", "customer/7"), ("", "%"), ("%", "%25"), ("a b", "a%20b"), ("é", "%C3%A9")]
    {
        let request = fifo(session, "order-7").unwrap();
        assert_eq!(request.get_message_group_id().as_deref(), Some(group));
        assert_eq!(request.get_message_deduplication_id().as_deref(), Some("order-7"));
        assert_eq!(attribute_of(&request, "Sb-Session-Id").is_some(), session != group && !session.is_empty());
        assert_eq!(read_again(&request).session_id(), Some(session));
    }
    let ids =
        ["a%20", "a ", "a%2520", "%", "%25"].map(|id| fifo("s", id).unwrap().get_message_deduplication_id().clone());
    assert!((1..ids.len()).all(|nth| !ids[..nth].contains(&ids[nth])), "{ids:?}");
    let long = "é".repeat(64);
    for (session, id) in [(&*long, "m"), ("s", &*long)] {
        assert_eq!(fifo(session, id).unwrap_err().kind(), ErrorKind::Serialization);
    }
    let without = to_sqs(&Message::new(""), Queue::Fifo, NOW).unwrap_err();
    assert!(without.is_session_required());
    // A standard queue has neither.
    let message = Message::builder().session_id("s").message_id("m").build("").unwrap();
    assert_eq!(read_again(&standard(&message)).session_id(), Some("s"));
    assert_eq!(standard(&message).get_message_group_id(), &None);
}

/// Rules: K-135.
#[test]
fn a_scheduled_time_is_a_delay() {
    let at =
        |millis| Message::builder().scheduled_enqueue_time(Timestamp::from_millis(NOW.as_millis() + millis)).build("");
    for (millis, delay) in
        [(-1, None), (0, None), (1, Some(1)), (1_000, Some(1)), (1_001, Some(2)), (900_000, Some(900))]
    {
        let request = standard(&at(millis).unwrap());
        assert_eq!(*request.get_delay_seconds(), delay, "{millis}");
        assert_eq!(read_again(&request).scheduled_enqueue_time(), at(millis).unwrap().scheduled_enqueue_time());
    }
    let error = to_sqs(&at(900_001).unwrap(), Queue::Standard, NOW).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported);
    assert!(error.to_string().contains("at most 900 s"), "{error}");
    let mut ordered = at(1).unwrap();
    ordered.properties_mut().set_session_id("s").unwrap();
    assert_eq!(to_sqs(&ordered, Queue::Fifo, NOW).unwrap_err().kind(), ErrorKind::NotSupported);
    let lives = Message::builder().time_to_live(Duration::from_secs(1)).build("").unwrap();
    assert_eq!(to_sqs(&lives, Queue::Standard, NOW).unwrap_err().kind(), ErrorKind::NotSupported);
}

/// Rules: K-135.
#[test]
fn what_sqs_sets_is_received() {
    let facts = HashMap::from([
        (System::ApproximateReceiveCount, "3".to_owned()),
        (System::SentTimestamp, "1700000000123".to_owned()),
        (System::MessageGroupId, "customer-7".to_owned()),
        (System::SequenceNumber, "18849496460467696128".to_owned()),
        (System::DeadLetterQueueSourceArn, "arn:aws:sqs:eu-west-1:123456789012:orders".to_owned()),
    ]);
    let message = types::Message::builder().message_id("of-sqs").body("body").set_attributes(Some(facts)).build();
    let read = from_sqs(&message).unwrap();
    let facts = read.received().unwrap();
    assert_eq!((facts.delivery_count, facts.enqueued_time), (3, Timestamp::from_millis(1_700_000_000_123)));
    assert_eq!((facts.sequence_number.get(), sequence_number(&message)), (0, Some(18_849_496_460_467_696_128)));
    assert_eq!((read.session_id(), read.dead_letter_source()), (Some("customer-7"), Some("orders")));
    assert_eq!((read.message_id(), read.properties().is_message_id_stamped()), (Some("of-sqs"), true));
    assert!(from_sqs(&with_attributes_of(&[])).unwrap().received().is_none());
}

/// Rules: K-135.
#[test]
fn attributes_of_other_producers_are_properties() {
    let binary = MessageAttributeValue::builder().data_type("Binary.png").binary_value(Blob::new([0, 0xff])).build();
    let message = with_attributes_of(&[
        ("content-type", string("String", "text/plain")),
        ("tenant", string("String", "acme")),
        ("order.id", string("String.uuid", "0a1b2c3d-0000-1111-2222-33445566778f")),
        ("count", string("Number", "5")),
        ("large", string("Number", "18446744073709551615")),
        ("price", string("Number.float", "1.5")),
        ("exact", string("Number", "1.50")),
        ("image", binary.unwrap()),
        ("Sb-Later", string("String", "of a later version")),
    ]);
    let read = from_sqs(&message).unwrap();
    assert_eq!(
        (read.content_type(), read.payload(), text(&read, "tenant")),
        (Some("text/plain"), Some(&b"body"[..]), Some("acme"))
    );
    assert_eq!(text(&read, "order.id"), Some("0a1b2c3d-0000-1111-2222-33445566778f"));
    let property = |name| read.application_properties().get(name).cloned();
    assert_eq!((property("count"), property("large")), (Some(5_i64.into()), Some(u64::MAX.into())));
    assert_eq!((property("price"), property("exact")), (Some(1.5_f64.into()), Some("1.50".into())));
    assert_eq!(property("image"), Some(bytes::Bytes::from_static(&[0, 0xff]).into()));
    assert_eq!(property("Sb-Later"), None);
}

/// Rules: K-136.
#[test]
fn an_unreadable_attribute_is_named_with_what_was_expected() {
    let long = "x".repeat(129);
    let id = "a text of at most 128 characters";
    let body = "base64, empty, value or sequence, and a body of that";
    for (name, value, expected) in [
        ("count", string("Number.sb-i32", "many"), "a value of the type that its data type names"),
        ("count", string("Number.sb-other", "1"), "a value of the type that its data type names"),
        ("Sb-P-count", string("String", "i32:many"), "TYPE:VALUE, a type and a value of it"),
        ("Sb-Session-Id", string("String", &long), id),
        ("Sb-Reply-To-Session-Id", string("String", &long), id),
        ("Sb-Transaction-Partition-Key", string("String", &long), id),
        (
            "Sb-Partition-Key",
            string("String", &long),
            "a text of at most 128 characters, which is the SessionId if there is one",
        ),
        ("Sb-Message-Id", string("String", &long), "a text of 1 to 128 characters"),
        ("Sb-Scheduled-Time", string("Number", "soon"), "milliseconds since 1970"),
        ("Sb-Pass-Through", string("String", "{"), "the fields of PassThrough in JSON"),
        ("Sb-Packed", string("String", "[]"), "a JSON object of texts"),
        ("Sb-Body", string("String", "base64"), body),
        ("Sb-Body", string("String", "value"), body),
        ("Sb-Body", string("String", "sequence"), body),
        ("Sb-Body", string("String", "other"), body),
        ("Sb-Sections", string("String", "2,1"), "the lengths of the sections of the body, with commas between"),
    ] {
        let mut message = with_attributes_of(&[
            ("tenant", string("String", "acme")),
            (name, value.clone()),
            ("Sb-To", string("String", "there")),
        ]);
        message.body = Some("böse".into());
        let unreadable = from_sqs(&message).unwrap_err();
        assert_eq!(
            unreadable.to_string(),
            format!("MalformedHeader: the header {name} cannot be read: expected {expected}")
        );
        let rest = unreadable.message();
        assert_eq!((rest.to(), rest.payload()), (Some("there"), Some("böse".as_bytes())));
        assert_eq!((text(rest, name), text(rest, "tenant")), (value.string_value(), Some("acme")));
        let Disposition::DeadLetter(letter) = Disposition::from(unreadable) else { panic!("a dead letter") };
        // Its dead letter can be read.
        let dead = read_again(&dead_letter(&message, *letter, Queue::Standard).unwrap());
        assert_eq!((dead.dead_letter_reason(), dead.to()), (Some("MalformedHeader"), Some("there")));
        assert_eq!((text(&dead, name), dead.payload()), (value.string_value(), Some("böse".as_bytes())));
    }
    let binary = MessageAttributeValue::builder().data_type("Binary").binary_value(Blob::new([0xff])).build().unwrap();
    let unreadable = from_sqs(&with_attributes_of(&[("Sb-To", binary)])).unwrap_err();
    assert_eq!(unreadable.to_string(), "MalformedHeader: the header Sb-To cannot be read: expected a String");
    let facts = HashMap::from([(System::ApproximateReceiveCount, "often".to_owned())]);
    let message = types::Message::builder().body("body").set_attributes(Some(facts)).build();
    let said = from_sqs(&message).unwrap_err().to_string();
    assert_eq!(said, "MalformedHeader: the header ApproximateReceiveCount cannot be read: expected a whole number");
}

/// Rules: K-136.
#[test]
fn a_dead_letter_keeps_what_it_came_with() {
    let binary = MessageAttributeValue::builder().data_type("Binary.png").binary_value(Blob::new([0, 0xff])).build();
    let mut all: Vec<_> = (0..7).map(|nth| (format!("key-{nth}"), string("String.custom", "x"))).collect();
    all.extend([
        ("image".to_owned(), binary.unwrap()),
        ("DeadLetterReason".to_owned(), string("String", "an earlier one")),
        ("changed".to_owned(), string("Number.sb-i32", "1")),
    ]);
    let all: Vec<_> = all.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
    let mut message = with_attributes_of(&all);
    message.attributes = Some(HashMap::from([(System::MessageGroupId, "customer-7".to_owned())]));
    let mut letter = DeadLetter::new(DeadLetterReason::HandlerPermanent, "why");
    letter.changes = [("changed", "after")].into_iter().collect::<ApplicationProperties>().into();
    let before = from_sqs(&message).unwrap();
    for queue in [Queue::Standard, Queue::Fifo] {
        let copy = dead_letter(&message, letter.clone(), queue).unwrap();
        assert_eq!(attribute_of(&copy, "DeadLetterReason"), Some(("String".into(), "HandlerPermanent".into())));
        assert_eq!(attribute_of(&copy, "DeadLetterErrorDescription").unwrap().1, "why");
        assert_eq!(attribute_of(&copy, "key-0"), Some(("String.custom".into(), "x".into())), "unchanged");
        assert_eq!(copy.get_message_body().as_deref(), Some("body"));
        let read = from_sqs(&received(&copy)).unwrap();
        for (name, value) in before.application_properties().iter().filter(|(name, _)| name.starts_with(['k', 'i'])) {
            assert_eq!(read.application_properties().get(name), Some(value), "{name}");
        }
        assert_eq!(text(&read, "changed"), Some("after"));
        assert_eq!((read.message_id(), read.session_id()), (Some("of-sqs"), Some("customer-7")));
        assert!(read.properties().is_message_id_stamped());
        let group = (queue == Queue::Fifo).then_some("customer-7");
        let id = (queue == Queue::Fifo).then_some("of-sqs");
        assert_eq!(
            (copy.get_message_group_id().as_deref(), copy.get_message_deduplication_id().as_deref()),
            (group, id)
        );
    }
    message.attributes = None;
    assert!(dead_letter(&message, letter, Queue::Fifo).unwrap_err().is_session_required());
}

/// Rules: K-136.
#[test]
fn a_dead_letter_of_a_dead_letter_has_its_own_reason() {
    let mut full = Message::new("body");
    for nth in 0..30 {
        full.properties_mut().application_properties_mut().insert(format!("key {nth}"), nth);
    }
    let first = DeadLetter::new(DeadLetterReason::HandlerPermanent, "one");
    let first = dead_letter(&received(&standard(&full)), first, Queue::Standard).unwrap();
    let second = DeadLetter::new(DeadLetterReason::UnknownMessageType, "");
    let second = read_again(&dead_letter(&received(&first), second, Queue::Standard).unwrap());
    assert_eq!((second.dead_letter_reason(), second.dead_letter_description()), (Some("UnknownMessageType"), None));
    assert_eq!(second.application_properties().len(), 31);
}

/// Rules: K-136.
#[test]
fn a_dead_letter_of_the_largest_message_has_at_least_its_reason() {
    let letter = || DeadLetter::new(DeadLetterReason::HandlerPermanent, "x".repeat(4_000));
    let of = |bytes| types::Message::builder().message_id("of-sqs").body("x".repeat(bytes)).build();
    let copy = dead_letter(&of((1 << 20) - 200), letter(), Queue::Standard).unwrap();
    let read = read_again(&copy);
    assert_eq!((read.dead_letter_reason(), read.dead_letter_description()), (Some("HandlerPermanent"), None));
    let error = dead_letter(&of(1 << 20), letter(), Queue::Standard).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MessageSizeExceeded);
    // An attribute that no message may have is in the copy.
    let large = string("String", &"x".repeat(70_000));
    let message = with_attributes_of(&[("large", large.clone()), ("small", string("String", "a"))]);
    let unreadable = from_sqs(&message).unwrap_err();
    assert_eq!(unreadable.dead_letter().reason, DeadLetterReason::HeaderSizeExceeded);
    let copy = dead_letter(&message, unreadable.dead_letter().clone(), Queue::Standard).unwrap();
    assert_eq!(copy.get_message_attributes().as_ref().unwrap().get("large"), Some(&large));
}

/// Rules: K-136.
#[test]
fn a_disposition_is_what_a_loop_requests() {
    let message = with_attributes_of(&[]);
    let settled = |disposition| settlement(&message, disposition, Queue::Standard).unwrap();
    assert_eq!(settled(Disposition::Complete), Settlement::Complete);
    for (delay, visibility_timeout) in [(0, 0), (1, 1), (1_000, 1), (1_001, 2), (43_200_000, 43_200), (1 << 40, 43_200)]
    {
        let changes = Changes::NONE.after(Duration::from_millis(delay));
        assert_eq!(settled(Disposition::Abandon(changes)), Settlement::Abandon { visibility_timeout });
    }
    assert_eq!(settled(Disposition::DEFER), Settlement::Abandon { visibility_timeout: 0 });
    let letter = DeadLetter::new(DeadLetterReason::HandlerPermanent, "why");
    let copy = dead_letter(&message, letter.clone(), Queue::Standard).unwrap();
    assert_eq!(settled(Disposition::DeadLetter(Box::new(letter))), Settlement::DeadLetter(Box::new(copy)));
}

#[test]
fn an_entry_of_a_batch_is_the_request() {
    let message = Message::builder().session_id("s").message_id("m").property("tenant", "acme").build("body").unwrap();
    let request = to_sqs(&message, Queue::Fifo, NOW).unwrap().delay_seconds(5);
    let entry = batch_entry("1", &request).unwrap();
    assert_eq!((entry.id(), entry.message_body(), entry.delay_seconds()), ("1", "body", Some(5)));
    assert_eq!((entry.message_group_id(), entry.message_deduplication_id()), (Some("s"), Some("m")));
    assert_eq!(entry.message_attributes(), request.get_message_attributes().as_ref());
}

#[test]
fn an_answer_is_the_result_of_a_send() {
    let result = |error: SdkError<SendMessageError, ()>| -> SendError { confirmed(Err(error)).unwrap_err() };
    let stored: Result<_, SdkError<_, ()>> = Ok(SendMessageOutput::builder().build());
    assert!(confirmed(stored).is_ok());
    let coded = |code: &str| {
        let meta = ErrorMetadata::builder().code(code).message("what is wrong").build();
        result(SdkError::service_error(SendMessageError::generic(meta), ()))
    };
    for (code, kind, is_retryable) in [
        ("InvalidParameterValue", ErrorKind::InvalidArgument, false),
        ("AccessDenied", ErrorKind::Unauthorized, false),
        ("AWS.SimpleQueueService.NonExistentQueue", ErrorKind::EntityNotFound, false),
        ("ThrottlingException", ErrorKind::ServiceBusy, true),
        ("Other", ErrorKind::General, true),
    ] {
        let error = coded(code);
        assert_eq!((error.kind(), error.is_retryable()), (kind, is_retryable), "{code}");
        assert!(error.to_string().contains("what is wrong") && std::error::Error::source(&error).is_some(), "{error}");
    }
    let missing = SendMessageError::QueueDoesNotExist(QueueDoesNotExist::builder().build());
    assert_eq!(result(SdkError::service_error(missing, ())).kind(), ErrorKind::EntityNotFound);
    assert_eq!(result(SdkError::timeout_error("late")).kind(), ErrorKind::ServiceTimeout);
    assert_eq!(result(SdkError::response_error("cut", ())).kind(), ErrorKind::CommunicationProblem);
    assert_eq!(result(SdkError::construction_failure("no region")).kind(), ErrorKind::InvalidOperation);
}
