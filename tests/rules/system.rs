use std::time::Duration;

use consign::{
    Message,
    message::{MessageState, PropertyValue, Received, SequenceNumber},
    rules::SqlAction,
    time::Timestamp,
};

use crate::support::evaluate;

fn received() -> Message {
    let mut received = Received::new(SequenceNumber::new(7), Timestamp::from_millis(1_000), 3);
    received.enqueued_sequence_number = SequenceNumber::new(5);
    received.expires_at = Timestamp::from_millis(2_000);
    received.locked_until = Some(Timestamp::from_millis(1_500));
    received.state = MessageState::Deferred;
    Message::builder()
        .content_type("text/plain")
        .correlation_id("c")
        .message_id("m")
        .session_id("s")
        .partition_key("s")
        .reply_to("r")
        .reply_to_session_id("rs")
        .subject("l")
        .to("t")
        .transaction_partition_key("v")
        .time_to_live(Duration::from_millis(1))
        .scheduled_enqueue_time(Timestamp::from_millis(500))
        .property("DeadLetterReason", "why")
        .property("DeadLetterErrorDescription", "how")
        .property("one", Timestamp::from_millis(1_000))
        .property("half", Timestamp::from_millis(1_500))
        .property("two", Timestamp::from_millis(2_000))
        .property("early", Timestamp::from_millis(500))
        .property("ms", PropertyValue::TimeSpan(10_000))
        .build("")
        .unwrap()
        .with_received(received)
}

const VALUES: [(&str, &str); 23] = [
    ("ContentType", "'text/plain'"),
    ("CorrelationId", "'c'"),
    ("DeadLetterErrorDescription", "'how'"),
    ("DeadLetterReason", "'why'"),
    ("DeliveryCount", "3"),
    ("EnqueuedSequenceNumber", "5"),
    ("EnqueuedTimeUtc", "one"),
    ("ExpiresAtUtc", "two"),
    ("Label", "'l'"),
    ("LockedUntilUtc", "half"),
    ("MessageId", "'m'"),
    ("PartitionKey", "'s'"),
    ("ReplyTo", "'r'"),
    ("ReplyToSessionId", "'rs'"),
    ("ScheduledEnqueueTimeUtc", "early"),
    ("SequenceNumber", "7"),
    ("SessionId", "'s'"),
    ("State", "1"),
    ("Subject", "'l'"),
    ("TimeToLive", "ms"),
    ("To", "'t'"),
    ("ViaPartitionKey", "'v'"),
    ("TransactionPartitionKey", "'v'"),
];

/// Rules: T-59f.
#[test]
fn every_property_has_its_name() {
    let message = received();
    for (name, value) in VALUES {
        for name in [name.to_owned(), name.to_uppercase(), format!("[{name}]")] {
            assert_eq!(evaluate(&format!("sys.{name} = {value}"), &message), Ok(Some(true)), "{name}");
        }
    }
}

/// Rules: T-59f.
#[test]
fn a_missing_system_property_is_unknown() {
    let message = Message::new("");
    for name in VALUES.iter().map(|(name, _)| *name).chain(["DeadLetterSource", "LockToken"]) {
        assert_eq!(evaluate(&format!("sys.{name} = sys.{name}"), &message), Ok(None), "{name}");
        assert_eq!(evaluate(&format!("sys.{name} IS NULL"), &message), Ok(Some(true)), "{name}");
    }
}

/// Rules: T-59f.
#[test]
fn the_state_is_a_number() {
    for (state, number) in [(MessageState::Active, 0), (MessageState::Deferred, 1), (MessageState::Scheduled, 2)] {
        let mut received = Received::new(SequenceNumber::new(1), Timestamp::EPOCH, 1);
        received.state = state;
        let message = Message::new("").with_received(received);
        assert_eq!(evaluate(&format!("sys.State = {number}"), &message), Ok(Some(true)));
    }
}

/// Rules: T-56.
#[test]
fn set_of_a_broker_property_is_refused_when_an_action_is_parsed() {
    use consign::rules::ParseErrorKind as K;
    let settable = [
        "ContentType",
        "CorrelationId",
        "Label",
        "MessageId",
        "PartitionKey",
        "ReplyTo",
        "ReplyToSessionId",
        "ScheduledEnqueueTimeUtc",
        "SessionId",
        "Subject",
        "TimeToLive",
        "To",
        "ViaPartitionKey",
        "TransactionPartitionKey",
    ];
    for name in VALUES.iter().map(|(name, _)| *name).chain(["DeadLetterSource", "LockToken"]) {
        let set = SqlAction::parse(&format!("SET sys.{name} = 'x'"));
        let remove = SqlAction::parse(&format!("REMOVE sys.{name}"));
        if settable.contains(&name) {
            set.unwrap();
            assert_eq!(remove.is_ok(), name != "MessageId", "{name}");
        } else {
            let error = set.unwrap_err();
            assert_eq!((error.kind(), error.position()), (K::ReadOnlyProperty, 4), "{name}");
            assert_eq!(remove.unwrap_err().kind(), K::ReadOnlyProperty, "{name}");
        }
    }
    let error = SqlAction::parse("SET a = 1; SET sys.Body = 'x'").unwrap_err();
    assert_eq!((error.kind(), error.position()), (K::UnknownSystemProperty, 15));
    assert_eq!(SqlAction::parse("REMOVE sys.MessageId").unwrap_err().kind(), K::ReadOnlyProperty);
}
