//! A stack over a pull consumer that you have: `cargo run -p consign-nats --example wrap_consumer -- STREAM CONSUMER`.
use consign::routing::{Body, Router};
use consign::{codecs::Codecs, consumer::Consumer};
use consign_nats::{Nats, async_nats};
use tower::BoxError;

async fn placed(Body((sku, count)): Body<(String, u32)>) {
    println!("{count} of {sku}");
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let [stream, name] = [1, 2].map(|index| std::env::args().nth(index).unwrap_or_else(|| "orders".into()));
    let client = async_nats::connect("127.0.0.1:4222").await?;
    let consumer = async_nats::jetstream::new(client.clone()).get_consumer_from_stream(&name, &stream).await?;

    let receiver = Nats::wrap(client).await?.wrap_consumer(&consumer).await?.receiver();
    let stack = Router::new(Codecs::json()).fallback(placed).build()?;
    Consumer::new(receiver, stack).run_until(tokio::signal::ctrl_c()).await?;
    Ok(())
}
