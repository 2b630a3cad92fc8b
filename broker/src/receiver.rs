#[cfg(feature = "durable")]
use std::{collections::VecDeque, future::Future, pin::Pin};
use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

use consign_core::{
    Message,
    message::SequenceNumber,
    transport::{Capabilities, Delivery, DirectReceiver, EntityInfo, ReceiveError, ReceiveMode, Receiver},
};

#[cfg(feature = "durable")]
use super::durable::{Commit, Recorder};
use super::{
    Broker, Queue,
    engine::{Line, Part, Source},
    lease::QueueLease,
    wait::Wait,
};

/// Receives from a queue or subscription of the embedded broker, in the order of acceptance.
///
/// Errors: [`EntityNotFound`](consign_core::transport::ErrorKind::EntityNotFound) when the entity has been deleted,
/// [`EntityDisabled`](consign_core::transport::ErrorKind::EntityDisabled),
/// [`InvalidOperation`](consign_core::transport::ErrorKind::InvalidOperation) on an entity that requires sessions or forwards its
/// messages.
///
/// It must be polled in a tokio runtime with time enabled: while it waits, it may have to make the timer of the broker.
pub struct QueueReceiver {
    queue: Queue,
    mode: ReceiveMode,
    wait: Wait,
    removed: Removed,
    /// Where the next peek begins.
    cursor: SequenceNumber,
}

impl QueueReceiver {
    pub(super) fn new(queue: Queue, mode: ReceiveMode) -> Self {
        let wait = Wait::new(Arc::clone(&queue.shared), Line::Messages(queue.store, queue.part));
        Self { queue, mode, wait, removed: Removed::default(), cursor: SequenceNumber::new(1) }
    }

    /// Returns the mode of this receiver.
    #[must_use]
    pub fn mode(&self) -> ReceiveMode {
        self.mode
    }

    /// Returns whether messages were removed that a poll has not returned yet, as the removal is not on the disk: in
    /// receive-and-delete mode only. They are lost if the receiver is dropped.
    #[must_use]
    pub fn is_removing(&self) -> bool {
        self.removing() > 0
    }

    /// Returns how many messages those of [`QueueReceiver::is_removing`] are.
    #[must_use]
    pub fn removing(&self) -> usize {
        self.removed.waiting()
    }

    /// Returns up to `max` messages as [`Queue::peek`] does, from after the last one that this receiver peeked. The
    /// first call begins at sequence number 1.
    pub fn peek(&mut self, max: usize) -> Vec<Message> {
        let peeked = self.queue.peek(self.cursor, max);
        if let Some(last) = peeked.last().and_then(Message::received) {
            self.cursor = last.sequence_number.next();
        }
        peeked
    }
}

impl Receiver for QueueReceiver {
    type Lease = QueueLease;

    #[inline]
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<QueueLease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        let source = Source::Part(self.queue.part);
        poll_source(&mut self.wait, &mut self.removed, cx, &self.queue, self.mode, source, max, out)
    }

    fn stop(&mut self) {
        let (store, part) = (self.queue.store, self.queue.part);
        self.wait.stop(|engine| engine.has_ready(store, part));
    }

    fn receive_directly(&mut self, direct: &Arc<dyn DirectReceiver>) {
        if self.queue.part == Part::Main && self.mode == ReceiveMode::PeekLock {
            self.queue.shared.receive_directly(self.queue.store, direct);
        }
    }

    fn capabilities(&self) -> Capabilities {
        Broker { shared: Arc::clone(&self.queue.shared) }.capabilities()
    }

    fn entity_info(&self) -> EntityInfo {
        self.queue.info()
    }
}

/// Messages that were removed as they are delivered, and are dispatched when the removal is on the disk.
#[derive(Default)]
pub(super) struct Removed {
    /// The removal of those that wait, until it is on the disk.
    #[cfg(feature = "durable")]
    commit: Option<Commit>,
    #[cfg(feature = "durable")]
    waiting: VecDeque<Delivery<QueueLease>>,
}

impl Removed {
    #[cfg_attr(not(feature = "durable"), allow(clippy::unused_self, reason = "as it is where there may be a disk"))]
    pub(super) fn waiting(&self) -> usize {
        #[cfg(feature = "durable")]
        return self.waiting.len();
        #[cfg(not(feature = "durable"))]
        0
    }

    /// Dispatches up to `max` of the messages that wait, if there are any.
    #[cfg(feature = "durable")]
    #[inline]
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<QueueLease>>,
    ) -> Poll<Option<Result<usize, ReceiveError>>> {
        if self.waiting.is_empty() { Poll::Ready(None) } else { self.poll_waiting(cx, max, out).map(Some) }
    }

    /// A poll may ask for fewer messages than the one that removed them, which was cancelled.
    #[cfg(feature = "durable")]
    #[cold]
    fn poll_waiting(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<QueueLease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        if let Some(commit) = &mut self.commit {
            let outcome = std::task::ready!(Pin::new(commit).poll(cx));
            self.commit = None;
            if let Err(failure) = outcome {
                self.waiting.clear();
                return Poll::Ready(Err(failure.into()));
            }
        }
        let count = max.min(self.waiting.len());
        out.extend(self.waiting.drain(..count));
        Poll::Ready(Ok(count))
    }
}

/// Is ready with the messages at `source`, or waits for one.
#[inline]
#[allow(clippy::too_many_arguments, reason = "the parts of a receiver, of which there are two")]
pub(super) fn poll_source(
    wait: &mut Wait,
    removed: &mut Removed,
    cx: &mut Context<'_>,
    queue: &Queue,
    mode: ReceiveMode,
    source: Source,
    max: usize,
    out: &mut Vec<Delivery<QueueLease>>,
) -> Poll<Result<usize, ReceiveError>> {
    let (Queue { shared, store, .. }, max) = (queue, max.max(1));
    shared.check_open::<ReceiveError>()?;
    #[cfg(feature = "durable")]
    if let Some(received) = std::task::ready!(removed.poll(cx, max, out)) {
        return Poll::Ready(received);
    }
    #[cfg(feature = "durable")]
    let first = out.len();
    let polled = wait.poll(cx, |engine, now| {
        let taken = match mode {
            ReceiveMode::PeekLock => engine.receive(now, *store, source, max, |locked| {
                out.push(QueueLease::deliver(shared, *store, source, locked));
            }),
            ReceiveMode::ReceiveAndDelete => engine.receive_and_delete(now, *store, source, max, |message| {
                out.push(QueueLease::deliver_removed(shared, *store, message));
            }),
        };
        match taken {
            Ok(0) => None,
            taken => Some(taken),
        }
    });
    let polled = polled.map_err(|error| queue.refusal(error));
    #[cfg(feature = "durable")]
    if mode == ReceiveMode::ReceiveAndDelete
        && matches!(polled, Poll::Ready(Ok(_)))
        && let Some(commit) = shared.recorder().and_then(Recorder::pending)
    {
        removed.commit = Some(commit);
        removed.waiting = out.split_off(first).into();
        let received = std::task::ready!(removed.poll(cx, max, out));
        return Poll::Ready(received.unwrap_or(Ok(0)));
    }
    #[cfg(not(feature = "durable"))]
    let _ = removed;
    polled
}

impl Drop for QueueReceiver {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for QueueReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueReceiver")
            .field("queue", &self.queue.path())
            .field("mode", &self.mode)
            .finish_non_exhaustive()
    }
}

// Receivers of one queue share its state, and nothing else.
const _: fn() = || {
    fn is_send<T: Send>() {}
    is_send::<QueueReceiver>();
    is_send::<Arc<QueueLease>>();
};
