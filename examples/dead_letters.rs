//! What is done with dead letters: orders that could not be handled are looked at, with what was tried; what was labelled
//! wrongly is written anew and sent again, what has a typing error is edited, noise is purged, and a bomb stays.
//!
//! `cargo run --example dead_letters --features msgpack`

use std::time::Duration;

use consign::{
    Message,
    administration::QueueSettings,
    broker::{Broker, Queue},
    codecs::{Codecs, Json, MessagePack},
    consumer::Consumer,
    dead_letters::{DeadLetterFilter, DeadLetters, MAX_HOPS, RunOutcome},
    message::SequenceNumber,
    routing::{Body, Router},
    settlement::Permanent,
};
use serde::Deserialize;
use tower::BoxError;

#[derive(Deserialize)]
struct Order {
    sku: String,
    count: u32,
}

async fn handle(Body(order): Body<Order>) -> Result<(), Permanent> {
    if order.sku == "bomb" {
        return Err(Permanent::new("it went off"));
    }
    println!("handled: {} of {}", order.count, order.sku);
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let queue = Broker::new().create_queue("orders", QueueSettings::default())?;
    let dead = DeadLetters::new(queue.dead_letter());
    send(&queue).await?;
    consume(&queue).await?;

    println!("\n# What is there");
    for letter in dead.list(&DeadLetterFilter::all(), SequenceNumber::default(), 100).await? {
        println!("{letter}");
    }

    println!("\n# MessagePack that was declared as JSON");
    let codecs = Codecs::builder().with(Json::default()).with(MessagePack).fallback(["json", "msgpack"]).build()?;
    let legacy = DeadLetterFilter::all().subject("order.legacy");
    let run = dead.resubmit(legacy, queue.sender()?).transcode(codecs, "application/json");
    println!("{}", run.run().await?);

    println!("\n# A typing error");
    let misspelt = DeadLetterFilter::all().reason("DeserializationFailed").matching(|letter| {
        letter.message().payload().is_some_and(|body| String::from_utf8_lossy(body).contains("cuont"))
    });
    let edited = dead.resubmit(misspelt, queue.sender()?).edit(|_, body| {
        let text = std::str::from_utf8(body.codec_view().unwrap_or_default())?;
        *body = text.replace("cuont", "count").into();
        Ok(())
    });
    println!("{}", edited.run().await?);

    println!("\n# Noise");
    let noise = DeadLetterFilter::all().content_type("application/octet-stream");
    println!("{}", dead.purge(noise).run().await?);

    println!("\n# A bomb");
    let mut hops = 0;
    loop {
        consume(&queue).await?;
        let bomb = DeadLetterFilter::all().reason("HandlerPermanent");
        let report = dead.resubmit(bomb, queue.sender()?).run().await?;
        assert_eq!(report.end, RunOutcome::Done);
        if report.stopped_at_hop_limit == 1 {
            break;
        }
        hops += 1;
    }
    println!("resubmitted {hops} times, and there it is:");
    for letter in dead.list(&DeadLetterFilter::all(), SequenceNumber::default(), 100).await? {
        println!("{}", letter.with_body(100));
    }
    assert_eq!((hops, queue.dead_letter().counts().active, queue.counts().active), (MAX_HOPS, 1, 0));
    Ok(())
}

async fn send(queue: &Queue) -> Result<(), BoxError> {
    use consign::transport::Sender;

    let orders: [(&str, &str, &[u8]); 5] = [
        ("order", "application/json", br#"{"sku":"nail","count":3}"#),
        ("order.legacy", "application/json", b"\x82\xa3sku\xa5screw\xa5count\x05"),
        ("order", "application/json", br#"{"sku":"bolt","cuont":7}"#),
        ("order", "application/octet-stream", b"\x00\xff\x1b[31m"),
        ("order", "application/json", br#"{"sku":"bomb","count":1}"#),
    ];
    for (subject, content_type, body) in orders {
        let order = Message::builder().subject(subject).content_type(content_type).build(body.to_vec())?;
        queue.sender()?.send(order).await?;
    }
    Ok(())
}

/// Handles what is there.
async fn consume(queue: &Queue) -> Result<(), BoxError> {
    let router = Router::new(Codecs::json()).fallback(handle).build()?;
    let quiet = async {
        while queue.counts().active + queue.counts().locked > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    Consumer::new(queue.receiver(), router).run_until(quiet).await?;
    Ok(())
}

#[test]
fn the_tour_ends() -> Result<(), BoxError> {
    main()
}
