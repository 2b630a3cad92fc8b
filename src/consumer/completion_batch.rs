use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::time::Instant;

use crate::transport::{Lease, SettleError};

/// Messages whose handlers are done with them and that are completed in one step.
pub(super) struct CompletionBatch<L: Lease> {
    batch: Vec<L>,
    failures: Vec<SettleError>,
    /// Completions that are not answered yet, and those that have come since. Later answers wait for the earlier ones, so
    /// the last stands for all.
    waiting: Option<Waiting<L::Settle>>,
    next: Option<Waiting<L::Settle>>,
    /// How long an answer may take.
    timeout: Duration,
}

struct Waiting<S> {
    answer: Pin<Box<S>>,
    messages: u64,
    /// When it is given up.
    by: Instant,
}

impl<L: Lease> CompletionBatch<L> {
    pub(super) fn with_capacity(count: usize, timeout: Duration) -> Self {
        let count = if L::COMPLETES_TOGETHER { count } else { 0 };
        Self { batch: Vec::with_capacity(count), failures: Vec::new(), waiting: None, next: None, timeout }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    #[inline]
    pub(super) fn push(&mut self, lease: L) {
        self.batch.push(lease);
    }

    /// Completes everything. Answers how many were completed for sure, after it has said why some were not.
    pub(super) fn complete(&mut self, mut failed: impl FnMut(SettleError)) -> u64 {
        let answer = L::complete_together(&mut self.batch, &mut self.failures);
        let completed = (self.batch.len() - self.failures.len()) as u64;
        self.batch.clear();
        if !self.failures.is_empty() {
            self.failures.drain(..).for_each(&mut failed);
        }
        match answer {
            None => completed,
            Some(answer) => {
                self.wait_for(answer, completed);
                0
            }
        }
    }

    #[cold]
    fn wait_for(&mut self, answer: L::Settle, messages: u64) {
        let (answer, by) = (Box::pin(answer), Instant::now() + self.timeout);
        if self.waiting.is_none() {
            self.waiting = Some(Waiting { answer, messages, by });
        } else {
            let before = self.next.take().map_or(0, |next| next.messages);
            self.next = Some(Waiting { answer, messages: before + messages, by });
        }
    }

    /// When the next answer is given up.
    #[inline]
    pub(super) fn due(&self) -> Option<Instant> {
        self.waiting.as_ref().map(|waiting| waiting.by)
    }

    /// Gives up what should have been answered. Tells how many completions that are.
    #[cold]
    pub(super) fn give_up_due(&mut self, now: Instant) -> u64 {
        let mut messages = 0;
        while let Some(waiting) = self.waiting.take_if(|waiting| waiting.by <= now) {
            messages += waiting.messages;
            self.waiting = self.next.take();
        }
        messages
    }

    #[inline]
    pub(super) fn is_answered(&self) -> bool {
        self.waiting.is_none()
    }

    /// The next answer, and to how many completions it is.
    pub(super) fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<Option<(Result<(), SettleError>, u64)>> {
        let Some(waiting) = &mut self.waiting else { return Poll::Ready(None) };
        let answer = std::task::ready!(waiting.answer.as_mut().poll(cx));
        let messages = waiting.messages;
        self.waiting = self.next.take();
        Poll::Ready(Some((answer, messages)))
    }

    /// Waits for no answer any more. Tells how many completions had none.
    pub(super) fn give_up(&mut self) -> u64 {
        [self.waiting.take(), self.next.take()].into_iter().flatten().map(|waiting| waiting.messages).sum()
    }
}
