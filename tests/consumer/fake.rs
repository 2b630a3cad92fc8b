//! A receiver and leases that answer as a test tells them to, and write down what was asked of them.

use std::{
    collections::VecDeque,
    future::{Future, pending, ready},
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    time::Duration,
};

use consign::{
    Disposition, Message,
    message::{Received, SequenceNumber},
    time::Timestamp,
    transport::{BoxFuture, Delivery, ErrorKind, Lease, ReceiveError, Receiver, SettleError},
};
use tokio::time::{Instant, sleep};

/// How a settlement or a renewal ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    Now,
    Later(Duration),
    Fails(ErrorKind),
    Never,
}

/// What a receiver does when it is polled.
pub(crate) enum Step {
    Deliver(Script),
    Fail(ErrorKind),
    /// It breaks its contract and fails with these deliveries.
    DeliverAndFail(Vec<Script>, ErrorKind),
    /// It breaks its contract and answers without a delivery.
    Nothing,
}

/// How a lease behaves.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) lock: Option<Duration>,
    /// Whether it has to be settled although its lock does not run out.
    pub(crate) is_locked_until_settled: bool,
    pub(crate) settle: Answer,
    pub(crate) release: Answer,
    /// One answer for each renewal; later ones succeed.
    pub(crate) renew: Vec<Answer>,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            lock: Some(Duration::from_secs(60)),
            is_locked_until_settled: false,
            settle: Answer::Now,
            release: Answer::Now,
            renew: vec![],
        }
    }
}

/// What was asked of a lease, by the number of its message.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Asked {
    Settle(u64, Disposition),
    Release(u64),
    Renew(u64),
    /// It was dropped unsettled.
    Drop(u64),
}

#[derive(Clone, Default)]
pub(crate) struct Fake(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    steps: VecDeque<Step>,
    delivered: u64,
    waker: Option<Waker>,
    asked: Vec<(Instant, Asked)>,
    wanted: Vec<usize>,
    polls: usize,
    polled_at: Vec<Instant>,
    stops: usize,
}

impl Fake {
    pub(crate) fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        let fake = Self::default();
        fake.push(steps);
        fake
    }

    pub(crate) fn push(&self, steps: impl IntoIterator<Item = Step>) {
        let mut state = self.0.lock().unwrap();
        state.steps.extend(steps);
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }

    pub(crate) fn receiver(&self) -> FakeReceiver {
        FakeReceiver(self.clone())
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.0.lock().unwrap().asked.iter().map(|(_, asked)| asked.clone()).collect()
    }

    pub(crate) fn asked_at(&self) -> Vec<(Instant, Asked)> {
        self.0.lock().unwrap().asked.clone()
    }

    /// How many messages each receive asked for that delivered some.
    pub(crate) fn wanted(&self) -> Vec<usize> {
        self.0.lock().unwrap().wanted.clone()
    }

    /// When the receiver was polled and had something to do.
    pub(crate) fn polled_at(&self) -> Vec<Instant> {
        self.0.lock().unwrap().polled_at.clone()
    }

    pub(crate) fn stops(&self) -> usize {
        self.0.lock().unwrap().stops
    }

    fn delivery(&self, state: &mut State, script: Script) -> Delivery<FakeLease> {
        state.delivered += 1;
        let id = state.delivered;
        let received = Received::new(SequenceNumber::new(id), Timestamp::EPOCH, 1);
        let message = Message::new("an order").with_received(received);
        let lease = FakeLease { fake: self.clone(), id, script: Mutex::new(script), is_used: false };
        Delivery { message, lease }
    }

    fn note(&self, asked: Asked) {
        self.0.lock().unwrap().asked.push((Instant::now(), asked));
    }
}

pub(crate) struct FakeReceiver(Fake);

impl Receiver for FakeReceiver {
    type Lease = FakeLease;

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<FakeLease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        let mut state = self.0.0.lock().unwrap();
        state.polls += 1;
        assert!(state.polls < 100_000, "the driver spins");
        let mut taken = 0;
        if !state.steps.is_empty() {
            state.polled_at.push(Instant::now());
        }
        while taken < max {
            let Some(step) = state.steps.pop_front() else { break };
            match step {
                Step::Deliver(script) => {
                    out.push(self.0.delivery(&mut state, script));
                    taken += 1;
                }
                other if taken > 0 => {
                    state.steps.push_front(other);
                    break;
                }
                Step::DeliverAndFail(scripts, kind) => {
                    out.extend(scripts.into_iter().map(|script| self.0.delivery(&mut state, script)));
                    return Poll::Ready(Err(ReceiveError::new(kind)));
                }
                Step::Fail(kind) => return Poll::Ready(Err(ReceiveError::new(kind))),
                Step::Nothing => return Poll::Ready(Ok(0)),
            }
        }
        if taken == 0 {
            state.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        state.wanted.push(max);
        Poll::Ready(Ok(taken))
    }

    fn stop(&mut self) {
        self.0.0.lock().unwrap().stops += 1;
    }
}

pub(crate) struct FakeLease {
    fake: Fake,
    id: u64,
    script: Mutex<Script>,
    is_used: bool,
}

impl Lease for FakeLease {
    type Settle = BoxFuture<Result<(), SettleError>>;
    type Renew = BoxFuture<Result<Timestamp, SettleError>>;

    fn settle(mut self, disposition: Disposition) -> Self::Settle {
        self.is_used = true;
        self.fake.note(Asked::Settle(self.id, disposition));
        let answer = self.script.lock().unwrap().settle;
        answer.future()
    }

    fn release(mut self) -> Self::Settle {
        self.is_used = true;
        self.fake.note(Asked::Release(self.id));
        let answer = self.script.lock().unwrap().release;
        answer.future()
    }

    fn renew(&self) -> Self::Renew {
        self.fake.note(Asked::Renew(self.id));
        let mut script = self.script.lock().unwrap();
        let answer = if script.renew.is_empty() { Answer::Now } else { script.renew.remove(0) };
        let answered = answer.future();
        Box::pin(async { answered.await.map(|()| Timestamp::MAX) })
    }

    fn lock_duration(&self) -> Option<Duration> {
        self.script.lock().unwrap().lock
    }

    fn must_settle(&self) -> bool {
        let script = self.script.lock().unwrap();
        script.lock.is_some() || script.is_locked_until_settled
    }
}

impl Drop for FakeLease {
    fn drop(&mut self) {
        if !self.is_used {
            self.fake.note(Asked::Drop(self.id));
        }
    }
}

impl Answer {
    pub(crate) fn future(self) -> BoxFuture<Result<(), SettleError>> {
        let answer: BoxFuture<Result<(), SettleError>> = match self {
            Self::Now => Box::pin(ready(Ok(()))),
            Self::Later(wait) => Box::pin(async move {
                sleep(wait).await;
                Ok(())
            }),
            Self::Fails(kind) => Box::pin(async move { Err(SettleError::new(kind)) }),
            Self::Never => Box::pin(pending()),
        };
        Box::pin(Once { answer, is_over: false })
    }
}

/// Panics if it is polled again after it was ready.
struct Once {
    answer: BoxFuture<Result<(), SettleError>>,
    is_over: bool,
}

impl Future for Once {
    type Output = Result<(), SettleError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        assert!(!self.is_over, "polled after it was ready");
        let answer = self.answer.as_mut().poll(cx);
        self.is_over = answer.is_ready();
        answer
    }
}
