//! What MassTransit and NServiceBus write, in `golden`: shapes by their public documentation, values of our own.
//!
//! | file | its shape is from |
//! |---|---|
//! | `masstransit_envelope.json` | masstransit.io, Interoperability: the members of an envelope and of `host` |
//! | `masstransit_moved.json` | the constants of `MassTransit.MessageHeaders`: the transport headers in an error queue |
//! | `nservicebus_publish.json` | docs.particular.net, Message Headers: Publish headers, and Transport headers |
//! | `nservicebus_failed.json` | docs.particular.net, Message Headers: Error forwarding headers |

use std::{collections::BTreeMap, sync::Arc};

use consign::{
    Disposition, Message,
    dead_letters::RESUBMIT_COUNT,
    message::{Properties, PropertyValue, Received, SequenceNumber, TraceContext},
    middleware::interop::{MassTransitLayer, NServiceBusLayer},
    settlement::DeadLetterReason,
    time::{ManualClock, Timestamp},
};

use proptest::{collection::vec, prelude::*};

use super::{handled, text};
use crate::random::{explain, runner};

const ENVELOPE: &str = include_str!("golden/masstransit_envelope.json");
const MOVED: &str = include_str!("golden/masstransit_moved.json");
const PUBLISH: &str = include_str!("golden/nservicebus_publish.json");
const FAILED: &str = include_str!("golden/nservicebus_failed.json");

/// 2026-02-03T04:05:06.789Z.
const SENT: i64 = 1_770_091_506_789;
const MINUTE: i64 = 60_000;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn enveloped(body: impl Into<Vec<u8>>) -> Message {
    Message::builder().content_type("application/vnd.masstransit+json").build(body.into()).unwrap()
}

fn with_headers(headers: &str, body: &'static [u8]) -> Message {
    let headers: BTreeMap<String, String> = serde_json::from_str(headers).unwrap();
    let builder = headers.into_iter().fold(Message::builder(), |builder, (name, value)| builder.property(name, value));
    builder.build(body).unwrap()
}

/// What a handler gets at an instant, or what settles the message without it.
async fn received(message: Message, now: Timestamp) -> Result<Message, Disposition> {
    let clock = Arc::new(ManualClock::new(now));
    let (masstransit, nservicebus) =
        (MassTransitLayer::with_clock(Arc::clone(&clock)), NServiceBusLayer::with_clock(clock));
    handled(message, masstransit, nservicebus).await
}

fn reason(result: Result<Message, Disposition>) -> DeadLetterReason {
    match result {
        Err(Disposition::DeadLetter(letter)) => letter.reason,
        other => panic!("it is handled: {other:?}"),
    }
}

/// Rules: H-81.
#[tokio::test]
async fn every_member_of_an_envelope_is_a_property() {
    let message = received(enveloped(ENVELOPE), at(SENT)).await.unwrap();
    let properties: BTreeMap<_, _> =
        message.application_properties().iter().map(|(name, value)| (name, value.clone())).collect();
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let types = "urn:message:Shop.Contracts:Changed[[Shop.Contracts:Order],[Shop.Contracts:Reason]];urn:message:Shop.Contracts:IEvent";
    let expected: BTreeMap<&str, PropertyValue> = [
        ("ConversationId", "5e1c0000-5d3b-0015-b1ac-08dcb1f0a3c4".into()),
        ("CorrelationId", "0f8fad5b-d9cb-469f-a165-70867728950e".into()),
        ("MT-Activity-Id", trace.into()),
        ("MT-Destination-Address", "rabbitmq://broker/Shop.Contracts:OrderSubmitted".into()),
        ("MT-Expiration-Time", "2026-02-03T04:06:06.7891234Z".into()),
        ("MT-Fault-Address", "rabbitmq://broker/shop_faults".into()),
        ("MT-Host-Assembly", "Shop".into()),
        ("MT-Host-AssemblyVersion", "1.4.0.0".into()),
        ("MT-Host-FrameworkVersion", "8.0.8".into()),
        ("MT-Host-MachineName", "shop-1".into()),
        ("MT-Host-MassTransitVersion", "8.2.5.0".into()),
        ("MT-Host-OperatingSystemVersion", "Unix 6.1.0.0".into()),
        ("MT-Host-ProcessId", PropertyValue::I64(427)),
        ("MT-Host-ProcessName", "Shop".into()),
        ("MT-MessageType", types.into()),
        ("MT-Redelivery-Count", PropertyValue::I64(2)),
        ("MT-Sent-Time", "2026-02-03T04:05:06.7891234Z".into()),
        ("MT-Source-Address", "rabbitmq://broker/shop_bus_x1?temporary=true".into()),
        ("MessageId", "5e1c0000-5d3b-0015-9a2f-08dcb1f0a3c4".into()),
        ("Tenant", "acme".into()),
        ("traceparent", trace.into()),
    ]
    .into();
    assert_eq!(properties, expected);
    assert_eq!(message.subject(), Some("Shop.Contracts:Changed[[Shop.Contracts:Order],[Shop.Contracts:Reason]]"));
}

/// Rules: H-81.
#[tokio::test]
async fn members_that_are_not_known_are_kept() {
    let body =
        r#"{"messageType":["a"],"message":1,"job":{"id":7},"retryCount":3,"network":null,"headers":null,"host":null}"#;
    let message = received(enveloped(body), at(SENT)).await.unwrap();
    assert_eq!(text(&message, "MT-Job").as_deref(), Some(r#"{"id":7}"#));
    assert_eq!(message.application_properties().get("MT-RetryCount"), Some(&PropertyValue::I64(3)));
    assert_eq!(message.application_properties().len(), 3);
}

/// Rules: H-84.
#[tokio::test]
async fn a_member_that_stands_twice_is_a_dead_letter() {
    for body in [
        r#"{"messageType":["a"],"message":1,"job":1,"job":2}"#,
        r#"{"messageType":["a"],"messageType":["b"],"message":1}"#,
        r#"{"messageType":["a"],"message":1,"host":{},"host":{}}"#,
    ] {
        assert_eq!(
            reason(received(enveloped(body), at(SENT)).await),
            DeadLetterReason::DeserializationFailed,
            "{body}"
        );
    }
}

/// Rules: H-86.
#[tokio::test]
async fn a_generic_name_that_rabbitmq_has_cut_is_whole() {
    let whole = "Shop.Contracts.Changed`2[[Shop.Contracts.Order, Shop.Contracts, Version=1.0.0.0, Culture=neutral, PublicKeyToken=null],[Shop.Contracts.Reason, Shop.Contracts, Version=1.0.0.0, Culture=neutral, PublicKeyToken=null]]";
    for (subject, expected) in [
        ("Shop.Contracts.Changed`2[[Shop.Contracts.Order", whole),
        ("Shop.Contracts.Changed`2[[Shop.Contracts.Ord", "Shop.Contracts.Changed`2[[Shop.Contracts.Ord"),
        ("own", "own"),
    ] {
        let mut message = with_headers(PUBLISH, b"{}");
        message.properties_mut().set_subject(subject);
        assert_eq!(received(message, at(SENT)).await.unwrap().subject(), Some(expected));
    }
    let mut plain = with_headers(FAILED, b"{}");
    plain.properties_mut().set_subject("Shop.Contracts.OrderPlaced");
    assert_eq!(received(plain, at(SENT)).await.unwrap().subject(), Some("Shop.Contracts.OrderPlaced"));
}

/// Rules: H-130.
#[tokio::test]
async fn the_destination_is_where_the_message_goes() {
    let to = "rabbitmq://broker/Shop.Contracts:OrderSubmitted";
    assert_eq!(received(enveloped(ENVELOPE), at(SENT)).await.unwrap().to(), Some(to));
    let mut message = enveloped(ENVELOPE);
    message.properties_mut().set_to("own");
    assert_eq!(received(message, at(SENT)).await.unwrap().to(), Some("own"));
}

/// Rules: H-131.
#[tokio::test]
async fn a_message_without_an_envelope_expires_too() {
    let mut message = Message::new("{}");
    for (name, value) in [("MT-MessageType", "urn:message:Shop:A"), ("MT-Expiration-Time", "2026-02-03T04:06:06.789Z")]
    {
        message.properties_mut().application_properties_mut().insert(name, value);
    }
    assert!(received(message.clone(), at(SENT)).await.is_ok());
    assert_eq!(reason(received(message, at(SENT + 100 * MINUTE)).await), DeadLetterReason::TtlExpired);
}

/// Rules: H-81.
#[tokio::test]
async fn a_large_integer_is_not_rounded() {
    let body = r#"{"messageType":["a"],"message":1,"headers":{"Large":18446744073709551615}}"#;
    let message = received(enveloped(body), at(SENT)).await.unwrap();
    assert_eq!(message.application_properties().get("Large"), Some(&PropertyValue::U64(u64::MAX)));
}

/// Rules: H-131.
#[tokio::test]
async fn a_message_expires_by_its_senders_time() {
    for message in [enveloped(ENVELOPE), with_headers(PUBLISH, b"{}")] {
        assert!(received(message.clone(), at(SENT + MINUTE - 1)).await.is_ok());
        for late in [SENT + MINUTE, SENT + 100 * MINUTE] {
            assert_eq!(reason(received(message.clone(), at(late)).await), DeadLetterReason::TtlExpired);
        }
        // The earlier instant stands.
        for (broker, expected) in [
            (Timestamp::MAX, SENT + MINUTE),
            (at(SENT + MINUTE - 1), SENT + MINUTE - 1),
            (at(SENT + MINUTE + 1), SENT + MINUTE),
        ] {
            let mut facts = Received::new(SequenceNumber::new(1), at(SENT), 1);
            facts.expires_at = broker;
            let message = received(message.clone().with_received(facts), at(SENT)).await.unwrap();
            assert_eq!(message.received().unwrap().expires_at, at(expected));
        }
        let mut facts = Received::new(SequenceNumber::new(1), at(SENT), 1);
        facts.dead_lettered = true;
        assert!(received(message.with_received(facts), at(SENT + MINUTE)).await.is_ok(), "in a dead-letter queue");
    }
}

/// Rules: H-131.
#[tokio::test]
async fn a_resubmitted_message_does_not_expire() {
    for mut message in [enveloped(ENVELOPE), with_headers(PUBLISH, b"{}")] {
        message.properties_mut().application_properties_mut().insert(RESUBMIT_COUNT, 1_u32);
        assert!(received(message, at(SENT + 100 * MINUTE)).await.is_ok());
    }
}

/// Rules: H-131.
#[tokio::test]
async fn moved_messages_and_messages_without_a_time_do_not_expire() {
    let late = at(SENT + 100 * MINUTE);
    let mut moved = enveloped(ENVELOPE);
    moved.properties_mut().application_properties_mut().insert("MT-Reason", "fault");
    let mut audited = with_headers(PUBLISH, b"{}");
    audited
        .properties_mut()
        .application_properties_mut()
        .insert("NServiceBus.ProcessingEnded", "2026-02-03 04:05:07:000000 Z");
    let mut unreadable = with_headers(PUBLISH, b"{}");
    unreadable.properties_mut().application_properties_mut().insert("NServiceBus.TimeToBeReceived", "soon");
    let mut unsent = with_headers(PUBLISH, b"{}");
    unsent.properties_mut().application_properties_mut().remove("NServiceBus.TimeSent");
    let tomorrow = enveloped(ENVELOPE.replace("2026-02-03T04:06:06.7891234Z", "tomorrow"));
    let retried =
        [("NServiceBus.Retries", "2"), ("ServiceControl.Retry.UniqueMessageId", "9f1c")].map(|(name, value)| {
            let mut message = with_headers(PUBLISH, b"{}");
            message.properties_mut().application_properties_mut().insert(name, value);
            message
        });
    let others = [moved, with_headers(FAILED, b"{}"), audited, unreadable, unsent, tomorrow];
    for message in others.into_iter().chain(retried) {
        assert!(received(message, late).await.is_ok());
    }
}

/// Rules: H-132.
#[tokio::test]
async fn the_activity_of_masstransit_is_the_trace() {
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let trace = |properties: &Properties| TraceContext::of(properties).map(|read| read.map(|read| read.to_string()));
    let message = received(enveloped(ENVELOPE), at(SENT)).await.unwrap();
    assert_eq!(text(&message, "traceparent").as_deref(), Some(parent));

    // Layers outside see the transport header.
    let mut raw = Message::builder().content_type("application/json").property("MT-MessageType", "urn:message:A:B");
    raw = raw.property("MT-Activity-Id", parent);
    let raw = raw.build("{}").unwrap();
    assert_eq!(trace(raw.properties()), Ok(Some(parent.into())));
    assert_eq!(text(&received(raw, at(SENT)).await.unwrap(), "traceparent").as_deref(), Some(parent));

    let own = parent.replace("00f067aa0ba902b7", "1111111111111111");
    for name in ["traceparent", "Diagnostic-Id"] {
        let mut message = enveloped(ENVELOPE);
        message.properties_mut().application_properties_mut().insert(name, own.clone());
        let message = received(message, at(SENT)).await.unwrap();
        assert_eq!(trace(message.properties()), Ok(Some(own.clone())), "{name}");
        assert_eq!(text(&message, "traceparent").is_some(), name == "traceparent");
    }
    let older = received(enveloped(ENVELOPE.replace(parent, "|4bf92f35.1.")), at(SENT)).await.unwrap();
    assert_eq!((trace(older.properties()), text(&older, "traceparent")), (Ok(None), None));
}

/// Rules: H-133.
#[tokio::test]
async fn a_byte_order_mark_is_skipped() {
    let message = received(enveloped(format!("\u{feff}{ENVELOPE}")), at(SENT)).await.unwrap();
    assert_eq!(message.payload(), Some(&br#"{ "orderId": 7,  "total": 12.50 }"#[..]));
    let message = received(with_headers(PUBLISH, b"\xef\xbb\xbf{}"), at(SENT)).await.unwrap();
    assert_eq!(message.payload(), Some(&b"{}"[..]));
    // Of other formats it is part.
    let mut xml = with_headers(PUBLISH, b"\xef\xbb\xbf<a/>");
    xml.properties_mut().set_content_type("text/xml");
    assert_eq!(received(xml, at(SENT)).await.unwrap().payload(), Some(&b"\xef\xbb\xbf<a/>"[..]));
}

/// Rules: H-134.
#[tokio::test]
async fn headers_of_a_transport_are_never_cut() {
    let trace = "   at Shop.OrderConsumer.Consume(ConsumeContext`1 context)\n".repeat(2_000);
    for (headers, name, body) in
        [(FAILED, "NServiceBus.ExceptionInfo.StackTrace", "{}"), (MOVED, "MT-Fault-StackTrace", ENVELOPE)]
    {
        let mut message = with_headers(headers, b"").with_body(body);
        message.properties_mut().application_properties_mut().insert(name, trace.clone());
        if body == ENVELOPE {
            message.properties_mut().set_content_type("application/vnd.masstransit+json");
        }
        let message = received(message, at(SENT)).await.unwrap();
        assert_eq!(text(&message, name).as_deref(), Some(&*trace));
        assert!(message.subject().is_some());
        let tenant = text(&message, "Tenant");
        assert_eq!(tenant.as_deref(), (body == ENVELOPE).then_some("acme"), "what the envelope adds is whole");
    }
}

/// Rules: H-134.
#[tokio::test]
async fn properties_of_an_envelope_are_cut_to_the_limits() {
    let marked = |text: &str| text.ends_with(" ... [cut]");
    let envelope =
        |headers: &str| enveloped(format!(r#"{{"messageType":["a"],"message":{{}},"headers":{{{headers}}}}}"#));
    // One text over the limit of a property.
    let trace = "é".repeat(20_000);
    let message = envelope(&format!(r#""MT-Fault-StackTrace":"{trace}","Tenant":"acme""#));
    let message = received(message, at(SENT)).await.unwrap();
    let cut = text(&message, "MT-Fault-StackTrace").unwrap();
    assert!(marked(&cut) && cut.starts_with(&trace[..32_000]));
    assert!((32_760 - 19..=32_767 - 19).contains(&cut.len()), "{}", cut.len());
    assert_eq!(text(&message, "Tenant").as_deref(), Some("acme"));
    message.check().unwrap();

    // All of them over that of a message: the longest are cut to one length.
    let long = |length| "x".repeat(length);
    let (a, b, c) = (long(30_000), long(29_000), long(20_000));
    let message = envelope(&format!(r#""a":"{a}","b":"{b}","c":"{c}","d":"{}""#, long(2_000)));
    let message = received(message, at(SENT)).await.unwrap();
    let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| text(&message, name).unwrap());
    assert!(marked(&a) && marked(&b) && a.len() == b.len() && a.len() > 20_000);
    assert_eq!((c.len(), d.len(), marked(&c)), (20_000, 2_000, false));
    message.check().unwrap();
    assert!(message.properties().size() > 65_500, "no more than it takes");

    // Short ones are not cut to make room.
    let many: Vec<String> = (0..70).map(|n| format!(r#""h{n}":"{}""#, long(1_024))).collect();
    let refused = reason(received(envelope(&many.join(",")), at(SENT)).await);
    assert_eq!(refused, DeadLetterReason::DeserializationFailed);
    let name = format!(r#""{}":"x""#, long(33_000));
    assert_eq!(reason(received(envelope(&name), at(SENT)).await), DeadLetterReason::DeserializationFailed);
}

/// Rules: H-84.
#[test]
fn random_bytes_panic_no_reader() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let changes = vec((any::<prop::sample::Index>(), any::<u8>()), 1..5);
    let result = runner(1_000).run(&(changes, ".{0,40}", ".{0,40}"), |(changes, time, types)| {
        let mut body = ENVELOPE.as_bytes().to_vec();
        for (at, byte) in &changes {
            let at = at.index(body.len());
            body[at] = *byte;
        }
        let mut headers = with_headers(PUBLISH, b"{}");
        let application = headers.properties_mut().application_properties_mut();
        application.insert("NServiceBus.TimeSent", time.clone());
        application.insert("NServiceBus.TimeToBeReceived", time);
        application.insert("NServiceBus.EnclosedMessageTypes", types);
        for message in [enveloped(body), headers] {
            let _ = runtime.block_on(received(message, at(SENT)));
        }
        Ok(())
    });
    explain(result, "random_bytes_panic_no_reader");
}
