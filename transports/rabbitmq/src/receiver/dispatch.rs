//! What a receive returns: deliveries of the broker with their leases.

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use consign_core::{
    settlement::DeadLetter,
    time::Timestamp,
    transport::{Delivery, ReceiveError},
};
use tokio::time::Instant;

use super::{
    delivered::{Held, Origin},
    job::{Action, Job},
    lease::RabbitMqLease,
    source::Mode,
    state::{Shared, State},
};
use crate::log;

impl Shared {
    pub(super) fn poll_receive(
        self: &Arc<Self>,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<RabbitMqLease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        let mut state = self.state();
        let before = out.len();
        state.idle_since = None;
        state.is_stopping = false;
        let mut clock = None;
        while out.len() - before < max {
            match state.poll_next(cx) {
                Poll::Ready(Ok((origin, delivery))) => {
                    let now = *clock.get_or_insert_with(|| (self.client.now(), Instant::now()));
                    if let Some(delivery) = self.hand_out(&mut state, origin, delivery, now) {
                        out.push(delivery);
                    }
                }
                Poll::Ready(Err(failure)) => {
                    state.failure.get_or_insert(failure);
                    break;
                }
                Poll::Pending => break,
            }
        }
        let taken = out.len() - before;
        if taken > 0 {
            if let (Some(subscription), Some((_, now))) = (&mut state.subscription, clock) {
                subscription.used = now;
            }
            state.wanted = max - taken;
            return Poll::Ready(Ok(taken));
        }
        state.wanted = max;
        if let Some(failure) = state.failure.take() {
            // The next poll tries again.
            state.asked = None;
            return Poll::Ready(Err(failure.into()));
        }
        if state.lacks_credit(max) {
            state.asked = Some(max);
            self.changed.notify_one();
        }
        if state.waker.as_ref().is_none_or(|waker| !waker.will_wake(cx.waker())) {
            state.waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Dispatches a delivery of the broker; `None` if it is expired, or has more headers than a message may.
    fn hand_out(
        self: &Arc<Self>,
        state: &mut State,
        origin: Arc<Origin>,
        raw: lapin::message::Delivery,
        (now, at): (Timestamp, Instant),
    ) -> Option<Delivery<RabbitMqLease>> {
        let is_dead = self.source.path.is_dead_letter();
        let lock = self.lock_duration();
        let mut held = Held::read(&self.client, &self.source, origin, raw, now, at + lock);
        let facts = held.facts;
        if !is_dead && facts.expires_at.is_some_and(|at| at <= now) {
            state.jobs.push(Job { held, action: Action::Expire, done: None });
            self.changed.notify_one();
            return None;
        }
        if !is_dead && facts.exceeds_limits {
            let dead_letter = DeadLetter::header_size_exceeded();
            log::dead_lettered(&self.source.path, &dead_letter);
            let action = Action::DeadLetter(Box::new(dead_letter));
            state.jobs.push(Job { held, action, done: None });
            self.changed.notify_one();
            return None;
        }
        let mut received = held.received(is_dead);
        let message = held.message.clone();
        if self.source.mode == Mode::ReceiveAndDelete {
            state.jobs.push(Job { held, action: Action::Complete, done: None });
            self.changed.notify_one();
            return Some(Delivery { message: message.with_received(received), lease: RabbitMqLease::removed() });
        }
        received.locked_until = Some(now.saturating_add(lock));
        held.until = at + lock;
        let key = state.next_id();
        state.lock_until(held.until, key);
        self.wake_by(state, held.until);
        state.held.insert(key, held);
        Some(Delivery { message: message.with_received(received), lease: RabbitMqLease::held(Arc::clone(self), key) })
    }
}
