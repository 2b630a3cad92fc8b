use consign::{
    Message,
    message::{Problem, PropertyValue},
    rules::{CorrelationFilter, CorrelationFilterBuilder},
};

type Field = (&'static str, fn(CorrelationFilterBuilder, &str) -> CorrelationFilterBuilder);

const FIELDS: [Field; 8] = [
    ("content_type", |filter, value| filter.content_type(value)),
    ("correlation_id", |filter, value| filter.correlation_id(value)),
    ("subject", |filter, value| filter.subject(value)),
    ("message_id", |filter, value| filter.message_id(value)),
    ("reply_to", |filter, value| filter.reply_to(value)),
    ("reply_to_session_id", |filter, value| filter.reply_to_session_id(value)),
    ("session_id", |filter, value| filter.session_id(value)),
    ("to", |filter, value| filter.to(value)),
];

/// A message where each property is its own name.
fn message() -> Message {
    Message::builder()
        .content_type("content_type")
        .correlation_id("correlation_id")
        .subject("subject")
        .message_id("message_id")
        .reply_to("reply_to")
        .reply_to_session_id("reply_to_session_id")
        .session_id("session_id")
        .to("to")
        .property("colour", "red")
        .property("count", 7)
        .build("")
        .unwrap()
}

/// Rules: T-54.
#[test]
fn each_field_is_compared_with_its_case() {
    for (name, set) in FIELDS {
        let matches = |value: &str| set(CorrelationFilter::builder(), value).build().unwrap().matches(&message());
        assert!(matches(name), "{name}");
        assert!(!matches(&name.to_uppercase()), "{name}");
        assert!(!matches(""), "{name}");
        assert!(!set(CorrelationFilter::builder(), name).build().unwrap().matches(&Message::new("")), "{name}");
    }
}

/// Rules: T-54.
#[test]
fn all_given_fields_are_equal() {
    let all = || {
        FIELDS.iter().fold(CorrelationFilter::builder().property("colour", "red"), |all, (name, set)| set(all, name))
    };
    assert!(all().build().unwrap().matches(&message()));
    for (name, set) in FIELDS {
        assert!(!set(all(), "another").build().unwrap().matches(&message()), "{name}");
    }
    assert!(!all().property("count", 8).build().unwrap().matches(&message()));
}

/// Rules: T-54.
#[test]
fn properties_are_compared_with_case_and_numbers_by_value() {
    let matches = |key: &str, value: PropertyValue| {
        CorrelationFilter::builder().property(key, value).build().unwrap().matches(&message())
    };
    assert!(matches("colour", "red".into()));
    assert!(!matches("Colour", "red".into()));
    assert!(!matches("colour", "Red".into()));
    assert!(matches("count", 7_i32.into()));
    assert!(matches("count", 7_i64.into()));
    assert!(matches("count", 7_u8.into()));
    assert!(matches("count", 7.0_f64.into()));
    assert!(matches("count", 7.0_f32.into()));
    assert!(!matches("count", 8_i64.into()));
    assert!(!matches("count", 7.5_f64.into()));
    assert!(!matches("count", f64::NAN.into()));
    assert!(!matches("count", "7".into()));
    assert!(!matches("count", true.into()));
    assert!(!matches("missing", PropertyValue::Null));
}

/// Rules: T-54.
#[test]
fn numbers_are_equal_only_if_their_values_are() {
    let matches = |required: PropertyValue, sent: PropertyValue| {
        let message = Message::builder().property("n", sent).build("").unwrap();
        CorrelationFilter::builder().property("n", required).build().unwrap().matches(&message)
    };
    let large = 1_i64 << 53;
    for (one, other, equal) in [
        (PropertyValue::F64(9_007_199_254_740_992.0), PropertyValue::I64(large), true),
        (PropertyValue::F64(9_007_199_254_740_992.0), PropertyValue::I64(large + 1), false),
        (PropertyValue::U64(u64::MAX), PropertyValue::I64(-1), false),
        (PropertyValue::F64(18_446_744_073_709_551_616.0), PropertyValue::U64(u64::MAX), false),
        (PropertyValue::F64(f64::INFINITY), PropertyValue::I64(i64::MAX), false),
        (PropertyValue::F64(1e300), PropertyValue::I64(i64::MAX), false),
        (PropertyValue::F32(0.5), PropertyValue::F64(0.5), true),
        (PropertyValue::F64(-0.0), PropertyValue::I32(0), true),
        (PropertyValue::I8(-1), PropertyValue::F64(-1.0), true),
    ] {
        assert_eq!(matches(one.clone(), other.clone()), equal, "{one:?} {other:?}");
        assert_eq!(matches(other.clone(), one.clone()), equal, "{other:?} {one:?}");
    }
}

/// Rules: T-54.
#[test]
fn a_filter_asks_for_something() {
    assert_eq!(CorrelationFilter::builder().build().unwrap_err().problem(), &Problem::Empty);
    let large = CorrelationFilter::builder().subject("x".repeat(65_535)).build().unwrap_err();
    assert_eq!(large.problem(), &Problem::TooLong { limit: 65_534 });
}

/// Rules: T-54.
#[test]
fn a_filter_shows_what_it_asks_for() {
    let filter = CorrelationFilter::builder().subject("a").subject("b").property("k", 1).build().unwrap();
    assert_eq!((filter.subject(), filter.to(), filter.properties().len()), (Some("b"), None, 1));
    let built =
        |first: Field, second: Field| (second.1)((first.1)(CorrelationFilter::builder(), "a"), "a").build().unwrap();
    assert_eq!(built(FIELDS[2], FIELDS[3]), built(FIELDS[3], FIELDS[2]));
}
