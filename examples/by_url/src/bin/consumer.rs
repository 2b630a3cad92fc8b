//! One consumer, on the broker of a URL: `cargo run --package consign-by-url --bin consumer -- nats://127.0.0.1:4222`.
//!
//! A second argument names a queue that exists, with its dead-letter queue: for AMQP 1.0, which creates none.

use consign::{
    Disposition, Message,
    administration::{Administration, QueueSettings},
    codecs::Codecs,
    consumer::Consumer,
    message::EntityPath,
    routing::{Body, Router},
    transport::{DynTransport, ReceiveMode, ReceiverExt, Sender, Transport},
};
use tokio::sync::mpsc;
use tower::BoxError;

/// Sends three orders, one of them unreadable, handles two, and returns the reason of the third, which is dead-lettered.
async fn handle_orders(transport: &DynTransport, queue: &EntityPath) -> Result<Vec<String>, BoxError> {
    let sender = transport.sender(queue).await?;
    for body in [r#"["bolt",12]"#, "not JSON", r#"["nut",7]"#] {
        sender.send(Message::builder().content_type("application/json").build(body)?).await?;
    }

    let (handled, mut orders) = mpsc::channel(4);
    let order = move |Body((article, pieces)): Body<(String, u32)>| {
        let handled = handled.clone();
        async move {
            let _ = handled.send(format!("{pieces} of {article}")).await;
            Disposition::Complete
        }
    };
    let stack = Router::new(Codecs::json()).fallback(order).build()?;
    let mut lines = Vec::new();
    let until_two = async {
        while lines.len() < 2 {
            lines.extend(orders.recv().await);
        }
    };
    let receiver = transport.receiver(queue, ReceiveMode::PeekLock).await?;
    Consumer::new(receiver, stack).run_until(until_two).await?;

    let mut dead_letters = transport.receiver(&queue.dead_letter(), ReceiveMode::PeekLock).await?;
    let dead = dead_letters.receive().await?;
    lines.push(format!("dead: {}", dead.message.dead_letter_reason().unwrap_or("without a reason")));
    dead.complete().await?;
    Ok(lines)
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:".into());
    let transport = consign_by_url::transports().connect(&url).await?;
    let existing = std::env::args().nth(2);
    let queue = match &existing {
        Some(path) => EntityPath::new(path)?,
        None => EntityPath::new(&format!("orders-{:08x}", fastrand::u32(..)))?,
    };
    if existing.is_none() {
        transport.declare(&queue, &QueueSettings::default().into()).await?;
    }
    for line in handle_orders(&transport, &queue).await? {
        println!("{line}");
    }
    if existing.is_none() {
        transport.delete(&queue).await?;
    }
    transport.close().await?;
    Ok(())
}
