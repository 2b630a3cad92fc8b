//! The quick start of the README.

use consign::{
    Message,
    administration::QueueSettings,
    broker::Broker,
    codecs::Codecs,
    consumer::Consumer,
    message::SequenceNumber,
    routing::{Body, Router},
    transport::{ReceiverExt, Sender},
};

#[derive(serde::Deserialize)]
struct Order {
    id: u64,
}

async fn created(Body(order): Body<Order>) {
    println!("order {}", order.id);
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), tower::BoxError> {
    let queue = Broker::new().create_queue("orders", QueueSettings::default())?;
    for body in [r#"{"id":1}"#, r#"{"id":"#] {
        queue.sender()?.send(Message::builder().subject("order.created").build(body)?).await?;
    }

    let router = Router::new(Codecs::json()).route("order.created", created).build()?;
    let mut dead_letters = queue.dead_letter().receiver();
    // Until the first dead letter arrives; a service would pass its shutdown signal.
    let stats = Consumer::new(queue.receiver(), router).run_until(dead_letters.receive()).await?;

    for dead in queue.dead_letter().peek(SequenceNumber::default(), 10) {
        let reason = dead.dead_letter_reason().unwrap_or_default();
        println!("{reason}: {}", dead.dead_letter_description().unwrap_or_default());
    }
    println!("{} completed, {} dead-lettered", stats.completed(), stats.dead_lettered());
    Ok(())
}

#[test]
fn the_readme_has_this_program() {
    let program = include_str!("main.rs").split("\n\n#[test]").next().unwrap_or_default();
    let program = program.trim_start_matches("//! The quick start of the README.\n\n");
    assert!(include_str!("../../../README.md").contains(program));
}
