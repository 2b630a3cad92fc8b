//! The receiving stack around a client that you have. The loop, and the right to settle, stay yours.
#![expect(clippy::unused_async, reason = "your client waits for its broker")]
use consign::message::{Received, SequenceNumber};
use consign::middleware::{
    catch_panic::CatchPanicLayer, dead_letter::DeadLetterLayer, delivery_limit::DeliveryLimitLayer,
};
use consign::routing::{Body, Router};
use consign::settlement::{DeadLetter, DeadLetterReason, Transient};
use consign::time::{Clock, SystemClock};
use consign::{Disposition, Message, codecs::Codecs};
use std::collections::VecDeque;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt};

/// Your client: what it will deliver, and how that was settled.
struct Client(VecDeque<Delivery>, Vec<String>);
/// A name, a body, and which delivery of the message it is, from 1.
type Delivery = (&'static str, &'static str, u32);

impl Client {
    async fn next(&mut self) -> Option<Delivery> {
        self.0.pop_front()
    }
    async fn ack(&mut self, delivery: Delivery) {
        self.1.push(format!("{}: ack", delivery.0));
    }
    async fn nack(&mut self, delivery: Delivery) {
        self.1.push(format!("{}: nack", delivery.0));
        self.0.push_back((delivery.0, delivery.1, delivery.2 + 1));
    }
    async fn reject(&mut self, delivery: Delivery, reason: &str) {
        self.1.push(format!("{}: reject {reason}", delivery.0));
    }
}

async fn priced(Body((_sku, cents)): Body<(String, u64)>) -> Result<(), Transient> {
    assert!(cents > 0, "an article without a price");
    if cents > 1_000 { Err(Transient::new("the shop is closed for the day")) } else { Ok(()) }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let orders = [("ok", r#"["a",1]"#), ("later", r#"["a",9999]"#), ("panics", r#"["a",0]"#), ("bad", "[1]")];
    let mut client = Client(orders.map(|(name, body)| (name, body, 1)).into(), Vec::new());
    let router = Router::new(Codecs::json()).fallback(priced).build()?;
    let panicked = |error: &BoxError| Some(DeadLetter::new(DeadLetterReason::HandlerPermanent, error.to_string()));
    let mut stack = ServiceBuilder::new()
        .layer(DeadLetterLayer::new().classify(panicked))
        .layer(DeliveryLimitLayer::new(2))
        .layer(CatchPanicLayer::new())
        .service(router);
    while let Some(delivery) = client.next().await {
        let message = Message::builder().subject(delivery.0).build(delivery.1)?;
        // `nack` makes a message available again at once: without the count, one that fails each time would come without an end.
        let received = Received::new(SequenceNumber::default(), SystemClock::new().now().utc, delivery.2);
        match stack.ready().await?.call(message.with_received(received)).await {
            Ok(Disposition::Complete) => client.ack(delivery).await,
            Ok(Disposition::DeadLetter(why)) => client.reject(delivery, why.reason.as_str()).await,
            Ok(Disposition::Abandon(_) | Disposition::Defer(_)) | Err(_) => client.nack(delivery).await,
        }
    }
    let settled = ["ok: ack", "later: nack", "panics: reject HandlerPermanent", "bad: reject DeserializationFailed"];
    assert_eq!(client.1, [&settled[..], &["later: reject MaxDeliveryCountExceeded"]].concat());
    Ok(())
}

#[test]
fn the_example_runs() {
    main().unwrap();
}
