//! Calls whose replies go through no queue.

use consign::{
    Message,
    codecs::Codecs,
    consumer::Consumer,
    message::{EntityPath, PropertyValue},
    middleware::{
        encryption::{DecryptLayer, EncryptLayer},
        keys::{Key, Keys},
        signing::{SignLayer, VerifyLayer},
    },
    routing::Body,
    rpc::{CallError, Client, Fault, Requester, Responder},
    time::Timestamp,
    transport::{ReceiverExt, SendService},
};
use consign_rabbitmq::QueueSettings;
use tokio::time::timeout;
use tower::{BoxError, ServiceBuilder, ServiceExt};

use super::{Bench, SOON};

async fn half(Body(number): Body<u32>) -> Result<u32, Fault> {
    if number % 2 == 0 { Ok(number / 2) } else { Err(Fault::application("Odd")) }
}

/// Rules: K-33, K-201.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_is_answered_directly() {
    let Some(bench) = Bench::new(QueueSettings::default()).await else { return };
    let reply_to = bench.rabbit.clone();
    let responder = Responder::builder(move |to: &EntityPath| Ok(SendService::new(reply_to.sender(to.as_str())?)))
        .codecs(Codecs::json())
        .answer("half", half)
        .build()
        .unwrap();
    let stats = responder.stats();
    let answering = tokio::spawn(Consumer::new(bench.receiver(), responder).run());

    let asking = bench.rabbit.connect_again().await.unwrap();
    let (sender, replies) = asking.direct_replies(&bench.queue).unwrap();
    let (requester, replies) = Requester::builder(SendService::new(sender)).build(replies).unwrap();
    let watched = requester.clone();
    let replies = tokio::spawn(replies.run());
    let client = Client::new(requester, Codecs::json()).subject("half");
    for number in [42_u32, 6, 8] {
        let answer: u32 = timeout(SOON, client.call(&number)).await.unwrap().unwrap();
        assert_eq!(answer, number / 2);
    }
    let error = timeout(SOON, client.call::<u32>(&7)).await.unwrap().unwrap_err();
    assert_eq!(error.fault().map(|fault| fault.code().as_str()), Some("Odd"));
    // Each is sent once, and the broker has refused none. Its word of the last may come after the reply.
    let is_counted = async {
        while stats.answered() + stats.faults() + stats.undelivered() < 4 {
            tokio::task::yield_now().await;
        }
    };
    timeout(SOON, is_counted).await.unwrap();
    assert_eq!((stats.answered(), stats.faults(), stats.undelivered(), watched.orphans()), (3, 1, 0, 0));
    drop((client, watched));
    timeout(SOON, replies).await.unwrap().unwrap().unwrap();
    answering.abort();
    asking.close().await.unwrap();
    bench.end().await;
}

/// Rules: K-206.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_sender_refuses_a_request_for_direct_replies() {
    let Some(bench) = Bench::new(QueueSettings::default()).await else { return };
    let (sender, replies) = bench.rabbit.direct_replies(&bench.queue).unwrap();
    let (requester, _replies) = Requester::builder(SendService::new(sender)).build(replies).unwrap();
    let other = requester.with_sender(SendService::new(bench.rabbit.sender(&bench.queue).unwrap()));
    let error = timeout(SOON, Client::new(other, Codecs::json()).call::<u32>(&42)).await.unwrap().unwrap_err();
    assert!(error.to_string().contains("create_reply_queue"), "{error}");
    bench.end().await;
}

fn keys(byte: u8) -> Keys {
    Keys::new(Key::new("2026", [byte; 32]).expect("an id of a key"))
}

/// Rules: H-156.
/// RabbitMQ changes the ReplyTo of such a request, which both layers bind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signed_and_encrypted_call_is_answered_directly() {
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
    asking.close().await.unwrap();
    bench.end().await;
}

/// Rules: H-152, H-153.
/// Empty texts, values of every kind, and names in their own case arrive as they were bound.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bound_properties_arrive_unchanged() {
    let Some(bench) = Bench::new(QueueSettings::default()).await else { return };
    let sealing = ServiceBuilder::new().layer(EncryptLayer::new(keys(2)).bind("Kind").bind("a,b%"));
    let sealing = sealing.layer(SignLayer::new(keys(1)).bind("Kind").bind("a,b%"));
    let sender = sealing.service(SendService::new(bench.rabbit.sender(&bench.queue).unwrap()));
    let values: [PropertyValue; 20] = [
        PropertyValue::Null,
        true.into(),
        u8::MAX.into(),
        u16::MAX.into(),
        u32::MAX.into(),
        u64::MAX.into(),
        i8::MIN.into(),
        i16::MIN.into(),
        i32::MIN.into(),
        i64::MIN.into(),
        1.5_f32.into(),
        1e300_f64.into(),
        'é'.into(),
        "".into(),
        PropertyValue::Decimal([7; 16]),
        PropertyValue::Uuid([7; 16]),
        PropertyValue::DateTime(Timestamp::from_millis(-1)),
        PropertyValue::DateTimeOffset(-1),
        PropertyValue::TimeSpan(-1),
        PropertyValue::Uri("urn:a".into()),
    ];
    let mut receiver = bench.receiver();
    for value in values {
        let mut message = Message::builder()
            .content_type("")
            .subject("")
            .correlation_id("")
            .reply_to("")
            .reply_to_session_id("")
            .property("Kind", value.clone())
            .property("a,b%", bytes::Bytes::from_static(b"\xff"))
            .property("x-message-version", value.clone())
            .property("cloudEvents:time", "")
            .build("body")
            .unwrap();
        message.properties_mut().pass_through_mut().content_encoding = Some("".into());
        sender.clone().oneshot(message).await.unwrap();
        let delivery = timeout(SOON, receiver.receive()).await.unwrap().unwrap();
        let verify = VerifyLayer::new(keys(1)).require_bound("Kind");
        let decrypt = DecryptLayer::new(keys(2)).require_bound("a,b%");
        let verified = verify.verify(delivery.message.clone()).unwrap_or_else(|error| panic!("{value:?}: {error}"));
        assert_eq!(decrypt.decrypt(verified).unwrap().payload(), Some(&b"body"[..]), "{value:?}");
        delivery.complete().await.unwrap();
    }
    drop(receiver);
    bench.end().await;
}
