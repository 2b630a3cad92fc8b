//! The server of a call: [`Responder`].

mod address;
pub(super) mod answering;
mod builder;
mod description;
mod format;
mod of_transport;
mod recorded;
mod refusal;
mod replay;
mod reply;
mod senders;
mod stats;

use std::{
    convert::Infallible,
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use consign_codecs::CodecSet;
use pin_project_lite::pin_project;
use tokio::time::timeout;
use tower_service::Service;

use self::{answering::Answering, replay::Replay, reply::Replying};
pub use self::{
    builder::{HandlersBuilder, ResponderBuilder},
    description::RepliesDescription,
    format::ACCEPT,
    of_transport::reply_senders,
    recorded::{MemoryReplies, RecordedReplies, RecordedReply, ReplyStore},
    refusal::{IntoAnswer, Refusal, Reply},
    senders::ReplySenders,
    stats::ResponderStats,
};
use super::Fault;
use crate::{
    Disposition, Message,
    routing::{
        Router, RouterDescription, RouterFuture,
        private::{BuiltRouter, RouteList},
    },
    settlement::{DeadLetter, DeadLetterReason},
    transport::{BoxFuture, deadline::Unanswered},
};

/// Dispatches requests to handlers by subject, sends what they return to the reply address, then returns the
/// disposition of the request. It is the innermost service of a receiving stack, like the [`Router`] that is in it.
///
/// - The broker accepts a reply before its request is completed. A crash between the two sends the reply twice, and
///   never not at all. A requester drops the second reply.
/// - A reply is encoded in the format that the requester [accepts](ACCEPT), else in that of the request, else in the
///   first of the set.
/// - A dead-lettered request is answered with a [`Fault`]: it cannot be decoded, no handler takes it, or its handler
///   dead-letters it.
/// - A request that neither sets its MessageId nor its CorrelationId, and names an address for a reply, is
///   dead-lettered as `MissingProperty`; see [`Correlate`](super::Correlate).
/// - A request whose requester does not wait any more, by its property
///   [`x-timeout-ms`](crate::message::Properties::TIMEOUT), is completed and counted, and no handler sees it. One with
///   a value there that is not a number of milliseconds is dead-lettered as `InvalidProperty`.
/// - A request whose reply address is not allowed is dead-lettered as `ReplyAddressNotAllowed`, and no handler that
///   answers sees it.
/// - A transient refusal of a reply abandons the request, which is redelivered at once: its handler has to tolerate
///   that. A stack with a retry below [`ReplySenders`] avoids it. A reply to an entity that is gone is counted, and
///   the request is completed. Any other refusal dead-letters the request, as `MissingReplyToSessionId` or
///   `ReplyRejected`.
pub struct Responder<S, C, P: ReplySenders, R> {
    router: Router<S, C, R>,
    replying: Arc<Replying<P>>,
}

impl<S, C, P: ReplySenders, R> Responder<S, C, P, R> {
    /// Returns the counts so far, which go on while the responder runs.
    #[must_use]
    pub fn stats(&self) -> ResponderStats {
        self.replying.stats.clone()
    }

    /// Answers duplicates of requests with the reply that was [recorded](ResponderBuilder::record) for the first, for
    /// [`DedupLayer::on_duplicate`](crate::middleware::dedup::DedupLayer::on_duplicate):
    ///
    /// ```
    /// # #[cfg(all(feature = "json", feature = "embedded"))] {
    /// use std::time::Duration;
    /// use consign::{
    ///     administration::QueueSettings,
    ///     broker::Broker,
    ///     codecs::Codecs,
    ///     consumer::Consumer,
    ///     message::EntityPath,
    ///     middleware::dedup::{DedupLayer, MemoryStore},
    ///     routing::Body,
    ///     rpc::{RecordedReplies, Reply, Responder},
    ///     transport::SendService,
    /// };
    /// use tower::ServiceBuilder;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tower::BoxError> {
    /// # let broker = Broker::new();
    /// # let requests = broker.create_queue("requests", QueueSettings::default())?;
    /// let window = Duration::from_secs(600);
    /// let reply_to = broker.clone();
    /// let responder = Responder::builder(move |to: &EntityPath| Ok(SendService::new(reply_to.sender(to)?)))
    ///     .record(RecordedReplies::new(window))
    ///     .codecs(Codecs::json())
    ///     .answer("double", async |Body(number): Body<u32>| Reply(number * 2))
    ///     .build()?;
    /// let dedup = DedupLayer::new(MemoryStore::new(window), "requests").on_duplicate(responder.replay());
    /// let consumer = Consumer::new(requests.receiver(), ServiceBuilder::new().layer(dedup).service(responder));
    /// # drop(consumer);
    /// # Ok(())
    /// # }
    /// # main().unwrap();
    /// # }
    /// ```
    #[must_use]
    pub fn replay(&self) -> Replay<P> {
        Replay::new(Arc::clone(&self.replying))
    }
}

/// Its requests, the messages of its handlers without a reply, and how it replies.
impl<S, C: CodecSet, P: ReplySenders, R> BuiltRouter for Responder<S, C, P, R> {
    fn description(&self) -> RouterDescription {
        let mut description = self.router.describe();
        let (subjects, has_otherwise) = self.router.answered();
        let Replying { correlate, subject, fault_body, .. } = &*self.replying;
        description.replies = Some(RepliesDescription {
            subjects,
            has_otherwise,
            correlate: *correlate,
            subject: subject.as_deref().map(Into::into),
            fault_content_type: fault_body.as_ref().map(|body| body.content_type.clone()),
        });
        description
    }
}

impl<S, C, P, R> Service<Message> for Responder<S, C, P, R>
where
    R: RouteList<S, C>,
    P: ReplySenders,
{
    type Response = Disposition;
    type Error = Infallible;
    type Future = ResponderFuture<R::Future, P>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Message) -> Self::Future {
        let replying = Arc::clone(&self.replying);
        match self.replying.refusal(&request) {
            None => {
                let routed = self.router.call(request.clone());
                ResponderFuture { state: State::Handling { routed, faulted: Faulted { request, replying } } }
            }
            disposition => {
                ResponderFuture { state: State::Refused { disposition, faulted: Faulted { request, replying } } }
            }
        }
    }
}

/// How long a dead letter waits for its fault to be sent. The requester chooses the address, and may choose a slow
/// entity.
const LONGEST_FAULT: Duration = Duration::from_secs(5);

/// What it takes to answer a request that is dead-lettered.
struct Faulted<P: ReplySenders> {
    request: Message,
    replying: Arc<Replying<P>>,
}

impl<P: ReplySenders> Faulted<P> {
    /// Sends the fault of a dead letter. `None` of any other disposition, and if there is nowhere to send it.
    #[inline]
    fn answer(&self, disposition: &Disposition) -> Option<BoxFuture<()>> {
        match disposition {
            Disposition::DeadLetter(dead_letter) => self.send(dead_letter),
            _ => None,
        }
    }

    /// Sends the fault and waits for the broker to have it. Whether it arrives changes nothing for the request.
    #[cold]
    fn send(&self, dead_letter: &DeadLetter) -> Option<BoxFuture<()>> {
        if dead_letter.reason == DeadLetterReason::MissingReplyToSessionId {
            return None;
        }
        let of = self.replying.addresses.of(&self.request);
        // A handler that replies has counted it.
        if of.is_err() && dead_letter.reason != DeadLetterReason::ReplyAddressNotAllowed {
            self.replying.stats.count_not_allowed();
        }
        let address = of.ok()??;
        let reply = self.replying.fault(&self.request, &Fault::of_dead_letter(dead_letter));
        let replying = Arc::clone(&self.replying);
        Some(Box::pin(async move {
            let sent = timeout(LONGEST_FAULT, replying.send_anew(&address, reply)).await;
            let Err(error) = sent.unwrap_or_else(|_| Err(Unanswered::after(LONGEST_FAULT).into())) else {
                return replying.stats.count_fault();
            };
            replying.stats.count_undelivered();
            Replying::<P>::log_undelivered(address.as_str(), &error);
        }))
    }
}

pin_project! {
    /// The future of a responder.
    #[doc(hidden)]
    pub struct ResponderFuture<F, P: ReplySenders> {
        #[pin]
        state: State<F, P>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<F, P: ReplySenders> {
        Handling { #[pin] routed: RouterFuture<F>, faulted: Faulted<P> },
        Refused { disposition: Option<Disposition>, faulted: Faulted<P> },
        Faulting { sending: BoxFuture<()>, disposition: Option<Disposition> },
    }
}

impl<F, P> Future for ResponderFuture<F, P>
where
    F: Future<Output = Disposition>,
    P: ReplySenders,
{
    type Output = Result<Disposition, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let next = match self.as_mut().project().state.project() {
                StateProjection::Handling { routed, faulted } => {
                    let disposition = ready!(routed.poll(cx))?;
                    match faulted.answer(&disposition) {
                        Some(sending) => State::Faulting { sending, disposition: Some(disposition) },
                        None => return Poll::Ready(Ok(disposition)),
                    }
                }
                StateProjection::Refused { disposition, faulted } => {
                    let disposition = disposition.take().expect("a future is not polled after it was ready");
                    match faulted.answer(&disposition) {
                        Some(sending) => State::Faulting { sending, disposition: Some(disposition) },
                        None => return Poll::Ready(Ok(disposition)),
                    }
                }
                StateProjection::Faulting { sending, disposition } => {
                    ready!(sending.as_mut().poll(cx));
                    return Poll::Ready(Ok(disposition.take().expect("a future is not polled after it was ready")));
                }
            };
            self.as_mut().project().state.set(next);
        }
    }
}

impl<S, C, P: ReplySenders, R> Clone for Responder<S, C, P, R> {
    fn clone(&self) -> Self {
        Self { router: self.router.clone(), replying: Arc::clone(&self.replying) }
    }
}

impl<S, C, P: ReplySenders, R: fmt::Debug> fmt::Debug for Responder<S, C, P, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Responder").field("router", &self.router).finish_non_exhaustive()
    }
}

impl<F, P: ReplySenders> fmt::Debug for ResponderFuture<F, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponderFuture").finish_non_exhaustive()
    }
}
