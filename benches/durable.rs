//! What a message costs in a broker on a disk, on all of its threads. `cargo xtask bench --only durable` counts it.
//!
//! The scenarios are as in `benches/scenario`, and are counted as a whole program: the thread that writes is not inside
//! `hot_phase`.
#![allow(unsafe_code, reason = "a counting allocator")]

mod counting;
#[macro_use]
mod scenario;

use bytes::Bytes;
use consign::{
    Message,
    administration::QueueSettings,
    broker::{Broker, QueueReceiver, QueueSender},
    transport::{Delivery, ReceiverExt, Sender},
};
use futures_util::future::try_join_all;

const BODY: usize = 1_024;

scenarios! {
    "durable_send_1" => |messages| run(messages, 1, false),
    "durable_send_64" => |messages| run(messages, 64, false),
    "durable_send_512" => |messages| run(messages, 512, false),
    "durable_cycle_1" => |messages| run(messages, 1, true),
    "durable_cycle_64" => |messages| run(messages, 64, true),
    "durable_cycle_512" => |messages| run(messages, 512, true),
}

fn run(messages: u64, window: usize, is_cycle: bool) {
    let folder = tempfile::tempdir().expect("a folder");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let broker = Broker::open(folder.path().join("store")).expect("a store");
    let queue = broker.create_queue("orders", QueueSettings::default().max_size(u64::MAX)).expect("a new queue");
    let (sender, mut receiver) = (queue.sender().expect("a queue"), queue.receiver());
    let windows = usize::try_from(messages).expect("few messages") / window;
    scenario::counted(&mut || {
        runtime.block_on(async {
            for _ in 0..windows {
                send(&sender, window).await;
                if is_cycle {
                    take(&mut receiver, window).await;
                }
            }
        });
    });
    runtime.block_on(broker.close()).expect("closed");
}

async fn send(sender: &QueueSender, window: usize) {
    let message = || Message::new(Bytes::from_static(&[b'x'; BODY]));
    try_join_all((0..window).map(|_| sender.send(message()))).await.expect("accepted");
}

async fn take(receiver: &mut QueueReceiver, window: usize) {
    let deliveries = receiver.receive_batch(window).await.expect("deliveries");
    assert_eq!(deliveries.len(), window);
    try_join_all(deliveries.into_iter().map(Delivery::complete)).await.expect("completed");
}
