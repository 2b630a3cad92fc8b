//! A lease settles twice.
//!
//! Settle once: `settle` consumes the lease.

use consign::{
    Disposition,
    broker::QueueLease,
    transport::{Delivery, Lease},
};

async fn handle(delivery: Delivery<QueueLease>) {
    let lease = delivery.lease;
    let _ = lease.settle(Disposition::Complete).await;
    let _ = lease.settle(Disposition::ABANDON).await;
}

fn main() {}
