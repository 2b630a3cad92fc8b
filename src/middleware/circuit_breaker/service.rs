use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use pin_project_lite::pin_project;
use tower::BoxError;
use tower_layer::Layer;
use tower_service::Service;

use super::{
    gate::{CircuitCounts, CircuitState, Gate, Outcome, Place},
    probe::Probe,
};
use crate::{Disposition, Message, middleware::retry::is_transient};

/// A layer that is not ready while handlers fail; see the [module](super). All of them have one circuit.
#[derive(Clone)]
pub struct CircuitBreakerLayer {
    gate: Arc<Gate>,
}

impl CircuitBreakerLayer {
    /// Opens for `pause`, at most a day, when `failures` of the latest `of` calls have failed: 1 to 64 calls, and at least
    /// one failure. Values outside are clamped.
    #[must_use]
    pub fn new(failures: u32, of: u32, pause: Duration) -> Self {
        Self { gate: Arc::new(Gate::new(failures, of, pause)) }
    }

    /// Returns the current state of the circuit.
    #[must_use]
    pub fn state(&self) -> CircuitState {
        self.gate.state()
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn counts(&self) -> &CircuitCounts {
        &self.gate.counts
    }
}

impl<S> Layer<S> for CircuitBreakerLayer {
    type Service = CircuitBreaker<S>;

    fn layer(&self, inner: S) -> CircuitBreaker<S> {
        CircuitBreaker { inner, gate: Arc::clone(&self.gate), place: Place::default() }
    }
}

impl fmt::Debug for CircuitBreakerLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CircuitBreakerLayer")
            .field("state", &self.state())
            .field("counts", self.counts())
            .finish_non_exhaustive()
    }
}

/// The service of [`CircuitBreakerLayer`], which is not ready while handlers fail.
#[doc(hidden)]
pub struct CircuitBreaker<S> {
    inner: S,
    gate: Arc<Gate>,
    place: Place,
}

impl<S: Clone> Clone for CircuitBreaker<S> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), gate: Arc::clone(&self.gate), place: Place::default() }
    }
}

impl<S> Drop for CircuitBreaker<S> {
    fn drop(&mut self) {
        self.gate.leave(&self.place);
    }
}

impl<S: fmt::Debug> fmt::Debug for CircuitBreaker<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CircuitBreaker")
            .field("inner", &self.inner)
            .field("state", &self.gate.state())
            .finish_non_exhaustive()
    }
}

impl<S> Service<Message> for CircuitBreaker<S>
where
    S: Service<Message, Response = Disposition>,
    S::Error: Into<BoxError>,
{
    type Response = Disposition;
    type Error = BoxError;
    type Future = ResponseFuture<S::Future>;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        if !self.gate.is_closed() {
            ready!(self.gate.poll_pass(cx, &mut self.place));
        }
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    #[inline]
    fn call(&mut self, mut message: Message) -> Self::Future {
        let probed = if self.gate.is_closed() { None } else { self.gate.begin_probe() };
        let period = probed.unwrap_or_else(|| self.gate.period());
        let probe = probed.map(|_| Probe::begin(&mut message));
        // Made before the call, which may panic.
        let seat = Seat { gate: Arc::clone(&self.gate), probe, period };
        ResponseFuture { handler: self.inner.call(message), seat }
    }
}

pin_project! {
    /// The future of a handler whose outcome is watched.
    #[doc(hidden)]
    pub struct ResponseFuture<F> {
        #[pin]
        handler: F,
        seat: Seat,
    }
}

/// A call that is under way. A probe ends with it, however that comes.
struct Seat {
    gate: Arc<Gate>,
    probe: Option<Probe>,
    period: u64,
}

impl Seat {
    #[inline]
    fn end(&mut self, outcome: Outcome) {
        if let Some(probe) = self.probe.take() {
            let shows_nothing = outcome == Outcome::Success && probe.is_unhandled();
            self.gate.end_probe(self.period, if shows_nothing { Outcome::Nothing } else { outcome });
        } else {
            self.gate.note(self.period, outcome);
        }
    }
}

impl Drop for Seat {
    #[inline]
    fn drop(&mut self) {
        if self.probe.is_some() {
            self.end(Outcome::Nothing);
        }
    }
}

impl<F, E> Future for ResponseFuture<F>
where
    F: Future<Output = Result<Disposition, E>>,
    E: Into<BoxError>,
{
    type Output = Result<Disposition, BoxError>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let answer = ready!(this.handler.poll(cx)).map_err(Into::into);
        this.seat.end(match &answer {
            Ok(Disposition::Complete | Disposition::Defer(_)) => Outcome::Success,
            Ok(Disposition::Abandon(changes)) if changes.is_hold() => Outcome::Nothing,
            Ok(Disposition::Abandon(_)) => Outcome::Failure,
            Err(error) if is_transient(error) => Outcome::Failure,
            Ok(Disposition::DeadLetter(_)) | Err(_) => Outcome::Nothing,
        });
        Poll::Ready(answer)
    }
}

impl<F> fmt::Debug for ResponseFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").field("is_probe", &self.seat.probe.is_some()).finish_non_exhaustive()
    }
}
