//! What SQS and other producers set.

use super::*;

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
