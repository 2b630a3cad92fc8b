//! The settlements of a run that occupy no slot.

use std::{
    future::{Ready, ready},
    task::{Context, Poll},
};

use futures_util::{
    StreamExt,
    future::{Join, join},
    stream::FuturesUnordered,
};

use super::{cause::Cause, completion_batch::CompletionBatch, held::HeldMessages};
use crate::{
    Message,
    transport::{
        Lease, SettleError,
        deadline::{Timed, Unanswered},
    },
};

/// A message that waited for the delay of its abandon when a drain began, which abandons it.
pub(super) struct Delayed {
    pub(super) message: Message,
    pub(super) cause: Option<Cause>,
}

/// A release, or the abandon of a delayed message.
type Unslotted<F> = Join<Timed<F>, Ready<Option<Box<Delayed>>>>;

/// The answer to a release, or to the abandon of a delayed message.
type Answer = (Result<Result<(), SettleError>, Unanswered>, Option<Box<Delayed>>);

/// Messages whose settlement is still to come, or is not answered.
pub(super) struct Settlements<L: Lease> {
    pub(super) completions: CompletionBatch<L>,
    pub(super) held: HeldMessages<L>,
    releases: FuturesUnordered<Unslotted<L::Settle>>,
}

impl<L: Lease> Settlements<L> {
    pub(super) fn new(completions: CompletionBatch<L>, held: HeldMessages<L>) -> Self {
        Self { completions, held, releases: FuturesUnordered::new() }
    }

    /// Releases that are not answered.
    #[inline]
    pub(super) fn releases(&self) -> usize {
        self.releases.len()
    }

    /// Waits for the answer to a release.
    pub(super) fn push_release(&mut self, release: Timed<L::Settle>) {
        self.releases.push(join(release, ready(None)));
    }

    /// Waits for the answer to the abandon of a delayed message.
    pub(super) fn push_abandon(&mut self, abandon: Timed<L::Settle>, delayed: Delayed) {
        self.releases.push(join(abandon, ready(Some(Box::new(delayed)))));
    }

    /// The next answer to a release. `None` if there is none to wait for, for now.
    pub(super) fn poll_release(&mut self, cx: &mut Context<'_>) -> Option<Answer> {
        if self.releases.is_empty() {
            return None;
        }
        match self.releases.poll_next_unpin(cx) {
            Poll::Ready(answer) => answer,
            Poll::Pending => None,
        }
    }

    /// Whether the broker has answered everything.
    #[inline]
    pub(super) fn is_answered(&self) -> bool {
        self.releases.is_empty() && self.completions.is_answered()
    }

    /// Waits for no answer any more. Returns how many there were not.
    pub(super) fn give_up(&mut self) -> u64 {
        let unanswered = (self.releases.len() + self.completions.give_up()) as u64;
        self.releases.clear();
        unanswered
    }
}
