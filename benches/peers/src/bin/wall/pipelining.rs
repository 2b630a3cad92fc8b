//! How fast a sender is over a connection with a round trip, one send at a time and many.
//!
//! With a round trip of L and W sends in flight the rate is at most W/L. The round trip is that of the simulated connection
//! of the feature `testing`, in real time. A timer of tokio ends up to a millisecond late, so that the peer `sleep`, which
//! is W tasks that do nothing but sleep for L, shows what of the difference to the arithmetic is the timer's.

use std::time::Duration;

use consign::{
    Message,
    administration::QueueSettings,
    broker::Broker,
    middleware::in_flight::InFlightLayer,
    testing::{Link, LinkSettings},
    transport::{SendError, SendService},
};
use futures_util::{StreamExt, stream};
use tokio::{runtime::Builder, time::Instant};
use tower::{Layer, ServiceExt};

use crate::throughput::rate;

/// Round trips that one run lasts.
const ROUND_TRIPS: usize = 200;

/// Sends in a second over a connection with this round trip, never more than `window` in flight.
pub fn sends_per_second(window: usize, round_trip: Duration) -> u64 {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let settings = QueueSettings::default().max_size(u64::MAX);
        let queue = Broker::new().create_queue("orders", settings).expect("a new queue");
        let link = Link::new(LinkSettings::default().round_trip(round_trip));
        let sender = link.sender(queue.sender().expect("a queue takes messages"));
        let stack = InFlightLayer::new(window).layer(SendService::new(sender));
        // Twice as many are begun, so that it is the layer that bounds them.
        overlapping(window, 2 * window, async || -> Result<(), SendError> {
            stack.clone().oneshot(Message::new("one order")).await
        })
        .await
    })
}

/// Sleeps in a second, `window` at once.
pub fn sleeps_per_second(window: usize, round_trip: Duration) -> u64 {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(overlapping(window, window, async || {
        tokio::time::sleep(round_trip).await;
        Ok(())
    }))
}

/// W/L.
pub fn arithmetic_per_second(window: usize, round_trip: Duration) -> u64 {
    rate(window, round_trip)
}

async fn overlapping(window: usize, begun: usize, send: impl AsyncFn() -> Result<(), SendError>) -> u64 {
    let sends = window * ROUND_TRIPS;
    let start = Instant::now();
    let all = stream::iter(0..sends).map(|_| send()).buffer_unordered(begun);
    all.for_each(|sent| async { sent.expect("a connection without faults") }).await;
    rate(sends, start.elapsed())
}
