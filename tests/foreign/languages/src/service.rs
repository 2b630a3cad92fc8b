//! The service that the scripts call, and the consumer of their orders.

use consign::{
    Disposition, Message,
    codecs::Codecs,
    consumer::Consumer,
    routing::{Body, Router, State},
    rpc::{Correlate, Fault, Responder, reply_senders},
    transport::{Receiver, Transport},
};
use serde::Deserialize;
use tokio::{sync::mpsc, task::JoinHandle};
use tower::BoxError;

/// A message of the producers.
#[derive(Debug, PartialEq, Deserialize)]
pub(crate) struct Order {
    pub(crate) id: u32,
    pub(crate) total: f64,
}

async fn half(Body(number): Body<u32>) -> Result<u32, Fault> {
    if number % 2 == 0 { Ok(number / 2) } else { Err(Fault::application("Odd")) }
}

/// Answers requests with the subject `name`.
pub(crate) fn respond<T: Transport>(
    transport: &T,
    name: &str,
    requests: impl Receiver + 'static,
) -> Result<JoinHandle<()>, BoxError> {
    let responder = Responder::builder(reply_senders(transport.clone()))
        .correlate(Correlate::CorrelationIdOrMessageId)
        .codecs(Codecs::json())
        .answer(name, half)
        .build()?;
    let consumer = Consumer::new(requests, responder);
    Ok(tokio::spawn(async move {
        if let Err(error) = consumer.run().await {
            eprintln!("the responder: {error}");
        }
    }))
}

/// An order, and the tenant among its properties.
type Seen = (Order, Option<String>);

/// Consumes orders, one after the other.
pub(crate) fn consume(orders: impl Receiver + 'static) -> Result<(JoinHandle<()>, mpsc::Receiver<Seen>), BoxError> {
    let (seen, received) = mpsc::channel(8);
    let router = Router::with_state(Codecs::json(), seen).route("order", order).build()?;
    let consumer = Consumer::new(orders, router).concurrency(1);
    let running = tokio::spawn(async move {
        if let Err(error) = consumer.run().await {
            eprintln!("the consumer: {error}");
        }
    });
    Ok((running, received))
}

async fn order(State(seen): State<mpsc::Sender<Seen>>, Body(order): Body<Order>, message: Message) -> Disposition {
    let tenant = message.application_properties().get("tenant").and_then(|tenant| tenant.as_str());
    let _ = seen.send((order, tenant.map(str::to_owned))).await;
    Disposition::Complete
}
