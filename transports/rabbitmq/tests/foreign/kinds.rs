//! Exchanges and queues of other programs, of the kinds that this crate does not create.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::time::Duration;

use consign::{
    Message,
    message::EntityPath,
    time::{Clock, SystemClock},
    transport::{ErrorKind, ReceiverExt, Sender as _},
};
use consign_rabbitmq::lapin::{
    ExchangeKind,
    options::{
        BasicCancelOptions, BasicConsumeOptions, BasicGetOptions, ExchangeDeclareOptions, ExchangeDeleteOptions,
        QueueBindOptions, QueueDeclareOptions, QueueDeleteOptions,
    },
    types::FieldTable,
};

use crate::{
    SOON, support,
    wrapped::{Theirs, text},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_to_an_exchange_of_another_program_is_routed_by_its_subject() {
    let Some(theirs) = Theirs::declare(&[]).await else { return };
    let rabbit = support::connect(support::options()).await.unwrap();
    let of = |subject: &str| Message::builder().subject(subject.to_owned()).build("body").unwrap();
    for (kind, key) in [(ExchangeKind::Topic, "a.*"), (ExchangeKind::Direct, "a.b"), (ExchangeKind::Fanout, "")] {
        let exchange = support::unique("exchange");
        let (options, none) = (ExchangeDeclareOptions::default(), FieldTable::default());
        theirs.channel.exchange_declare(exchange.as_str().into(), kind.clone(), options, none.clone()).await.unwrap();
        let (queue, options) = (theirs.queue.as_str().into(), QueueBindOptions::default());
        theirs.channel.queue_bind(queue, exchange.as_str().into(), key.into(), options, none).await.unwrap();

        let sender = rabbit.sender(&exchange).unwrap();
        sender.send(of("a.b")).await.unwrap();
        let got = theirs.channel.basic_get(theirs.queue.as_str().into(), BasicGetOptions { no_ack: true }).await;
        let got = got.unwrap().expect("the message");
        assert_eq!(got.delivery.routing_key.as_str(), "a.b");
        if kind != ExchangeKind::Fanout {
            for lost in [of("x"), Message::new("without a subject")] {
                assert_eq!(sender.send(lost).await.unwrap_err().kind(), ErrorKind::EntityNotFound);
            }
            let error = sender.send(of(&"x".repeat(256))).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        }
        // Its delay would be its routing key.
        let at = SystemClock::new().now().utc.saturating_add(Duration::from_secs(60));
        let error = sender.schedule(vec![of("a.b")], at).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
        theirs.channel.exchange_delete(exchange.as_str().into(), ExchangeDeleteOptions::default()).await.unwrap();
    }
    rabbit.close().await.unwrap();
    theirs.end().await;
}

/// A stream keeps its messages, and delivers those to a new consumer that come after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_is_not_received_from() {
    let Some(theirs) = Theirs::declare(&[("x-queue-type", text("stream"))]).await else { return };
    let rabbit = support::connect(support::options()).await.unwrap();
    rabbit.sender(&theirs.queue).unwrap().send(Message::new("body")).await.unwrap();
    let error = rabbit.receiver(&theirs.queue).unwrap().receive_within(SOON).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
    assert!(error.to_string().contains("stream"), "{error}");
    rabbit.close().await.unwrap();
    theirs.end().await;
}

/// RabbitMQ counts a release as a redelivery, and drops the message after the last one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_with_a_delivery_limit_does_not_release() {
    use consign::transport::{Capability, DynTransport, ReceiveMode, Receiver as _, Transport};
    use consign_rabbitmq::lapin::types::AMQPValue;
    let rabbit = support::connect(support::options()).await;
    let Some(rabbit) = rabbit else { return };
    let transport = DynTransport::from(rabbit.clone());
    let limit = ("x-delivery-limit", AMQPValue::LongInt(2));
    let length = ("x-max-length", AMQPValue::LongInt(1_000));
    for (arguments, releases) in [
        (&[limit.clone(), length.clone()][..], false),
        (&[length.clone()][..], true),
        (&[("x-queue-type", text("classic")), length][..], true),
    ] {
        let theirs = Theirs::declare(arguments).await.unwrap();
        let path = EntityPath::new(&theirs.queue).unwrap();
        let receiver = transport.receiver(&path, ReceiveMode::PeekLock).await.unwrap();
        assert_eq!(receiver.capabilities().supports(Capability::Release), releases, "{arguments:?}");
        drop(receiver);
        theirs.end().await;
    }
    let own = support::unique("own");
    rabbit.create_queue(&own, consign_rabbitmq::QueueSettings::default()).await.unwrap();
    let receiver = transport.receiver(&EntityPath::new(&own).unwrap(), ReceiveMode::PeekLock).await.unwrap();
    assert!(receiver.capabilities().supports(Capability::Release));
    drop(receiver);
    rabbit.delete(&own).await.unwrap();
    rabbit.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_another_program_has_for_itself_is_not_a_session() {
    let Some(theirs) = Theirs::declare(&[("x-queue-type", text("classic"))]).await else { return };
    let rabbit = support::connect(support::options()).await.unwrap();
    let options = BasicConsumeOptions { exclusive: true, ..BasicConsumeOptions::default() };
    let consuming =
        theirs.channel.basic_consume(theirs.queue.as_str().into(), "".into(), options, FieldTable::default());
    let consumer = consuming.await.unwrap();
    let mut receiver = rabbit.receiver(&theirs.queue).unwrap();
    let error = receiver.receive_within(SOON).await.unwrap_err();
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::ServiceBusy, true), "{error}");
    assert!(error.to_string().contains("exclusive"), "{error}");
    theirs.channel.basic_cancel(consumer.tag(), BasicCancelOptions::default()).await.unwrap();
    rabbit.sender(&theirs.queue).unwrap().send(Message::new("body")).await.unwrap();
    receiver.receive_within(SOON).await.unwrap().complete().await.unwrap();

    let exclusive = support::unique("exclusive");
    let options = QueueDeclareOptions { exclusive: true, ..QueueDeclareOptions::default() };
    theirs.channel.queue_declare(exclusive.as_str().into(), options, FieldTable::default()).await.unwrap();
    let error = rabbit.receiver(&exclusive).unwrap().receive_within(SOON).await.unwrap_err();
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::InvalidOperation, false), "{error}");
    theirs.channel.queue_delete(exclusive.as_str().into(), QueueDeleteOptions::default()).await.unwrap();
    rabbit.close().await.unwrap();
    theirs.end().await;
}
