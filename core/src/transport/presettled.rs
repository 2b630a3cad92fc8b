use std::{
    convert::Infallible,
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use pin_project_lite::pin_project;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower_service::Service;

use super::BoxFuture;
use crate::Message;

/// Sends without an outcome: what AMQP calls settled by the sender. The send ends when the message is handed over,
/// and does not report whether the broker took it. A full queue, a message that is too large, a broken connection:
/// all look like success.
///
/// It is a capability of its own, so that no [`Sender`](super::Sender) can be used so by mistake.
pub trait PresettledSender: Send + Sync + 'static {
    /// Ready when the message is handed over: written to the connection, or given to a broker in this process. It must
    /// be polled until then; whether a dropped one was handed over is unknown.
    type HandOver: Future<Output = ()> + Send + 'static;

    /// Hands one message over, without an outcome.
    fn send_presettled(&self, message: Message) -> Self::HandOver;
}

/// A [`PresettledSender`] as the innermost service of a sending stack, with a bound on the bytes that wait to be handed
/// over. It cannot fail: an error of the stack is one of its layers'.
///
/// ```
/// use std::future::{Ready, ready};
/// use consign::{Message, transport::{PresettledSender, PresettledService, SendExt}};
///
/// struct Datagrams;
///
/// impl PresettledSender for Datagrams {
///     type HandOver = Ready<()>;
///
///     fn send_presettled(&self, message: Message) -> Ready<()> {
///         // Here your client writes, and does not wait for an answer.
///         drop(message);
///         ready(())
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), consign::transport::SendError> {
/// let mut stack = PresettledService::new(Datagrams).max_bytes(64 << 10);
/// stack.send(Message::new("a measurement, one of many")).await
/// # }
/// ```
pub struct PresettledService<S> {
    sender: Arc<S>,
    room: Arc<Semaphore>,
    bytes: u32,
}

impl<S: PresettledSender> PresettledService<S> {
    /// The bound unless set: 1 MiB.
    pub const MAX_BYTES: u32 = 1 << 20;
    /// Bytes that every message counts for beside its own, so that empty ones are bounded too.
    pub const OVERHEAD: u32 = 256;

    /// Creates a service that sends by `sender`.
    #[must_use]
    pub fn new(sender: S) -> Self {
        Self { sender: Arc::new(sender), room: room(Self::MAX_BYTES), bytes: Self::MAX_BYTES }
    }

    /// At most this many bytes wait to be handed over by this service and its clones: 1 B to 512 MiB, or a byte less on a 32-bit
    /// target. The next call waits, in the order of arrival. A larger message waits until it is alone.
    #[must_use]
    pub fn max_bytes(mut self, bytes: u32) -> Self {
        self.bytes = bytes.clamp(1, MOST_BYTES);
        self.room = room(self.bytes);
        self
    }

    /// Returns how many bytes can be handed over without waiting.
    #[must_use]
    pub fn available_bytes(&self) -> usize {
        self.room.available_permits()
    }
}

/// A semaphore panics above its own maximum.
const MOST_BYTES: u32 = {
    let most: u32 = 512 << 20;
    if Semaphore::MAX_PERMITS < most as usize { most - 1 } else { most }
};

fn room(bytes: u32) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(bytes as usize))
}

impl<S> Clone for PresettledService<S> {
    fn clone(&self) -> Self {
        Self { sender: Arc::clone(&self.sender), room: Arc::clone(&self.room), bytes: self.bytes }
    }
}

impl<S> fmt::Debug for PresettledService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PresettledService").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl<S: PresettledSender> Service<Message> for PresettledService<S> {
    type Response = ();
    type Error = Infallible;
    type Future = HandOver<S>;

    #[inline]
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, message: Message) -> HandOver<S> {
        let size = u32::try_from(message.size()).unwrap_or(u32::MAX).saturating_add(Self::OVERHEAD).min(self.bytes);
        let state = match Arc::clone(&self.room).try_acquire_many_owned(size) {
            Ok(held) => State::HandingOver { hand_over: self.sender.send_presettled(message), held },
            Err(_) => State::Waiting {
                acquire: Box::pin(acquire(Arc::clone(&self.room), size)),
                next: Some((Arc::clone(&self.sender), message)),
            },
        };
        HandOver { state }
    }
}

/// `None` if the semaphore is closed, which never happens.
async fn acquire(room: Arc<Semaphore>, size: u32) -> Option<OwnedSemaphorePermit> {
    room.acquire_many_owned(size).await.ok()
}

pin_project! {
    /// The future of a send without an outcome: waits for capacity, then for the message to be handed over. Dropped
    /// while it waits for capacity it sends nothing.
    #[must_use = "a send does nothing until it is awaited"]
    #[doc(hidden)]
    pub struct HandOver<S: PresettledSender> {
        #[pin]
        state: State<S>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<S: PresettledSender> {
        Waiting { acquire: BoxFuture<Option<OwnedSemaphorePermit>>, next: Option<(Arc<S>, Message)> },
        // The room is given back after the future is gone.
        HandingOver { #[pin] hand_over: S::HandOver, held: OwnedSemaphorePermit },
        HandedOver,
    }
}

impl<S: PresettledSender> Future for HandOver<S> {
    type Output = Result<(), Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            match state.as_mut().project() {
                StateProj::Waiting { acquire, next } => {
                    let held = ready!(acquire.as_mut().poll(cx));
                    let (Some(held), Some((sender, message))) = (held, next.take()) else { return Poll::Ready(Ok(())) };
                    state.set(State::HandingOver { hand_over: sender.send_presettled(message), held });
                }
                StateProj::HandingOver { hand_over, held: _ } => {
                    ready!(hand_over.poll(cx));
                    state.set(State::HandedOver);
                    return Poll::Ready(Ok(()));
                }
                StateProj::HandedOver => panic!("`HandOver` polled after completion"),
            }
        }
    }
}

impl<S: PresettledSender> fmt::Debug for HandOver<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting = matches!(self.state, State::Waiting { .. });
        f.debug_struct("HandOver").field("waiting", &waiting).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::Notify;
    use tokio_test::{assert_pending, assert_ready_ok, task};

    use super::*;

    /// A connection that is written to at the test's command.
    #[derive(Default)]
    struct Slow {
        begun: AtomicUsize,
        gate: Arc<Notify>,
    }

    impl PresettledSender for Arc<Slow> {
        type HandOver = BoxFuture<()>;

        fn send_presettled(&self, _: Message) -> BoxFuture<()> {
            self.begun.fetch_add(1, Ordering::Relaxed);
            let gate = Arc::clone(&self.gate);
            Box::pin(async move { gate.notified().await })
        }
    }

    fn service(messages: u32) -> (Arc<Slow>, PresettledService<Arc<Slow>>) {
        let slow = Arc::new(Slow::default());
        let each = PresettledService::<Arc<Slow>>::OVERHEAD + 4;
        (Arc::clone(&slow), PresettledService::new(slow).max_bytes(messages * each))
    }

    /// Rules: X-12.
    #[test]
    fn waiting_presettled_sends_are_bounded_in_bytes() {
        let (slow, mut stack) = service(2);
        let mut sends: Vec<_> = (0..3).map(|_| task::spawn(stack.call(Message::new("body")))).collect();
        for send in &mut sends {
            assert_pending!(send.poll());
        }
        assert_eq!((slow.begun.load(Ordering::Relaxed), stack.available_bytes()), (2, 0));
        slow.gate.notify_one();
        assert_ready_ok!(sends[0].poll());
        assert!(sends[2].is_woken());
        assert_pending!(sends[2].poll());
        assert_eq!(slow.begun.load(Ordering::Relaxed), 3);
        drop(sends);
        assert_eq!(stack.available_bytes(), 2 * 260);
    }

    #[test]
    fn a_message_above_the_bound_goes_alone() {
        let (slow, mut stack) = service(2);
        let mut small = task::spawn(stack.call(Message::new("body")));
        assert_pending!(small.poll());
        let mut large = task::spawn(stack.call(Message::new(vec![0; 10_000])));
        assert_pending!(large.poll());
        assert_eq!(slow.begun.load(Ordering::Relaxed), 1);
        drop(small);
        assert_pending!(large.poll());
        assert_eq!((slow.begun.load(Ordering::Relaxed), stack.available_bytes()), (2, 0));
    }

    #[test]
    fn one_that_is_dropped_while_it_waits_sends_nothing() {
        let (slow, mut stack) = service(1);
        let mut first = task::spawn(stack.call(Message::new("body")));
        assert_pending!(first.poll());
        let mut dropped = task::spawn(stack.call(Message::new("body")));
        assert_pending!(dropped.poll());
        drop(dropped);
        slow.gate.notify_one();
        assert_ready_ok!(first.poll());
        assert_eq!((slow.begun.load(Ordering::Relaxed), stack.available_bytes()), (1, 260));
    }
}
