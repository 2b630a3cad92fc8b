//! A lease is cloned, to settle twice.
//!
//! Settle once. A lease is not `Clone`, so that a delivery cannot be settled twice.

use consign::{broker::QueueLease, transport::Delivery};

async fn handle(delivery: Delivery<QueueLease>) {
    let second = delivery.lease.clone();
    let _ = delivery.complete().await;
    drop(second);
}

fn main() {}
