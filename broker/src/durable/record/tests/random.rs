use std::time::Duration;

use consign_core::{
    Message,
    administration::{AuthorizationRule, Metadata, QueueSettings, Status, SubscriptionSettings, TopicSettings},
    message::{EntityPath, MessageBody, SequenceNumber, Stored, Value},
};
use consign_rules::{CorrelationFilter, Filter, Parameters, Rule, RuleSet, SqlAction, SqlFilter};
use fastrand::Rng;

use super::{
    super::malformed::Problem, BrokerRecord, CounterRecord, EntityKind, EntityRecord, IdRecord, MessageRecord, Record,
    SessionRecord,
};
use crate::{
    durable::{
        StorageError, StorageErrorKind,
        samples::{self, bytes, instant, number, random, simple_value, some, text},
    },
    engine::{
        Part,
        record::{LastNumber, MAX_DEPTH, MessageState, Place, can_be_stored},
    },
};

const CASES: usize = 2_000;

fn maybe<T>(random: &mut Rng, make: impl FnOnce(&mut Rng) -> T) -> Option<T> {
    random.bool().then(|| make(random))
}

fn sequence(random: &mut Rng) -> SequenceNumber {
    SequenceNumber::new(number(random))
}

fn duration(random: &mut Rng) -> Duration {
    Duration::new(number(random), random.u32(0..1_000_000_000))
}

fn name(random: &mut Rng) -> String {
    (0..random.usize(1..20)).map(|_| random.alphanumeric()).collect()
}

fn status(random: &mut Rng) -> Status {
    [Status::Active, Status::Disabled, Status::SendDisabled, Status::ReceiveDisabled][random.usize(0..4)]
}

fn size(random: &mut Rng) -> usize {
    usize::try_from(number(random)).unwrap_or(usize::MAX)
}

fn message(random: &mut Rng) -> MessageRecord {
    let state = MessageState {
        part: [Part::Main, Part::DeadLetter, Part::TransferDeadLetter][random.usize(0..3)],
        place: [Place::Ready, Place::Deferred, Place::Scheduled][random.usize(0..3)],
        sequence: sequence(random),
        origin: sequence(random),
        enqueued: instant(random),
        expires_at: maybe(random, instant),
        due: maybe(random, instant),
        locked_until: maybe(random, instant),
        size: number(random),
        failures: random.u32(..),
        hops: random.u8(..),
        stays: random.bool(),
    };
    MessageRecord { state, message: samples::random_message(random) }
}

fn queue(random: &mut Rng) -> QueueSettings {
    let mut value = QueueSettings::default();
    value.lock_duration = duration(random);
    value.max_delivery_count = random.u32(..);
    value.default_time_to_live = maybe(random, duration);
    value.dead_letter_on_expiration = random.bool();
    value.max_size = number(random);
    value.max_message_size = size(random);
    value.requires_session = random.bool();
    value.duplicate_detection = maybe(random, duration);
    value.max_duplicate_ids = size(random);
    value.partitioned = random.bool();
    value.forward_to = maybe(random, name);
    value.forward_dead_letters_to = maybe(random, name);
    value.auto_delete_on_idle = maybe(random, duration);
    value.status = status(random);
    value.metadata = metadata(random);
    value
}

fn topic(random: &mut Rng) -> TopicSettings {
    let mut value = TopicSettings::default();
    value.default_time_to_live = maybe(random, duration);
    value.duplicate_detection = maybe(random, duration);
    value.max_duplicate_ids = size(random);
    value.partitioned = random.bool();
    value.max_size = number(random);
    value.max_message_size = size(random);
    value.auto_delete_on_idle = maybe(random, duration);
    value.status = status(random);
    value.metadata = metadata(random);
    value
}

fn subscription(random: &mut Rng) -> SubscriptionSettings {
    let mut value = SubscriptionSettings::default();
    value.lock_duration = duration(random);
    value.max_delivery_count = random.u32(..);
    value.default_time_to_live = maybe(random, duration);
    value.dead_letter_on_expiration = random.bool();
    value.dead_letter_on_filter_error = random.bool();
    value.requires_session = random.bool();
    value.forward_to = maybe(random, name);
    value.forward_dead_letters_to = maybe(random, name);
    value.auto_delete_on_idle = maybe(random, duration);
    value.status = status(random);
    value.metadata = metadata(random);
    value
}

fn metadata(random: &mut Rng) -> Metadata {
    let mut value = Metadata::default();
    value.user = maybe(random, text);
    value.batched_operations = maybe(random, Rng::bool);
    value.express = maybe(random, Rng::bool);
    value.ordering = maybe(random, Rng::bool);
    value.duplicate_window = maybe(random, duration);
    value.authorization_rules = (0..random.usize(0..3)).map(|_| authorization_rule(random)).collect();
    value
}

fn authorization_rule(random: &mut Rng) -> AuthorizationRule {
    let mut rule = AuthorizationRule::new(text(random), text(random), text(random));
    (rule.send, rule.listen, rule.manage) = (random.bool(), random.bool(), random.bool());
    (rule.created, rule.modified) = (maybe(random, instant), maybe(random, instant));
    rule
}

fn parameters(random: &mut Rng) -> Parameters {
    let value = if random.bool() { simple_value(random) } else { random.i32(..).into() };
    Parameters::new([("@p".to_owned(), value), ("unused".to_owned(), "text".into())]).unwrap()
}

fn filter(random: &mut Rng) -> Filter {
    match random.u8(0..5) {
        0 => Filter::True,
        1 => Filter::False,
        2 => correlation(random).into(),
        3 => SqlFilter::parse_with("a = @P", parameters(random)).unwrap().into(),
        _ => SqlFilter::parse(&format!("{} > {}  and sys.Label LIKE 'x%'", "a", random.i32(..))).unwrap().into(),
    }
}

fn correlation(random: &mut Rng) -> CorrelationFilter {
    let mut filter = CorrelationFilter::builder().property(name(random), simple_value(random));
    for place in 0..8 {
        let Some(text) = maybe(random, text) else { continue };
        filter = match place {
            0 => filter.content_type(text),
            1 => filter.correlation_id(text),
            2 => filter.message_id(text),
            3 => filter.subject(text),
            4 => filter.reply_to(text),
            5 => filter.session_id(text),
            6 => filter.reply_to_session_id(text),
            _ => filter.to(text),
        };
    }
    filter.build().unwrap()
}

fn rules(random: &mut Rng) -> RuleSet {
    let mut rules = RuleSet::empty();
    for index in 0..random.usize(0..4) {
        let rule = Rule::new(format!("{index}"), filter(random)).unwrap();
        let action = format!("SET a = {};REMOVE b", random.i32(..));
        let action = |random: &mut Rng| {
            if random.bool() {
                SqlAction::parse(&action).unwrap()
            } else {
                SqlAction::parse_with("SET a = @p", parameters(random)).unwrap()
            }
        };
        let rule = match maybe(random, action) {
            Some(action) => rule.with_action(action),
            None => rule,
        };
        rules.create(rule.with_created(maybe(random, instant))).unwrap();
    }
    rules
}

fn entity(random: &mut Rng) -> EntityRecord {
    let kind = match random.u8(0..3) {
        0 => EntityKind::Queue(queue(random)),
        1 => EntityKind::Topic(topic(random)),
        _ => EntityKind::Subscription {
            settings: subscription(random),
            topic: number(random),
            rules: Box::new(rules(random)),
        },
    };
    let path = EntityPath::new(&format!("{}/{}", name(random), name(random))).unwrap();
    EntityRecord { path, kind, secret: maybe(random, |random| random.u128(..).to_le_bytes()) }
}

fn counter(random: &mut Rng) -> CounterRecord {
    let last = if random.bool() {
        LastNumber::Plain(sequence(random))
    } else {
        LastNumber::Partitioned { last: std::array::from_fn(|_| number(random)), next: random.u16(0..16) }
    };
    CounterRecord { order: number(random), last_enqueued: instant(random), last }
}

fn one_of_each(random: &mut Rng) -> [Record; 6] {
    let broker = BrokerRecord {
        store: random.u128(..).to_le_bytes(),
        created: instant(random),
        last_serial: number(random),
        latest: instant(random),
    };
    let id = IdRecord {
        digest: random.u128(..).to_le_bytes(),
        accepted: instant(random),
        scheduled: maybe(random, sequence),
    };
    [
        Record::Broker(broker),
        Record::Entity(entity(random).into()),
        Record::Counter(counter(random).into()),
        Record::Session(SessionRecord {
            id: text(random).into(),
            state: maybe(random, bytes),
            updated: instant(random),
        }),
        Record::Id(id),
        Record::Message(message(random).into()),
    ]
}

/// Rules: I-11.
#[test]
fn a_written_record_is_read_back() {
    let mut random = random("a_written_record_is_read_back");
    for _ in 0..CASES {
        for record in one_of_each(&mut random) {
            let bytes = record.encode();
            let again = record.decode(&bytes).unwrap();
            assert!(again == record, "{bytes:02x?}");
            assert_eq!(again.encode(), bytes);
        }
    }
}

/// Attacks: 94.
#[test]
fn a_record_that_is_cut_short_or_goes_on_is_refused() {
    let mut random = random("a_record_that_is_cut_short_or_goes_on_is_refused");
    for _ in 0..CASES / 20 {
        for record in one_of_each(&mut random) {
            let mut bytes = record.encode();
            for length in 0..bytes.len() {
                assert!(record.decode(&bytes[..length]).is_err(), "{length} of {bytes:02x?}");
            }
            bytes.push(0);
            let error = record.decode(&bytes).err().unwrap();
            assert_eq!((error.problem, error.at), (Problem::Trailing, bytes.len() - 1));
            assert_eq!(StorageError::from(error).kind(), StorageErrorKind::Corrupted);
        }
    }
}

/// Rules: I-31.
/// What comes out may be something else, but it is whole.
#[test]
fn no_bytes_make_it_panic() {
    let mut random = random("no_bytes_make_it_panic");
    for _ in 0..CASES {
        for record in one_of_each(&mut random) {
            let mut bytes = record.encode();
            for _ in 0..random.usize(1..4) {
                let at = random.usize(1..bytes.len());
                bytes[at] ^= 1 << random.u8(0..8);
            }
            if let Ok(other) = record.decode(&bytes) {
                assert!(record.decode(&other.encode()).is_ok(), "{bytes:02x?}");
            }
            let mut noise: Vec<u8> = some(&mut random, samples::bytes).concat();
            noise.insert(0, 1);
            let _ = record.decode(&noise);
        }
    }
}

#[test]
fn an_unknown_version_is_said_to_be_one() {
    for record in one_of_each(&mut random("an_unknown_version_is_said_to_be_one")) {
        let mut bytes = record.encode();
        let newest = bytes[0];
        for version in [0, newest + 1, 0xff] {
            bytes[0] = version;
            let error = record.decode(&bytes).err().unwrap();
            assert_eq!((error.problem, error.at), (Problem::UnknownVersion(version), 0));
            let error = StorageError::from(error);
            assert_eq!(error.kind(), StorageErrorKind::NewerFormat);
            assert_eq!(error.detail(), format!("version {version} of the record is unknown at byte 0"));
        }
    }
}

fn nested(depth: usize) -> MessageRecord {
    let mut value = Value::from(1);
    for level in 0..depth {
        value = match level % 4 {
            0 => Value::List(vec![value]),
            1 => Value::Map(vec![(0.into(), value)]),
            2 => Value::Array(vec![value]),
            _ => Value::Described(Box::new((value, 0.into()))),
        };
    }
    let mut record = message(&mut Rng::with_seed(0));
    record.message = Stored::new(Message::new(value));
    record
}

#[test]
fn values_are_as_deep_as_can_be_read() {
    for (depth, fits) in [(MAX_DEPTH, true), (MAX_DEPTH + 1, false)] {
        let record = nested(depth);
        assert_eq!(can_be_stored(&record.message), fits);
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        match MessageRecord::decode(&bytes) {
            Ok(again) => assert!(fits && again.message.body() == record.message.body()),
            Err(error) => assert!(!fits && error.problem == Problem::Invalid("depth of a value")),
        }
        // They can stand elsewhere too.
        let MessageBody::Value(value) = record.message.body() else { panic!("a value") };
        let mut message = Message::new("");
        message.properties_mut().pass_through_mut().footer.push(("f".into(), (**value).clone()));
        assert_eq!(can_be_stored(&Stored::new(message)), fits);
        let body = MessageBody::Sequence([vec![(**value).clone()]].into());
        assert_eq!(can_be_stored(&Stored::new(Message::new(body))), fits);
    }
}

/// Rules: I-31.
/// A list of 2^62 values in a few bytes, and a text as long.
#[test]
fn a_declared_length_takes_no_memory() {
    let mut start = Vec::new();
    let record = nested(0);
    record.encode(&mut start);
    // The body is the kind of a body, the kind of a value and a number.
    start.truncate(start.len() - 3);
    let huge = [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x40];
    for kinds in [&[0][..], &[1], &[2, 13], &[2, 32], &[2, 33], &[2, 34], &[2, 35], &[3], &[3, 1]] {
        let bytes = [&start, kinds, &huge].concat();
        let error = MessageRecord::decode(&bytes).unwrap_err();
        assert_eq!((error.problem, error.at), (Problem::Truncated, bytes.len()), "{kinds:?}");
    }
}

#[test]
fn a_nan_keeps_its_bits() {
    for bits in [f64::NAN.to_bits(), 0xfff4_0000_0000_0001] {
        let mut record = nested(0);
        record.message = Stored::new(Message::new(Value::List(vec![f64::from_bits(bits).into(), f32::NAN.into()])));
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        let (mut again, end) = (Vec::new(), [&[11][..], &bits.to_le_bytes(), &[10], &f32::NAN.to_bits().to_le_bytes()]);
        MessageRecord::decode(&bytes).unwrap().encode(&mut again);
        assert!(again == bytes && bytes.ends_with(&end.concat()), "{bytes:02x?}");
    }
}

#[test]
fn a_number_that_is_in_no_table_is_refused() {
    // Version, part, place, bits, sequence, origin, enqueued, size, failures, hops, properties, body.
    let message = |edits: &[(usize, &[u8])]| {
        let fields: [&[u8]; 12] = [&[1], &[0], &[0], &[0], &[1], &[1], &[0], &[0], &[0], &[0], &[0], &[0, 0]];
        let of = |nth: usize| edits.iter().find(|(at, _)| *at == nth).map_or(fields[nth], |(_, edited)| *edited);
        MessageRecord::decode(&(0..fields.len()).map(of).collect::<Vec<_>>().concat())
    };
    assert!(message(&[]).is_ok());
    let twice = [0x80, 0x20, 2, 1, b'a', 0, 1, b'a', 0];
    for (at, bytes, what) in [
        (1, &[3][..], "part"),
        (2, &[3], "place"),
        (3, &[16], "bits of a message"),
        (10, &[0x80, 0x80, 4], "bits of properties"),
        // An id that was made, and none.
        (10, &[0x80, 0x80, 2], "bits of properties"),
        (10, &[4, 0], "property"),
        (10, &[0x80, 8, 0, 0], "time to live"),
        (10, &twice, "application property"),
        (10, &[0x80, 0x20, 1, 0, 21], "kind of a value"),
        (10, &[0x80, 0x20, 1, 0, 12, 0x80, 0xb0, 3], "character"),
        (10, &[0x80, 0x40, 0x80, 0x10], "bits of what is passed through"),
        (11, &[4], "kind of a body"),
        (11, &[2, 31], "kind of a value"),
    ] {
        let error = message(&[(at, bytes)]).unwrap_err();
        assert_eq!(error.problem, Problem::Invalid(what), "{at} {bytes:02x?}");
    }
    let entity = |end: &[u8]| EntityRecord::decode(&[&[1, 1, b'q', 0], end].concat()).unwrap_err().problem;
    assert_eq!(entity(&[3]), Problem::Invalid("kind of an entity"));
    assert_eq!(entity(&[1, 0, 0, 0, 0, 0, 0, 0, 4]), Problem::Invalid("status"));
    let settings = [2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7];
    let rules = |rules: &[u8]| entity(&[&settings, rules].concat());
    for (bytes, what) in [
        (&[1, 1, b'r', 4][..], "kind of a filter"),
        (&[1, 1, b'/', 0], "name of a rule"),
        (&[1, 1, b'r', 3, 1, b'('], "filter"),
        (&[1, 1, b'r', 0, 1, 1, b'('], "action"),
        (&[1, 1, b'r', 2, 0, 0], "correlation filter"),
        (&[1, 1, b'r', 2, 0x80, 2, 0], "bits of a correlation filter"),
        (&[2, 1, b'r', 0, 0, 1, b'R', 0, 0], "rule"),
    ] {
        assert_eq!(rules(bytes), Problem::Invalid(what), "{bytes:02x?}");
    }
    assert_eq!(EntityRecord::decode(&[1, 1, b'$']).unwrap_err().problem, Problem::Invalid("path"));
    let counter = |end: &[u8]| CounterRecord::decode(&[&[1, 0, 0], end].concat()).unwrap_err().problem;
    assert_eq!(counter(&[2]), Problem::Invalid("kind of a counter"));
    assert_eq!(counter(&[&[1][..], &[0; 16], &[16]].concat()), Problem::Invalid("partition"));
}
