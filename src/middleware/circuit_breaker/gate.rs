use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use tokio::time::{Instant, Sleep, sleep_until};

/// The state of a circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CircuitState {
    /// All are.
    Closed,
    /// None is, until the pause is over.
    Open,
    /// One message passes as a probe.
    HalfOpen,
}

/// The counts of a circuit.
#[derive(Debug, Default)]
pub struct CircuitCounts {
    opened: AtomicU64,
    closed: AtomicU64,
    probes: AtomicU64,
}

impl CircuitCounts {
    /// Returns how often it has opened, after a probe that failed too.
    #[must_use]
    pub fn opened(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }

    /// Returns how often it has closed again.
    #[must_use]
    pub fn closed(&self) -> u64 {
        self.closed.load(Ordering::Relaxed)
    }

    /// Returns how many probes were made.
    #[must_use]
    pub fn probes(&self) -> u64 {
        self.probes.load(Ordering::Relaxed)
    }
}

/// What one call says of what the handler depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Success,
    Failure,
    Nothing,
}

/// The circuit that all services of a layer share.
pub(super) struct Gate {
    failures: u32,
    /// The latest outcomes that count: as many low bits.
    mask: u64,
    pause: Duration,
    /// The latest outcomes, the last one lowest; a bit that is set is a failure.
    outcomes: AtomicU64,
    is_closed: AtomicBool,
    /// How often it has opened. A call has an effect only in the period in which it began. Changed under the lock.
    period: AtomicU64,
    inner: Mutex<Inner>,
    pub(super) counts: CircuitCounts,
}

struct Inner {
    state: State,
    /// Who waits for the end of a probe, by the number of the service.
    waiting: BTreeMap<u64, Waker>,
    numbers: u64,
}

#[derive(Clone, Copy)]
enum State {
    Closed,
    Open { until: Instant },
    HalfOpen { probes: u32 },
}

/// Where one service waits.
#[derive(Default)]
pub(super) struct Place {
    timer: Option<Pin<Box<Sleep>>>,
    number: Option<u64>,
}

impl Gate {
    pub(super) fn new(failures: u32, of: u32, pause: Duration) -> Self {
        let of = of.clamp(1, u64::BITS);
        Self {
            failures: failures.clamp(1, of),
            mask: u64::MAX >> (u64::BITS - of),
            pause: pause.min(Duration::from_secs(24 * 60 * 60)),
            outcomes: AtomicU64::new(0),
            is_closed: AtomicBool::new(true),
            period: AtomicU64::new(0),
            inner: Mutex::new(Inner { state: State::Closed, waiting: BTreeMap::new(), numbers: 0 }),
            counts: CircuitCounts::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn state(&self) -> CircuitState {
        match self.lock().state {
            State::Closed => CircuitState::Closed,
            State::Open { until } if Instant::now() < until => CircuitState::Open,
            State::Open { .. } | State::HalfOpen { .. } => CircuitState::HalfOpen,
        }
    }

    #[inline]
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// The period of a call that begins.
    #[inline]
    pub(super) fn period(&self) -> u64 {
        self.period.load(Ordering::Relaxed)
    }

    /// Ready when a call may be made.
    #[cold]
    pub(super) fn poll_pass(&self, cx: &mut Context<'_>, place: &mut Place) -> Poll<()> {
        loop {
            let mut inner = self.lock();
            match inner.state {
                State::Closed | State::HalfOpen { probes: 0 } => break,
                State::HalfOpen { .. } => {
                    let number = *place.number.get_or_insert_with(|| {
                        inner.numbers += 1;
                        inner.numbers
                    });
                    inner.waiting.insert(number, cx.waker().clone());
                    return Poll::Pending;
                }
                State::Open { until } => {
                    drop(inner);
                    let timer = place.timer.get_or_insert_with(|| Box::pin(sleep_until(until)));
                    if timer.deadline() != until {
                        timer.as_mut().reset(until);
                    }
                    ready!(timer.as_mut().poll(cx));
                    let mut inner = self.lock();
                    // Another service may have seen the end of the pause before.
                    if matches!(inner.state, State::Open { until: now } if now == until) {
                        inner.state = State::HalfOpen { probes: 0 };
                    }
                }
            }
        }
        place.timer = None;
        Poll::Ready(())
    }

    /// The period of the probe, if the call that begins is one.
    #[cold]
    pub(super) fn begin_probe(&self) -> Option<u64> {
        let mut inner = self.lock();
        match &mut inner.state {
            State::HalfOpen { probes } => *probes += 1,
            State::Closed | State::Open { .. } => return None,
        }
        self.counts.probes.fetch_add(1, Ordering::Relaxed);
        Some(self.period())
    }

    /// Decides by a probe. One of an earlier period decides nothing.
    #[cold]
    pub(super) fn end_probe(&self, period: u64, outcome: Outcome) {
        let mut inner = self.lock();
        let State::HalfOpen { probes } = inner.state else { return };
        if period != self.period() {
            return;
        }
        match outcome {
            Outcome::Success => {
                self.outcomes.store(0, Ordering::Relaxed);
                inner.state = State::Closed;
                self.is_closed.store(true, Ordering::Release);
                self.counts.closed.fetch_add(1, Ordering::Relaxed);
                tracing::info!("a handler has succeeded: the circuit is closed, and messages are handled again");
            }
            Outcome::Failure => self.open(&mut inner),
            Outcome::Nothing => inner.state = State::HalfOpen { probes: probes.saturating_sub(1) },
        }
        let waiting = std::mem::take(&mut inner.waiting);
        drop(inner);
        waiting.into_values().for_each(Waker::wake);
    }

    /// Writes down what came of a call that was no probe, unless the circuit has opened since the call began.
    #[inline]
    pub(super) fn note(&self, period: u64, outcome: Outcome) {
        match outcome {
            // After successes alone another one changes nothing.
            Outcome::Success if self.outcomes.load(Ordering::Relaxed) & self.mask == 0 => {}
            Outcome::Success | Outcome::Failure if period == self.period() => self.write_down(outcome),
            Outcome::Success | Outcome::Failure | Outcome::Nothing => {}
        }
    }

    #[cold]
    fn write_down(&self, outcome: Outcome) {
        let after = |before: u64| before << 1 | u64::from(outcome == Outcome::Failure);
        let before = self.outcomes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |before| Some(after(before)));
        let outcomes = after(before.unwrap_or_else(|now| now)) & self.mask;
        if outcome == Outcome::Failure && outcomes.count_ones() >= self.failures {
            let mut inner = self.lock();
            if matches!(inner.state, State::Closed) {
                self.open(&mut inner);
            }
        }
    }

    fn open(&self, inner: &mut Inner) {
        inner.state = State::Open { until: Instant::now() + self.pause };
        self.period.fetch_add(1, Ordering::Relaxed);
        self.is_closed.store(false, Ordering::Release);
        self.counts.opened.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(pause = ?self.pause, "too many handlers fail: the circuit is open, and no message is handled until the pause has passed");
    }

    /// A service that is dropped waits no more.
    pub(super) fn leave(&self, place: &Place) {
        if let Some(number) = place.number {
            self.lock().waiting.remove(&number);
        }
    }
}
