use super::*;
use crate::message::{Field, Message, PassThrough, Problem, Value};

/// Rules: V-01.
/// Attacks: 48.
#[test]
fn message_id_is_1_to_128_units() {
    let mut properties = Properties::new();
    assert_eq!(properties.set_message_id("").unwrap_err().problem(), &Problem::Empty);
    let error = properties.set_message_id("x".repeat(129)).unwrap_err();
    assert_eq!((error.field(), error.problem()), (&Field::MessageId, &Problem::TooLong { limit: 128 }));
    assert_eq!(properties.message_id(), None);
    properties.set_message_id("x".repeat(128)).unwrap();
}

/// Rules: V-02.
#[test]
fn ids_name_themselves() {
    let long = "x".repeat(129);
    let mut properties = Properties::new();
    let refused = [
        properties.set_session_id(long.clone()).unwrap_err(),
        properties.set_reply_to_session_id(long.clone()).unwrap_err(),
        properties.set_partition_key(long.clone()).unwrap_err(),
        properties.set_transaction_partition_key(long).unwrap_err(),
    ];
    let fields = refused.map(|error| error.field().clone());
    assert_eq!(
        fields,
        [Field::SessionId, Field::ReplyToSessionId, Field::PartitionKey, Field::TransactionPartitionKey]
    );
}

/// Rules: V-03.
#[test]
fn units_are_utf_16() {
    let mut properties = Properties::new();
    properties.set_message_id("語".repeat(128)).unwrap();
    properties.set_message_id("🦀".repeat(64)).unwrap();
    properties.set_message_id("🦀".repeat(65)).unwrap_err();
}

/// Rules: V-04.
#[test]
fn a_partition_key_that_differs_from_the_session_is_refused() {
    let mut properties = Properties::new();
    properties.set_session_id("a").unwrap();
    let error = properties.set_partition_key("b").unwrap_err();
    assert_eq!(error.problem(), &Problem::PartitionKeySessionIdMismatch);
    properties.set_partition_key("a").unwrap();
}

/// Rules: V-05.
#[test]
fn a_session_overwrites_the_partition_key() {
    let mut properties = Properties::new();
    properties.set_partition_key("b").unwrap();
    properties.set_session_id("a").unwrap();
    assert_eq!(properties.partition_key(), Some("a"));
}

/// Rules: V-07.
#[test]
fn time_to_live_is_positive() {
    let error = Properties::new().set_time_to_live(Duration::ZERO).unwrap_err();
    assert_eq!((error.field(), error.problem()), (&Field::TimeToLive, &Problem::NotPositive));
}

/// Rules: M-17.
#[test]
fn the_empty_session_is_a_session() {
    let mut properties = Properties::new();
    properties.set_session_id("").unwrap();
    assert_eq!(properties.session_id(), Some(""));
}

/// Rules: V-09.
/// Attacks: 56.
#[test]
fn one_property_and_all_of_them_are_bounded() {
    let mut properties = Properties::new();
    properties.application_properties_mut().insert("k", "x".repeat(32_766));
    properties.check().unwrap();
    properties.application_properties_mut().insert("k", "x".repeat(32_767));
    assert_eq!(properties.check().unwrap_err().field(), &Field::ApplicationProperty("k".into()));
    properties.application_properties_mut().insert("k", "x".repeat(32_000));
    properties.application_properties_mut().insert("l", "x".repeat(32_000));
    properties.check().unwrap();
    properties.set_subject("x".repeat(2_000));
    assert_eq!(properties.check().unwrap_err().field(), &Field::Properties);
}

/// Rules: V-09.
///
/// Without application properties, texts and ids count towards the limit of all properties.
#[test]
fn long_texts_are_bounded_together() {
    let checked = |change: fn(&mut Properties)| {
        let mut properties = Properties::new();
        properties.set_content_type("c".repeat(32_767)).set_message_id("m".repeat(128)).unwrap();
        change(&mut properties);
        properties.check().map_err(|error| error.field().clone())
    };
    assert_eq!(checked(|_| {}), Ok(()));
    let changes: [fn(&mut Properties); 5] = [
        |properties| _ = properties.set_correlation_id("x".repeat(32_767)),
        |properties| _ = properties.set_subject("x".repeat(32_767)),
        |properties| _ = properties.set_reply_to("x".repeat(32_767)),
        |properties| _ = properties.set_to("x".repeat(32_767)),
        |properties| _ = properties.set_content_type("x".repeat(65_535)),
    ];
    for (nth, change) in changes.into_iter().enumerate() {
        assert_eq!(checked(change), Err(Field::Properties), "change {nth}");
    }
}

/// Attacks: 56.
#[test]
fn ten_thousand_properties_are_refused() {
    let mut properties = Properties::new();
    *properties.application_properties_mut() = (0..10_000).map(|i| (i.to_string(), true)).collect();
    assert_eq!(properties.check().unwrap_err().problem(), &Problem::TooMany { limit: 1_024 });
}

/// Rules: V-11.
#[test]
fn an_unsupported_type_is_named_with_its_key() {
    let error = Properties::new().application_properties_mut().try_insert("k", Value::List(vec![])).unwrap_err();
    assert_eq!(error.to_string(), "application property \"k\" has the type list, which is not allowed");
}

/// Rules: U-10.
#[test]
fn a_symbol_becomes_text() {
    let mut properties = Properties::new();
    properties.application_properties_mut().try_insert("k", Value::Symbol("s".into())).unwrap();
    assert_eq!(properties.application_properties().get("k").and_then(PropertyValue::as_str), Some("s"));
}

/// Rules: M-25.
#[test]
fn pass_through_is_kept() {
    let mut properties = Properties::new();
    properties.pass_through_mut().priority = Some(4);
    assert_eq!(properties.clone().pass_through().and_then(|rest| rest.priority), Some(4));
}

/// Rules: R-11.
#[test]
fn a_correlation_id_has_the_type_of_the_message_id_it_is_copied_from() {
    let mut request = Properties::new();
    request.set_message_id("7").unwrap();
    let of_id = Value::Symbol("ulong".into());
    request.pass_through_mut().annotations.push((PassThrough::MESSAGE_ID_TYPE.into(), of_id.clone()));
    let mut reply = Properties::new();
    for _ in 0..2 {
        assert!(reply.correlate_with_message_id(&request));
        assert_eq!(
            reply.pass_through().unwrap().annotations,
            [(PassThrough::CORRELATION_ID_TYPE.into(), of_id.clone())]
        );
    }
    request.pass_through_mut().annotations.clear();
    assert!(reply.correlate_with_message_id(&request));
    assert_eq!(reply.pass_through().unwrap().annotations, []);
}

#[test]
fn the_reason_and_the_description_of_a_dead_letter_are_application_properties() {
    let message = Message::builder().property(Properties::DEAD_LETTER_DESCRIPTION, "no stock");
    let message = message.property(Properties::DEAD_LETTER_REASON, "refused").build("").unwrap();
    for (message, reason, description) in [(message, Some("refused"), Some("no stock")), (Message::new(""), None, None)]
    {
        let properties = message.properties();
        assert_eq!((properties.dead_letter_reason(), properties.dead_letter_description()), (reason, description));
    }
}

#[test]
fn each_property_counts_with_its_length_and_a_time_with_8_bytes() {
    assert_eq!(Properties::new().size(), 0);
    let message = Message::builder().message_id("1").correlation_id("22").subject("333").reply_to("4444");
    let message = message.session_id("55555").to("666666").reply_to_session_id("7777777");
    let message = message.time_to_live(std::time::Duration::from_secs(1)).property("key", "eight").build("").unwrap();
    let size = 1 + 2 + 3 + 4 + 5 + 6 + 7 + 8 + (3 + 5);
    assert_eq!(message.properties().size(), size);
    let mut properties = message.properties().clone();
    properties.set_scheduled_enqueue_time(crate::time::Timestamp::EPOCH);
    properties.set_transaction_partition_key("999999999").unwrap();
    properties.set_partition_key("55555").unwrap();
    properties.pass_through_mut().annotations.push(("key".into(), Value::from("seven")));
    let pass_through = properties.pass_through().unwrap().size();
    assert!(pass_through >= 8);
    assert_eq!(properties.size(), size + 8 + 9 + 5 + pass_through);
}

#[test]
fn a_property_that_fits_to_the_last_byte_is_kept() {
    let message = Message::builder().message_id("1").property("key", "eight").build("").unwrap();
    for (bytes, kept) in [(9, 1), (8, 0)] {
        let mut properties = message.properties().clone();
        properties.fit_within(bytes);
        assert_eq!(properties.application_properties().len(), kept, "{bytes}");
    }
}

/// Rules: W-01.
#[test]
fn the_original_message_id_is_the_property_or_else_the_message_id() {
    let mut properties = Properties::new();
    assert_eq!(properties.original_message_id(), None);
    properties.set_message_id("second").unwrap();
    assert_eq!(properties.original_message_id(), Some("second"));
    for (key, value, expected) in [
        ("another", "property", "second"),
        ("x-original-message-id", "", "second"),
        ("x-original-message-id", "first", "first"),
    ] {
        properties.application_properties_mut().insert(key, value);
        assert_eq!(properties.original_message_id(), Some(expected), "{key}: {value}");
    }
}

#[test]
fn a_shared_text_is_a_text() {
    let mut properties = Properties::new();
    properties.set_shared_subject("order".into());
    properties.set_shared_reply_to("replies".into());
    assert_eq!((properties.subject(), properties.reply_to()), (Some("order"), Some("replies")));
}

#[test]
fn the_scheduled_time_is_the_one_that_was_set() {
    let mut properties = Properties::new();
    assert_eq!(properties.scheduled_enqueue_time(), None);
    let at = Timestamp::from_millis(1_700_000_000_000);
    properties.set_scheduled_enqueue_time(at);
    assert_eq!(properties.scheduled_enqueue_time(), Some(at));
}
