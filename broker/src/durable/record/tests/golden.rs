//! Records as each version has written them, which are read for ever. The records here stay as they are.
//!
//! A line of the file is a name and the bytes of the record of that name. No line is taken away: a new version of a kind
//! adds its own of the same names, and of others for what only it can say.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use consign_core::{
    Message,
    administration::{AuthorizationRule, Metadata, QueueSettings, Status, SubscriptionSettings, TopicSettings},
    message::{EntityPath, MessageBody, Properties, SequenceNumber, Stored, Value},
    time::Timestamp,
};
use consign_rules::{CorrelationFilter, Filter, Parameters, Rule, RuleSet, SqlAction, SqlFilter};

use super::{BrokerRecord, CounterRecord, EntityKind, EntityRecord, IdRecord, MessageRecord, Record, SessionRecord};
use crate::{
    durable::samples::{SIXTEEN, every_body, every_property, extremes},
    engine::{
        Part,
        record::{LastNumber, MessageState, Place},
    },
};

/// The newest version of any kind.
const NEWEST: u8 = 4;

const WRITTEN: &str = include_str!("golden.txt");

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000 + millis)
}

fn entity(path: &str, kind: EntityKind, secret: Option<[u8; 16]>) -> Record {
    Record::Entity(EntityRecord { path: EntityPath::new(path).unwrap(), kind, secret }.into())
}

fn queue() -> QueueSettings {
    let mut value = QueueSettings::default();
    value.lock_duration = Duration::from_millis(5_500);
    value.max_delivery_count = 11;
    value.default_time_to_live = Some(Duration::from_secs(12));
    value.dead_letter_on_expiration = true;
    value.max_size = 13 << 20;
    value.max_message_size = 14 << 10;
    value.requires_session = false;
    value.duplicate_detection = Some(Duration::from_secs(600));
    value.max_duplicate_ids = 15;
    value.partitioned = true;
    value.forward_to = Some("Next".to_owned());
    value.forward_dead_letters_to = Some("dead/letters".to_owned());
    value.auto_delete_on_idle = Some(Duration::from_secs(300));
    value.status = Status::SendDisabled;
    value
}

/// The first two versions have none, and the third has no rules of authorization.
fn metadata(version: u8) -> Metadata {
    let mut value = Metadata::default();
    if version > 2 {
        value.user = Some("of the team".to_owned());
        value.batched_operations = Some(false);
        value.express = Some(true);
        value.ordering = Some(false);
        value.duplicate_window = Some(Duration::from_secs(720));
    }
    if version > 3 {
        let mut rule = AuthorizationRule::new("Listeners", "p".repeat(44), "s".repeat(44)).listen(true);
        rule.created = Some(at(12));
        let all = AuthorizationRule::new("all", "", "").send(true).manage(true);
        value.authorization_rules = vec![rule, all];
    }
    value
}

fn plain_queue() -> QueueSettings {
    let mut value = QueueSettings::default();
    value.lock_duration = Duration::from_secs(60);
    value.max_delivery_count = 10;
    value.default_time_to_live = None;
    value.dead_letter_on_expiration = false;
    value.max_size = 1 << 30;
    value.max_message_size = 256 << 10;
    value.requires_session = true;
    value.duplicate_detection = None;
    value.max_duplicate_ids = 1_000_000;
    value.partitioned = false;
    value.forward_to = None;
    value.forward_dead_letters_to = None;
    value.auto_delete_on_idle = None;
    value.status = Status::Active;
    value
}

fn topic() -> TopicSettings {
    let mut value = TopicSettings::default();
    value.default_time_to_live = Some(Duration::from_secs(16));
    value.duplicate_detection = Some(Duration::from_secs(20));
    value.max_duplicate_ids = 17;
    value.partitioned = false;
    value.max_size = 18 << 20;
    value.max_message_size = 19 << 10;
    value.auto_delete_on_idle = None;
    value.status = Status::Disabled;
    value
}

fn subscription() -> SubscriptionSettings {
    let mut value = SubscriptionSettings::default();
    value.lock_duration = Duration::from_secs(21);
    value.max_delivery_count = 22;
    value.default_time_to_live = None;
    value.dead_letter_on_expiration = false;
    value.dead_letter_on_filter_error = true;
    value.requires_session = false;
    value.forward_to = Some("next".to_owned());
    value.forward_dead_letters_to = None;
    value.auto_delete_on_idle = Some(Duration::from_secs(600));
    value.status = Status::ReceiveDisabled;
    value
}

/// Rules as a version has them: the first one has no time of their creation.
fn rules(version: u8) -> RuleSet {
    let every = CorrelationFilter::builder()
        .content_type("1")
        .correlation_id("2")
        .message_id("3")
        .subject("4")
        .reply_to("5")
        .session_id("6")
        .reply_to_session_id("7")
        .to("8")
        .property("text", "9")
        .property("number", 10_i64);
    let created = (version > 1).then(|| at(10));
    let mut rules = RuleSet::of(Rule::default());
    let parameters = |value: i32| Parameters::new([("@p".to_owned(), value.into())]).unwrap();
    let with = (version > 2).then(|| {
        Rule::new("with", SqlFilter::parse_with("a = @p", parameters(1)).unwrap())
            .unwrap()
            .with_action(SqlAction::parse_with("SET a = @p", parameters(2)).unwrap())
    });
    for rule in [
        Rule::new("False", Filter::False).unwrap(),
        Rule::new("every", every.build().unwrap()).unwrap(),
        Rule::new("one", CorrelationFilter::builder().subject("s").build().unwrap()).unwrap(),
        Rule::new("sql", SqlFilter::parse("colour = 'it''s' AND  [a b] > 1.5").unwrap())
            .unwrap()
            .with_action(SqlAction::parse("SET a = b; REMOVE c").unwrap()),
    ]
    .into_iter()
    .chain(with)
    {
        rules.create(rule.with_created(created)).unwrap();
    }
    rules
}

const PLAIN: MessageState = MessageState {
    part: Part::Main,
    place: Place::Ready,
    sequence: SequenceNumber::new(1),
    origin: SequenceNumber::new(1),
    enqueued: Timestamp::from_millis(1_700_000_000_000),
    expires_at: None,
    due: None,
    locked_until: None,
    size: 300,
    failures: 0,
    hops: 0,
    stays: false,
};

fn message(state: MessageState, properties: Properties, body: MessageBody) -> MessageRecord {
    MessageRecord { state, message: Stored::new(Message::from_parts(properties, body)) }
}

fn messages() -> Vec<(String, Record)> {
    let mut dead = message(
        MessageState {
            part: Part::DeadLetter,
            place: Place::Deferred,
            sequence: SequenceNumber::new(u64::MAX),
            origin: SequenceNumber::new(7 << 48 | 2),
            expires_at: Some(at(1)),
            locked_until: Some(at(3)),
            size: u64::MAX,
            failures: u32::MAX,
            hops: 4,
            stays: true,
            ..PLAIN
        },
        every_property(),
        MessageBody::from("body"),
    );
    dead.message.set_dead_letter_source("orders");
    let scheduled = MessageState { place: Place::Scheduled, due: Some(at(2)), ..PLAIN };
    let transfer = MessageState { part: Part::TransferDeadLetter, ..PLAIN };
    let mut numbers = Properties::new();
    let keyed = extremes().into_iter().enumerate();
    *numbers.application_properties_mut() = keyed.map(|(nth, value)| (format!("key {nth:02}"), value)).collect();
    let every = Value::List(extremes().into_iter().map(Value::Simple).collect());
    let mut named = vec![
        ("message-every-property".to_owned(), dead),
        ("message-scheduled".to_owned(), message(scheduled, Properties::new(), MessageBody::empty())),
        ("message-transfer".to_owned(), message(transfer, Properties::new(), MessageBody::empty())),
        ("message-extremes".to_owned(), message(PLAIN, numbers, every.into())),
    ];
    let bodies = every_body().into_iter().enumerate();
    named.extend(bodies.map(|(nth, body)| (format!("message-body-{nth}"), message(PLAIN, Properties::new(), body))));
    named.into_iter().map(|(name, record)| (name, Record::Message(record.into()))).collect()
}

/// The records that a version of their kind has.
fn records(version: u8) -> BTreeMap<String, Record> {
    let broker = BrokerRecord { store: SIXTEEN, created: at(0), last_serial: 300, latest: at(9) };
    let subscribed = EntityKind::Subscription {
        settings: subscription().metadata(metadata(version)),
        topic: 2,
        rules: rules(version).into(),
    };
    let plain = CounterRecord { order: 1_000, last_enqueued: at(4), last: LastNumber::Plain(SequenceNumber::new(999)) };
    let last = LastNumber::Partitioned { last: std::array::from_fn(|nth| 100 * nth as u64), next: 15 };
    let id = IdRecord { digest: [0xab; 16], accepted: at(5), scheduled: None };
    let updated = if version > 1 { at(11) } else { Timestamp::from_millis(0) };
    let session = |state| Record::Session(SessionRecord { id: "a session".into(), state, updated });
    let others = [
        ("broker", Record::Broker(broker)),
        ("queue", entity("Orders/New", EntityKind::Queue(queue().metadata(metadata(version))), Some([0xcd; 16]))),
        ("queue-plain", entity("orders", EntityKind::Queue(plain_queue()), None)),
        ("topic", entity("prices", EntityKind::Topic(topic().metadata(metadata(version))), Some([0xef; 16]))),
        ("subscription", entity("prices/Subscriptions/Audit", subscribed, None)),
        ("counter", Record::Counter(plain.clone().into())),
        ("counter-partitioned", Record::Counter(CounterRecord { last, ..plain }.into())),
        ("session", session(Some(Bytes::from_static(&[0, 0xff])))),
        ("session-empty", session(Some(Bytes::new()))),
        ("session-none", session(None)),
        ("id", Record::Id(id)),
        ("id-scheduled", Record::Id(IdRecord { scheduled: Some(SequenceNumber::new(6)), ..id })),
    ];
    others.into_iter().map(|(name, record)| (name.to_owned(), record)).chain(messages()).collect()
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()
}

fn bytes(hexadecimal: &str) -> Vec<u8> {
    let digits = hexadecimal.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    digits.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

/// Rules: I-11.
#[test]
fn records_of_every_version_are_read() {
    let records = [1, 2, 3, NEWEST].map(records);
    for line in WRITTEN.lines() {
        let (name, written) = line.split_once(' ').unwrap();
        let written = bytes(written);
        let record = &records[usize::from(written[0]) - 1][name];
        let read = record.decode(&written).unwrap_or_else(|error| panic!("{name}: {error}"));
        // A number that is not equal to itself is equal to its bytes.
        assert!(read == *record || name == "message-extremes", "{name}");
        let again = read.encode();
        assert!(again == written || again[0] > written[0], "{name}: {}", hexadecimal(&again));
    }
}

/// Rules: I-11.
/// Where it fails because a version was added on purpose, the lines that it prints belong into the file.
#[test]
fn a_version_does_not_change() {
    let lines = records(NEWEST).into_iter().map(|(name, record)| format!("{name} {}", hexadecimal(&record.encode())));
    let new: Vec<String> = lines.filter(|line| WRITTEN.lines().all(|written| written != line)).collect();
    assert!(new.is_empty(), "\n{}", new.join("\n"));
}
