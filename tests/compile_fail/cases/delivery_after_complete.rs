//! The message of a delivery is read after the settlement.
//!
//! Take the message before: `let Delivery { message, lease } = delivery;`.

use consign::{broker::QueueLease, transport::Delivery};

async fn handle(delivery: Delivery<QueueLease>) {
    let _ = delivery.complete().await;
    println!("{:?}", delivery.message);
}

fn main() {}
