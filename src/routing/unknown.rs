//! Handlers of messages that match no route, as an alternative to a dead letter.

use std::{
    fmt,
    future::{Future, Ready, ready},
    pin::Pin,
    task::{Context as TaskContext, Poll, ready as ready_or_pending},
};

use pin_project_lite::pin_project;

use super::{Context, Handler, private::Call};
use crate::{
    Disposition, Message,
    message::PropertyValue,
    settlement::{DeadLetterReason, IntoDisposition, Transient},
    transport::{
        SendError, Sender,
        deadline::{OPERATION_TIMEOUT, Timed},
    },
};

/// Completes messages without looking at them: `.fallback(Ignore)` drops what no route takes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ignore;

impl Call<()> for Ignore {}

impl<S, C> Handler<(), S, C> for Ignore {
    type Future = Ready<Disposition>;

    fn handle(&self, _: Message, _: &Context<S, C>) -> Self::Future {
        ready(Disposition::Complete)
    }
}

/// Sends messages unchanged to another entity, with the same MessageId: `.fallback(Forward::to(sender))` forwards
/// every message that matches no route.
///
/// The message is completed after the broker has accepted the copy, and abandoned if it does not within 60 seconds. The property
/// [`Forward::COUNT`] counts how often a message was forwarded. A message that was forwarded [`Forward::MAX_HOPS`]
/// times is dead-lettered as `UnknownMessageType`, for consumers that forward to each other would never end.
#[derive(Clone)]
pub struct Forward<S> {
    sender: S,
}

impl<S: Sender> Forward<S> {
    /// Forwards to where `sender` leads. That must not be the queue that the messages come from.
    pub fn to(sender: S) -> Self {
        Self { sender }
    }
}

impl Forward<()> {
    /// The application property that counts how often a message was forwarded.
    pub const COUNT: &'static str = "x-forward-count";
    /// How often a message may be forwarded: 4 times.
    pub const MAX_HOPS: u64 = 4;
}

impl<S> Call<(Message,)> for Forward<S> {}

impl<F, S, C> Handler<(Message,), S, C> for Forward<F>
where
    F: Sender + 'static,
{
    type Future = Forwarding<F::Send>;

    fn handle(&self, message: Message, _: &Context<S, C>) -> Self::Future {
        let hops = message.application_properties().get(Forward::COUNT).and_then(PropertyValue::to_u64).unwrap_or(0);
        if hops >= Forward::MAX_HOPS {
            return Forwarding { progress: Progress::Refused };
        }
        let mut copy = message.without_received();
        copy.properties_mut().application_properties_mut().insert(Forward::COUNT, hops + 1);
        Forwarding { progress: Progress::Sending { send: Timed::new(self.sender.send(copy), OPERATION_TIMEOUT) } }
    }
}

pin_project! {
    /// The future of a [`Forward`].
    pub struct Forwarding<F> {
        #[pin]
        progress: Progress<F>,
    }
}

pin_project! {
    #[project = ProgressProjection]
    enum Progress<F> {
        Sending { #[pin] send: Timed<F> },
        Refused,
    }
}

impl<F> fmt::Debug for Forwarding<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Forwarding").finish_non_exhaustive()
    }
}

impl<F: Future<Output = Result<(), SendError>>> Future for Forwarding<F> {
    type Output = Disposition;

    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Disposition> {
        Poll::Ready(match self.project().progress.project() {
            ProgressProjection::Sending { send } => match ready_or_pending!(send.poll(cx)) {
                Ok(Ok(())) => Disposition::Complete,
                Ok(Err(error)) => Transient::from(error).into_disposition(),
                Err(unanswered) => Transient::from(SendError::from(unanswered)).into_disposition(),
            },
            ProgressProjection::Refused => Disposition::dead_letter(
                DeadLetterReason::UnknownMessageType,
                "no consumer that it was forwarded to takes it",
            ),
        })
    }
}

impl<S> fmt::Debug for Forward<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Forward").finish_non_exhaustive()
    }
}
