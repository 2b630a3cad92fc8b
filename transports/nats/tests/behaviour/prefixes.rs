//! Requests of clients whose reply subjects have another prefix than `_INBOX`.

use std::fs;

use async_nats::{Client as Plain, ConnectOptions, HeaderMap, HeaderValue};
use consign::{
    Message,
    codecs::Codecs,
    consumer::Consumer,
    routing::Body,
    rpc::{Client, Fault, Requester, Responder, reply_senders},
    transport::{ErrorKind, ReplySource, SendService, Sender},
};
use consign_conformance::log::Lines;
use consign_nats::{Nats, QueueSettings, async_nats};
use tokio::{task::JoinHandle, time::timeout};

use crate::{LONG, own::OwnServer, queue, server};

async fn half(Body(number): Body<u32>) -> Result<u32, Fault> {
    if number % 2 == 0 { Ok(number / 2) } else { Err(Fault::application("Odd")) }
}

/// A responder that is subscribed to a subject.
async fn serve(nats: &Nats, subject: &str) -> JoinHandle<()> {
    let responder = Responder::builder(reply_senders(nats.clone()))
        .codecs(Codecs::json())
        .answer(subject, half)
        .build()
        .expect("a responder");
    let subscribed = nats.client().subscribe(subject.to_owned()).await.expect("a subscription");
    let subscribed = nats.wrap_subscription(subscribed);
    nats.client().flush().await.expect("the answer of the server");
    tokio::spawn(async move { drop(Consumer::new(subscribed, responder).run().await) })
}

fn value<'r>(reply: &'r async_nats::Message, name: &str) -> Option<&'r str> {
    reply.headers.as_ref()?.get(name).map(HeaderValue::as_str)
}

/// A plain client gets a reply, a fault, and the fault of a request that cannot be read.
async fn ask(client: &Plain, subject: &str) {
    let reply = client.request(subject.to_owned(), "42".into());
    let reply = timeout(LONG, reply).await.expect("a reply in time").expect("a reply");
    assert_eq!(&reply.payload[..], b"21");
    let fault = client.request(subject.to_owned(), "7".into()).await.expect("a fault");
    assert_eq!(value(&fault, "Nats-Service-Error"), Some("Odd"));
    let mut unreadable = HeaderMap::new();
    unreadable.insert("Sb-P-count", "i32:many");
    let fault = client.request_with_headers(subject.to_owned(), unreadable, "42".into()).await.expect("a fault");
    assert_eq!(value(&fault, "Sb-P-x-fault"), Some("s:InvalidRequest"));
}

/// Rules: K-200.
#[tokio::test]
async fn a_client_with_an_inbox_prefix_of_its_own_gets_its_reply() {
    let Some((nats, path)) = queue(QueueSettings::default()).await else { return };
    let subject = format!("prefixes.{path}");
    let serving = serve(&nats, &subject).await;
    let options = ConnectOptions::new().custom_inbox_prefix("alice.inbox");
    let client = options.connect(server::url().unwrap()).await.unwrap();
    ask(&client, &subject).await;
    serving.abort();
    nats.delete(&path).await.unwrap();
}

/// Rules: K-200.
/// The server writes a reply subject of its own for a request of another account.
#[tokio::test]
async fn a_client_of_another_account_gets_its_reply() {
    const ACCOUNTS: &str = r#"accounts {
        A: { jetstream: enabled, users: [{ user: a, password: a }], exports: [{ service: "prices.>" }] }
        B: { users: [{ user: b, password: b }], imports: [{ service: { account: A, subject: "prices.>" } }] }
    }"#;
    let server = OwnServer::start_with(|folder| {
        let config = folder.join("accounts.conf");
        fs::write(&config, ACCOUNTS).unwrap();
        vec!["--config".into(), config.display().to_string()]
    });
    let Some(server) = server.await else { return };
    let of = |user: &str| ConnectOptions::new().user_and_password(user.into(), user.into()).connect(server.url());
    let nats = Nats::options().server_syncs().wrap(of("a").await.unwrap()).await.unwrap();
    let serving = serve(&nats, "prices.half").await;
    ask(&of("b").await.unwrap(), "prices.half").await;
    serving.abort();
}

/// Rules: K-200.
#[tokio::test]
async fn a_requester_with_an_inbox_prefix_of_its_own_calls_a_subject_and_no_queue() {
    let Some((nats, path)) = queue(QueueSettings::default()).await else { return };
    let subject = format!("prefixes.{path}");
    let serving = serve(&nats, &subject).await;
    let options = Nats::options().namespace("test").server_syncs();
    let alice = options.client(ConnectOptions::new().custom_inbox_prefix("alice.inbox"));
    let alice = alice.connect(&server::url().unwrap()).await.unwrap();
    let replies = alice.inbox().await.unwrap();
    let address = ReplySource::address(&replies).to_owned();
    let sender = SendService::new(replies.sender(&subject).unwrap());
    let (requester, receiving) = Requester::builder(sender).timeout(LONG).build(replies).unwrap();
    let receiving = tokio::spawn(receiving.run());
    let caller = Client::new(requester, Codecs::json());
    assert_eq!(caller.call::<u32>(&42).await.unwrap(), 21);
    // No responder would take this address from a header, so the request is not sent.
    let request = Message::builder().message_id("1").reply_to(address).build("42").unwrap();
    let refused = alice.sender(&path).await.unwrap().send(request).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotSupported, "{refused}");
    drop(caller);
    receiving.await.unwrap().unwrap();
    serving.abort();
    nats.delete(&path).await.unwrap();
}

/// Rules: K-200.
#[tokio::test]
async fn a_reply_that_has_no_address_is_logged() {
    let Some((nats, path)) = queue(QueueSettings::default()).await else { return };
    let (lines, _guard) = Lines::capture();
    let subject = format!("prefixes.{path}");
    let serving = serve(&nats, &subject).await;
    let mut headers = HeaderMap::new();
    headers.insert("Sb-Reply-To", "alice.a.b");
    headers.insert("Sb-Message-Id", "1");
    nats.client().publish_with_headers(subject, headers, "42".into()).await.unwrap();
    let logged = async {
        loop {
            if let Some(line) = lines.all().iter().find(|line| line.contains("a reply could not be sent")) {
                return format!("{line:?}");
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    let line = timeout(LONG, logged).await.expect("a line");
    assert!(line.contains("WARN") && line.contains("alice.a.b"), "{line}");
    serving.abort();
    nats.delete(&path).await.unwrap();
}
