//! Calls whose replies go to an address that the broker makes.

use std::time::Duration;

use consign::{
    Message,
    codecs::Codecs,
    consumer::Consumer,
    message::EntityPath,
    routing::Body,
    rpc::{Client, Fault, Requester, Responder},
    transport::{ErrorKind, ReceiverExt, ReplySource, SendError, SendService, Sender, Transport},
};
use consign_amqp10::Amqp10;
use consign_conformance::faults::Proxy;
use tokio::time::timeout;
use tower::service_fn;

use super::{Bench, SOON, on_rabbitmq::Rabbit, receiver};

async fn half(Body(number): Body<u32>) -> Result<u32, Fault> {
    if number % 2 == 0 { Ok(number / 2) } else { Err(Fault::application("Odd")) }
}

/// Calls over a queue of requests.
async fn calls(amqp: &Amqp10, queue: &EntityPath) {
    let answering = amqp.clone();
    let senders = move |to: &EntityPath| {
        let (amqp, to) = (answering.clone(), to.clone());
        Ok::<_, SendError>(service_fn(move |reply: consign::Message| {
            let (amqp, to) = (amqp.clone(), to.clone());
            async move { consign::transport::Sender::send(&amqp.sender(&to).await?, reply).await }
        }))
    };
    let responder = Responder::builder(senders).codecs(Codecs::json()).fallback(half).build().unwrap();
    let consuming = tokio::spawn(Consumer::new(receiver(amqp, queue).await, responder).run());
    let replies = amqp.dynamic_replies().await.unwrap();
    let sender = SendService::new(amqp.sender(queue).await.unwrap());
    let (requester, replies) = Requester::builder(sender).build(replies).unwrap();
    let replies = tokio::spawn(replies.run());
    let client = Client::new(requester, Codecs::json());
    for number in [42_u32, 6] {
        let answer: u32 = timeout(SOON, client.call(&number)).await.unwrap().unwrap();
        assert_eq!(answer, number / 2);
    }
    let error = timeout(SOON, client.call::<u32>(&7)).await.unwrap().unwrap_err();
    assert_eq!(error.fault().map(|fault| fault.code().as_str()), Some("Odd"));
    drop(client);
    timeout(SOON, replies).await.unwrap().unwrap().unwrap();
    consuming.abort();
}

/// Rules: K-284.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_makes_an_address_for_replies() {
    let Some(bench) = Bench::new().await else { return };
    calls(&bench.amqp, &bench.queue).await;
}

/// Rules: K-284.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_makes_no_addresses_refuses() {
    let Some(rabbit) = Rabbit::new().await else { return };
    let error = rabbit.amqp.dynamic_replies().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported);
    rabbit.end().await;
}

/// Rules: K-284.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replies_end_with_their_connection() {
    let Some(bench) = Bench::new().await else { return };
    let proxy = Proxy::to(bench.proton.socket()).await.unwrap();
    let amqp = Amqp10::connect(&format!("amqp10://{}", proxy.address())).await.unwrap();
    let mut replies = amqp.dynamic_replies().await.unwrap();
    assert!(replies.is_exclusive() && !replies.address().is_empty());
    proxy.cut();
    let error = timeout(SOON, replies.receive()).await.unwrap().unwrap_err();
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::CommunicationProblem, false));
    let error = timeout(SOON, replies.receive()).await.unwrap().unwrap_err();
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::CommunicationProblem, false));
}

/// Rules: K-284.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replies_end_with_their_connection_after_a_reply_too() {
    let Some(bench) = Bench::new().await else { return };
    let proxy = Proxy::to(bench.proton.socket()).await.unwrap();
    let amqp = Amqp10::connect(&format!("amqp10://{}", proxy.address())).await.unwrap();
    let mut replies = amqp.dynamic_replies().await.unwrap();
    let sender = bench.amqp.sender(&EntityPath::new(replies.address()).unwrap()).await.unwrap();
    sender.send(Message::new("a reply")).await.unwrap();
    drop(timeout(SOON, replies.receive()).await.unwrap().unwrap());
    // The receiver stops, and the answer to its drain is lost.
    proxy.freeze(true);
    replies.receive_within(Duration::from_millis(1)).await.unwrap_err();
    proxy.cut();
    proxy.freeze(false);
    let error = timeout(SOON, replies.receive()).await.unwrap().unwrap_err();
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::CommunicationProblem, false));
}
