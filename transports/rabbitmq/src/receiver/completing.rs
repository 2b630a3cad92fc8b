//! Completions. Those of one turn of the receiver's task are written together: as many as possible by one frame.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use consign_core::transport::ErrorKind;
use lapin::options::BasicAckOptions;
use parking_lot::Mutex;

use super::delivered::{Ticket, written};
use crate::error::Failure;

/// Completions of one channel that are not written.
pub(super) struct Gathered {
    tickets: Vec<Ticket>,
    answer: Answer,
}

/// Waits until a completion is written.
pub(super) struct Completion {
    progress: Arc<Mutex<Progress>>,
    /// The place of its waker.
    place: Option<usize>,
}

/// Reports the result to each completion.
struct Answer(Arc<Mutex<Progress>>);

#[derive(Default)]
struct Progress {
    result: Option<Result<(), Failure>>,
    waiting: Vec<Waker>,
}

impl Gathered {
    pub(super) fn new(first: Ticket) -> Self {
        Self { tickets: vec![first], answer: Answer(Arc::default()) }
    }

    /// Adds a delivery of the same channel. Returns the ticket of another one.
    pub(super) fn add(&mut self, ticket: Ticket) -> Result<(), Ticket> {
        match self.tickets.first() {
            Some(first) if !first.origin.leased.is_same(&ticket.origin.leased) => Err(ticket),
            _ => {
                self.tickets.push(ticket);
                Ok(())
            }
        }
    }

    pub(super) fn completion(&self) -> Completion {
        Completion { progress: Arc::clone(&self.answer.0), place: None }
    }

    /// Writes the frames. They are queued at the first poll, in the order of these.
    pub(super) async fn write(self, deadline: Duration) {
        let Self { tickets, answer } = self;
        let result = tokio::time::timeout(deadline, write(tickets)).await;
        answer.give(result.unwrap_or_else(|_| Err(Failure::late("basic.ack", deadline))));
    }
}

async fn write(mut tickets: Vec<Ticket>) -> Result<(), Failure> {
    tickets.sort_unstable_by_key(|ticket| ticket.tag);
    let Some(last) = tickets.last() else { return Ok(()) };
    last.check()?;
    let leased = &last.origin.leased;
    let tags: Vec<u64> = tickets.iter().map(|ticket| ticket.tag).collect();
    let together = leased.settled().map_or(0, |settled| settled.lock().prefix(&tags));
    let (together, others) = tags.split_at(together);
    let first = together.last().map(|&tag| (tag, together.len() > 1));
    let frames = first.into_iter().chain(others.iter().map(|&tag| (tag, false)));
    let mut pending = Vec::new();
    for (tag, multiple) in frames {
        let mut frame = Box::pin(leased.channel.basic_ack(tag, BasicAckOptions { multiple }));
        match frame.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => written(result)?,
            Poll::Pending => pending.push(frame),
        }
    }
    // Those that are queued now are written before any that is queued later.
    if let Some(settled) = leased.settled() {
        settled.lock().insert(tags.iter().copied());
    }
    for frame in pending {
        written(frame.await)?;
    }
    Ok(())
}

impl Answer {
    fn give(&self, result: Result<(), Failure>) {
        let mut progress = self.0.lock();
        progress.result.get_or_insert(result);
        let waiting = std::mem::take(&mut progress.waiting);
        drop(progress);
        waiting.into_iter().for_each(Waker::wake);
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if self.0.lock().result.is_none() {
            self.give(Err(Failure::new(ErrorKind::CommunicationProblem, "the runtime of the receiver has ended")));
        }
    }
}

impl Completion {
    /// Returns whether both are written together.
    pub(super) fn is_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.progress, &other.progress)
    }
}

impl Future for Completion {
    type Output = Result<(), Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let mut progress = this.progress.lock();
        if let Some(result) = &progress.result {
            return Poll::Ready(result.clone());
        }
        if let Some(waker) = this.place.and_then(|place| progress.waiting.get_mut(place)) {
            waker.clone_from(cx.waker());
        } else {
            this.place = Some(progress.waiting.len());
            progress.waiting.push(cx.waker().clone());
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use tokio_test::{assert_pending, assert_ready, task};

    use super::*;
    use crate::receiver::{complete_all::complete_all, settling::RabbitMqSettle};

    /// A batch may be completed while the task writes an earlier one.
    #[tokio::test]
    async fn completions_of_two_writes_have_an_answer_each() {
        let (earlier, later) = (Answer(Arc::default()), Answer(Arc::default()));
        let completion = |answer: &Answer| Completion { progress: Arc::clone(&answer.0), place: None };
        let batch = [&earlier, &earlier, &later].map(|answer| RabbitMqSettle::gathered(completion(answer)));
        let all = complete_all(batch.into_iter());
        earlier.give(Ok(()));
        later.give(Err(Failure::new(ErrorKind::CommunicationProblem, "the channel is closed")));
        let failures: Vec<_> = all.await.unwrap_err().failures().map(|(index, _)| index).collect();
        assert_eq!(failures, [2]);
    }

    #[test]
    fn every_completion_learns_the_result() {
        let answer = Answer(Arc::default());
        let completion = || task::spawn(Completion { progress: Arc::clone(&answer.0), place: None });
        let (mut one, mut other) = (completion(), completion());
        assert_pending!(one.poll());
        assert_pending!(one.poll());
        assert_pending!(other.poll());
        answer.give(Ok(()));
        assert!(one.is_woken() && other.is_woken());
        assert!(assert_ready!(one.poll()).is_ok() && assert_ready!(other.poll()).is_ok());
    }

    #[test]
    fn a_completion_that_is_polled_by_another_task_wakes_that_one() {
        let answer = Answer(Arc::default());
        let mut completion = Completion { progress: Arc::clone(&answer.0), place: None };
        let (mut first, mut second) = (task::spawn(()), task::spawn(()));
        for task in [&mut first, &mut second] {
            assert_pending!(task.enter(|cx, _| Pin::new(&mut completion).poll(cx)));
        }
        answer.give(Ok(()));
        assert!(second.is_woken());
    }

    #[test]
    fn completions_that_nobody_writes_fail() {
        let answer = Answer(Arc::default());
        let mut completion = task::spawn(Completion { progress: Arc::clone(&answer.0), place: None });
        assert_pending!(completion.poll());
        drop(answer);
        let failure = assert_ready!(completion.poll()).unwrap_err();
        assert_eq!(failure.kind(), ErrorKind::CommunicationProblem);
    }
}
