//! Health and metrics over HTTP.
#![allow(clippy::unwrap_used)]

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{Request, StatusCode, header},
};
use consign_broker::{Broker, QueueLease, QueueReceiver, QueueSender};
use consign_core::{
    Disposition, Message,
    administration::QueueSettings,
    message::EntityPath,
    transport::{
        Capabilities, DynTransport, ErrorKind, Lease, ManageError, ReceiveError, ReceiveMode, ReceiverExt, SendError,
        Sender, Transport,
    },
};
use consign_server::{
    AccessKey, Server,
    operations::{Health, Operations},
};
use futures_util::future::join_all;
use tokio::{sync::watch, time::Instant};
use tower::ServiceExt;

#[path = "protocol/log.rs"]
mod log;

const KEY: &str = "the key of operators";

async fn get(router: &Router, path: &str, key: Option<&str>) -> (StatusCode, String) {
    let mut request = Request::get(path);
    if let Some(key) = key {
        request = request.header(header::AUTHORIZATION, format!("Bearer {key}"));
    }
    let answer = router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    let status = answer.status();
    let body = to_bytes(answer.into_body(), 1 << 20).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

fn has(text: &str, line: &str) {
    assert!(text.lines().any(|other| other == line), "{line} is not in\n{text}");
}

/// Rules: HT-31.
#[tokio::test]
async fn metrics_count_what_happens_to_messages() {
    let broker = Broker::new();
    let window = std::time::Duration::from_secs(600);
    let queue = broker.create_queue("orders", QueueSettings::default().duplicate_detection(window)).unwrap();
    for id in ["1", "2", "3", "4", "1"] {
        queue.sender().unwrap().send(Message::builder().message_id(id).build("").unwrap()).await.unwrap();
    }
    let mut receiver = queue.receiver();
    receiver.receive().await.unwrap().complete().await.unwrap();
    receiver.receive().await.unwrap().lease.settle(Disposition::ABANDON).await.unwrap();
    let held = receiver.receive().await.unwrap();
    queue.lose_locks();
    let again = receiver.receive().await.unwrap();
    again.lease.release().await.unwrap();

    let router: Router = Operations::new(Server::builder().broker(broker).build()).router();
    let (status, text) = get(&router, "/metrics", None).await;
    assert_eq!(status, StatusCode::OK);
    for line in [
        "consign_entity_messages{entity=\"orders\",kind=\"queue\",state=\"active\"} 3",
        "consign_entity_arrived_total{entity=\"orders\",kind=\"queue\"} 4",
        "consign_entity_delivered_total{entity=\"orders\",kind=\"queue\"} 4",
        "consign_entity_settled_total{entity=\"orders\",kind=\"queue\",outcome=\"completed\"} 1",
        "consign_entity_settled_total{entity=\"orders\",kind=\"queue\",outcome=\"abandoned\"} 1",
        "consign_entity_settled_total{entity=\"orders\",kind=\"queue\",outcome=\"released\"} 1",
        "consign_entity_locks_lost_total{entity=\"orders\",kind=\"queue\"} 1",
        "consign_entity_duplicates_total{entity=\"orders\",kind=\"queue\"} 1",
        "consign_entities 1",
        "consign_server_connections 0",
        "# TYPE consign_entity_settled counter",
        "# EOF",
    ] {
        has(&text, line);
    }
    assert!(
        text.contains("consign_entity_oldest_seconds{entity=\"orders\",kind=\"queue\",state=\"active\"}"),
        "{text}"
    );
    assert!(!text.contains("consign_store_"), "{text}");
    drop(held);
}

/// Rules: HT-32.
#[tokio::test]
async fn labels_are_escaped_and_series_are_bounded() {
    let broker = Broker::new();
    for name in ["a\"b", "c", "d"] {
        broker.create_queue(name, QueueSettings::default()).unwrap();
    }
    let operations = Operations::new(Server::builder().broker(broker).build()).max_entities(2);
    let (_, text) = get(&operations.router(), "/metrics", None).await;
    has(&text, "consign_entity_size_bytes{entity=\"a\\\"b\",kind=\"queue\"} 0");
    has(&text, "consign_entities 3");
    has(&text, "consign_entities_without_metrics 1");
    assert!(!text.contains("entity=\"d\""), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_wrong_operator_key_is_logged() {
    log::without_earlier_lines().await;
    let router: Router = Operations::new(Server::builder().build()).key(AccessKey::new(KEY).unwrap()).router();
    let (lines, _guard) = log::captured();
    assert_eq!(get(&router, "/metrics", None).await.0, StatusCode::UNAUTHORIZED);
    assert_eq!(lines.take(), "");
    assert_eq!(get(&router, "/metrics", Some("another key")).await.0, StatusCode::UNAUTHORIZED);
    let lines = lines.take();
    assert!(lines.contains("operator key") && !lines.contains("another key"), "{lines}");
}

/// Rules: HT-30, HT-31.
#[tokio::test]
async fn metrics_need_the_key_and_health_does_not() {
    let operations = Operations::new(Server::builder().build()).key(AccessKey::new(KEY).unwrap());
    let router = operations.router();
    for (key, status) in
        [(None, StatusCode::UNAUTHORIZED), (Some("another key"), StatusCode::UNAUTHORIZED), (Some(KEY), StatusCode::OK)]
    {
        assert_eq!(get(&router, "/metrics", key).await.0, status, "{key:?}");
    }
    assert_eq!(get(&router, "/health/live", None).await, (StatusCode::OK, "live\n".into()));
}

/// Rules: HT-30.
#[tokio::test]
async fn a_store_is_measured_and_a_closed_one_is_not_ready() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::open(folder.path().join("store")).unwrap();
    let queue = broker.create_queue("orders", QueueSettings::default()).unwrap();
    queue.sender().unwrap().send(Message::new("one")).await.unwrap();
    let server = Server::builder().broker(broker.clone()).build();
    let router = Operations::new(server.clone()).router();
    let (_, text) = get(&router, "/metrics", None).await;
    let value =
        |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().parse::<f64>().unwrap();
    assert!(value("consign_store_commits_total") >= 1.0 && value("consign_store_commit_seconds_total") > 0.0, "{text}");
    assert_eq!(get(&router, "/health/ready", None).await.0, StatusCode::OK);

    broker.close().await.unwrap();
    assert_eq!(get(&router, "/health", None).await, (StatusCode::SERVICE_UNAVAILABLE, "not ready\n".into()));
    assert_eq!(get(&router, "/health/live", None).await.0, StatusCode::OK);
}

/// The answer to a ping; `None` while there is none.
type Answer = Option<Result<(), ErrorKind>>;

/// The embedded broker, as if it were behind a network.
#[derive(Clone)]
struct Behind {
    broker: Broker,
    answer: watch::Receiver<Answer>,
    pings: Arc<AtomicUsize>,
}

impl Transport for Behind {
    type Sender = QueueSender;
    type Lease = QueueLease;
    type Receiver = QueueReceiver;

    fn capabilities(&self) -> Capabilities {
        Transport::capabilities(&self.broker)
    }

    async fn sender(&self, path: &EntityPath) -> Result<QueueSender, SendError> {
        Transport::sender(&self.broker, path).await
    }

    async fn receiver(&self, path: &EntityPath, mode: ReceiveMode) -> Result<QueueReceiver, ReceiveError> {
        Transport::receiver(&self.broker, path, mode).await
    }

    async fn ping(&self) -> Result<(), ManageError> {
        self.pings.fetch_add(1, Ordering::Relaxed);
        let mut answer = self.answer.clone();
        let answer = *answer.wait_for(Option::is_some).await.unwrap();
        answer.unwrap().map_err(|kind| ManageError::new(kind).with_detail("user \"x\" at 10.0.0.1"))
    }
}

/// Rules: HT-36.
#[tokio::test(start_paused = true)]
async fn a_transport_is_ready_while_its_broker_answers() {
    const READY: &str = "/health/ready";
    let not_ready = |why: &str| (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {why}\n"));
    let (answer, pings) = (watch::Sender::new(Some(Ok(()))), Arc::<AtomicUsize>::default());
    let behind = Behind { broker: Broker::new(), answer: answer.subscribe(), pings: Arc::clone(&pings) };
    let health = Health::new(DynTransport::builder(behind).build());
    let router: Router = health.router();
    let is_pinged = |times: usize| assert_eq!(pings.swap(0, Ordering::Relaxed), times);
    let (lines, _guard) = log::captured();

    for path in [READY, "/health", READY] {
        assert_eq!(get(&router, path, None).await, (StatusCode::OK, "ready\n".into()));
    }
    is_pinged(1);

    // The result of a second ago is not that of now.
    answer.send_replace(Some(Err(ErrorKind::CommunicationProblem)));
    assert_eq!(get(&router, READY, None).await.0, StatusCode::OK);
    for _ in 0..2 {
        tokio::time::advance(Duration::from_secs(1)).await;
        let failed = not_ready("the ping of the broker failed with CommunicationProblem");
        assert_eq!(get(&router, READY, None).await, failed);
    }
    is_pinged(2);
    let logged = lines.take();
    assert_eq!((logged.lines().count(), logged.contains("10.0.0.1")), (1, true), "{logged}");

    // Requests do not add up while there is no answer.
    answer.send_replace(None);
    tokio::time::advance(Duration::from_secs(1)).await;
    for round in 0..3 {
        let began = Instant::now();
        let answers = join_all((0..10).map(|_| get(&router, READY, None))).await;
        let silent = not_ready("the broker has not answered within 5 s");
        assert!(answers.iter().all(|answer| *answer == silent), "{round}: {answers:?}");
        assert_eq!(began.elapsed().as_secs(), 5);
    }
    is_pinged(1);
    assert_eq!(get(&router, "/health/live", None).await, (StatusCode::OK, "live\n".into()));

    // An answer that no request has waited for is not used later.
    answer.send_replace(Some(Err(ErrorKind::ServiceBusy)));
    tokio::time::sleep(Duration::from_secs(1)).await;
    answer.send_replace(Some(Ok(())));
    assert_eq!(get(&router, READY, None).await.0, StatusCode::OK);
    is_pinged(1);
    health.shutdown();
    assert_eq!(get(&router, READY, None).await, not_ready("the server is shutting down"));
    is_pinged(0);
}

/// Rules: HT-36.
/// A transport whose ping has no end does not keep the endpoint from the next one.
#[tokio::test(start_paused = true)]
async fn a_ping_without_an_end_is_given_up() {
    let (answer, pings) = (watch::Sender::new(None), Arc::<AtomicUsize>::default());
    let behind = Behind { broker: Broker::new(), answer: answer.subscribe(), pings: Arc::clone(&pings) };
    let router: Router = Health::new(DynTransport::builder(behind).build()).router();
    for _ in 0..13 {
        assert_eq!(get(&router, "/health/ready", None).await.0, StatusCode::SERVICE_UNAVAILABLE);
    }
    assert_eq!(pings.load(Ordering::Relaxed), 1);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(get(&router, "/health/ready", None).await.0, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(pings.load(Ordering::Relaxed), 2);
}

/// Rules: HT-30.
#[tokio::test]
async fn a_server_that_shuts_down_is_not_ready() {
    let server = Server::builder().build();
    let router = Operations::new(server.clone()).router();
    assert_eq!(get(&router, "/health/ready", None).await.0, StatusCode::OK);
    server.shutdown().await;
    assert_eq!(get(&router, "/health/ready", None).await.0, StatusCode::SERVICE_UNAVAILABLE);
}

/// Rules: HT-26, HT-31.
#[tokio::test]
async fn a_browser_reads_metrics_without_a_key_under_a_loopback_name_only() {
    let server = Server::builder().build();
    let open: Router = Operations::new(server.clone()).router();
    let closed: Router = Operations::new(server).key(AccessKey::new(KEY).unwrap()).router();
    for (host, language, status) in [
        ("evil:9090", Some("en"), StatusCode::MISDIRECTED_REQUEST),
        ("evil:9090", None, StatusCode::OK),
        ("localhost:9090", Some("en"), StatusCode::OK),
    ] {
        let request = || {
            let request = Request::get("/metrics").header(header::HOST, host);
            let request = language.into_iter().fold(request, |all, text| all.header(header::ACCEPT_LANGUAGE, text));
            request.header(header::AUTHORIZATION, format!("Bearer {KEY}")).body(Body::empty()).unwrap()
        };
        assert_eq!(open.clone().oneshot(request()).await.unwrap().status(), status, "{host}");
        assert_eq!(closed.clone().oneshot(request()).await.unwrap().status(), StatusCode::OK, "{host}");
    }
}
