//! What cannot be read, and its dead letter.

use super::*;

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
fn an_unreadable_member_of_the_packed_attribute_is_named() {
    let long = "x".repeat(129);
    let packed = |name: &str, value: &str| format!(r#"{{"{name}":"{value}","Sb-To":"there","Sb-P-tenant":"s:acme"}}"#);
    for (name, value, expected) in [
        ("Sb-Session-Id", &*long, "a text of at most 128 characters"),
        ("Sb-Scheduled-Time", "soon", "milliseconds since 1970"),
        ("Sb-P-count", "i32:many", "TYPE:VALUE, a type and a value of it"),
    ] {
        let message = with_attributes_of(&[("Sb-Packed", string("String", &packed(name, value)))]);
        let unreadable = from_sqs(&message).unwrap_err();
        assert_eq!(
            unreadable.to_string(),
            format!("MalformedHeader: the header {name} cannot be read: expected {expected}")
        );
        let rest = unreadable.message();
        assert_eq!((rest.to(), text(rest, "tenant"), text(rest, name)), (Some("there"), Some("acme"), Some(value)));
        let letter = unreadable.dead_letter().clone();
        let dead = read_again(&dead_letter(&message, letter, Queue::Standard).unwrap());
        assert_eq!((dead.dead_letter_reason(), dead.to()), (Some("MalformedHeader"), Some("there")));
        assert_eq!((text(&dead, name), text(&dead, "tenant")), (Some(value), Some("acme")));
    }
}

/// SQS drops a second message with an id for 5 minutes, also after the first is deleted.
/// Rules: K-136.
#[test]
fn a_message_that_was_sent_again_has_a_dead_letter_of_its_own() {
    let of = |id: &str| {
        let facts = HashMap::from([(System::MessageGroupId, format!("%{}", "x".repeat(127)))]);
        let message = types::Message::builder().message_id(id).body("body").set_attributes(Some(facts));
        message.message_attributes("Sb-Message-Id", string("String", "order-7")).build()
    };
    let copy = |message: &types::Message| {
        let letter = DeadLetter::new(DeadLetterReason::HandlerPermanent, "why");
        dead_letter(message, letter, Queue::Fifo).unwrap()
    };
    for id in ["first", "second"] {
        let dead = copy(&of(id));
        assert_eq!(dead.get_message_deduplication_id().as_deref(), Some(id));
        assert_eq!(read_again(&dead).message_id(), Some("order-7"));
        assert_eq!(dead.get_message_group_id().as_ref().map(String::len), Some(128));
    }
}

/// Rules: K-136.
#[test]
fn a_dead_letter_without_a_readable_id_has_that_of_sqs() {
    let long = string("String", &"x".repeat(129));
    let mut message = with_attributes_of(&[("Sb-Message-Id", long.clone()), ("Sb-Session-Id", long)]);
    message.attributes = Some(HashMap::from([(System::MessageGroupId, "customer-7".to_owned())]));
    let letter = from_sqs(&message).unwrap_err().dead_letter().clone();
    let dead = from_sqs(&received(&dead_letter(&message, letter, Queue::Standard).unwrap())).unwrap();
    assert_eq!((dead.message_id(), dead.session_id()), (Some("of-sqs"), Some("customer-7")));
}
