use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};

use crate::transport::{
    CompleteAll, CompleteAllError, Lease, SettleError,
    deadline::{Timed, Unanswered},
};

/// Messages whose handlers have ended and that are completed in one step.
pub(super) struct CompletionBatch<L: Lease> {
    batch: Vec<L>,
    /// Batches whose completion is not answered yet.
    waiting: FuturesUnordered<Waiting<L::Settle>>,
    /// Messages in them.
    messages: usize,
    /// How long an answer may take.
    timeout: Duration,
}

/// How a batch of messages was answered.
pub(super) struct Answered {
    pub(super) messages: usize,
    pub(super) result: Result<Result<(), CompleteAllError>, Unanswered>,
}

struct Waiting<S> {
    answer: Pin<Box<Timed<CompleteAll<S>>>>,
    messages: usize,
}

/// Messages whose completion is not answered, at most. Further ones keep their slots until they are completed.
const MOST: usize = 1_024;

impl<L: Lease> CompletionBatch<L> {
    pub(super) fn new(timeout: Duration) -> Self {
        Self { batch: Vec::new(), waiting: FuturesUnordered::new(), messages: 0, timeout }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    /// Whether so many answers are missing that a message has to wait in its slot.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.messages >= MOST
    }

    #[inline]
    pub(super) fn push(&mut self, lease: L) {
        self.batch.push(lease);
    }

    /// Completes everything. Returns how many messages were completed for sure, and the outcome if some were not.
    #[inline]
    pub(super) fn complete(&mut self) -> (usize, Option<Answered>) {
        let messages = self.batch.len();
        let completing = L::complete_all(&mut self.batch);
        // A lease that is left would be abandoned with the next batch.
        self.batch.clear();
        if completing.failures() == Some(0) { (messages, None) } else { (0, self.not_all(completing, messages)) }
    }

    #[cold]
    fn not_all(&mut self, completing: CompleteAll<L::Settle>, messages: usize) -> Option<Answered> {
        if completing.failures().is_some() {
            return completing.now_or_never().map(|result| Answered { messages, result: Ok(result) });
        }
        self.wait_for(completing, messages);
        None
    }

    fn wait_for(&mut self, completing: CompleteAll<L::Settle>, messages: usize) {
        self.messages += messages;
        self.waiting.push(Waiting { answer: Box::pin(Timed::new(completing, self.timeout)), messages });
    }

    #[inline]
    pub(super) fn is_answered(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The next answer. `None` if there is none for now.
    pub(super) fn poll_answer(&mut self, cx: &mut Context<'_>) -> Option<Answered> {
        match self.waiting.poll_next_unpin(cx) {
            Poll::Ready(Some(answered)) => {
                self.messages -= answered.messages;
                Some(answered)
            }
            Poll::Ready(None) | Poll::Pending => None,
        }
    }

    /// Waits for no answer any more. Returns how many completions had none.
    pub(super) fn give_up(&mut self) -> usize {
        self.waiting.clear();
        std::mem::take(&mut self.messages)
    }
}

impl<S> Future for Waiting<S>
where
    S: Future<Output = Result<(), SettleError>> + Send + 'static,
{
    type Output = Answered;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Answered> {
        let result = ready!(self.answer.as_mut().poll(cx));
        Poll::Ready(Answered { messages: self.messages, result })
    }
}
