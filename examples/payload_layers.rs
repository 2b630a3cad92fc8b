//! A large order on its way through a small queue: compressed, encrypted, and kept elsewhere; and what becomes of one that
//! somebody sent in the clear.
//!
//! ```sh
//! cargo run --features full --example payload_layers
//! ```

use std::time::Duration;

use consign::{
    Message,
    administration::QueueSettings,
    broker::Broker,
    codecs::{Codecs, Json, Limits},
    consumer::Consumer,
    message::SequenceNumber,
    middleware::{
        claim_check::{MemoryBlobs, ResolveClaimLayer, StoreClaimLayer},
        content_encoding::{CompressLayer, DecompressLayer, Encoding},
        encode::{EncodeLayer, OutboundMessage},
        encryption::{DecryptLayer, EncryptLayer},
        keys::{Key, Keys},
        size_limit::SizeLimitLayer,
    },
    routing::{Body, Router},
    transport::{SendExt, SendService, Sender},
};
use tower::{BoxError, ServiceBuilder};

async fn order(Body(lines): Body<Vec<(u32, String)>>) {
    println!("an order of {} lines", lines.len());
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let queue = Broker::new().create_queue("orders", QueueSettings::default())?;
    // A real key is 32 random bytes that only the two sides know; a real store outlives the process.
    let (keys, blobs) = (Keys::new(Key::new("2026", [7; 32])?), MemoryBlobs::new(64 << 20));

    let mut sender = ServiceBuilder::new()
        .layer(EncodeLayer::new(Codecs::json()))
        .layer(CompressLayer::new(Encoding::Zstd))
        .layer(EncryptLayer::new(keys.clone()))
        .layer(StoreClaimLayer::new(blobs.clone()).threshold(64 << 10))
        .layer(SizeLimitLayer::default())
        .service(SendService::new(queue.sender()?));
    let lines: Vec<_> = (0..50_000_u32).map(|n| (n, format!("sku-{}", n.wrapping_mul(2_654_435_761)))).collect();
    sender.send(OutboundMessage::new(lines)).await?;
    queue.sender()?.send(Message::builder().message_id("forged").build("[]")?).await?;
    for message in queue.peek(SequenceNumber::default(), 2) {
        println!("{:?}: {} bytes in the queue, {} blob", message.message_id(), message.size(), blobs.len());
    }

    let limits = Limits::default().bytes(4 << 20).elements(1 << 20);
    let large = Codecs::builder().with(Json::default()).limits(limits).build()?;
    let stack = ServiceBuilder::new()
        .layer(ResolveClaimLayer::new(blobs))
        .layer(DecryptLayer::new(keys))
        .layer(DecompressLayer::new([Encoding::Zstd]).max_bytes(4 << 20))
        .service(Router::new(large).fallback(order).build()?);
    let consumer = Consumer::new(queue.receiver(), stack);
    let stats = consumer.stats();
    let both = async {
        while stats.completed() + stats.dead_lettered() < 2 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let both = tokio::time::timeout(Duration::from_secs(60), both);
    let stats = consumer.run_until(async { drop(both.await) }).await?;
    assert_eq!((stats.completed(), stats.dead_lettered()), (1, 1));

    println!("{} completed, {} dead-lettered", stats.completed(), stats.dead_lettered());
    for dead in queue.dead_letter().peek(SequenceNumber::default(), 10) {
        println!("{:?}: {:?}, {:?}", dead.message_id(), dead.dead_letter_reason(), dead.dead_letter_description());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_example_runs() {
        super::main().expect("it runs");
    }
}
