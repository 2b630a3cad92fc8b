//! Requests to services of core NATS, and replies at an inbox.

use std::time::Duration;

use async_nats::HeaderMap;
use consign::{
    Message,
    codecs::Codecs,
    consumer::Consumer,
    routing::Body,
    rpc::{Client, Fault, Requester, Responder, reply_senders},
    transport::{ErrorKind, ReceiverExt, SendService, Sender},
};
use consign_conformance::killed::{self, Killed};
use consign_nats::{Nats, QueueSettings, async_nats};
use futures_util::StreamExt;

use crate::{LONG, queue, server};

/// The code of the fault of a call.
fn code(error: &consign::rpc::CallError) -> Option<&str> {
    error.fault().map(|fault| fault.code().as_str())
}

/// Rules: K-202, K-203.
#[tokio::test]
async fn a_requester_calls_a_plain_service_of_nats() {
    let Some((nats, path)) = queue(QueueSettings::default()).await else { return };
    let client = nats.client().clone();
    let subject = format!("plain.{path}");
    let replies = nats.inbox().await.unwrap();
    let sender = replies.sender(&subject).unwrap();
    let (requester, receiving) = Requester::builder(SendService::new(sender)).timeout(LONG).build(replies).unwrap();
    let running = tokio::spawn(receiving.run());
    let caller = Client::new(requester, Codecs::json());
    let error = caller.call::<u32>(&1).await.unwrap_err();
    assert_eq!(code(&error), Some("NoResponders"), "{error}");

    let mut requests = client.subscribe(subject).await.unwrap();
    client.flush().await.unwrap();
    let serving = client.clone();
    let service = tokio::spawn(async move {
        // The replies go out in the other order, without a header.
        let mut waiting = Vec::new();
        while let Some(request) = requests.next().await {
            waiting.push(request);
            if waiting.len() < 2 {
                continue;
            }
            for request in waiting.drain(..).rev() {
                let number: u32 = std::str::from_utf8(&request.payload).unwrap().parse().unwrap();
                let to = request.reply.unwrap();
                if number > 100 {
                    let mut headers = HeaderMap::new();
                    headers.insert("Nats-Service-Error-Code", "404");
                    headers.insert("Nats-Service-Error", "no such number");
                    serving.publish_with_headers(to, headers, "".into()).await.unwrap();
                } else {
                    serving.publish(to, (number * 2).to_string().into()).await.unwrap();
                }
            }
        }
    });
    let (one, two) = tokio::join!(caller.call::<u32>(&20), caller.call::<u32>(&21));
    assert_eq!((one.unwrap(), two.unwrap()), (40, 42));
    let (good, failed) = tokio::join!(caller.call::<u32>(&5), caller.call::<u32>(&500));
    assert_eq!(good.unwrap(), 10);
    assert_eq!(code(&failed.unwrap_err()), Some("404"));
    service.abort();
    drop(caller);
    running.await.unwrap().unwrap();
    nats.delete(&path).await.unwrap();
}

async fn half(Body(number): Body<u32>) -> Result<u32, Fault> {
    if number % 2 == 0 { Ok(number / 2) } else { Err(Fault::application("Odd")) }
}

/// Rules: K-200, K-202.
/// The request is stored by a stream, or is one of core NATS whose subject selects the handler.
#[tokio::test]
async fn a_responder_of_this_library_replies_to_an_inbox() {
    let Some((nats, path)) = queue(QueueSettings::default()).await else { return };
    let subject = format!("half.{path}");
    let responder = || {
        Responder::builder(reply_senders(nats.clone())).codecs(Codecs::json()).answer(&*subject, half).build().unwrap()
    };
    let stored = tokio::spawn(Consumer::new(nats.receiver(&path).await.unwrap(), responder()).run());
    let subscribed = nats.wrap_subscription(nats.client().subscribe(subject.clone()).await.unwrap());
    nats.client().flush().await.unwrap();
    let direct = tokio::spawn(Consumer::new(subscribed, responder()).run());

    let replies = nats.inbox().await.unwrap();
    let core = replies.sender(&subject).unwrap();
    let (requester, receiving) = Requester::builder(SendService::new(core)).timeout(LONG).build(replies).unwrap();
    tokio::spawn(receiving.run());
    let queued = requester.with_sender(SendService::new(nats.sender(&path).await.unwrap()));
    let by_core = Client::new(requester, Codecs::json());
    let by_queue = Client::new(queued, Codecs::json()).subject(subject.clone());
    assert_eq!(by_core.call::<u32>(&42).await.unwrap(), 21);
    assert_eq!(by_queue.call::<u32>(&42).await.unwrap(), 21);
    assert_eq!(code(&by_core.call::<u32>(&7).await.unwrap_err()), Some("Odd"));
    assert_eq!(code(&by_queue.call::<u32>(&7).await.unwrap_err()), Some("Odd"));

    // A client of NATS services gets the fault in the headers that it knows.
    let reply = nats.client().request(subject.clone(), "7".into()).await.unwrap();
    let headers = reply.headers.unwrap();
    assert_eq!(headers.get("Nats-Service-Error").map(async_nats::HeaderValue::as_str), Some("Odd"));
    assert_eq!(headers.get("Nats-Service-Error-Code").map(async_nats::HeaderValue::as_str), Some("500"));
    stored.abort();
    direct.abort();
    nats.delete(&path).await.unwrap();
}

#[tokio::test]
async fn a_subject_that_cannot_be_published_to_is_refused() {
    let Some((nats, path)) = queue(QueueSettings::default()).await else { return };
    let replies = nats.inbox().await.unwrap();
    for subject in ["", "a..b", "a.*", "a.>", "a b", "$JS.API.STREAM.DELETE.x"] {
        assert_eq!(replies.sender(subject).unwrap_err().kind(), ErrorKind::InvalidArgument, "{subject}");
    }
    nats.delete(&path).await.unwrap();
}

/// Core NATS has no dead letters, so nothing is reserved for the reason of one.
#[tokio::test]
async fn a_message_of_core_nats_may_have_the_size_that_the_server_takes() {
    let Some((nats, path)) = queue(QueueSettings::default()).await else { return };
    let subject = format!("large.{path}");
    let mut subscribed = nats.client().subscribe(subject.clone()).await.unwrap();
    nats.client().flush().await.unwrap();
    let max = nats.client().max_payload();
    let large = || Message::new(vec![0; max - 1_000]);
    let sender = nats.inbox().await.unwrap().sender(&subject).unwrap();
    sender.send(large()).await.unwrap();
    let message = tokio::time::timeout(LONG, subscribed.next()).await.unwrap().unwrap();
    assert_eq!(message.payload.len(), max - 1_000);
    let refused = sender.send(Message::new(vec![0; max])).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::MessageSizeExceeded);
    // In a queue it could become a dead letter.
    let refused = nats.sender(&path).await.unwrap().send(large()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::MessageSizeExceeded);
    nats.delete(&path).await.unwrap();
}

/// The requester that is killed while its call waits.
#[tokio::test]
async fn the_requester_that_is_killed() {
    let Some(path) = killed::argument() else { return };
    let nats = Nats::options().namespace("test").server_syncs().connect(&server::url().unwrap()).await.unwrap();
    let replies = nats.inbox().await.unwrap();
    let sender = SendService::new(nats.sender(&path).await.unwrap());
    let (requester, receiving) = Requester::builder(sender).build(replies).unwrap();
    tokio::spawn(receiving.run());
    let waiting = tokio::spawn(async move { Client::new(requester, Codecs::json()).call::<u32>(&1).await.map(drop) });
    killed::ready().await;
    drop(waiting);
}

/// Rules: K-204.
#[tokio::test]
async fn the_inbox_of_a_killed_requester_is_gone() {
    let Some((nats, path)) = queue(QueueSettings::default()).await else { return };
    let process = Killed::run("inbox::the_requester_that_is_killed", &path).await.unwrap();
    let request = nats.receiver(&path).await.unwrap().receive_within(LONG).await.unwrap();
    let inbox = request.message.reply_to().unwrap().replace('/', ".");
    request.complete().await.unwrap();
    process.kill().await.unwrap();
    // The server reports at once that a subject has no subscriber, as soon as it has noticed the end of the connection.
    let gone = async {
        loop {
            match nats.client().request(inbox.clone(), "late".into()).await {
                Err(error) if error.kind() == async_nats::RequestErrorKind::NoResponders => return,
                _ => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    tokio::time::timeout(LONG, gone).await.expect("no subscription is left");
    nats.delete(&path).await.unwrap();
}
