//! An HTTP service that accepts orders, and handles them from a queue on a disk: `cargo run --package consign-web`.
//!
//! ```sh
//! curl --json '{"id":1}' http://127.0.0.1:3000/orders
//! curl http://127.0.0.1:3000/health
//! ```
use std::path::Path;

use axum::{Json, extract, http::StatusCode, routing};
use consign::{
    administration::QueueSettings,
    broker::Broker,
    codecs::Codecs,
    consumer::Consumer,
    middleware::{catch_panic::CatchPanicLayer, dead_letter::DeadLetterLayer},
    publisher::Publisher,
    routing::{Body, Router},
    settlement::Transient,
    supervisor::Supervisor,
    transport::SendError,
};
use serde::{Deserialize, Serialize};
use tower::{BoxError, ServiceBuilder};

#[derive(Serialize, Deserialize)]
struct Order {
    id: u64,
}

/// `202 Accepted` when the order is on the disk. A client that repeats the request sends the same MessageId.
async fn place(
    extract::State(orders): extract::State<Publisher>,
    Json(order): Json<Order>,
) -> Result<StatusCode, (StatusCode, String)> {
    let message = orders.message("order.placed").message_id(format!("order-{}", order.id));
    let unavailable = |error: SendError| (StatusCode::SERVICE_UNAVAILABLE, error.to_string());
    message.send(&order).await.map(|()| StatusCode::ACCEPTED).map_err(unavailable)
}

async fn placed(Body(order): Body<Order>) -> Result<(), Transient> {
    println!("order {}", order.id);
    Ok(())
}

/// The routes of the service, and what runs beside them.
fn service(store: &Path) -> Result<(axum::Router, Supervisor, Broker), BoxError> {
    let broker = Broker::open(store)?;
    let queue = broker.declare_queue("orders", QueueSettings::default())?;
    let orders = Publisher::builder(Codecs::json()).build(queue.sender()?);

    let router = Router::new(Codecs::json()).route("order.placed", placed).build()?;
    let stack = ServiceBuilder::new().layer(DeadLetterLayer::new()).layer(CatchPanicLayer::new()).service(router);
    let consumer = move || Consumer::new(queue.receiver(), stack.clone()).concurrency(16);
    let supervisor = Supervisor::new().consumer("orders", consumer);

    let health = supervisor.health();
    let routes = axum::Router::new()
        .route("/orders", routing::post(place))
        .route("/health", routing::get(async move || Json(health.snapshot())))
        .with_state(orders);
    Ok((routes, supervisor, broker))
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let (routes, supervisor, broker) = service(Path::new("orders.store"))?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    let server = tokio::spawn(axum::serve(listener, routes).into_future());

    // SIGTERM or Ctrl-C drains the consumer. Requests are accepted until then.
    supervisor.run_until_signal().await?;
    server.abort();
    broker.close().await?;
    Ok(())
}

#[tokio::test]
async fn an_order_is_accepted_and_handled() -> Result<(), BoxError> {
    use axum::{body::Body, http::Request};
    use tower::ServiceExt as _;

    let folder = tempfile::tempdir()?;
    let (routes, supervisor, broker) = service(folder.path())?;
    let request =
        Request::post("/orders").header("content-type", "application/json").body(Body::from(r#"{"id":1}"#))?;
    assert_eq!(routes.clone().oneshot(request).await?.status(), StatusCode::ACCEPTED);

    let queue = broker.queue("orders")?;
    assert_eq!(queue.counts().active, 1);
    let empty = async {
        while queue.counts().active + queue.counts().locked > 0 {
            tokio::task::yield_now().await;
        }
    };
    supervisor.run_until(empty).await?;
    assert_eq!(queue.counts().dead_lettered, 0);
    let health = routes.oneshot(Request::get("/health").body(Body::empty())?).await?;
    assert_eq!(health.status(), StatusCode::OK);
    Ok(())
}
