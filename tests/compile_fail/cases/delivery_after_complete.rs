use consign::{broker::QueueLease, transport::Delivery};

async fn handle(delivery: Delivery<QueueLease>) {
    let _ = delivery.complete().await;
    println!("{:?}", delivery.message);
}

fn main() {}
