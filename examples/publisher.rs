//! A publisher in the state of an application. A web framework would call `place` and `cancel` with that state.
use consign::{
    administration::QueueSettings,
    broker::Broker,
    codecs::Codecs,
    consumer::Consumer,
    middleware::{retry::Backoff, send_retry::SendRetryLayer, size_limit::SizeLimitLayer},
    publisher::Publisher,
    routing::{Body, Router, State},
    settlement::Transient,
    transport::SendError,
};
use serde::{Deserialize, Serialize};
use std::{sync::Arc, time::Duration};
use tokio::sync::mpsc;
use tower::BoxError;

#[derive(Serialize, Deserialize)]
struct Placed {
    order: u64,
    customer: String,
}

#[derive(Serialize, Deserialize)]
struct Cancelled {
    order: u64,
}

/// Cloned for each request.
#[derive(Clone)]
struct App {
    orders: Publisher,
    shop: Arc<str>,
}

async fn place(app: &App, order: u64, customer: &str) -> Result<(), SendError> {
    let placed = Placed { order, customer: customer.to_owned() };
    app.orders.message("order.placed").property("shop", &*app.shop).send(&placed).await
}

async fn cancel(app: &App, order: u64) -> Result<(), SendError> {
    app.orders.publish("order.cancelled", &Cancelled { order }).await
}

type Handled = State<mpsc::Sender<String>>;

async fn print_placed(
    State(handled): Handled,
    Body(Placed { order, customer }): Body<Placed>,
) -> Result<(), Transient> {
    Ok(handled.send(format!("{customer} has placed order {order}")).await?)
}

async fn print_cancelled(State(handled): Handled, Body(Cancelled { order }): Body<Cancelled>) -> Result<(), Transient> {
    Ok(handled.send(format!("order {order} is cancelled")).await?)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let queue = Broker::new().create_queue("orders", QueueSettings::default())?;
    let orders = Publisher::builder(Codecs::json())
        .layer(SendRetryLayer::new(Backoff::exponential(Duration::from_millis(100))))
        .layer(SizeLimitLayer::default())
        .build(queue.sender()?);
    let app = App { orders, shop: "berlin".into() };

    place(&app, 7, "ada").await?;
    cancel(&app.clone(), 7).await?;
    // One transfer: the broker accepts both or none.
    app.orders.publish_batch("order.cancelled", &[Cancelled { order: 8 }, Cancelled { order: 9 }]).await?;

    let (handled, mut seen) = mpsc::channel(4);
    let router = Router::with_state(Codecs::json(), handled)
        .route("order.placed", print_placed)
        .route("order.cancelled", print_cancelled)
        .build()?;
    let four = async {
        for _ in 0..4 {
            println!("{}", seen.recv().await.unwrap_or_default());
        }
    };
    let stats = Consumer::new(queue.receiver(), router).run_until(four).await?;
    assert_eq!(stats.completed(), 4);
    Ok(())
}

#[test]
fn the_example_runs() {
    main().unwrap();
}
