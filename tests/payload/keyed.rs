//! What the tests of encryption and of signing share: keys, a message, and what becomes of it.

use consign::{
    Disposition, Message,
    message::{PropertyValue, Value},
    middleware::keys::{Key, Keys},
    settlement::{DeadLetter, DeadLetterReason},
    transport::{Batch, ErrorKind, SendError, SendService},
};
use tokio_test::{assert_pending, assert_ready_err, task};
use tower::{BoxError, Layer, Service};
use tower_test::mock;

use super::{
    stacks::{not_sent, received, sent},
    support::Broker,
};

pub(crate) fn key(id: &str, byte: u8) -> Key {
    Key::new(id, [byte; 32]).unwrap()
}

pub(crate) fn keys() -> Keys {
    Keys::new(key("new", 1)).and_old(key("old", 2))
}

/// A message with each of the bound properties but the content encoding.
pub(crate) fn bound() -> Message {
    let message = Message::builder()
        .message_id("m-1")
        .content_type("application/json")
        .subject("order.paid")
        .session_id("customer-7")
        .correlation_id("c-1")
        .reply_to("replies")
        .reply_to_session_id("requester-3")
        .property("x-message-version", 3)
        .property("cloudEvents_type", "order.paid")
        .property("free", 1);
    message.build(r#"{"id":1}"#).unwrap()
}

fn set(message: &mut Message, name: &str, value: impl Into<PropertyValue>) {
    message.properties_mut().application_properties_mut().insert(name, value);
}

fn remove(message: &mut Message, name: &str) {
    message.properties_mut().application_properties_mut().remove(name).unwrap();
}

/// Each makes another message of it than the one that was bound.
pub(crate) const CHANGES: [fn(&mut Message); 32] = [
    |m| _ = m.properties_mut().set_message_id("m-2").unwrap(),
    |m| _ = m.properties_mut().set_content_type("application/cbor"),
    |m| _ = m.properties_mut().set_subject("order.shipped"),
    |m| _ = m.properties_mut().set_session_id("customer-8").unwrap(),
    |m| _ = m.properties_mut().set_correlation_id("c-2"),
    |m| _ = m.properties_mut().set_reply_to("elsewhere"),
    |m| _ = m.properties_mut().set_reply_to("amq.rabbitmq.reply-to"),
    |m| _ = m.properties_mut().set_reply_to("replies/1"),
    |m| _ = m.properties_mut().set_reply_to_session_id("requester-4").unwrap(),
    |m| m.properties_mut().pass_through_mut().content_encoding = Some("gzip".into()),
    |m| set(m, "x-original-message-id", "m-0"),
    // Text that moves from one field to the next.
    |m| {
        m.properties_mut().set_subject("order.pai");
        m.properties_mut().set_session_id("dcustomer-7").unwrap();
    },
    // A body of the third version, read as one of the first.
    |m| set(m, "x-message-version", 1),
    |m| set(m, "x-message-version", "3"),
    |m| remove(m, "x-message-version"),
    |m| {
        remove(m, "x-message-version");
        set(m, "X-Message-Version", 3);
    },
    |m| set(m, "cloudEvents_type", "order.shipped"),
    |m| remove(m, "cloudEvents_type"),
    |m| set(m, "cloudEvents_subject", "added"),
    |m| set(m, "cloudEvents:type", "order.shipped"),
    |m| set(m, "CLOUDEVENTS_type", "order.shipped"),
    |m| set(m, "ce-type", "order.shipped"),
    |m| set(m, "ce_type", "order.shipped"),
    |m| set(m, "Ce-Type", "order.shipped"),
    |m| {
        remove(m, "cloudEvents_type");
        set(m, "ce-type", "order.paid");
    },
    // A reply that becomes a fault, and what fills fields that are empty.
    |m| set(m, "x-fault", "Failed"),
    |m| set(m, "x-accept", "application/cbor"),
    |m| set(m, "MT-MessageType", "urn:message:Shop:Order"),
    |m| set(m, "NServiceBus.EnclosedMessageTypes", "Shop.Order"),
    |m| set(m, "NServiceBus.ContentType", "text/plain"),
    |m| set(m, "NServiceBus.CorrelationId", "c-2"),
    |m| set(m, "NServiceBus.Transport.Encoding", "wcf/byte-array"),
];

/// What brokers, retries and resubmissions do, none of which changes how the body is read.
pub(crate) const HARMLESS: [fn(&mut Message); 8] = [
    |m| set(m, "free", 2),
    |m| {
        m.properties_mut().set_message_id("another").unwrap();
        set(m, "x-original-message-id", "m-1");
    },
    |m| {
        set(m, "DeadLetterReason", "MaxDeliveryCountExceeded");
        set(m, "DeadLetterErrorDescription", "it failed");
        set(m, "x-decode-trail", "json:Syntax");
    },
    |m| {
        set(m, "x-retry-history", "1");
        set(m, "x-resubmit-count", 1);
        set(m, "x-forward-count", 1);
    },
    |m| {
        set(m, "traceparent", "00-00000000000000000000000000000001-0000000000000001-01");
        set(m, "tracestate", "a=1");
    },
    |m| {
        m.properties_mut().set_to("anyone");
        m.properties_mut().set_partition_key("customer-7").unwrap();
        m.properties_mut().set_time_to_live(std::time::Duration::from_secs(1)).unwrap();
        m.properties_mut().set_scheduled_enqueue_time(consign::time::Timestamp::from_millis(1));
    },
    |m| {
        let rest = m.properties_mut().pass_through_mut();
        rest.priority = Some(1);
        rest.durable = Some(true);
    },
    // The same number in another width.
    |m| set(m, "x-message-version", 3_i64),
];

type Set = fn(&mut Message, &'static str);

/// Sets one of the bound texts that may be missing.
pub(crate) const TEXTS: [Set; 8] = [
    |m, text| _ = m.properties_mut().set_content_type(text),
    |m, text| m.properties_mut().pass_through_mut().content_encoding = Some(text.into()),
    |m, text| _ = m.properties_mut().set_subject(text),
    |m, text| _ = m.properties_mut().set_session_id(text).unwrap(),
    |m, text| _ = m.properties_mut().set_correlation_id(text),
    |m, text| _ = m.properties_mut().set_reply_to(text),
    |m, text| _ = m.properties_mut().set_reply_to_session_id(text).unwrap(),
    |m, text| set(m, "x-message-version", text),
];

/// Values of a bound property that have the same meaning, in groups: each of a group is as good as the others, and none of
/// another group is.
pub(crate) fn same_values() -> Vec<Vec<PropertyValue>> {
    let integer = |n: u8| -> Vec<PropertyValue> {
        let signed: [PropertyValue; 4] =
            [n.cast_signed().into(), i16::from(n).into(), i32::from(n).into(), i64::from(n).into()];
        signed.into_iter().chain([n.into(), u16::from(n).into(), u32::from(n).into(), u64::from(n).into()]).collect()
    };
    vec![
        vec![PropertyValue::Null],
        vec![false.into()],
        vec![true.into()],
        integer(0),
        integer(1),
        vec![(-1_i8).into(), (-1_i64).into()],
        vec![u64::MAX.into()],
        vec![0.0_f32.into(), 0.0_f64.into()],
        vec![(-0.0_f64).into()],
        vec![1.5_f32.into(), 1.5_f64.into()],
        vec![f32::NAN.into(), (-f64::NAN).into()],
        vec!["".into()],
        vec!["1".into(), '1'.into(), PropertyValue::Uri("1".into())],
        vec![bytes::Bytes::from_static(b"1").into()],
        vec![bytes::Bytes::new().into()],
        vec![PropertyValue::Uuid([0; 16])],
        vec![PropertyValue::Decimal([0; 16])],
        vec![PropertyValue::DateTime(consign::time::Timestamp::from_millis(1))],
        vec![PropertyValue::DateTimeOffset(1)],
        vec![PropertyValue::TimeSpan(1)],
    ]
}

/// The description of the dead letter.
pub(crate) fn refused<L>(layer: &L, message: Message) -> String
where
    L: Layer<mock::Mock<Message, Disposition>, Service: Service<Message, Response = Disposition, Error = BoxError>>,
{
    let DeadLetter { reason, description, .. } = received(layer, message).expect_err("a dead letter");
    assert_eq!(reason, DeadLetterReason::SignatureInvalid);
    description.into_owned()
}

/// Nothing is sent of what cannot be sealed, be it alone or in a batch, and nothing without a key. Answers with what is
/// sent of a batch that can.
pub(crate) fn all_or_nothing<L>(layer: &L, without_keys: &L) -> Vec<Message>
where
    L: Layer<SendService<Broker>>,
    L::Service: Service<Message, Response = (), Error = SendError> + Service<Batch, Response = (), Error = SendError>,
{
    assert_eq!(not_sent(layer, Message::new(Value::from("text"))).kind(), ErrorKind::InvalidArgument);
    assert_eq!(not_sent(without_keys, bound()).kind(), ErrorKind::InvalidArgument);

    let broker = Broker::default();
    let mut stack = layer.layer(SendService::new(broker.clone()));
    let batch = Batch::from([bound(), Message::new(Value::from("text"))]);
    assert_eq!(assert_ready_err!(task::spawn(stack.call(batch)).poll()).kind(), ErrorKind::InvalidArgument);
    assert_eq!(broker.transfers(), 0);
    assert_pending!(task::spawn(stack.call(Batch::from([bound(), bound()]))).poll());
    broker.messages(0)
}

/// A missing text, an empty one and another one are three, in each of the bound places.
pub(crate) fn missing_is_not_empty<O, I>(sending: &O, receiving: &I)
where
    O: Layer<SendService<Broker>, Service: Service<Message, Response = (), Error = SendError>>,
    I: Layer<mock::Mock<Message, Disposition>, Service: Service<Message, Response = Disposition, Error = BoxError>>,
{
    let message = || Message::builder().message_id("m").build("body").unwrap();
    for (n, set) in TEXTS.into_iter().enumerate() {
        let values = [None, Some(""), Some("x")];
        for before in values {
            for after in values {
                let mut original = message();
                if let Some(text) = before {
                    set(&mut original, text);
                }
                let sealed = sent(sending, original);
                // The body and what the layer wrote, with other properties.
                let mut changed = message().with_body(sealed.payload().unwrap().to_vec());
                for (name, value) in
                    sealed.application_properties().iter().filter(|(name, _)| *name != "x-message-version")
                {
                    changed.properties_mut().application_properties_mut().insert(name, value.clone());
                }
                if let Some(text) = after {
                    set(&mut changed, text);
                }
                assert_eq!(received(receiving, changed).is_ok(), before == after, "{n}: {before:?} {after:?}");
            }
        }
    }
}

/// A property counts by its value, not by the width of its number or the kind of its text.
pub(crate) fn values_are_canonical<O, I>(sending: &O, receiving: &I)
where
    O: Layer<SendService<Broker>, Service: Service<Message, Response = (), Error = SendError>>,
    I: Layer<mock::Mock<Message, Disposition>, Service: Service<Message, Response = Disposition, Error = BoxError>>,
{
    let groups = same_values();
    for (n, group) in groups.iter().enumerate() {
        let mut original = bound();
        set(&mut original, "x-message-version", group[0].clone());
        let sealed = sent(sending, original);
        for (m, others) in groups.iter().enumerate() {
            for value in others {
                let mut changed = sealed.clone();
                set(&mut changed, "x-message-version", value.clone());
                assert_eq!(received(receiving, changed).is_ok(), n == m, "{:?} {value:?}", group[0]);
            }
        }
    }
}

/// A sender binds `kind` and `a,b%`, of which the second is missing; `list` is the property that says so.
pub(crate) fn further_properties<O, I>(sending: &O, receiving: &I, requiring: &I, plain: &O, list: &'static str)
where
    O: Layer<SendService<Broker>, Service: Service<Message, Response = (), Error = SendError>>,
    I: Layer<mock::Mock<Message, Disposition>, Service: Service<Message, Response = Disposition, Error = BoxError>>,
{
    let original = || {
        let mut message = bound();
        set(&mut message, "kind", "order.paid");
        message
    };
    let sealed = sent(sending, original());
    assert_eq!(sealed.application_properties().get(list).and_then(PropertyValue::as_str), Some("a%2Cb%25,kind"));
    for layer in [receiving, requiring] {
        let seen = received(layer, sealed.clone()).unwrap();
        assert_eq!(seen.properties(), original().properties());
    }
    let changes: [fn(&mut Message, &str); 7] = [
        |m, _| set(m, "kind", "order.shipped"),
        |m, _| remove(m, "kind"),
        |m, _| set(m, "a,b%", ""),
        |m, list| remove(m, list),
        |m, list| set(m, list, "a%2Cb%25"),
        |m, list| set(m, list, "a%2Cb%25,kind,free"),
        |m, list| set(m, list, 1),
    ];
    for (n, change) in changes.into_iter().enumerate() {
        let mut changed = sealed.clone();
        change(&mut changed, list);
        assert!(refused(receiving, changed).starts_with("not authentic: "), "{n}");
    }
    // What is not in the list of a sender that binds nothing else is free, unless the receiver requires it.
    let mut loose = sent(plain, original());
    assert_eq!(loose.application_properties().get(list), None);
    assert!(refused(requiring, loose.clone()).ends_with("does not cover the property `kind`"));
    set(&mut loose, "kind", "order.shipped");
    received(receiving, loose.clone()).unwrap();
    // A list that was added.
    set(&mut loose, list, "kind");
    assert!(refused(requiring, loose).starts_with("not authentic: "));
}
