//! Lines as each version has written them, which are read for ever. No line is taken away or changed; what a later version
//! writes is behind the others.

use super::*;
use crate::durable::samples::extremes;

const WRITTEN: &str = include_str!("golden.jsonl");

/// The messages of the lines, in their order.
fn lines() -> Vec<Line> {
    let mut properties = every_property();
    properties.set_time_to_live(Duration::from_millis(3_500)).unwrap();
    let mut stored = Stored::new(Message::from_parts(properties, MessageBody::empty()));
    stored.set_dead_letter_source("orders");
    let mut received = Received::new(SequenceNumber::new(1 << 63), Timestamp::from_millis(4), u32::MAX);
    received.enqueued_sequence_number = SequenceNumber::new(u64::MAX);
    received.expires_at = Timestamp::from_millis(5);
    received.locked_until = Some(Timestamp::from_millis(-6));
    received.state = MessageState::Deferred;
    received.dead_lettered = true;
    received.partition_id = Some(-1);
    let received = stored.into_message().with_received(received);
    let mut stamped = Properties::new();
    stamped.stamp_message_id("made").unwrap();
    let keyed = extremes().into_iter().enumerate();
    *stamped.application_properties_mut() = keyed.map(|(nth, value)| (format!("key {nth:02}"), value)).collect();
    let every = Value::List(extremes().into_iter().map(Value::Simple).collect());
    let mut lines = vec![
        Line { entity: Some("orders/$deadletterqueue".to_owned()), message: received },
        line(Message::from_parts(stamped, every.into())),
    ];
    lines.extend(every_body().into_iter().map(|body| line(Message::new(body))));
    lines
}

#[test]
fn every_line_is_read() {
    for (text, line) in WRITTEN.lines().zip(lines()) {
        let read = read(text).unwrap_or_else(|error| panic!("{error}: {text}"));
        // A number that is not equal to itself is equal to its text.
        let is_same =
            read.message.properties() == line.message.properties() && read.message.body() == line.message.body();
        assert!(is_same || line.message.message_id() == Some("made"), "{text}");
        assert_eq!(read.message.received(), line.message.received(), "{text}");
        assert_eq!(written(&read), format!("{text}\n"));
    }
}

/// Where it fails because the form was changed on purpose, the lines that it prints belong into the file.
#[test]
fn the_form_does_not_change() {
    let lines: String = lines().iter().map(written).collect::<Vec<_>>().concat();
    let new: Vec<&str> = lines.lines().filter(|line| WRITTEN.lines().all(|written| written != *line)).collect();
    assert!(new.is_empty() && WRITTEN.lines().count() == lines.lines().count(), "\n{}", new.join("\n"));
}
