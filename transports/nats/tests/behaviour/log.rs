//! What this transport logs.

use std::time::Duration;

use consign::{
    Message,
    message::EntityPath,
    transport::{ReceiverExt, Sender},
};
use consign_conformance::{faults::Proxy, log::Lines};
use consign_nats::{
    Nats, QueueSettings, SubscriptionSettings, TopicSettings,
    async_nats::{self, jetstream},
};
use futures_util::TryStreamExt;
use tokio::time::timeout;

use crate::{LONG, queue, server};

const TARGET: &str = "consign::nats";

/// Rules: O-279.
#[tokio::test]
async fn no_line_and_no_error_has_the_password_of_the_address() {
    let (lines, _guard) = Lines::capture();
    let options = Nats::options().timeout(Duration::from_secs(1));
    let error = options.connect("nats://ledger:s3cret@127.0.0.1:1").await.unwrap_err();
    let shown = format!("{:?} {error} {error:?}", lines.all());
    assert!(!shown.contains("s3cret"), "{shown}");
}

/// A proxy to the server.
async fn proxy() -> Proxy {
    let url = server::url().expect("a server");
    let address = url.rsplit_once("//").map_or(&*url, |(_, address)| address);
    let mut addresses = tokio::net::lookup_host(address).await.expect("an address");
    Proxy::to(addresses.find(std::net::SocketAddr::is_ipv4).expect("an address")).await.expect("a proxy")
}

/// Waits for a number of lines that begin with a text.
async fn logged(lines: &Lines, begin: &str, count: usize) -> Vec<String> {
    let begin = format!("WARN {TARGET}: {begin}");
    let found = async {
        loop {
            let found: Vec<_> = lines.of(TARGET).into_iter().filter(|line| line.starts_with(&begin)).collect();
            if found.len() >= count {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(LONG, found).await.unwrap_or_else(|_| panic!("{count} lines {begin:?}: {:?}", lines.all()))
}

#[tokio::test]
async fn a_server_that_may_not_sync_is_logged() {
    let Some(url) = server::url() else { return };
    let (lines, _guard) = Lines::capture();
    Nats::options().namespace("test").connect(&url).await.unwrap();
    let line = &logged(&lines, "the server may acknowledge a message before it is on the disk", 1).await[0];
    assert!(line.contains("server=") && line.contains("version="), "{line}");
}

#[tokio::test]
async fn each_failure_to_make_copies_is_logged_with_the_subscription() {
    let Some(url) = server::url() else { return };
    let nats = Nats::options().namespace("test").server_syncs().connect(&url).await.unwrap();
    let topic = format!("t{:016x}", fastrand::u64(..));
    nats.create_topic(&topic, TopicSettings::default()).await.unwrap();
    nats.create_subscription(&topic, "one", SubscriptionSettings::default()).await.unwrap();
    let path = EntityPath::new(&topic).and_then(|topic| topic.subscription_of("one")).unwrap();
    let context = jetstream::new(nats.client().clone());
    let prefix = format!("test_{topic}=2F");
    let names: Vec<_> = context.stream_names().try_collect().await.unwrap();
    let stream = names.iter().find(|name| name.starts_with(&prefix) && !name.ends_with("_x")).unwrap();
    let mut config = context.get_stream(stream).await.unwrap().cached_info().config.clone();
    config.max_message_size = 1;
    context.update_stream(config).await.unwrap();

    let (lines, _guard) = Lines::capture();
    nats.sender(&topic).await.unwrap().send(Message::new("too large")).await.unwrap();
    let mut receiver = nats.receiver(path.as_str()).await.unwrap();
    let receiving = receiver.receive_within(LONG);
    let lines = tokio::select! {
        _ = receiving => panic!("the stream takes no copy"),
        lines = logged(&lines, "the copies of a subscription wait in their topic", 2) => lines,
    };
    assert!(lines.iter().all(|line| line.contains(&format!("entity={path} "))), "{lines:?}");
    nats.delete(&topic).await.unwrap();
}

#[tokio::test]
async fn a_dropped_message_that_is_not_abandoned_is_logged() {
    let Some((nats, path)) = queue(QueueSettings::default()).await else { return };
    nats.sender(&path).await.unwrap().send(Message::new("a")).await.unwrap();
    let proxy = proxy().await;
    let options = Nats::options().namespace("test").server_syncs().timeout(Duration::from_secs(5));
    let frozen = options.connect(&format!("nats://{}", proxy.address())).await.unwrap();
    let delivery = frozen.receiver(&path).await.unwrap().receive_within(LONG).await.unwrap();
    let (lines, _guard) = Lines::capture();
    proxy.freeze(true);
    drop(delivery);
    let line = &logged(&lines, "a dropped message was not abandoned", 1).await[0];
    assert!(line.contains(&format!("entity={path} ")) && line.contains("error="), "{line}");
    nats.delete(&path).await.unwrap();
}

/// Rules: O-279.
#[tokio::test]
async fn a_connection_that_is_lost_and_made_again_is_logged() {
    let Some((nats, path)) = queue(QueueSettings::default()).await else { return };
    let proxy = proxy().await;
    let by_proxy = format!("nats://ledger:s3cret@{}", proxy.address());
    let broken = Nats::options().namespace("test").server_syncs().connect(&by_proxy).await.unwrap();
    let mut receiver = broken.receiver(&path).await.unwrap();

    let (lines, _guard) = Lines::capture();
    let waited = timeout(Duration::from_millis(500), receiver.receive()).await;
    assert!(waited.is_err(), "there is no message");
    proxy.cut();
    let error = timeout(LONG, receiver.receive()).await.unwrap().unwrap_err();
    assert!(error.is_retryable(), "{error}");
    nats.sender(&path).await.unwrap().send(Message::new("again")).await.unwrap();
    let delivery = loop {
        if let Ok(delivery) = timeout(LONG, receiver.receive()).await.unwrap() {
            break delivery;
        }
    };
    delivery.complete().await.unwrap();
    let logged = lines.of(TARGET);
    let entity = format!("entity={path}");
    assert!(logged[0].starts_with("WARN consign::nats: the connection was lost: the client reconnects"), "{logged:?}");
    assert!(logged.iter().any(|line| line.starts_with("INFO consign::nats: connected again")), "{logged:?}");
    assert!(logged.iter().all(|line| line.contains(&entity)), "{logged:?}");
    assert!(!format!("{:?} {error} {error:?}", lines.all()).contains("s3cret"), "{:?}", lines.all());
    nats.delete(&path).await.unwrap();
}

/// Rules: K-129.
#[tokio::test]
async fn a_request_of_core_nats_that_cannot_be_read_is_refused_and_logged() {
    let Some(url) = server::url() else { return };
    let (lines, _guard) = Lines::capture();
    let client = async_nats::connect(&url).await.unwrap();
    let nats = Nats::options().server_syncs().wrap(client.clone()).await.unwrap();
    let subject = format!("log.{:016x}", fastrand::u64(..));
    let mut requests = nats.wrap_subscription(client.subscribe(subject.clone()).await.unwrap());
    let receiving = tokio::spawn(async move {
        let received = requests.receive_within(LONG).await.unwrap();
        (received, requests)
    });
    client.flush().await.unwrap();
    for (name, value, reason) in [
        ("Sb-P-count", "i32:many".to_owned(), "MalformedHeader"),
        ("X-Stack", "x".repeat(40_000), "HeaderSizeExceeded"),
    ] {
        let mut headers = async_nats::HeaderMap::new();
        headers.insert(name, value);
        let reply = client.request_with_headers(subject.clone(), headers, "ask".into()).await.unwrap();
        let value = |name: &str| reply.headers.as_ref()?.get(name).map(async_nats::HeaderValue::as_str);
        assert_eq!((value("Sb-P-x-fault"), value("Nats-Service-Error-Code")), (Some("s:InvalidRequest"), Some("400")));
        assert_eq!(value("Sb-P-x-fault-reason"), Some(&*format!("s:{reason}")));
        assert!(reply.payload.is_empty());
    }
    let line =
        &logged(&lines, "the headers of a message of core NATS cannot be read: the request is refused", 1).await[0];
    assert!(
        line.contains(&subject) && line.contains("reason=MalformedHeader") && line.contains("Sb-P-count"),
        "{line}"
    );
    assert!(!line.contains("many"), "{line}");
    // An event has no caller that could get a fault, and is not lost.
    let mut headers = async_nats::HeaderMap::new();
    headers.insert("Sb-P-count", "i32:many");
    client.publish_with_headers(subject, headers, "event".into()).await.unwrap();
    let (event, _requests) = receiving.await.unwrap();
    assert_eq!(event.message.payload(), Some(&b"event"[..]));
    let kept = event.message.application_properties().get("Sb-P-count");
    assert_eq!(kept.and_then(consign::message::PropertyValue::as_str), Some("i32:many"));
}

/// Rules: K-129.
#[tokio::test]
async fn a_reply_of_core_nats_that_cannot_be_read_is_logged() {
    let Some(url) = server::url() else { return };
    let (lines, _guard) = Lines::capture();
    let client = async_nats::connect(&url).await.unwrap();
    let nats = Nats::options().server_syncs().wrap(client.clone()).await.unwrap();
    let mut replies = nats.inbox().await.unwrap();
    let reply_to = consign::transport::ReplySource::address(&replies).replace('/', ".");
    let mut headers = async_nats::HeaderMap::new();
    headers.insert("Sb-P-count", "i32:many");
    client.publish_with_headers(reply_to, headers, "reply".into()).await.unwrap();
    let reply = replies.receive_within(LONG).await.unwrap();
    assert_eq!(reply.message.payload(), Some(&b"reply"[..]));
    let line = &logged(&lines, "the headers of a message of core NATS cannot be read", 1).await[0];
    assert!(line.contains("reason=MalformedHeader") && line.contains("Sb-P-count"), "{line}");
}

/// Rules: K-129.
#[tokio::test]
async fn an_event_of_core_nats_with_a_large_header_is_delivered_without_it() {
    let Some(url) = server::url() else { return };
    let (lines, _guard) = Lines::capture();
    let client = async_nats::connect(&url).await.unwrap();
    let nats = Nats::options().server_syncs().wrap(client.clone()).await.unwrap();
    let subject = format!("log.{:016x}", fastrand::u64(..));
    let mut events = nats.wrap_subscription(client.subscribe(subject.clone()).await.unwrap());
    let mut headers = async_nats::HeaderMap::new();
    headers.insert("X-Stack", "x".repeat(40_000));
    headers.insert("X-Tenant", "acme");
    client.publish_with_headers(subject, headers, "event".into()).await.unwrap();
    let event = events.receive_within(LONG).await.unwrap();
    let has = |name| event.message.application_properties().get(name).is_some();
    assert_eq!((event.message.payload(), has("X-Stack"), has("X-Tenant")), (Some(&b"event"[..]), false, true));
    let text = "the headers of a message of core NATS exceed the limits: it is delivered without the largest ones";
    let line = &logged(&lines, text, 1).await[0];
    assert!(line.contains("reason=HeaderSizeExceeded"), "{line}");
}

/// Rules: K-129.
/// The caller waits at its reply subject, whatever its headers say.
#[tokio::test]
async fn the_fault_of_an_unreadable_request_has_its_reply_subject_and_its_id() {
    let Some(url) = server::url() else { return };
    let client = async_nats::connect(&url).await.unwrap();
    let nats = Nats::options().server_syncs().wrap(client.clone()).await.unwrap();
    let subject = format!("log.{:016x}", fastrand::u64(..));
    let mut requests = nats.wrap_subscription(client.subscribe(subject.clone()).await.unwrap());
    client.flush().await.unwrap();
    let mut headers = async_nats::HeaderMap::new();
    let stack = "x".repeat(40_000);
    for (name, value) in [
        ("X-Stack", stack.as_str()),
        ("Sb-Reply-To", "_INBOX/another/caller"),
        ("Nats-Msg-Id", "request-7"),
        ("Sb-Correlation-Id", "correlation-7"),
    ] {
        headers.insert(name, value);
    }
    let fault = tokio::select! {
        fault = client.request_with_headers(subject, headers, "ask".into()) => fault.unwrap(),
        received = requests.receive_within(LONG) => panic!("{received:?}"),
    };
    let value = |name: &str| fault.headers.as_ref()?.get(name).map(async_nats::HeaderValue::as_str);
    assert_eq!(value("Sb-P-x-fault"), Some("s:InvalidRequest"));
    assert_eq!((value("Sb-Correlation-Id"), fault.payload.is_empty()), (Some("request-7"), true));
}
