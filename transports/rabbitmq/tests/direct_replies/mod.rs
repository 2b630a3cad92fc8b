//! Calls whose replies go through no queue.

use consign::{
    Message,
    codecs::Codecs,
    consumer::Consumer,
    message::EntityPath,
    middleware::{
        encryption::{DecryptLayer, EncryptLayer},
        keys::{Key, Keys},
        signing::{SignLayer, VerifyLayer},
    },
    routing::Body,
    rpc::{CallError, Client, Fault, Requester, Responder},
    transport::SendService,
};
use consign_rabbitmq::QueueSettings;
use tokio::time::timeout;
use tower::{BoxError, ServiceBuilder};

use super::{Bench, SOON};

async fn half(Body(number): Body<u32>) -> Result<u32, Fault> {
    if number % 2 == 0 { Ok(number / 2) } else { Err(Fault::application("Odd")) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k_33_a_call_is_answered_directly() {
    let Some(bench) = Bench::new(QueueSettings::default()).await else { return };
    let reply_to = bench.rabbit.clone();
    let responder = Responder::builder(move |to: &EntityPath| Ok(SendService::new(reply_to.sender(to.as_str())?)))
        .codecs(Codecs::json())
        .answer("half", half)
        .build()
        .unwrap();
    let answering = tokio::spawn(Consumer::new(bench.receiver(), responder).run());

    let asking = bench.rabbit.connect_again().await.unwrap();
    let (sender, replies) = asking.direct_replies(&bench.queue).unwrap();
    let (requester, replies) = Requester::builder(SendService::new(sender)).build(replies).unwrap();
    let replies = tokio::spawn(replies.run());
    let client = Client::new(requester, Codecs::json()).subject("half");
    for number in [42_u32, 6, 8] {
        let answer: u32 = timeout(SOON, client.call(&number)).await.unwrap().unwrap();
        assert_eq!(answer, number / 2);
    }
    let error = timeout(SOON, client.call::<u32>(&7)).await.unwrap().unwrap_err();
    assert_eq!(error.fault().map(|fault| fault.code().as_str()), Some("Odd"));
    drop(client);
    timeout(SOON, replies).await.unwrap().unwrap().unwrap();
    answering.abort();
    asking.close().await;
    bench.end().await;
}

fn keys(byte: u8) -> Keys {
    Keys::new(Key::new("2026", [byte; 32]).expect("an id of a key"))
}

/// RabbitMQ changes the ReplyTo of such a request, which both layers bind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_156_a_signed_and_encrypted_call_is_answered_directly() {
    let Some(bench) = Bench::new(QueueSettings::default()).await else { return };
    let (sign, verify) = (SignLayer::new(keys(1)), VerifyLayer::new(keys(1)));
    let (encrypt, decrypt) = (EncryptLayer::new(keys(2)), DecryptLayer::new(keys(2)));
    let sealing = ServiceBuilder::new().layer(encrypt).layer(sign);

    let (reply_to, replying) = (bench.rabbit.clone(), sealing.clone());
    let senders = move |to: &EntityPath| Ok(replying.service(SendService::new(reply_to.sender(to.as_str())?)));
    let responder = Responder::builder(senders).codecs(Codecs::json()).answer("half", half).build().unwrap();
    let opening = ServiceBuilder::new().layer(verify.clone()).layer(decrypt.clone());
    let answering = tokio::spawn(Consumer::new(bench.receiver(), opening.service(responder)).run());

    let asking = bench.rabbit.connect_again().await.unwrap();
    let (sender, replies) = asking.direct_replies(&bench.queue).unwrap();
    let requester = Requester::builder(sealing.service(SendService::new(sender)));
    let (requester, replies) = requester.build(replies).unwrap();
    let replies = tokio::spawn(replies.run());
    let open = move |reply: Result<Message, CallError>| -> Result<Message, BoxError> {
        Ok(decrypt.decrypt(verify.verify(reply?)?)?)
    };
    let client = Client::new(ServiceBuilder::new().map_result(open).service(requester), Codecs::json()).subject("half");
    for number in [42_u32, 6] {
        let answer: u32 = timeout(SOON, client.call(&number)).await.unwrap().unwrap();
        assert_eq!(answer, number / 2);
    }
    let error = timeout(SOON, client.call::<u32>(&7)).await.unwrap().unwrap_err();
    assert_eq!(error.fault().map(|fault| fault.code().as_str()), Some("Odd"));

    drop(client);
    timeout(SOON, replies).await.unwrap().unwrap().unwrap();
    answering.abort();
    asking.close().await;
    bench.end().await;
}
