//! The stack that a consumer calls, and the place that it may hold in it.

use std::{
    mem,
    task::{Context, Poll},
};

use tower::BoxError;
use tower_service::Service;

use super::slot::caught;
use crate::Message;

/// The stack of one run.
pub(super) struct Stack<S> {
    pub(super) service: S,
    /// Makes the clone of the stack that takes the place of one that holds a place.
    clone: Option<fn(&S) -> S>,
    /// Whether the stack was made ready, or began to be, and may hold a place.
    may_hold_place: bool,
}

impl<S> Stack<S> {
    pub(super) fn new(service: S, clone: Option<fn(&S) -> S>) -> Self {
        Self { service, clone, may_hold_place: false }
    }

    /// Makes the stack ready. An error, or a panic, is for good.
    #[inline]
    pub(super) fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>>
    where
        S: Service<Message>,
        S::Error: Into<BoxError>,
    {
        let service = &mut self.service;
        // Converting the error is the user's code too.
        match caught(|| service.poll_ready(cx).map_err(Into::into)) {
            Some(Poll::Ready(Ok(()))) => Poll::Ready(Ok(())),
            Some(Poll::Pending) => {
                self.may_hold_place = true;
                Poll::Pending
            }
            Some(Poll::Ready(Err(error))) => Poll::Ready(Err(error)),
            None => Poll::Ready(Err("the stack panicked in poll_ready".into())),
        }
    }

    /// Gives up the place that the stack may hold, such as a permit or a turn to get one, which is blocked for others
    /// meanwhile. Cloning and dropping the stack is the user's code.
    #[cold]
    pub(super) fn give_up_place(&mut self) {
        if mem::take(&mut self.may_hold_place)
            && let Some(clone) = self.clone
        {
            let service = &mut self.service;
            if caught(|| *service = clone(service)).is_none() {
                tracing::warn!("the stack panicked when it was cloned: it may still hold a permit");
            }
        }
    }
}
