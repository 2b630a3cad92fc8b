//! How long sends take: 70 ms to the broker and back, 10 ms to store, no time to transfer.

use consign::{
    middleware::in_flight::InFlightLayer,
    testing::{LinkSettings, Store, TestBroker},
    transport::{SendExt, SendService, Sender},
};
use tokio::{task::JoinSet, time::Instant};
use tower::Layer;

use crate::support::{STORE, far, linked, numbered, pipelined};

async fn sequential(count: usize) -> u128 {
    let (queue, _, sender) = linked(far());
    let start = Instant::now();
    for number in 0..count {
        sender.send(numbered(number)).await.unwrap();
    }
    assert_eq!(queue.counts().active, count);
    start.elapsed().as_millis()
}

async fn all_at_once(count: usize, settings: LinkSettings) -> u128 {
    let (queue, _, sender) = linked(settings);
    let start = Instant::now();
    assert!(pipelined(&sender, count).await.iter().all(Result::is_ok));
    assert_eq!(queue.counts().active, count);
    start.elapsed().as_millis()
}

async fn windowed(count: usize, window: usize, settings: LinkSettings) -> u128 {
    let (queue, _, sender) = linked(settings);
    let stack = InFlightLayer::new(window).layer(SendService::new(sender));
    let start = Instant::now();
    let mut sends = JoinSet::new();
    for number in 0..count {
        let mut stack = stack.clone();
        sends.spawn(async move { stack.send(numbered(number)).await.unwrap() });
    }
    sends.join_all().await;
    assert_eq!(queue.counts().active, count);
    start.elapsed().as_millis()
}

fn overlapping() -> LinkSettings {
    far().store(Store::Overlapping(STORE))
}

/// Rules: X-30.
#[tokio::test(start_paused = true)]
async fn ten_one_after_the_other_take_800_ms() {
    assert_eq!(sequential(10).await, 800);
}

/// Rules: X-31.
#[tokio::test(start_paused = true)]
async fn a_hundred_one_after_the_other_take_8_s() {
    assert_eq!(sequential(100).await, 8_000);
}

/// Rules: X-32.
#[tokio::test(start_paused = true)]
async fn ten_pipelined_take_170_ms() {
    assert_eq!(all_at_once(10, far()).await, 170);
}

/// Rules: X-33.
#[tokio::test(start_paused = true)]
async fn a_hundred_pipelined_take_1_070_ms() {
    assert_eq!(all_at_once(100, far()).await, 1_070);
}

/// Rules: X-34.
#[tokio::test(start_paused = true)]
async fn a_hundred_pipelined_take_80_ms_if_they_are_stored_together() {
    assert_eq!(all_at_once(100, overlapping()).await, 80);
    assert_eq!(all_at_once(100, far().store(Store::GroupCommit(STORE))).await, 80);
}

/// Rules: X-35.
#[tokio::test(start_paused = true)]
async fn a_hundred_in_a_window_of_ten_take_800_ms_if_stores_overlap() {
    assert_eq!(windowed(100, 10, overlapping()).await, 800);
    assert_eq!(windowed(95, 10, overlapping()).await, 800, "the last window is a whole one");
}

/// Rules: X-36.
#[tokio::test(start_paused = true)]
async fn a_hundred_in_a_window_of_ten_take_1_070_ms_if_the_store_is_what_is_slow() {
    assert_eq!(windowed(100, 10, far()).await, 1_070);
}

/// Rules: X-37.
#[tokio::test(start_paused = true)]
async fn a_window_of_ten_is_ten_times_as_fast_and_no_window_a_hundred_times() {
    let one_by_one = sequential(100).await;
    assert_eq!(one_by_one, 10 * windowed(100, 10, overlapping()).await);
    assert_eq!(one_by_one, 100 * all_at_once(100, overlapping()).await);
}

/// Rules: X-15.
#[tokio::test(start_paused = true)]
async fn a_connection_that_answers_before_the_next_request_is_a_window_of_one() {
    assert_eq!(windowed(10, 1, overlapping()).await, sequential(10).await);
}

/// Rules: X-30.
/// An odd round trip has its halves in whole milliseconds.
#[tokio::test(start_paused = true)]
async fn a_round_trip_is_whole_whatever_its_halves() {
    let queue = TestBroker::new().queue("orders");
    let settings = LinkSettings::default().round_trip(std::time::Duration::from_millis(71));
    let sender = consign::testing::Link::new(settings).sender(queue.sender().unwrap());
    let start = Instant::now();
    sender.send(numbered(0)).await.unwrap();
    assert_eq!(start.elapsed().as_millis(), 71);
}
