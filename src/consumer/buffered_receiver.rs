//! The receiver of a consumer, and what it has received that no handler has seen.

use std::{
    mem,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::time::Instant;

use super::{
    pace::Pace,
    slot::{Before, lock_of},
    turn::Turn,
};
use crate::{
    Message,
    message::Holding,
    transport::{
        Delivery, ErrorKind, Lease, ReceiveError, Receiver, appended,
        deadline::{Countdown, Unanswered},
    },
};

pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// A receiver with a batch of received messages, which are released before their locks are lost.
pub(super) struct BufferedReceiver<R: Receiver> {
    pub(super) receiver: R,
    /// The oldest last.
    batch: Vec<Delivery<R::Lease>>,
    /// How the oldest messages of the batch were held, if they were: that of the oldest one last.
    held: Vec<Before>,
    /// When the batch was received, if it may have to wait.
    received_at: Option<Instant>,
    pub(super) pace: Pace,
    pause: Option<Pause>,
    /// Failures in a row.
    failures: u32,
    /// Whether the last receive has failed.
    has_failed: bool,
    /// How many dead-letterings or deferrals in a row were refused, with until when receiving was paused for the last one.
    refused: Option<(u32, Instant)>,
    stopping: Stopping,
}

/// Why nothing is received for now.
#[derive(Clone, Copy)]
pub(super) enum Pause {
    /// A receive has failed.
    Until(Instant),
    /// A control handle has paused the consumer.
    Controlled,
}

/// How far the receiver has come that receives no more.
enum Stopping {
    No,
    Waiting(Countdown),
    Done,
}

impl<R: Receiver> BufferedReceiver<R> {
    pub(super) fn new(receiver: R, capacity: usize) -> Self {
        Self {
            receiver,
            batch: Vec::with_capacity(capacity),
            held: Vec::new(),
            received_at: None,
            pace: Pace::default(),
            pause: None,
            failures: 0,
            has_failed: false,
            refused: None,
            stopping: Stopping::No,
        }
    }

    /// Receives no more.
    pub(super) fn stop(&mut self) {
        // One that is paused has been stopped, and was not polled since.
        if !self.is_suspended() {
            self.receiver.stop();
            self.stopping = Stopping::Waiting(Countdown::default());
        }
    }

    /// Receives no more until [`resume`](Self::resume).
    pub(super) fn suspend(&mut self) {
        self.stop();
        self.pause = Some(Pause::Controlled);
    }

    pub(super) fn resume(&mut self) {
        self.pause = None;
        self.stopping = Stopping::No;
    }

    pub(super) fn is_suspended(&self) -> bool {
        matches!(self.pause, Some(Pause::Controlled))
    }

    /// Waits until the receiver has released what it had locked. `Err` if it does not within `timeout`.
    pub(super) fn poll_stopped(&mut self, cx: &mut Context<'_>, timeout: Duration) -> Poll<Result<(), Unanswered>> {
        let Stopping::Waiting(countdown) = &mut self.stopping else { return Poll::Ready(Ok(())) };
        let stopped = match self.receiver.poll_stopped(cx) {
            Poll::Ready(()) => Ok(()),
            Poll::Pending => Err(ready!(countdown.poll(timeout, cx))),
        };
        self.stopping = Stopping::Done;
        Poll::Ready(stopped)
    }

    /// Waits for it no longer. Returns whether it was waited for.
    pub(super) fn give_up_stop(&mut self) -> bool {
        matches!(mem::replace(&mut self.stopping, Stopping::Done), Stopping::Waiting(_))
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.batch.len()
    }

    /// When the messages were received, if that was not just now.
    #[inline]
    pub(super) fn received_at(&self) -> Option<Instant> {
        self.received_at
    }

    /// The message that is dispatched next.
    #[inline]
    pub(super) fn next_mut(&mut self) -> Option<&mut Delivery<R::Lease>> {
        self.batch.last_mut()
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<Delivery<R::Lease>> {
        self.batch.pop()
    }

    /// Puts a message that was held before the others.
    pub(super) fn push(&mut self, delivery: Delivery<R::Lease>, held: Before) {
        self.batch.push(delivery);
        self.held.push(held);
    }

    /// How the message was held that was [popped](Self::pop) last, unless this is its first dispatch.
    #[inline]
    pub(super) fn take_held(&mut self, is_first: bool) -> Option<Before> {
        if is_first { None } else { self.held.pop() }
    }

    /// Takes out all but the `count` oldest messages. Those that cannot be released stay too: they exist nowhere else.
    pub(super) fn take_newest(&mut self, count: usize) -> Vec<Delivery<R::Lease>> {
        let surplus = self.batch.len().saturating_sub(count);
        let newest = self.batch.drain(..surplus);
        let (taken, left): (Vec<_>, Vec<_>) = newest.partition(|delivery| delivery.lease.must_settle());
        self.batch.splice(..0, left);
        let held = self.batch.iter().filter(|delivery| was_held(&delivery.message)).count();
        self.held.drain(..self.held.len().saturating_sub(held));
        taken
    }

    pub(super) fn take_all(&mut self) -> Vec<Delivery<R::Lease>> {
        self.held.clear();
        mem::take(&mut self.batch)
    }

    /// Whether nothing is received for now, and why.
    #[inline]
    pub(super) fn paused(&mut self, turn: &mut Turn) -> Option<Pause> {
        let pause = self.pause?;
        if let Pause::Until(until) = pause
            && turn.now() >= until
        {
            self.pause = None;
            return None;
        }
        Some(pause)
    }

    /// Fills the batch, which is empty.
    #[inline]
    pub(super) fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        wanted: usize,
        turn: &mut Turn,
    ) -> Poll<Result<(), ReceiveError>> {
        let received = ready!(self.receiver.poll_receive(cx, wanted, &mut self.batch));
        self.has_failed = received.is_err();
        match appended(received, &self.batch) {
            Ok(_) if !self.batch.is_empty() => {
                self.batch.reverse();
                // These locks begin now, and not when the turn began.
                turn.forget();
                // One message is dispatched at once; of more, the later ones wait for the earlier, which may block.
                self.received_at = (self.batch.len() > 1).then(|| turn.now());
                if let Some(now) = self.received_at {
                    self.pace.received(now);
                }
                Poll::Ready(Ok(()))
            }
            received => {
                let nothing = || ReceiveError::new(ErrorKind::General).with_detail("the receiver returned no message");
                Poll::Ready(Err(received.err().unwrap_or_else(nothing)))
            }
        }
    }

    /// How many receives have failed before this one, if any and if this one has not.
    #[inline]
    pub(super) fn take_failures(&mut self) -> Option<u32> {
        if self.failures > 0 && !self.has_failed { Some(mem::take(&mut self.failures)) } else { None }
    }

    /// Receives nothing for a while after a failure: 100 ms, doubled each time up to 10 s. Returns how long, and until
    /// when.
    pub(super) fn pause(&mut self) -> (Duration, Instant) {
        self.receiver.stop();
        let pause = pause_after(self.failures);
        self.failures += 1;
        let until = Instant::now() + pause;
        self.pause = Some(Pause::Until(until));
        (pause, until)
    }

    /// Receives nothing for a while after a refused settlement, as [`pause`](Self::pause) does. Returns until when, unless
    /// receiving is paused already.
    #[cold]
    pub(super) fn refused(&mut self, longest: Duration) -> Option<Instant> {
        if self.pause.is_some() || !matches!(self.stopping, Stopping::No) {
            return None;
        }
        let now = Instant::now();
        // A refusal long after the last one is the first of others.
        let last = self.refused.filter(|(_, until)| now.saturating_duration_since(*until) < LONGEST_PAUSE);
        let refusals = last.map_or(0, |(refusals, _)| refusals);
        self.receiver.stop();
        let until = now + pause_after(refusals).min(longest);
        self.refused = Some((refusals.saturating_add(1), until));
        self.pause = Some(Pause::Until(until));
        Some(until)
    }

    /// A settlement of a kind that may be refused was not.
    #[cold]
    pub(super) fn not_refused(&mut self) {
        self.refused = None;
    }

    /// Whether the age of the batch is to be looked at before one more message is dispatched.
    #[inline]
    pub(super) fn is_look_due(&mut self) -> bool {
        self.received_at.is_some() && self.pace.is_due()
    }

    /// Takes out the oldest message if too little of its lock is left for a handler. A handler before it may have held
    /// the thread, so the time of the turn does not do.
    pub(super) fn take_old(&mut self) -> Option<Delivery<R::Lease>> {
        let (at, oldest) = (self.received_at?, self.batch.last()?);
        let lock = lock_of(&oldest.lease)?;
        let held = if was_held(&oldest.message) { self.held.last() } else { None };
        // The lock of a held message is not that of the batch, and the stack was ready for it.
        let (at, longest) = held.map_or((at, lock / 2), |held| (held.locked_at, lock));
        let is_held = held.is_some();
        let now = Instant::now();
        self.pace.looked(now);
        if now.saturating_duration_since(at) < longest {
            return None;
        }
        self.pace.is_slow();
        if is_held {
            self.held.pop();
        }
        self.batch.pop()
    }

    /// The batch waits for the stack or for slots. Returns when too little of its locks is left.
    pub(super) fn wait(&mut self, turn: &mut Turn) -> Option<Instant> {
        let at = *self.received_at.get_or_insert_with(|| turn.now());
        self.batch.last().and_then(|oldest| lock_of(&oldest.lease)).map(|lock| at + lock / 2)
    }
}

/// The pause after so many failures before this one.
pub(super) fn pause_after(failures: u32) -> Duration {
    Duration::from_millis(100 << failures.min(7)).min(LONGEST_PAUSE)
}

#[inline]
fn was_held(message: &Message) -> bool {
    matches!(message.holding(), Holding::Was)
}
