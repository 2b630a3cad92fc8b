use std::{
    fmt,
    future::{Ready, ready},
    sync::Arc,
};

use super::{Recorder, SendOutcome, Sent};
use crate::{
    Message,
    time::Clock,
    transport::{Batch, BoxFuture, Capabilities, PresettledSender, SendError, Sender},
};

/// A sender that a [`Recorder`] records.
#[doc(hidden)]
#[derive(Clone)]
pub struct RecordedSender<S> {
    recorder: Recorder,
    sender: S,
}

/// Accepts everything, and keeps nothing.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Accepting;

impl<S> RecordedSender<S> {
    pub(super) fn new(recorder: Recorder, sender: S) -> Self {
        Self { recorder, sender }
    }

    /// Where on the tape the messages stand.
    fn note(&self, messages: &[Message], outcome: SendOutcome) -> Vec<usize> {
        let mut tapes = self.recorder.tapes.lock();
        messages.iter().map(|message| tapes.sent.push(Sent { message: message.clone(), outcome })).collect()
    }
}

impl<S: Sender> RecordedSender<S> {
    fn watch(&self, places: Vec<usize>, send: S::Send) -> BoxFuture<Result<(), SendError>> {
        let recorder = self.recorder.clone();
        Box::pin(async move {
            let answer = send.await;
            let outcome = match &answer {
                Ok(()) => SendOutcome::Accepted,
                Err(error) => SendOutcome::Failed(error.kind()),
            };
            let mut tapes = recorder.tapes.lock();
            for place in places {
                if let Some(sent) = tapes.sent.at(place) {
                    sent.outcome = outcome;
                }
            }
            drop(tapes);
            answer
        })
    }
}

impl<S: Sender> Sender for RecordedSender<S> {
    type Send = BoxFuture<Result<(), SendError>>;

    fn send(&self, message: Message) -> Self::Send {
        let places = self.note(std::slice::from_ref(&message), SendOutcome::Unknown);
        self.watch(places, self.sender.send(message))
    }

    fn send_batch(&self, batch: Batch) -> Self::Send {
        let places = self.note(batch.messages(), SendOutcome::Unknown);
        self.watch(places, self.sender.send_batch(batch))
    }

    fn capabilities(&self) -> Capabilities {
        self.sender.capabilities()
    }

    fn clock(&self) -> Option<Arc<dyn Clock>> {
        self.sender.clock()
    }
}

impl<S: PresettledSender> PresettledSender for RecordedSender<S> {
    type HandOver = S::HandOver;

    fn send_presettled(&self, message: Message) -> S::HandOver {
        self.note(std::slice::from_ref(&message), SendOutcome::HandedOver);
        self.sender.send_presettled(message)
    }
}

impl Sender for Accepting {
    type Send = Ready<Result<(), SendError>>;

    fn send(&self, _: Message) -> Self::Send {
        ready(Ok(()))
    }

    fn send_batch(&self, _: Batch) -> Self::Send {
        ready(Ok(()))
    }
}

impl PresettledSender for Accepting {
    type HandOver = Ready<()>;

    fn send_presettled(&self, _: Message) -> Self::HandOver {
        ready(())
    }
}

impl<S> fmt::Debug for RecordedSender<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordedSender").field("recorder", &self.recorder).finish_non_exhaustive()
    }
}
