//! Credit, prefetch and settlements.

use std::{
    task::{Context, Waker},
    time::Duration,
};

use consign::{
    Disposition,
    transport::{ErrorKind, Lease, ReceiveMode, Receiver, ReceiverExt, Transport, Unsupported},
};
use consign_amqp10::{Amqp10, Amqp10Receiver};
use consign_conformance::{faults::Proxy, log::Lines};
use tokio::time::timeout;

use super::{Bench, SOON, count, text};

async fn next(bench: &Bench) -> String {
    let mut other = bench.receiver().await;
    let delivery = timeout(SOON, other.receive()).await.unwrap().unwrap();
    let body = text(&delivery.message).to_owned();
    // With credit it would get what it releases.
    timeout(SOON, other.stopped()).await.unwrap();
    delivery.lease.release().await.unwrap();
    body
}

/// Begins a receive of `max` messages from an empty queue.
fn begin(receiver: &mut Amqp10Receiver, max: usize) {
    let mut unwoken = Context::from_waker(Waker::noop());
    assert!(receiver.poll_receive(&mut unwoken, max, &mut Vec::new()).is_pending());
}

/// Rules: K-273.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receive_locks_no_more_than_it_asks_for() {
    let Some(bench) = Bench::new().await else { return };
    let mut receiver = bench.receiver().await;
    begin(&mut receiver, 2);
    bench.send(["a", "b", "c"]).await;
    assert_eq!(next(&bench).await, "c");
    for body in ["a", "b"] {
        let delivery = timeout(SOON, receiver.receive()).await.unwrap().unwrap();
        assert_eq!(text(&delivery.message), body);
        delivery.complete().await.unwrap();
    }
}

/// Messages that are on their way when a receiver stops are released too.
///
/// Rules: K-273.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_on_their_way_are_released_when_the_receiver_stops() {
    let Some(bench) = Bench::new().await else { return };
    let proxy = Proxy::to(bench.proton.socket()).await.unwrap();
    let amqp = Amqp10::connect(&format!("amqp10://{}", proxy.address())).await.unwrap();
    let mut receiver = super::receiver(&amqp, &bench.queue).await;
    begin(&mut receiver, 5);
    // It is answered after the credit was given.
    amqp.sender(&bench.queue).await.unwrap();
    proxy.freeze(true);
    bench.send(["a", "b"]).await;
    receiver.stop();
    proxy.freeze(false);
    timeout(SOON, receiver.stopped()).await.unwrap();
    assert_eq!(next(&bench).await, "a");
}

/// Rules: K-273.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_of_an_earlier_larger_receive_are_released_when_the_receiver_stops() {
    let Some(bench) = Bench::new().await else { return };
    let proxy = Proxy::to(bench.proton.socket()).await.unwrap();
    let amqp = Amqp10::connect(&format!("amqp10://{}", proxy.address())).await.unwrap();
    let mut receiver = super::receiver(&amqp, &bench.queue).await;
    begin(&mut receiver, 5);
    // It is answered after the credit was given.
    amqp.sender(&bench.queue).await.unwrap();
    proxy.freeze(true);
    bench.send(["a", "b", "c"]).await;
    begin(&mut receiver, 1);
    proxy.freeze(false);
    let delivery = timeout(SOON, receiver.receive()).await.unwrap().unwrap();
    assert_eq!(text(&delivery.message), "a");
    // So have the others arrived.
    amqp.sender(&bench.queue).await.unwrap();
    timeout(SOON, receiver.stopped()).await.unwrap();
    assert_eq!(next(&bench).await, "b");
    delivery.complete().await.unwrap();
}

/// Rules: K-273.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prefetched_messages_are_released_when_the_receiver_stops() {
    let Some(bench) = Bench::with(Amqp10::options().prefetch(10)).await else { return };
    bench.send(["a", "b", "c"]).await;
    let mut receiver = bench.receiver().await;
    let delivery = receiver.receive().await.unwrap();
    assert_eq!(text(&delivery.message), "a");
    timeout(SOON, receiver.stopped()).await.unwrap();
    assert_eq!(next(&bench).await, "b");
    delivery.complete().await.unwrap();
    // It receives again, and nothing was counted.
    let again = timeout(SOON, receiver.receive()).await.unwrap().unwrap();
    assert_eq!((text(&again.message), count(&again.message)), ("b", 1));
}

/// Rules: K-274.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deferred_message_is_refused_and_abandoned() {
    let Some(bench) = Bench::new().await else { return };
    bench.send(["a"]).await;
    let mut receiver = bench.receiver().await;
    let delivery = receiver.receive().await.unwrap();
    let error = delivery.settle(Disposition::DEFER).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported);
    assert!(std::error::Error::source(&error).is_some_and(<dyn std::error::Error>::is::<Unsupported>));
    let again = timeout(SOON, receiver.receive()).await.unwrap().unwrap();
    assert_eq!(count(&again.message), 2);
    // Nor can it be delayed, which needs the option.
    let Err(again) = again.abandon_after(Duration::from_secs(1)) else { panic!("a delay without the option") };
    again.complete().await.unwrap();
}

/// Rules: K-275.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settlements_need_no_confirmation_if_the_option_says_so() {
    let Some(bench) = Bench::with(Amqp10::options().confirm_settlements(false)).await else { return };
    bench.send(["a", "b", "c"]).await;
    let mut receiver = bench.receiver().await;
    let mut held = Vec::new();
    while held.len() < 3 {
        held.extend(receiver.receive_batch(3).await.unwrap());
    }
    held.remove(0).abandon().await.unwrap();
    consign::transport::Delivery::complete_all(held).await.unwrap();
    let again = timeout(SOON, receiver.receive()).await.unwrap().unwrap();
    assert_eq!((text(&again.message), count(&again.message)), ("a", 2));
}

/// A message that was removed cannot be given back, and is not lost while the receiver is there.
///
/// Rules: K-276.
#[tokio::test]
async fn removed_messages_stay_with_the_receiver_until_it_is_dropped() {
    let (lines, _guard) = Lines::capture();
    let Some(bench) = Bench::new().await else { return };
    let mut receiver = bench.amqp.receiver(&bench.queue, ReceiveMode::ReceiveAndDelete).await.unwrap();
    for is_dropped in [false, true] {
        begin(&mut receiver, 5);
        bench.send(["a", "b"]).await;
        timeout(SOON, receiver.stopped()).await.unwrap();
        if is_dropped {
            break;
        }
        for body in ["a", "b"] {
            assert_eq!(text(&timeout(SOON, receiver.receive()).await.unwrap().unwrap().message), body);
        }
        assert_eq!(lines.of("consign::amqp10"), [""; 0]);
    }
    drop(receiver);
    let warned = lines.of("consign::amqp10");
    assert!(warned.len() == 1 && warned[0].contains("messages=2"), "{warned:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_dead_letters_after_the_configured_deliveries() {
    let Some(bench) = Bench::with(Amqp10::options().max_delivery_count(3)).await else { return };
    let receiver = bench.receiver().await;
    assert_eq!(receiver.entity_info().max_delivery_count, Some(3));
    let dead = bench.amqp.receiver(&bench.queue.dead_letter(), ReceiveMode::PeekLock).await.unwrap();
    assert_eq!(dead.entity_info().max_delivery_count, None);
}
