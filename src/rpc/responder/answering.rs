use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context as TaskContext, Poll, ready},
};

use consign_codecs::{CodecSet, Codecs, Encode};
use pin_project_lite::pin_project;
use tower_service::Service;

use super::{
    ReplySenders, format,
    refusal::{IntoAnswer, Refusal},
    reply::{Replying, drops_time_to_live},
    senders::Found,
};
use crate::{
    Disposition, Message,
    message::EntityPath,
    middleware::dedup::{StoreError, StoreErrorKind},
    routing::{
        Context, Handler,
        private::{Call, Invoke},
    },
    settlement::DeadLetterReason,
    transport::{BoxFuture, ErrorKind, SendError, deadline::Countdown},
};

/// A function that returns a value, as a handler that sends it to the reply address of the request.
pub struct Answering<H, P: ReplySenders> {
    handler: H,
    replying: Arc<Replying<P>>,
}

impl<H, P: ReplySenders> Answering<H, P> {
    pub(super) fn new(handler: H, replying: Arc<Replying<P>>) -> Self {
        Self { handler, replying }
    }
}

impl<H: Call<A>, P: ReplySenders, A> Call<A> for Answering<H, P> {}

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
        let (codecs, replying) = (cx.codecs().clone(), Arc::clone(&self.replying));
        AnswerFuture { state, request, codecs, replying, countdown: Countdown::default() }
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
        // For what was asked of a store or a broker last.
        countdown: Countdown,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<F, P: ReplySenders> {
        Handling { #[pin] handling: F, address: Option<EntityPath> },
        Recording { recording: BoxFuture<Result<(), StoreError>>, letter: Option<Letter> },
        Readying { sender: P::Sender, letter: Letter },
        Sending { #[pin] sending: <P::Sender as Service<Message>>::Future, letter: Letter },
        Settled { disposition: Option<Disposition> },
    }
}

/// A reply that is being sent.
#[derive(Clone)]
struct Letter {
    reply: Message,
    address: EntityPath,
    is_fault: bool,
    /// Whether its sender was made for another reply.
    is_kept: bool,
}

/// What follows the handler's answer.
enum Next {
    Send(Letter),
    Settle(Disposition),
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
                    match next(answer, address.take(), this.request, this.codecs, this.replying) {
                        Next::Send(letter) => match &this.replying.recorded {
                            Some(recorded) => State::Recording {
                                recording: Arc::clone(recorded).put(this.request, &letter.reply),
                                letter: Some(letter),
                            },
                            None => post(letter, this.request, this.replying, cx),
                        },
                        Next::Settle(disposition) => settled(disposition),
                    }
                }
                StateProjection::Recording { recording, letter } => {
                    let recorded = match recording.as_mut().poll(cx) {
                        Poll::Ready(recorded) => recorded,
                        Poll::Pending => {
                            let unanswered = ready!(this.countdown.poll(this.replying.operation, cx));
                            Err(StoreError::new(StoreErrorKind::Unavailable).with_source(unanswered))
                        }
                    };
                    if let Err(error) = recorded {
                        this.replying.not_recorded(&error);
                    }
                    *this.countdown = Countdown::default();
                    let letter = letter.take().expect("a future is not polled after it was ready");
                    post(letter, this.request, this.replying, cx)
                }
                StateProjection::Readying { sender, letter } => match sender.poll_ready(cx) {
                    Poll::Ready(Ok(())) => {
                        let sending = sender.call(letter.reply.clone());
                        State::Sending { sending, letter: letter.clone() }
                    }
                    Poll::Ready(Err(error)) => {
                        not_ready(letter.clone(), &error.into(), this.request, this.replying, cx)
                    }
                    Poll::Pending => {
                        let unanswered = ready!(this.countdown.poll(this.replying.operation, cx));
                        settled(this.replying.unanswered(this.request, unanswered))
                    }
                },
                StateProjection::Sending { sending, letter } => match sending.poll(cx) {
                    Poll::Ready(Ok(())) => {
                        this.replying.stats.count(letter.is_fault);
                        return Poll::Ready(Disposition::Complete);
                    }
                    Poll::Pending => {
                        let unanswered = ready!(this.countdown.poll(this.replying.operation, cx));
                        settled(this.replying.unanswered(this.request, unanswered))
                    }
                    Poll::Ready(Err(error)) => {
                        let error: SendError = error.into();
                        if drops_time_to_live(&mut letter.reply, &error) {
                            post(letter.clone(), this.request, this.replying, cx)
                        } else {
                            not_sent(letter.clone(), &error, this.request, this.replying, cx)
                        }
                    }
                },
                StateProjection::Settled { disposition } => {
                    return Poll::Ready(disposition.take().expect("a future is not polled after it was ready"));
                }
            };
            this.state.set(next);
        }
    }
}

fn settled<F, P: ReplySenders>(disposition: Disposition) -> State<F, P> {
    State::Settled { disposition: Some(disposition) }
}

/// Sends a reply as far as it goes at once.
#[inline]
fn post<F, P: ReplySenders>(
    letter: Letter,
    request: &Message,
    replying: &Replying<P>,
    cx: &mut TaskContext<'_>,
) -> State<F, P> {
    let found = replying.senders.find(&letter.address);
    post_by(found, letter, request, replying, cx)
}

#[inline]
fn post_by<F, P: ReplySenders>(
    found: Result<Found<P::Sender>, SendError>,
    mut letter: Letter,
    request: &Message,
    replying: &Replying<P>,
    cx: &mut TaskContext<'_>,
) -> State<F, P> {
    let Found { mut sender, is_kept } = match found {
        Ok(found) => found,
        Err(error) => return settled(replying.refused(request, &error)),
    };
    letter.is_kept = is_kept;
    match sender.poll_ready(cx) {
        Poll::Ready(Ok(())) => State::Sending { sending: sender.call(letter.reply.clone()), letter },
        Poll::Ready(Err(error)) => not_ready(letter, &error.into(), request, replying, cx),
        Poll::Pending => State::Readying { sender, letter },
    }
}

/// What follows an error of `poll_ready`: a service that has returned one is not used again. Nothing was sent, so a kept
/// sender is replaced.
#[cold]
fn not_ready<F, P: ReplySenders>(
    letter: Letter,
    error: &SendError,
    request: &Message,
    replying: &Replying<P>,
    cx: &mut TaskContext<'_>,
) -> State<F, P> {
    replying.senders.forget(&letter.address);
    if letter.is_kept {
        let made = replying.senders.make(&letter.address);
        return post_by(made, letter, request, replying, cx);
    }
    settled(replying.refused(request, error))
}

/// What follows an error of a sender. If it was kept and its entity is gone, there may be another entity in its place.
#[cold]
fn not_sent<F, P: ReplySenders>(
    letter: Letter,
    error: &SendError,
    request: &Message,
    replying: &Replying<P>,
    cx: &mut TaskContext<'_>,
) -> State<F, P> {
    if error.kind() == ErrorKind::EntityNotFound && letter.is_kept {
        replying.senders.forget(&letter.address);
        return post(letter, request, replying, cx);
    }
    settled(replying.refused(request, error))
}

#[inline]
fn next<T, P, C>(
    answer: Result<T, Refusal>,
    address: Option<EntityPath>,
    request: &Message,
    codecs: &Codecs<C>,
    replying: &Replying<P>,
) -> Next
where
    T: Encode,
    P: ReplySenders,
    C: CodecSet,
{
    let answer = match answer {
        Ok(value) => Ok(value),
        Err(Refusal::Fault(fault)) => Err(fault),
        Err(Refusal::Settle(disposition)) => return Next::Settle(disposition),
    };
    let Some(address) = address else {
        replying.stats.count_unwanted();
        return Next::Settle(Disposition::Complete);
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
                return Next::Settle(Disposition::dead_letter(DeadLetterReason::HandlerPermanent, why));
            }
        },
        Err(fault) => (replying.fault(request, &fault), true),
    };
    Next::Send(Letter { reply, address, is_fault, is_kept: false })
}

impl<H, P: ReplySenders> fmt::Debug for Answering<H, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Answering")
    }
}

impl<F, P: ReplySenders, C> fmt::Debug for AnswerFuture<F, P, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerFuture").finish_non_exhaustive()
    }
}
