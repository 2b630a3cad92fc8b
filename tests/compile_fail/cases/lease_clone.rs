use consign::{broker::QueueLease, transport::Delivery};

async fn handle(delivery: Delivery<QueueLease>) {
    let second = delivery.lease.clone();
    let _ = delivery.complete().await;
    drop(second);
}

fn main() {}
