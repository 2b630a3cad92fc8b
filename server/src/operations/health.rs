//! Health of a transport over HTTP.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use consign_core::transport::{BoxFuture, DynTransport, ErrorKind, Escaped, ManageError, Transport};
use futures_util::{FutureExt, future::Shared};
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};

/// How long later requests use a result.
const FRESH: Duration = Duration::from_secs(1);
/// How long a request waits for the broker.
const WAIT: Duration = Duration::from_secs(5);
/// The longest ping: a transport may have no timeout of its own.
const LONGEST: Duration = Duration::from_secs(60);

/// The health endpoints of any transport: whether its broker answers.
///
/// | path | answer |
/// |---|---|
/// | `/health/live` | 200 as long as the process answers |
/// | `/health/ready`, `/health` | 200 if the broker answers a [ping](Transport::ping). 503 with the kind of the error if it does not, or not within 5 s, and after [`Health::shutdown`] |
///
/// One ping at a time is sent, however many requests there are, and its result is used for one second. The endpoints need no key. A
/// client sees the kind of an error only; a WARN line has its text. Clones are handles of the same endpoints.
///
/// ```no_run
/// use consign_broker::Broker;
/// use consign_server::operations::Health;
///
/// # async fn run() -> std::io::Result<()> {
/// let health = Health::new(Broker::new());
/// let listener = tokio::net::TcpListener::bind("127.0.0.1:9090").await?;
/// axum::serve(listener, health.router()).await
/// # }
/// ```
#[derive(Clone)]
pub struct Health {
    inner: Arc<Inner>,
}

struct Inner {
    transport: DynTransport,
    last: Mutex<Option<Ping>>,
    /// Whether the last ping has failed.
    has_failed: AtomicBool,
    is_shutting_down: AtomicBool,
}

/// A ping, for all requests that wait for it.
#[derive(Clone)]
struct Ping {
    answered: Shared<BoxFuture<Result<(), ErrorKind>>>,
    /// When it ended.
    ended: Arc<Mutex<Option<Instant>>>,
}

impl Ping {
    /// Returns whether it has not ended, or not long ago.
    fn is_fresh(&self) -> bool {
        self.ended.lock().is_none_or(|ended| ended.elapsed() < FRESH)
    }
}

impl Health {
    /// Creates the endpoints of a transport.
    #[must_use]
    pub fn new(transport: impl Into<DynTransport>) -> Self {
        let inner = Inner {
            transport: transport.into(),
            last: Mutex::default(),
            has_failed: AtomicBool::new(false),
            is_shutting_down: AtomicBool::new(false),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Returns the routes.
    pub fn router<S>(&self) -> Router<S> {
        Router::new()
            .route("/health", get(ready))
            .route("/health/live", get(super::live))
            .route("/health/ready", get(ready))
            .with_state(self.clone())
    }

    /// Answers 503 at `/health/ready` from now on.
    pub fn shutdown(&self) {
        self.inner.is_shutting_down.store(true, Ordering::Relaxed);
    }

    /// Returns the ping that is in progress or has just ended, or starts another one. It goes on if the request is dropped.
    fn ping(&self) -> Ping {
        let mut last = self.inner.last.lock();
        if let Some(ping) = last.as_ref().filter(|ping| ping.is_fresh()) {
            return ping.clone();
        }
        let ended = Arc::<Mutex<Option<Instant>>>::default();
        let task = tokio::spawn(Arc::clone(&self.inner).ping(Arc::clone(&ended)));
        // It ends early by a panic of the transport, or with the runtime.
        let answered: BoxFuture<_> = Box::pin(async move { task.await.unwrap_or(Err(ErrorKind::General)) });
        let ping = Ping { answered: answered.shared(), ended };
        *last = Some(ping.clone());
        ping
    }

    /// Returns why it is not ready.
    async fn check(&self) -> Result<(), String> {
        if self.inner.is_shutting_down.load(Ordering::Relaxed) {
            return Err("the server is shutting down".into());
        }
        match timeout(WAIT, self.ping().answered).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(kind)) => Err(format!("the ping of the broker failed with {}", kind.code())),
            Err(_) => Err(format!("the broker has not answered within {} s", WAIT.as_secs())),
        }
    }
}

/// Sets when a ping has ended, also if it has panicked.
struct End(Arc<Mutex<Option<Instant>>>);

impl Drop for End {
    fn drop(&mut self) {
        *self.0.lock() = Some(Instant::now());
    }
}

impl Inner {
    async fn ping(self: Arc<Self>, ended: Arc<Mutex<Option<Instant>>>) -> Result<(), ErrorKind> {
        let _end = End(ended);
        let pinged = timeout(LONGEST, self.transport.ping()).await;
        let pinged = pinged.unwrap_or_else(|_| Err(ManageError::new(ErrorKind::ServiceTimeout)));
        // Only changes are logged.
        let had_failed = self.has_failed.swap(pinged.is_err(), Ordering::Relaxed);
        match &pinged {
            Ok(()) if had_failed => tracing::info!("the broker answers again"),
            Err(error) if !had_failed => {
                let error = error.to_string();
                tracing::warn!(error = %Escaped(&error), "the broker does not answer: not ready");
            }
            _ => {}
        }
        pinged.map_err(|error| error.kind())
    }
}

async fn ready(State(health): State<Health>) -> Response {
    let (status, text) = match health.check().await {
        Ok(()) => (StatusCode::OK, "ready\n".into()),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {why}\n")),
    };
    (status, [(header::CACHE_CONTROL, "no-store")], text).into_response()
}

impl fmt::Debug for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Health").field("transport", &self.inner.transport).finish_non_exhaustive()
    }
}
