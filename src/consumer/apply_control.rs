//! Applies what a control handle has changed to a running consumer.

use std::{future::Future, task::Context};

use tower::BoxError;
use tower_service::Service;

use super::run::ConsumerRun;
use crate::{Disposition, Message, transport::Receiver};

impl<R, S, F> ConsumerRun<R, S, F>
where
    R: Receiver,
    S: Service<Message, Response = Disposition>,
    S::Error: Into<BoxError>,
    F: Future,
{
    /// Does what a control handle has changed.
    #[cold]
    pub(super) fn apply_control(&mut self) {
        if self.timers.is_draining() {
            return;
        }
        let own = self.options.concurrency;
        let (is_paused, concurrency) = (self.options.control.is_paused(), self.options.control.concurrency_of(own));
        if concurrency != self.slots.target() {
            if self.slots.resize(concurrency) {
                self.options.control.attach(self.slots.woken(), own, &self.options.health);
            }
            for delivery in self.incoming.take_newest(self.slots.free() + self.options.prefetch) {
                self.release(delivery);
            }
        }
        if is_paused && !self.incoming.is_suspended() {
            self.pause();
        } else if !is_paused && self.incoming.is_suspended() {
            self.incoming.resume();
        }
        self.is_attended = is_paused || self.slots.has_surplus();
    }

    /// Receives nothing, and releases what no handler has got.
    fn pause(&mut self) {
        self.incoming.suspend();
        for delivery in self.incoming.take_newest(0) {
            self.release(delivery);
        }
        self.release_held_calls();
        self.give_up_place();
    }

    /// What a change leaves to be done later: slots to close, and a receiver that has to release what it had locked ahead.
    #[cold]
    pub(super) fn attend(&mut self, cx: &mut Context<'_>) {
        self.slots.close_surplus();
        let is_paused = self.incoming.is_suspended();
        if is_paused {
            self.poll_stopped(cx);
        }
        self.is_attended = is_paused || self.slots.has_surplus();
    }
}
