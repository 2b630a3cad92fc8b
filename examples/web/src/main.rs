//! An HTTP service that accepts orders, and handles them from a queue on a disk: `cargo run --package consign-web`.
//!
//! ```sh
//! curl --json '{"id":1}' http://127.0.0.1:3000/orders
//! curl http://127.0.0.1:3000/health
//! ```
use std::time::Duration;

use axum::{Json, extract, http::StatusCode, routing};
use consign::{
    administration::QueueSettings,
    broker::{Broker, Queue},
    codecs::Codecs,
    consumer::Consumer,
    publisher::Publisher,
    routing::{Body, Router},
    settlement::Transient,
    supervisor::Supervisor,
};
use serde::{Deserialize, Serialize};
use tokio::{net::TcpListener, sync::oneshot, time::timeout};
use tower::BoxError;

#[derive(Serialize, Deserialize)]
struct Order {
    id: u64,
}

/// The state of axum's handlers. Clones share one publisher.
#[derive(Clone)]
struct App {
    orders: Publisher,
}

/// `202 Accepted` when the order is on the disk. A client that repeats its request sends the same MessageId.
/// `app.orders.publish("order.placed", &order)` is shorter, and sends a random one.
async fn place(
    extract::State(app): extract::State<App>,
    Json(order): Json<Order>,
) -> Result<StatusCode, (StatusCode, String)> {
    let message = app.orders.message("order.placed").message_id(format!("order-{}", order.id));
    match message.send(&order).await {
        Ok(()) => Ok(StatusCode::ACCEPTED),
        Err(error) => Err((StatusCode::SERVICE_UNAVAILABLE, error.to_string())),
    }
}

/// Runs in the background, once or more for each order.
async fn placed(Body(order): Body<Order>) -> Result<(), Transient> {
    println!("order {}", order.id);
    Ok(())
}

/// The routes, and the consumer that runs beside them.
fn service(queue: Queue) -> Result<(axum::Router, Supervisor), BoxError> {
    let orders = Publisher::builder(Codecs::json()).build(queue.sender()?);

    let router = Router::new(Codecs::json()).route("order.placed", placed).build()?;
    // Kubernetes grants 30 s by default: 20 s for the handlers, 5 s more for the settlements, and 3 s for HTTP.
    let consumer = move || Consumer::new(queue.receiver(), router.clone()).drain_timeout(Duration::from_secs(20));
    // The supervisor calls the closure again if the consumer fails.
    let supervisor = Supervisor::new().drain_timeout(Duration::from_secs(25)).consumer("orders", consumer);

    let health = supervisor.health();
    let routes = axum::Router::new()
        .route("/orders", routing::post(place))
        .route("/health", routing::get(async move || Json(health.snapshot())))
        .with_state(App { orders });
    Ok((routes, supervisor))
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    // Prints the log lines of the consumer and the supervisor.
    tracing_subscriber::fmt().init();
    let broker = Broker::open("orders.store")?;
    // Creates the queue at the first start, and checks its settings at the next ones.
    let (routes, supervisor) = service(broker.declare_queue("orders", QueueSettings::default())?)?;

    let (stop, stopped) = oneshot::channel::<()>();
    let listener = TcpListener::bind("127.0.0.1:3000").await?;
    let http = axum::serve(listener, routes).with_graceful_shutdown(async { _ = stopped.await });
    let http = tokio::spawn(http.into_future());

    // Returns after SIGTERM or Ctrl-C, when the handlers have ended.
    supervisor.run_until_signal().await?;
    drop(stop);
    // Requests that end in time are answered. One whose client does not send the rest is cut off.
    if let Ok(ended) = timeout(Duration::from_secs(3), http).await {
        ended??;
    }
    broker.close().await?;
    Ok(())
}

#[tokio::test]
async fn an_order_is_accepted_and_handled() -> Result<(), BoxError> {
    use axum::{body::Body, http::Request};
    use tower::ServiceExt as _;

    let folder = tempfile::tempdir()?;
    let queue = Broker::open(folder.path())?.declare_queue("orders", QueueSettings::default())?;
    let (routes, supervisor) = service(queue.clone())?;
    let request =
        Request::post("/orders").header("content-type", "application/json").body(Body::from(r#"{"id":1}"#))?;
    assert_eq!(routes.clone().oneshot(request).await?.status(), StatusCode::ACCEPTED);

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
