//! A layer that pauses all sends after the broker reported that it is busy.
//!
//! With [`ServiceBusy`](ErrorKind::ServiceBusy) a broker requests that its client stops sending, and not only the refused
//! call. From that error on, every call through any clone of the layer waits, by default for ten seconds. A later error of
//! that kind begins another ten seconds.
//!
//! ```
//! use std::time::Duration;
//! use consign::{
//!     Message,
//!     middleware::busy_pause::BusyPauseLayer,
//!     transport::{ErrorKind, SendError, SendExt},
//! };
//! use tokio::time::Instant;
//! use tower::{ServiceBuilder, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), SendError> {
//! let start = Instant::now();
//! // A broker that is busy in the first second.
//! let transport = service_fn(move |_: Message| async move {
//!     if start.elapsed() < Duration::from_secs(1) { Err(SendError::new(ErrorKind::ServiceBusy)) } else { Ok(()) }
//! });
//! let mut sender = ServiceBuilder::new().layer(BusyPauseLayer::new()).service(transport);
//! let mut clone = sender.clone();
//!
//! assert_eq!(sender.send(Message::new("body")).await.unwrap_err().kind(), ErrorKind::ServiceBusy);
//! assert_eq!(start.elapsed(), Duration::ZERO);
//! clone.send(Message::new("body")).await?;
//! assert_eq!(start.elapsed(), Duration::from_secs(10));
//! # Ok(())
//! # }
//! ```
//!
//! # Receiving
//!
//! A client that receives over the same connection pauses with it: [`BusyPauseLayer::receiver`]. Settlements and renewals
//! do not wait, because a lock would run out meanwhile. Their errors do not begin a pause.
//!
//! # Failure
//!
//! The layer has no failure of its own, and returns every error at once. To try again, add a retry outside of it; its
//! attempts then wait here. A call that is dropped while it waits has sent nothing. When the pause is over all waiting
//! calls continue at once; use [`in_flight`](super::in_flight) inside to limit their number.
//!
//! # Order
//!
//! Inside of retry. A timeout outside has to be longer than the pause; otherwise calls fail as
//! [`ServiceTimeout`](ErrorKind::ServiceTimeout) before they are sent. A call that waits holds no resource of the inner
//! service, such as a permit of a concurrency limit: the inner service is made ready again when the pause is over.
//!
//! # Cost
//!
//! A call without a pause reads one number and shares the state of the layer. One that waits allocates its timer.
//! Counted in the table *Layers* of `docs/benchmarks.md`.

mod service;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::Poll,
    time::Duration,
};

use tokio::time::Instant;
use tower_layer::Layer;

use self::service::{BusyPause, PausingReceiver};
use crate::transport::{ErrorKind, Receiver, SendError};

/// A layer that pauses sends while the broker is busy; see the [module](self). All services, receivers and clones of one
/// layer pause together.
#[derive(Clone)]
pub struct BusyPauseLayer {
    shared: Arc<Shared>,
}

struct Shared {
    pause: Duration,
    start: Instant,
    /// When the pause is over, in milliseconds after `start`; 0 if there is none.
    until: AtomicU64,
}

impl Shared {
    /// The end of the pause, while there is one.
    #[inline]
    fn paused_until(&self) -> Option<Instant> {
        match self.until.load(Ordering::Relaxed) {
            0 => None,
            until => self.time_left(until),
        }
    }

    #[cold]
    fn time_left(&self, until: u64) -> Option<Instant> {
        let end = self.start + Duration::from_millis(until);
        if end > Instant::now() {
            return Some(end);
        }
        // A pause that began meanwhile stays.
        let _ = self.until.compare_exchange(until, 0, Ordering::Relaxed, Ordering::Relaxed);
        None
    }

    #[cold]
    fn begin(&self) {
        let end = self.start.elapsed().saturating_add(self.pause);
        let millis = u64::try_from(end.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        self.until.fetch_max(millis, Ordering::Relaxed);
    }

    #[inline]
    fn note(&self, kind: ErrorKind) {
        if kind == ErrorKind::ServiceBusy {
            self.begin();
        }
    }

    #[inline]
    fn noted<E: Into<SendError>>(&self, result: Result<(), E>) -> Poll<Result<(), SendError>> {
        Poll::Ready(result.map_err(Into::into).inspect_err(|error: &SendError| self.note(error.kind())))
    }
}

impl BusyPauseLayer {
    /// The default pause, which Azure Service Bus recommends.
    pub const DEFAULT: Duration = Duration::from_secs(10);

    /// Pauses for ten seconds.
    #[must_use]
    pub fn new() -> Self {
        Self::with_pause(Self::DEFAULT)
    }

    /// Pauses for `pause`, at most a day, in whole milliseconds.
    #[must_use]
    pub fn with_pause(pause: Duration) -> Self {
        let pause = pause.min(Duration::from_secs(24 * 60 * 60));
        Self { shared: Arc::new(Shared { pause, start: Instant::now(), until: AtomicU64::new(0) }) }
    }

    /// A receiver that pauses with the sends of this layer, and begins a pause when the broker reports that it is busy.
    pub fn receiver<R: Receiver>(&self, receiver: R) -> PausingReceiver<R> {
        PausingReceiver { receiver, shared: Arc::clone(&self.shared), timer: None }
    }

    /// Returns whether calls wait now.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.shared.paused_until().is_some()
    }
}

impl Default for BusyPauseLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl<S> Layer<S> for BusyPauseLayer {
    type Service = BusyPause<S>;

    fn layer(&self, inner: S) -> BusyPause<S> {
        BusyPause { inner, shared: Arc::clone(&self.shared) }
    }
}

impl fmt::Debug for BusyPauseLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BusyPauseLayer")
            .field("pause", &self.shared.pause)
            .field("paused", &self.is_paused())
            .finish_non_exhaustive()
    }
}
