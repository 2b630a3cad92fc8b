use std::time::Duration;

use consign::{
    Message,
    message::{ApplicationProperties, Field, Problem, PropertyValue},
    rules::{ActionErrorKind, EvaluationError, SqlAction},
    time::Timestamp,
};

use crate::support::{builder, message};

fn apply(action: &str, message: &Message) -> Result<Message, ActionErrorKind> {
    let mut changed = message.clone();
    let result = SqlAction::parse(action).unwrap_or_else(|error| panic!("{action}: {error}")).apply(&mut changed);
    match result {
        Ok(()) => Ok(changed),
        Err(error) => {
            assert_eq!(changed.properties(), message.properties(), "{action}");
            assert_eq!(error.name(), "RuleActionException");
            Err(error.kind().clone())
        }
    }
}

fn value(action: &str, key: &str) -> Option<PropertyValue> {
    apply(action, &message()).unwrap().application_properties().get(key).cloned()
}

/// Rules: T-56.
#[test]
fn set_adds_and_replaces() {
    assert_eq!(value("SET new = 'a'", "new"), Some("a".into()));
    assert_eq!(value("SET colour = 'blue'", "colour"), Some("blue".into()));
    assert_eq!(value("SET colour = 1", "colour"), Some(1_i64.into()));
    assert_eq!(value("SET user.[New One] = TRUE", "New One"), Some(true.into()));
    assert_eq!(value("SET copy = byte", "copy"), Some(200_u8.into()));
    assert_eq!(value("SET sum = Count + 1", "sum"), Some(8_i64.into()));
    assert_eq!(value("SET sum = Count + 0.5", "sum"), Some(7.5.into()));
    assert_eq!(value("SET joined = colour + '/' + sys.Label", "joined"), Some("red/order.created".into()));
    assert!(matches!(value("SET id = newid()", "id"), Some(PropertyValue::Uuid(id)) if id != [7; 16]));
    assert_eq!(value("SET new = sys.MessageId", "new"), Some("m-1".into()));
    assert_eq!(value("SET colour = missing", "colour"), Some(PropertyValue::Null));
    assert_eq!(value("SET colour = NULL", "colour"), Some(PropertyValue::Null));
}

/// Rules: T-56.
#[test]
fn set_finds_a_name_in_another_case() {
    let changed = apply("SET COLOUR = 'blue'; SET BOTH = 1", &message()).unwrap();
    assert_eq!(changed.application_properties().get("colour"), Some(&"blue".into()));
    assert_eq!(changed.application_properties().get("COLOUR"), None);
    // The first key, as a filter reads it.
    assert_eq!(changed.application_properties().get("Both"), Some(&1_i64.into()));
    assert_eq!(changed.application_properties().get("both"), Some(&"lower".into()));
}

/// Rules: T-56.
#[test]
fn a_number_takes_the_type_that_it_replaces() {
    assert_eq!(value("SET half = 3", "half"), Some(3.0.into()));
    assert_eq!(value("SET half = byte", "half"), Some(200.0.into()));
    assert_eq!(value("SET big = byte", "big"), Some(200_i64.into()));
    // What would not fit brings its own type.
    assert_eq!(value("SET big = huge", "big"), Some(u64::MAX.into()));
    assert_eq!(value("SET byte = 1", "byte"), Some(1_i64.into()));
    assert_eq!(value("SET big = 0.5", "big"), Some(0.5.into()));
}

/// Rules: T-56.
#[test]
fn remove_takes_every_spelling_and_minds_none() {
    let changed = apply("REMOVE BOTH REMOVE missing; REMOVE [the name]", &message()).unwrap();
    assert_eq!(changed.application_properties().len(), message().application_properties().len() - 3);
    let changed = apply("REMOVE sys.Label; REMOVE sys.CorrelationId; REMOVE sys.To", &message()).unwrap();
    assert_eq!((changed.subject(), changed.correlation_id(), changed.to()), (None, None, None));
}

/// Rules: T-56.
#[test]
fn statements_go_in_order() {
    let changed = apply("SET a = 1; SET a = a + 1 SET b = a * 10; REMOVE a;", &message()).unwrap();
    assert_eq!(changed.application_properties().get("a"), None);
    assert_eq!(changed.application_properties().get("b"), Some(&20_i64.into()));
}

/// Rules: T-56.
#[test]
fn properties_of_the_sender_can_be_set() {
    let message = builder()
        .property("time", Timestamp::from_millis(5_000))
        .property("offset", PropertyValue::DateTimeOffset(621_355_968_000_000_000 + 60_000_000))
        .property("ttl", PropertyValue::TimeSpan(20_000))
        .build("")
        .unwrap();
    let changed = apply(
        "SET sys.ContentType='a'; SET sys.CorrelationId='b'; SET sys.MessageId='d'; SET sys.SessionId='e'; \
         SET sys.ReplyTo='f'; SET sys.ReplyToSessionId='g'; SET sys.Subject='h'; SET sys.To='i'; \
         SET sys.ViaPartitionKey='j'; SET sys.TimeToLive=ttl; SET sys.ScheduledEnqueueTimeUtc=time; SET sys.PartitionKey='e'",
        &message,
    )
    .unwrap();
    let texts = [
        (changed.content_type(), "a"),
        (changed.correlation_id(), "b"),
        (changed.message_id(), "d"),
        (changed.session_id(), "e"),
        (changed.partition_key(), "e"),
        (changed.reply_to(), "f"),
        (changed.reply_to_session_id(), "g"),
        (changed.subject(), "h"),
        (changed.to(), "i"),
        (changed.transaction_partition_key(), "j"),
    ];
    for (found, expected) in texts {
        assert_eq!(found, Some(expected));
    }
    assert_eq!(changed.time_to_live(), Some(Duration::from_millis(2)));
    assert_eq!(changed.scheduled_enqueue_time(), Some(Timestamp::from_millis(5_000)));

    let later = apply("SET sys.ScheduledEnqueueTimeUtc = offset", &message).unwrap();
    assert_eq!(later.scheduled_enqueue_time(), Some(Timestamp::from_millis(6_000)));
    let named = apply("SET sys.MessageId = id", &message).unwrap();
    assert_eq!(named.message_id(), Some("07070707-0707-0707-0707-070707070707"));

    let removed = [
        "ContentType",
        "CorrelationId",
        "PartitionKey",
        "ReplyTo",
        "ReplyToSessionId",
        "ScheduledEnqueueTimeUtc",
        "SessionId",
        "Subject",
        "TimeToLive",
        "To",
        "ViaPartitionKey",
    ];
    let remove = removed.map(|name| format!("REMOVE sys.{name}")).join(" ");
    let null = removed.map(|name| format!("SET sys.{name} = missing")).join(" ");
    for action in [remove, null] {
        let mut bare = apply(&action, &changed).unwrap();
        *bare.properties_mut().application_properties_mut() = ApplicationProperties::new();
        let only_id = Message::builder().message_id("d").build("").unwrap();
        assert_eq!(bare.properties(), only_id.properties());
    }
}

/// Rules: T-56.
#[test]
fn a_failure_leaves_the_message_as_it_was() {
    let wrong = |property| Err(ActionErrorKind::WrongType { property });
    let table = [
        ("SET a = big + 1", Err(ActionErrorKind::Evaluation(EvaluationError::Overflow))),
        ("SET a = 1 / 0", Err(ActionErrorKind::Evaluation(EvaluationError::DivisionByZero))),
        ("SET a = sys.Foo", Err(ActionErrorKind::Evaluation(EvaluationError::UnknownSystemProperty("Foo".into())))),
        ("SET sys.Label = 1", wrong("Subject")),
        ("SET sys.To = yes", wrong("To")),
        ("SET sys.MessageId = missing", wrong("MessageId")),
        ("SET sys.TimeToLive = 60", wrong("TimeToLive")),
        ("SET sys.TimeToLive = 'PT1M'", wrong("TimeToLive")),
        ("SET sys.ScheduledEnqueueTimeUtc = span", wrong("ScheduledEnqueueTimeUtc")),
    ];
    for (action, expected) in table {
        let result = apply(&format!("SET before = 1; {action}"), &message());
        assert_eq!(result.map(|_| ()), expected, "{action}");
    }
    let refused = |action: &str| match apply(&format!("SET before = 1; {action}"), &message()) {
        Err(ActionErrorKind::InvalidArgument(error)) => (error.field().clone(), error.problem().clone()),
        other => panic!("{action}: {other:?}"),
    };
    assert_eq!(refused("SET sys.MessageId = ''"), (Field::MessageId, Problem::Empty));
    let long = format!("SET sys.SessionId = '{}'", "x".repeat(129));
    assert_eq!(refused(&long), (Field::SessionId, Problem::TooLong { limit: 128 }));
    let keys = "SET sys.SessionId = 'a'; SET sys.PartitionKey = 'b'";
    assert_eq!(refused(keys), (Field::PartitionKey, Problem::PartitionKeySessionIdMismatch));
    let mut error = SqlAction::parse(&format!("SET before = 1; {keys}")).unwrap().apply(&mut message()).unwrap_err();
    assert_eq!(error.statement(), Some(3));
    assert_eq!(
        error.to_string(),
        "statement 3 of the action failed: PartitionKey must equal SessionId when both are set"
    );
    error = SqlAction::parse("SET sys.TimeToLive = span").unwrap().apply(&mut message()).unwrap_err();
    assert_eq!(error.to_string(), "statement 1 of the action failed: TimeToLive must be greater than zero");
}

/// Rules: T-56.
#[test]
fn limits_of_a_message_hold_afterwards() {
    // Doubling thirty times would be 10 GiB.
    let doubling = format!("SET a = '0123456789'; {}", "SET a = a + a; ".repeat(30));
    let result = apply(&doubling, &message()).unwrap_err();
    assert_eq!(result, ActionErrorKind::Evaluation(EvaluationError::TextTooLong { limit: 32_767 }));

    let large = builder().property("k", "x".repeat(30_000)).build("").unwrap();
    apply("SET a = k", &large).unwrap();
    let error = SqlAction::parse("SET a = k SET b = k").unwrap().apply(&mut large.clone()).unwrap_err();
    assert_eq!(error.statement(), None);
    assert!(matches!(error.kind(), ActionErrorKind::InvalidArgument(error) if error.field() == &Field::Properties));
    assert!(!error.to_string().contains("xxx"));
}
