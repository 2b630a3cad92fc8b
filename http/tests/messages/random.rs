use std::time::Duration;

use bytes::Bytes;
use consign_core::{
    Message,
    message::{PropertyValue, Received, SequenceNumber},
    time::Timestamp,
};
use consign_http::{from_batch, from_request, from_response, to_batch, to_request, to_response};
use proptest::{collection::btree_map, option, prelude::*, test_runner::RngSeed};

/// The types that a header keeps.
fn kept() -> impl Strategy<Value = PropertyValue> {
    prop_oneof![
        any::<bool>().prop_map(PropertyValue::from),
        any::<i64>().prop_map(PropertyValue::from),
        any::<f64>().prop_filter("finite", |number| number.is_finite()).prop_map(PropertyValue::from),
        "[ -~\u{e0}-\u{17f}\u{1F600}]{0,20}".prop_map(PropertyValue::from),
        (0_i64..253_402_300_799).prop_map(|seconds| PropertyValue::DateTime(Timestamp::from_millis(seconds * 1_000))),
    ]
}

fn any_value() -> impl Strategy<Value = PropertyValue> {
    prop_oneof![
        kept(),
        any::<String>().prop_map(PropertyValue::from),
        any::<u8>().prop_map(PropertyValue::from),
        any::<i32>().prop_map(PropertyValue::from),
        any::<u64>().prop_map(PropertyValue::from),
        any::<f32>().prop_filter("a number", |number| !number.is_nan()).prop_map(PropertyValue::from),
        any::<char>().prop_map(PropertyValue::from),
        any::<[u8; 16]>().prop_map(PropertyValue::Uuid),
        any::<[u8; 16]>().prop_map(PropertyValue::Decimal),
        any::<i64>().prop_map(PropertyValue::TimeSpan),
        any::<i64>().prop_map(PropertyValue::DateTimeOffset),
        any::<Vec<u8>>().prop_map(|bytes| PropertyValue::Bytes(bytes.into())),
        Just(PropertyValue::Null),
    ]
}

prop_compose! {
    fn message(keys: &'static str, value: impl Strategy<Value = PropertyValue>)(
        ids in (option::of("\\PC{1,40}"), option::of("\\PC{0,40}"), option::of("\\PC{0,40}"), option::of(any::<String>())),
        time_to_live in option::of(1_u64..99_999_999_999_999),
        at in option::of(0_i64..253_402_300_799),
        content_type in option::of("[!-~]{1,20}"),
        properties in btree_map(keys, value, 0..6),
        body in any::<Vec<u8>>(),
    ) -> Message {
        let mut message = Message::new(body);
        let set = message.properties_mut();
        if let Some(id) = ids.0 { set.set_message_id(id).unwrap(); }
        if let Some(id) = ids.1 { set.set_session_id(id).unwrap(); }
        if let Some(id) = ids.2 { set.set_reply_to_session_id(id).unwrap(); }
        if let Some(subject) = ids.3 { set.set_subject(subject); }
        if let Some(millis) = time_to_live { set.set_time_to_live(Duration::from_millis(millis)).unwrap(); }
        if let Some(seconds) = at { set.set_scheduled_enqueue_time(Timestamp::from_millis(seconds * 1_000)); }
        if let Some(text) = content_type { set.set_content_type(text); }
        *set.application_properties_mut() = properties.into_iter().collect();
        message
    }
}

fn same(one: &Message, other: &Message) -> Result<(), TestCaseError> {
    prop_assert_eq!(one.properties(), other.properties());
    prop_assert_eq!(one.body(), other.body());
    Ok(())
}

/// `SEED=8 cargo test --package consign-http random` tries other messages.
fn config() -> ProptestConfig {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(7);
    ProptestConfig { rng_seed: RngSeed::Fixed(seed), failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    /// Rules: HT-13, HT-14.
    #[test]
    fn what_a_header_keeps_is_kept(message in message("key-[a-z0-9]{0,10}", kept())) {
        let (headers, body) = to_request(&message, false).unwrap();
        let read = from_request(&headers, body).unwrap();
        same(&read, &message)?;
        prop_assert_eq!(to_request(&read, false).unwrap().0, headers);
    }

    /// Rules: HT-17.
    #[test]
    fn exact_properties_keep_all(message in message("\\PC{0,12}", any_value())) {
        let (headers, body) = to_request(&message, true).unwrap();
        same(&from_request(&headers, body).unwrap(), &message)?;
        let received = Received::new(SequenceNumber::new(7), Timestamp::from_millis(1_000), 1);
        let (headers, body) = to_response(&message.clone().with_received(received), None, true);
        same(&from_response(&headers, body.unwrap()).unwrap(), &message)?;
    }

    #[test]
    fn random_bytes_are_a_message_or_an_error(
        name in "[a-zA-Z-]{1,12}|BrokerProperties|x-prop-names|Content-Type",
        value in prop::collection::vec(prop_oneof![32_u8..127, 128_u8..=255], 0..60),
        body in any::<Vec<u8>>(),
    ) {
        let mut headers = http::HeaderMap::new();
        headers.insert(http::HeaderName::from_bytes(name.as_bytes()).unwrap(), http::HeaderValue::from_bytes(&value).unwrap());
        let _ = from_response(&headers, Bytes::new());
        if let Ok(message) = from_request(&headers, body.clone().into()) {
            let (headers, body) = to_request(&message, true).unwrap();
            same(&from_request(&headers, body).unwrap(), &message)?;
        }
        if let Ok(messages) = from_batch(&body, 10) {
            from_batch(&to_batch(&messages).unwrap(), 10).unwrap();
        }
    }
}
