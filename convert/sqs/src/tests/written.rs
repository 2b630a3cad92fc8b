//! What is read as it was written.

use super::*;

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

/// Rules: K-133.
#[test]
fn a_name_that_sqs_does_not_take_is_packed() {
    let long = "x".repeat(257);
    for name in ["", "AWS.x", "aWs.y", "Amazon.z", "amazon.", ".a", "a.", "a..b", "a b", "é", "a\0", &long] {
        let mut message = Message::new("body");
        message.properties_mut().application_properties_mut().insert(name, "plain");
        let request = standard(&message);
        let names: Vec<_> = request.get_message_attributes().iter().flatten().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["Sb-Packed"], "{name:?}");
        assert_eq!(text(&read_again(&request), name), Some("plain"));
    }
}
