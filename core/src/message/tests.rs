use bytes::Bytes;

use super::*;

/// Rules: B-01.
#[test]
fn sections_are_joined_for_codecs_and_kept_apart() {
    let message = Message::new(MessageBody::sections(vec![Bytes::from_static(b"ab"), Bytes::from_static(b"c")]));
    assert_eq!(message.payload(), Some(&b"abc"[..]));
    let MessageBody::Data(data) = message.body() else { panic!("data") };
    assert_eq!(data.sections().len(), 2);
}

/// Rules: B-02.
#[test]
fn a_string_value_is_bytes_for_codecs_and_a_list_is_not() {
    assert_eq!(Message::new(Value::from("ab")).payload(), Some(&b"ab"[..]));
    assert_eq!(Message::new(Value::from(Bytes::from_static(b"ab"))).payload(), Some(&b"ab"[..]));
    assert_eq!(Message::new(Value::List(vec![])).payload(), None);
}

/// Rules: B-03.
#[test]
fn a_sequence_has_the_raw_view_only() {
    assert_eq!(Message::new(MessageBody::Sequence([vec![Value::from(1)]].into())).payload(), None);
}

#[test]
fn nothing_is_without_size_in_a_container() {
    let nulls = |count| vec![Value::from(PropertyValue::Null); count];
    let lists = Value::List(vec![Value::List(vec![]); 1_000]);
    for body in [
        MessageBody::from(Value::List(nulls(1_000))),
        MessageBody::from(Value::Map(vec![(Value::List(vec![]), Value::Array(vec![])); 1_000])),
        MessageBody::from(lists),
        MessageBody::Sequence([nulls(1_000)].into()),
        MessageBody::Sequence(vec![vec![]; 1_000].into()),
        MessageBody::sections(vec![Bytes::new(); 1_000]),
    ] {
        assert!(body.size() >= 1_000, "{body:?}");
    }
    assert_eq!(MessageBody::from("abc").size(), 3);
}

/// Rules: B-04.
#[test]
fn no_section_is_one_empty_section() {
    assert_eq!(Message::new(MessageBody::sections(vec![])).payload(), Some(&[][..]));
}

/// Rules: I-40.
#[test]
fn debug_shows_no_body_and_no_property_text() {
    let message = Message::builder().message_id("m\u{1b}[31m").property("k", "canary").build("canary").unwrap();
    let shown = format!("{message:?} {:?} {:?}", message.body(), message.properties());
    assert!(!shown.contains("canary") && !shown.contains('\u{1b}'), "{shown}");
}

#[test]
fn a_builder_answers_with_the_first_broken_rule() {
    let error = Message::builder().message_id("").session_id("x".repeat(200)).build("").unwrap_err();
    assert_eq!(error.field(), &Field::MessageId);
}

#[test]
fn a_clone_shares_until_it_is_changed() {
    let first = Message::builder().subject("a").build("body").unwrap();
    let mut second = first.clone();
    second.properties_mut().set_subject("b");
    assert_eq!((first.subject(), second.subject()), (Some("a"), Some("b")));
}

/// What a consumer records about a delivery. A message that was not received has no delivery.
#[test]
fn what_is_noted_on_a_delivery_is_not_noted_on_another_message() {
    let received = Received::new(SequenceNumber::new(1), Timestamp::from_millis(5), 0);
    let mut message = Message::new("").with_received(Received { locked_until: Some(Timestamp::MAX), ..received });
    assert!(matches!(message.holding(), Holding::No) && !message.is_counted());
    assert!(message.set_counted() && !message.set_counted() && message.is_counted());
    assert!(message.hand_out(Holding::May) && matches!(message.holding(), Holding::May));
    message.set_holding(Holding::Was);
    assert!(!message.hand_out(Holding::May) && matches!(message.holding(), Holding::Was));
    message.set_session_key(SessionKey(3));
    message.set_locked_until(Timestamp::from_millis(9));
    let noted = message.received().unwrap();
    assert_eq!((noted.session.0, noted.locked_until), (3, Some(Timestamp::from_millis(9))));

    let mut unlocked = Message::new("").with_received(received);
    unlocked.set_locked_until(Timestamp::from_millis(9));
    assert_eq!(unlocked.received().unwrap().locked_until, None);

    let mut sent = Message::new("");
    sent.set_holding(Holding::Was);
    sent.set_locked_until(Timestamp::from_millis(9));
    assert!(sent.hand_out(Holding::May) && matches!(sent.holding(), Holding::No));
    assert!(!sent.set_counted() && !sent.is_counted() && sent.received().is_none());
}

#[test]
fn the_source_of_a_dead_letter_is_kept_without_what_was_received() {
    let message = Message::new("body").with_dead_letter_source("orders/$deadletterqueue");
    assert_eq!(message.dead_letter_source(), Some("orders/$deadletterqueue"));
    assert_eq!(message.without_received().dead_letter_source(), Some("orders/$deadletterqueue"));
    assert_eq!(Message::new("body").dead_letter_source(), None);
}
