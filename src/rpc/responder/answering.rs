use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context as TaskContext, Poll, ready},
};

use consign_codecs::{CodecSet, Codecs};
use pin_project_lite::pin_project;
use tower::util::Oneshot;

use super::{
    format,
    refusal::{IntoAnswer, Refusal},
    reply::{ReplySenders, Replying},
};
use crate::{
    Disposition, Message,
    message::EntityPath,
    routing::{Call, Context, Handler, Invoke},
    settlement::DeadLetterReason,
    transport::SendError,
};

/// A function that returns a value, as a handler that sends it to where the request wants its reply.
pub struct Answering<H, P> {
    handler: H,
    replying: Arc<Replying<P>>,
}

impl<H, P> Answering<H, P> {
    pub(super) fn new(handler: H, replying: Arc<Replying<P>>) -> Self {
        Self { handler, replying }
    }
}

impl<H: Call<A>, P, A> Call<A> for Answering<H, P> {}

#[diagnostic::do_not_recommend]
impl<H, P, A, S, C> Handler<A, S, C> for Answering<H, P>
where
    H: Invoke<A, S, C>,
    <H::Future as Future>::Output: IntoAnswer,
    P: ReplySenders,
    C: CodecSet,
{
    type Future = AnswerFuture<H::Future, P, C>;

    fn handle(&self, request: Message, cx: &Context<S, C>) -> Self::Future {
        let begun = self.replying.address(&request).and_then(|address| {
            let handling = self.handler.invoke(&request, cx)?;
            Ok((address, handling))
        });
        let state = match begun {
            Ok((address, handling)) => State::Handling { handling, address },
            Err(disposition) => State::Settled { disposition: Some(disposition) },
        };
        AnswerFuture { state, request, codecs: cx.codecs().clone(), replying: Arc::clone(&self.replying) }
    }
}

pin_project! {
    /// The future of a handler whose value is sent: ready when the broker has the reply.
    pub struct AnswerFuture<F, P: ReplySenders, C> {
        #[pin]
        state: State<F, P>,
        request: Message,
        codecs: Codecs<C>,
        replying: Arc<Replying<P>>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<F, P: ReplySenders> {
        Handling { #[pin] handling: F, address: Option<EntityPath> },
        Sending { #[pin] sending: Oneshot<P::Sender, Message>, is_fault: bool },
        Settled { disposition: Option<Disposition> },
    }
}

impl<F, P, C> Future for AnswerFuture<F, P, C>
where
    F: Future<Output: IntoAnswer>,
    P: ReplySenders,
    C: CodecSet,
{
    type Output = Disposition;

    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Disposition> {
        let mut this = self.project();
        loop {
            let next = match this.state.as_mut().project() {
                StateProjection::Handling { handling, address } => {
                    let answer = ready!(handling.poll(cx)).into_answer();
                    let address = address.take();
                    begin(answer, address, this.request, this.codecs, this.replying)
                }
                StateProjection::Sending { sending, is_fault } => {
                    let sent: Result<(), SendError> = ready!(sending.poll(cx)).map_err(Into::into);
                    return Poll::Ready(match sent {
                        Ok(()) if *is_fault => {
                            this.replying.stats.count_fault();
                            Disposition::Complete
                        }
                        Ok(()) => {
                            this.replying.stats.count_answered();
                            Disposition::Complete
                        }
                        Err(error) => this.replying.refused(this.request, &error),
                    });
                }
                StateProjection::Settled { disposition } => {
                    return Poll::Ready(disposition.take().expect("a future is not polled after it was ready"));
                }
            };
            this.state.set(next);
        }
    }
}

/// What follows the handler's answer.
fn begin<F, T, P, C>(
    answer: Result<T, Refusal>,
    address: Option<EntityPath>,
    request: &Message,
    codecs: &Codecs<C>,
    replying: &Replying<P>,
) -> State<F, P>
where
    T: consign_codecs::Encode,
    P: ReplySenders,
    C: CodecSet,
{
    let settled = |disposition| State::Settled { disposition: Some(disposition) };
    let answer = match answer {
        Ok(value) => Ok(value),
        Err(Refusal::Fault(fault)) => Err(fault),
        Err(Refusal::Settle(disposition)) => return settled(disposition),
    };
    let Some(address) = address else {
        replying.stats.count_unwanted();
        return settled(Disposition::Complete);
    };
    let (reply, is_fault) = match answer {
        Ok(value) => match format::encode(&value, codecs, request) {
            Ok(encoded) => {
                let mut properties = replying.properties(request);
                properties.set_content_type(encoded.content_type);
                (Message::from_parts(properties, encoded.body.into()), false)
            }
            Err(error) => {
                let why = format!("the reply could not be written: {error}");
                return settled(Disposition::dead_letter(DeadLetterReason::HandlerPermanent, why));
            }
        },
        Err(fault) => (replying.fault(request, &fault), true),
    };
    match replying.send(&address, reply) {
        Ok(sending) => State::Sending { sending, is_fault },
        Err(error) => settled(replying.refused(request, &error)),
    }
}

impl<H, P> fmt::Debug for Answering<H, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Answering")
    }
}

impl<F, P: ReplySenders, C> fmt::Debug for AnswerFuture<F, P, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerFuture").finish_non_exhaustive()
    }
}
