//! Sends.

use std::time::Duration;

use consign::{
    Message,
    transport::{Batch, ErrorKind, PresettledSender, ReceiverExt, Sender, Transport},
};
use consign_amqp10::Amqp10;
use consign_conformance::log::Lines;
use tokio::time::timeout;

use super::{Bench, SOON, text};

/// Rules: A-34.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_presettled_send_has_no_answer() {
    let Some(bench) = Bench::new().await else { return };
    let sender = bench.amqp.sender(&bench.queue).await.unwrap();
    sender.send_presettled(Message::new("a")).await;
    let delivery = timeout(SOON, bench.receiver().await.receive()).await.unwrap().unwrap();
    assert_eq!(text(&delivery.message), "a");
    delivery.complete().await.unwrap();
}

#[tokio::test]
async fn a_presettled_send_that_fails_is_logged() {
    let (lines, _guard) = Lines::capture();
    let Some(bench) = Bench::new().await else { return };
    let sender = bench.amqp.sender(&bench.queue).await.unwrap();
    sender.send_presettled(Message::builder().time_to_live(Duration::from_secs(1)).build("a").unwrap()).await;
    let warned = lines.of("consign::amqp10");
    assert!(warned.len() == 1 && warned[0].contains("was not sent"), "{warned:?}");
}

/// Rules: K-280.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_that_is_stored_in_part_has_an_unknown_outcome() {
    let Some(bench) = Bench::new().await else { return };
    let small = super::EntityPath::new(&super::unique("small")).unwrap();
    bench.proton.queues().create_small(small.as_str(), 2_000).await.unwrap();
    let sender = bench.amqp.sender(&small).await.unwrap();
    let large = || Message::new(vec![0; 1_500]);
    let error = sender.send_batch(Batch::from([large(), large()])).await.unwrap_err();
    assert!(error.is_outcome_unknown(), "{error:?}");
    let error = sender.send(large()).await.unwrap_err();
    assert_eq!((error.kind(), error.is_outcome_unknown()), (ErrorKind::QuotaExceeded, false));
}

/// Rules: K-281.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_time_to_live_is_sent_if_the_option_says_so() {
    let message = || Message::builder().time_to_live(Duration::from_secs(60)).build("a").unwrap();
    let Some(bench) = Bench::new().await else { return };
    let refused = bench.amqp.sender(&bench.queue).await.unwrap().send(message()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotSupported);
    let amqp = Amqp10::options().time_to_live(true).connect(&bench.proton.url()).await.unwrap();
    amqp.sender(&bench.queue).await.unwrap().send(message()).await.unwrap();
    let delivery = timeout(SOON, bench.receiver().await.receive()).await.unwrap().unwrap();
    assert_eq!(delivery.message.time_to_live(), Some(Duration::from_secs(60)));
    delivery.complete().await.unwrap();
}
