//! The jobs of a slot's task for holders, and the callers that wait for them.

use std::sync::Arc;

use bytes::Bytes;
use consign_core::{settlement::DeadLetter, transport::SettleError};
use tokio::sync::oneshot;

use super::error::lost;
use crate::receiver::delivered::Held;

/// The caller that waits for the end, if there is one.
pub(super) type Done = Option<oneshot::Sender<Result<(), SettleError>>>;

/// A job for the session of one holder.
pub(super) struct Job {
    /// The session.
    pub(super) id: Arc<str>,
    pub(super) work: Work,
    pub(super) done: Done,
}

pub(super) enum Work {
    /// Store which messages have failed, and which of these are settled.
    Record,
    /// Store the state. If that fails the previous state remains.
    State { before: Option<Bytes>, to: Option<Bytes> },
    /// Publish a copy as a dead letter, and acknowledge the original.
    DeadLetter(Held, Box<DeadLetter>),
    /// As `DeadLetter`, for a message that no holder may be given. It is tried again until the slot is given up.
    Refuse(Held, Box<DeadLetter>),
    /// Acknowledge an expired message.
    Drop(Held),
    /// Publish a copy to the slot of its session, and acknowledge the original.
    Move(Held),
}

impl Job {
    pub(super) fn new(id: &str, work: Work) -> Self {
        Self { id: id.into(), work, done: None }
    }

    /// Fails the job: it is too late for it.
    pub(super) fn fail(self) {
        if let Some(done) = self.done {
            let _ = done.send(Err(lost()));
        }
    }
}
