use std::{collections::VecDeque, fmt, sync::Arc};

use futures_util::{StreamExt, stream::FuturesUnordered};
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, oneshot},
    time::sleep_until,
};

use super::{Answer, Link, NotWritten, SendFault, Transfer};
use crate::{
    Message,
    time::Clock,
    transport::{Batch, BoxFuture, Capabilities, ErrorKind, PresettledSender, SendError, Sender},
};

/// A sender over a [`Link`]. Clones share the connection, and the order of what is written to it.
#[doc(hidden)]
pub struct LinkSender<S> {
    lane: Arc<Lane<S>>,
}

/// What was written by one sender, in order. A task carries it out while there is something to do.
struct Lane<S> {
    link: Link,
    sender: S,
    state: Mutex<Written>,
    written: Notify,
}

#[derive(Default)]
struct Written {
    jobs: VecDeque<Job>,
    running: bool,
}

struct Job {
    transfer: Transfer,
    content: Content,
    /// `None` if no caller waits for it.
    reply: Option<oneshot::Sender<Answer>>,
}

#[derive(Clone)]
enum Content {
    Message(Message),
    Batch(Batch),
}

impl<S: Sender> LinkSender<S> {
    pub(super) fn new(link: Link, sender: S) -> Self {
        let lane = Lane { link, sender, state: Mutex::default(), written: Notify::new() };
        Self { lane: Arc::new(lane) }
    }

    fn write(&self, content: Content) -> BoxFuture<Answer> {
        let transfer = match self.lane.link.write() {
            Ok(transfer) => transfer,
            Err(not_written) => return Box::pin(std::future::ready(Err(not_written.into()))),
        };
        let (reply, answer) = oneshot::channel();
        let mut epochs = self.lane.link.shared.broken.subscribe();
        let epoch = transfer.epoch;
        self.enqueue(Job { transfer, content, reply: Some(reply) });
        Box::pin(async move {
            tokio::select! {
                biased;
                answer = answer => answer.unwrap_or_else(|_| Err(broken())),
                _ = epochs.wait_for(|current| *current != epoch) => Err(broken()),
            }
        })
    }

    fn enqueue(&self, job: Job) {
        let mut state = self.lane.state.lock();
        state.jobs.push_back(job);
        let is_running = std::mem::replace(&mut state.running, true);
        drop(state);
        if is_running {
            self.lane.written.notify_one();
        } else {
            tokio::spawn(Arc::clone(&self.lane).run());
        }
    }
}

impl<S: Sender> Lane<S> {
    async fn run(self: Arc<Self>) {
        let mut answers = FuturesUnordered::new();
        loop {
            let due = {
                let mut state = self.state.lock();
                let due = state.jobs.front().map(|job| job.transfer.stored_at);
                state.running = due.is_some() || !answers.is_empty();
                if !state.running {
                    return;
                }
                due
            };
            tokio::select! {
                biased;
                () = async { sleep_until(due.unwrap_or_else(tokio::time::Instant::now)).await }, if due.is_some() => {
                    let job = self.state.lock().jobs.pop_front();
                    answers.extend(job.map(|job| self.carry_out(job)));
                }
                Some(()) = answers.next() => {}
                () = self.written.notified() => {}
            }
        }
    }

    /// The effect happens in the call, so that effects happen in order; the future is the answer's.
    fn carry_out(&self, job: Job) -> BoxFuture<()> {
        let Job { transfer, content, reply } = job;
        let link = self.link.clone();
        if !link.is_current(transfer.epoch) {
            link.close();
            return Box::pin(std::future::ready(()));
        }
        let stored: BoxFuture<Answer> = match transfer.fault {
            Some(SendFault::LoseMessage(kind)) => Box::pin(async move { Err(lost(kind)) }),
            Some(SendFault::Reject(kind)) => Box::pin(async move { Err(rejected(kind, transfer.number)) }),
            Some(SendFault::Duplicate) => {
                let (first, second) = (self.store(content.clone()), self.store(content));
                Box::pin(async move {
                    let answer = first.await;
                    second.await.and(answer)
                })
            }
            _ => self.store(content),
        };
        Box::pin(async move {
            let mut answer = stored.await;
            sleep_until(transfer.answered_at).await;
            if let Some(SendFault::LoseAnswer(kind)) = transfer.fault {
                answer = Err(lost(kind));
            }
            link.answered(&transfer, reply, answer);
        })
    }

    fn store(&self, content: Content) -> BoxFuture<Answer> {
        match content {
            Content::Message(message) => Box::pin(self.sender.send(message)),
            Content::Batch(batch) => Box::pin(self.sender.send_batch(batch)),
        }
    }
}

impl Link {
    /// A transfer ends without an answer.
    fn close(&self) {
        self.shared.state.lock().open -= 1;
    }

    fn answered(&self, transfer: &Transfer, reply: Option<oneshot::Sender<Answer>>, answer: Answer) {
        let Some(reply) = reply else { return self.close() };
        let mut state = self.shared.state.lock();
        let is_current = state.epoch == transfer.epoch;
        if is_current && (state.withhold || transfer.fault == Some(SendFault::Withhold)) {
            state.withheld.insert(transfer.number, (reply, answer));
            return;
        }
        state.open -= 1;
        drop(state);
        if is_current {
            let _ = reply.send(answer);
        }
    }
}

fn broken() -> SendError {
    SendError::new(ErrorKind::CommunicationProblem).with_detail("the simulated connection is down")
}

fn lost(kind: ErrorKind) -> SendError {
    SendError::new(kind).with_detail("a simulated fault")
}

fn rejected(kind: ErrorKind, number: u64) -> SendError {
    let error = SendError::new(kind).with_detail(format!("a simulated fault. TrackingId:{number}_link"));
    match kind.condition() {
        Some(condition) => error.with_condition(condition),
        None => error,
    }
}

impl From<NotWritten> for SendError {
    fn from(not_written: NotWritten) -> Self {
        match not_written {
            NotWritten::Disconnected => broken(),
            NotWritten::TooMany => {
                let detail = format!("at most {} sends without an answer", Link::MAX_TRANSFERS);
                Self::new(ErrorKind::Throttled).with_detail(detail)
            }
        }
    }
}

impl<S: Sender> Sender for LinkSender<S> {
    type Send = BoxFuture<Answer>;

    fn send(&self, message: Message) -> Self::Send {
        self.write(Content::Message(message))
    }

    fn send_batch(&self, batch: Batch) -> Self::Send {
        self.write(Content::Batch(batch))
    }

    fn capabilities(&self) -> Capabilities {
        self.lane.sender.capabilities()
    }

    fn clock(&self) -> Option<Arc<dyn Clock>> {
        self.lane.sender.clock()
    }
}

/// Handed over when it is written, which takes no time. What is written while the connection is down is lost.
impl<S: Sender> PresettledSender for LinkSender<S> {
    type HandOver = std::future::Ready<()>;

    fn send_presettled(&self, message: Message) -> Self::HandOver {
        if let Ok(transfer) = self.lane.link.write() {
            self.enqueue(Job { transfer, content: Content::Message(message), reply: None });
        }
        std::future::ready(())
    }
}

impl<S> Clone for LinkSender<S> {
    fn clone(&self) -> Self {
        Self { lane: Arc::clone(&self.lane) }
    }
}

impl<S> fmt::Debug for LinkSender<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinkSender").field("link", &self.lane.link).finish_non_exhaustive()
    }
}
