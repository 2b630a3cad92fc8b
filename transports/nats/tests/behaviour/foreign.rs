//! Headers of other clients, both ways.

use bytes::Bytes;
use consign::{
    Message,
    message::{PropertyValue, TraceContext},
    rules::{Rule, SqlAction, SqlFilter},
    settlement::{DeadLetter, DeadLetterReason},
    time::Timestamp,
    transport::{ReceiverExt, Sender},
};
use consign_conformance::log::Lines;
use consign_nats::{
    Nats, QueueSettings, SubscriptionSettings, TopicSettings,
    async_nats::{self, HeaderMap, HeaderValue, jetstream},
};

use crate::{LONG, queue};

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn headers(all: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in all {
        headers.append(*name, *value);
    }
    headers
}

/// Publishes as another client does.
async fn publish(nats: &Nats, path: &str, headers: HeaderMap) {
    let context = jetstream::new(nats.client().clone());
    let sent = context.publish_with_headers(format!("test.{path}.m"), headers, "body".into()).await;
    sent.expect("a server").await.expect("a server that takes it");
}

/// The headers of the last message of a stream.
async fn last(nats: &Nats, stream: &str) -> HeaderMap {
    let stream = jetstream::new(nats.client().clone()).get_stream(stream).await.expect("a stream");
    stream.direct_get(stream.cached_info().state.last_sequence).await.expect("a message").headers
}

fn text<'m>(message: &'m Message, name: &str) -> Option<&'m str> {
    message.application_properties().get(name).and_then(PropertyValue::as_str)
}

fn value<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name).map(HeaderValue::as_str)
}

/// Rules: K-100.
#[tokio::test]
async fn headers_of_another_client_are_properties() {
    let Some((nats, path)) = queue(QueueSettings::default()).await else { return };
    let all = [
        ("Content-Type", "application/json"),
        ("content-encoding", "gzip"),
        ("Nats-Msg-Id", "order-7"),
        ("Traceparent", PARENT),
        ("tracestate", "a=1"),
        ("ce-id", "e%201"),
        ("X-Tag", "a"),
        ("X-Tag", "b"),
    ];
    publish(&nats, &path, headers(&all)).await;
    let delivery = nats.receiver(&path).await.unwrap().receive_within(LONG).await.unwrap();
    let message = &delivery.message;
    assert_eq!((message.content_type(), message.message_id()), (Some("application/json"), Some("order-7")));
    assert_eq!(message.pass_through().unwrap().content_encoding.as_deref(), Some("gzip"));
    let trace = TraceContext::of(message.properties()).unwrap().unwrap();
    assert_eq!((trace.to_string().as_str(), trace.state()), (PARENT, Some("a=1")));
    assert_eq!((text(message, "ce-id"), text(message, "X-Tag")), (Some("e 1"), Some("a, b")));
    // What is settled with a copy keeps it, in the spelling that readers of the original know.
    delivery.dead_letter(DeadLetter::new(DeadLetterReason::HandlerPermanent, "why")).await.unwrap();
    let dead = nats.receiver(&format!("{path}/$deadletterqueue")).await.unwrap().receive_within(LONG).await.unwrap();
    assert_eq!((dead.message.content_type(), dead.message.message_id()), (Some("application/json"), Some("order-7")));
    assert_eq!((text(&dead.message, "ce-id"), text(&dead.message, "X-Tag")), (Some("e 1"), Some("a, b")));
    assert_eq!(dead.message.application_properties().len(), 6);
    let raw = last(&nats, &format!("test_{path}_x")).await;
    assert_eq!((value(&raw, "Traceparent"), value(&raw, "Content-Type")), (Some(PARENT), Some("application/json")));
    assert_eq!((value(&raw, "traceparent"), value(&raw, "content-encoding")), (None, Some("gzip")));
    assert_eq!(raw.get_all("X-Tag").map(HeaderValue::as_str).collect::<Vec<_>>(), ["a", "b"]);
    dead.complete().await.unwrap();
    nats.delete(&path).await.unwrap();
}

/// Rules: K-101.
/// A program between that knows nothing of this transport has changed the body, and said so.
#[tokio::test]
async fn a_relay_changes_what_the_plain_headers_say() {
    let Some((nats, path)) = queue(QueueSettings::default()).await else { return };
    let sent = Message::builder().content_type("application/msgpack").message_id("first");
    let sent = sent.property("traceparent", PARENT).property("tenant", "acme").build("body").unwrap();
    nats.sender(&path).await.unwrap().send(sent).await.unwrap();
    let mut relayed = last(&nats, &format!("test_{path}")).await;
    nats.receiver(&path).await.unwrap().receive_within(LONG).await.unwrap().complete().await.unwrap();
    let child = PARENT.replace("00f067aa0ba902b7", "b7ad6b7169203331");
    relayed.insert("Content-Type", "application/json");
    relayed.insert("traceparent", child.as_str());
    relayed.insert("Nats-Msg-Id", "relay-1");
    publish(&nats, &path, relayed).await;
    let delivery = nats.receiver(&path).await.unwrap().receive_within(LONG).await.unwrap();
    let message = &delivery.message;
    assert_eq!((message.content_type(), message.message_id()), (Some("application/json"), Some("first")));
    assert_eq!((text(message, "traceparent"), text(message, "tenant")), (Some(&*child), Some("acme")));
    delivery.complete().await.unwrap();
    nats.delete(&path).await.unwrap();
}

/// Rules: K-103.
#[tokio::test]
async fn other_clients_read_what_is_sent() {
    let mut settings = QueueSettings::default();
    settings.duplicate_detection = Some(LONG);
    let Some((nats, path)) = queue(settings).await else { return };
    let mut message = Message::builder()
        .content_type("application/json")
        .message_id("order-7")
        .property("traceparent", PARENT)
        .property("tracestate", "a=1")
        .property("ce-subject", "50%")
        .build("{}")
        .unwrap();
    message.properties_mut().pass_through_mut().content_encoding = Some("gzip".into());
    nats.sender(&path).await.unwrap().send(message.clone()).await.unwrap();
    let raw = last(&nats, &format!("test_{path}")).await;
    for (name, expected) in [
        ("Content-Type", "application/json"),
        ("Content-Encoding", "gzip"),
        ("Nats-Msg-Id", "order-7"),
        ("traceparent", PARENT),
        ("tracestate", "a=1"),
        ("ce-subject", "50%25"),
    ] {
        assert_eq!(value(&raw, name), Some(expected), "{name}");
    }
    let delivery = nats.receiver(&path).await.unwrap().receive_within(LONG).await.unwrap();
    assert_eq!(delivery.message.properties(), message.properties());
    delivery.complete().await.unwrap();
    nats.delete(&path).await.unwrap();
}

/// Rules: K-104.
#[tokio::test]
async fn headers_beyond_the_limits_are_a_dead_letter_that_has_what_fits() {
    let (lines, _guard) = Lines::capture();
    let Some((nats, path)) = queue(QueueSettings::default()).await else { return };
    let long = "x".repeat(40_000);
    let many: Vec<_> = (0..1_100).map(|n| format!("X-{n}")).collect();
    let many: Vec<_> = many.iter().map(|name| (name.as_str(), "1")).collect();
    for (mut all, lost) in [(vec![("X-Stack", &*long)], "X-Stack"), (many, "")] {
        all.push(("traceparent", PARENT));
        publish(&nats, &path, headers(&all)).await;
        let mut receiver = nats.receiver(&path).await.unwrap();
        let mut letters = nats.receiver(&format!("{path}/$deadletterqueue")).await.unwrap();
        let dead = tokio::select! {
            received = receiver.receive() => panic!("{received:?} is no dead letter"),
            dead = letters.receive_within(LONG) => dead.unwrap(),
        };
        assert_eq!(dead.message.dead_letter_reason(), Some("HeaderSizeExceeded"));
        assert!(dead.message.dead_letter_description().unwrap().contains("32767"), "{:?}", dead.message);
        assert_eq!((dead.message.payload(), text(&dead.message, "traceparent")), (Some(&b"body"[..]), Some(PARENT)));
        dead.message.check().unwrap();
        let warned = lines.of("consign::nats");
        let is_named = |line: &String| line.starts_with("WARN") && line.contains("reason=HeaderSizeExceeded");
        assert!(warned.iter().any(is_named), "{warned:?}");
        assert_eq!(text(&dead.message, lost), None);
        // Who reads it without this crate has all of it.
        let raw = last(&nats, &format!("test_{path}_x")).await;
        for (name, expected) in &all {
            assert_eq!(value(&raw, name), Some(*expected), "{name}");
        }
        dead.complete().await.unwrap();
    }
    nats.delete(&path).await.unwrap();
}

/// Rules: K-104.
/// A stream takes 64 KiB of headers. A copy has more than the message had, and still becomes a dead letter.
#[tokio::test]
async fn headers_at_the_servers_limit_become_a_dead_letter() {
    let Some((nats, path)) = queue(QueueSettings::default()).await else { return };
    let (half, long) = ("x".repeat(32_000), "x".repeat(65_000));
    for (all, left) in [
        (vec![("X-One", &*half), ("X-Two", &half), ("traceparent", PARENT)], Some("X-Two")),
        (vec![("Content-Type", &*long)], None),
        (vec![("X-Stack", &*long), ("traceparent", PARENT)], None),
    ] {
        publish(&nats, &path, headers(&all)).await;
        let mut receiver = nats.receiver(&path).await.unwrap();
        let mut letters = nats.receiver(&format!("{path}/$deadletterqueue")).await.unwrap();
        // A receive makes one of it, or delivers it.
        let dead = tokio::select! {
            delivery = receiver.receive() => {
                let delivery = delivery.unwrap();
                let why = "why".repeat(1_300);
                let mut dead_letter = DeadLetter::new(DeadLetterReason::HandlerPermanent, why);
                dead_letter.fit(delivery.message.properties());
                delivery.dead_letter(dead_letter).await.unwrap();
                letters.receive_within(LONG).await.unwrap()
            }
            dead = letters.receive_within(LONG) => dead.unwrap(),
        };
        assert!(dead.message.dead_letter_reason().is_some() && dead.message.dead_letter_description().is_some());
        assert_eq!(dead.message.payload(), Some(&b"body"[..]));
        if let Some(left) = left {
            assert_eq!((text(&dead.message, "X-One").is_some(), text(&dead.message, left)), (true, None));
            assert_eq!(text(&dead.message, "traceparent"), Some(PARENT));
        }
        dead.complete().await.unwrap();
    }
    nats.delete(&path).await.unwrap();
}

/// Rules: K-105.
/// The headers as they were before those of other clients were read.
#[tokio::test]
async fn messages_of_earlier_versions_are_read_as_they_were_sent() {
    let Some((nats, path)) = queue(QueueSettings::default()).await else { return };
    let old = [
        ("Sb-Content-Type", "application/json;charset=utf-8"),
        ("Sb-Correlation-Id", "50%25"),
        ("Sb-Message-Id", "id"),
        ("Sb-Subject", "%"),
        ("Sb-Reply-To", "answers"),
        ("Sb-Session-Id", "%20s"),
        ("Sb-Reply-To-Session-Id", "line%0Abreak"),
        ("Sb-Partition-Key", "%20s"),
        ("Sb-To", "gr\u{fc}\u{df}e"),
        ("Sb-P-traceparent", &format!("s:{PARENT}")),
        ("Sb-P-=20x=3A", "i32:-7"),
        ("Sb-P-at", "time:1700000000123"),
        ("Sb-P-raw", "bytes:00FF"),
        ("Sb-P-ce-id", "s:a b"),
        ("Sb-P-=", "null:"),
        (
            "Sb-Pass-Through",
            r#"{"annotations":[["a",{"list":["i32:1"]}]],"content_encoding":"gzip","creation_time":5,"durable":true,"first_acquirer":null,"footer":[],"force_persistence":false,"group_sequence":9,"priority":3,"user_id":"6D65"}"#,
        ),
    ];
    let mut expected = Message::builder()
        .content_type("application/json;charset=utf-8")
        .correlation_id("50%")
        .message_id("id")
        .subject("")
        .reply_to("answers")
        .session_id(" s")
        .reply_to_session_id("line\nbreak")
        .partition_key(" s")
        .to("gr\u{fc}\u{df}e")
        .property("traceparent", PARENT)
        .property(" x:", -7_i32)
        .property("at", Timestamp::from_millis(1_700_000_000_123))
        .property("raw", Bytes::from_static(&[0, 255]))
        .property("ce-id", "a b")
        .property("", PropertyValue::Null)
        .build("body")
        .unwrap();
    let rest = expected.properties_mut().pass_through_mut();
    rest.annotations = vec![("a".into(), consign::message::Value::List(vec![1_i32.into()]))];
    rest.content_encoding = Some("gzip".into());
    rest.creation_time = Some(Timestamp::from_millis(5));
    rest.durable = Some(true);
    rest.group_sequence = Some(9);
    rest.priority = Some(3);
    rest.user_id = Some(Bytes::from_static(b"me"));
    publish(&nats, &path, headers(&old)).await;
    let delivery = nats.receiver(&path).await.unwrap().receive_within(LONG).await.unwrap();
    assert_eq!(delivery.message.properties(), expected.properties());
    delivery.complete().await.unwrap();
    // Earlier versions read these headers, and only these.
    nats.sender(&path).await.unwrap().send(expected).await.unwrap();
    let now = last(&nats, &format!("test_{path}")).await;
    for (name, text) in old {
        assert_eq!(value(&now, name), Some(text), "{name}");
    }
    nats.delete(&path).await.unwrap();
}

/// Rules: K-100.
#[tokio::test]
async fn rules_of_a_topic_see_and_change_headers_of_another_client() {
    let Some((nats, path)) = queue(QueueSettings::default()).await else { return };
    nats.delete(&path).await.unwrap();
    nats.create_topic(&path, TopicSettings::default()).await.unwrap();
    nats.create_subscription(&path, "all", SubscriptionSettings::default()).await.unwrap();
    nats.delete_rule(&path, "all", Rule::DEFAULT_NAME).await.unwrap();
    let action = SqlAction::parse("SET region = 'south'; REMOVE secret").unwrap();
    let rule = Rule::new("moved", SqlFilter::parse("tenant = 'acme'").unwrap()).unwrap().with_action(action);
    nats.create_rule(&path, "all", &rule).await.unwrap();
    for tenant in ["other", "acme"] {
        let all = [("tenant", tenant), ("region", "north"), ("secret", "1"), ("Nats-Msg-Id", tenant)];
        publish(&nats, &path, headers(&all)).await;
    }
    let receiver = nats.receiver(&format!("{path}/Subscriptions/all")).await;
    let delivery = receiver.unwrap().receive_within(LONG).await.unwrap();
    let message = &delivery.message;
    assert_eq!((message.message_id(), text(message, "tenant")), (Some("acme"), Some("acme")));
    assert_eq!((text(message, "region"), text(message, "secret")), (Some("south"), None));
    delivery.complete().await.unwrap();
    nats.delete(&path).await.unwrap();
}

/// Rules: K-200.
#[tokio::test]
async fn a_request_of_core_nats_is_answered_at_its_reply_subject() {
    let Some((nats, path)) = queue(QueueSettings::default()).await else { return };
    let client = nats.client();
    let subject = format!("core.{path}");
    let mut requests = nats.wrap_subscription(client.subscribe(subject.clone()).await.unwrap());
    client.flush().await.unwrap();
    let answering = async {
        for _ in 0..3 {
            let request = requests.receive_within(LONG).await.unwrap().message;
            let Some(id) = request.correlation_id().map(String::from) else { panic!("{request:?}") };
            let reply = Message::builder().correlation_id(id).build("reply").unwrap();
            let reply_to = request.reply_to().unwrap();
            assert!(reply_to.starts_with("_INBOX/"), "{reply_to}");
            nats.sender(reply_to).await.unwrap().send(reply).await.unwrap();
        }
    };
    let asking = async {
        let first = client.request(subject.clone(), "ask".into()).await.unwrap();
        let second = client.request(subject.clone(), "ask".into()).await.unwrap();
        let id =
            |reply: &async_nats::Message| value(reply.headers.as_ref().unwrap(), "Sb-Correlation-Id").map(String::from);
        assert!(id(&first).is_some() && id(&first) != id(&second));
        // An id of its own goes before.
        let own = headers(&[("Sb-Correlation-Id", "mine")]);
        let third = client.request_with_headers(subject.clone(), own, "ask".into()).await.unwrap();
        assert_eq!(id(&third).as_deref(), Some("mine"));
    };
    futures_util::future::join(answering, asking).await;
    // A subject of the server's API, or of this transport, is an address like any other.
    for refused in ["$JS.API.STREAM.DELETE.orders", "test.orders.m"] {
        client.publish_with_reply(subject.clone(), refused, "ask".into()).await.unwrap();
        let request = requests.receive_within(LONG).await.unwrap().message;
        assert_eq!(request.reply_to(), Some(refused));
        assert!(nats.sender(refused).await.is_err());
    }
    // A request that a stream keeps names its reply subject in a header.
    publish(&nats, &path, headers(&[("Sb-Reply-To", "_INBOX.a.b")])).await;
    let request = nats.receiver(&path).await.unwrap().receive_within(LONG).await.unwrap();
    assert_eq!(request.message.reply_to(), Some("_INBOX/a/b"));
    request.complete().await.unwrap();
    // No other subject can be named there.
    publish(&nats, &path, headers(&[("Sb-Reply-To", "alice.a.b")])).await;
    let request = nats.receiver(&path).await.unwrap().receive_within(LONG).await.unwrap();
    assert_eq!(request.message.reply_to(), Some("alice.a.b"));
    assert!(nats.sender("alice.a.b").await.is_err());
    request.complete().await.unwrap();
    nats.delete(&path).await.unwrap();
}
