use std::{
    fmt,
    future::Future,
    task::{Context, Poll},
    time::Duration,
};

use super::{Recorder, Settled, Settlement};
use crate::{
    Disposition, Message,
    message::LockToken,
    settlement::Changes,
    transport::{BoxFuture, Capabilities, Delivery, EntityInfo, Lease, ReceiveError, Receiver, SettleError},
};

/// A receiver that a [`Recorder`] records.
#[doc(hidden)]
pub struct RecordedReceiver<R: Receiver> {
    recorder: Recorder,
    receiver: R,
    received: Vec<Delivery<R::Lease>>,
}

impl<R: Receiver> RecordedReceiver<R> {
    pub(super) fn new(recorder: Recorder, receiver: R) -> Self {
        Self { recorder, receiver, received: Vec::new() }
    }
}

/// Nothing in it has to stay in place.
impl<R: Receiver> Unpin for RecordedReceiver<R> {}

impl<R: Receiver> Receiver for RecordedReceiver<R> {
    type Lease = RecordedLease<R::Lease>;

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<Self::Lease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        let polled = self.receiver.poll_receive(cx, max, &mut self.received);
        out.extend(self.received.drain(..).map(|Delivery { message, lease }| {
            let must_settle = lease.must_settle();
            let end = End { recorder: self.recorder.clone(), message: message.clone(), must_settle, is_noted: false };
            Delivery { message, lease: RecordedLease { end, lease } }
        }));
        polled
    }

    fn stop(&mut self) {
        self.receiver.stop();
    }

    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.receiver.poll_stopped(cx)
    }

    fn capabilities(&self) -> Capabilities {
        self.receiver.capabilities()
    }

    fn entity_info(&self) -> EntityInfo {
        self.receiver.entity_info()
    }
}

/// A lease that a [`Recorder`] records.
#[doc(hidden)]
pub struct RecordedLease<L> {
    // Noted before the lease is dropped, which abandons.
    end: End,
    lease: L,
}

/// Writes down how a delivery ends; a drop, if nothing else was noted.
struct End {
    recorder: Recorder,
    message: Message,
    /// `false` if the broker has removed the message.
    must_settle: bool,
    is_noted: bool,
}

impl End {
    fn note(&mut self, settlement: Settlement) -> usize {
        self.is_noted = true;
        let settled = Settled { message: self.message.clone(), settlement, answer: None };
        self.recorder.tapes.lock().settled.push(settled)
    }

    fn watch<F>(&self, place: usize, settle: F) -> BoxFuture<Result<(), SettleError>>
    where
        F: Future<Output = Result<(), SettleError>> + Send + 'static,
    {
        let recorder = self.recorder.clone();
        Box::pin(async move {
            let answer = settle.await;
            if let Some(settled) = recorder.tapes.lock().settled.at(place) {
                settled.answer = Some(answer.as_ref().copied().map_err(SettleError::kind));
            }
            answer
        })
    }
}

impl Drop for End {
    fn drop(&mut self) {
        if !self.is_noted {
            self.note(if self.must_settle { Settlement::Dropped } else { Settlement::Removed });
        }
    }
}

impl<L: Lease> Lease for RecordedLease<L> {
    type Settle = BoxFuture<Result<(), SettleError>>;
    type Renew = L::Renew;

    fn settle(self, disposition: Disposition) -> Self::Settle {
        let Self { mut end, lease } = self;
        let place = end.note(Settlement::Settled(disposition.clone()));
        end.watch(place, lease.settle(disposition))
    }

    fn release(self) -> Self::Settle {
        let Self { mut end, lease } = self;
        let place = end.note(Settlement::Released);
        end.watch(place, lease.release())
    }

    fn abandon_after(mut self, changes: Changes, delay: Duration) -> Result<Self::Settle, Self> {
        match self.lease.abandon_after(changes.clone(), delay) {
            Ok(settle) => {
                let place = self.end.note(Settlement::Settled(Disposition::Abandon(changes.after(delay))));
                Ok(self.end.watch(place, settle))
            }
            Err(lease) => Err(Self { end: self.end, lease }),
        }
    }

    fn release_after(mut self, delay: Duration) -> Result<Self::Settle, Self> {
        match self.lease.release_after(delay) {
            Ok(settle) => {
                let place = self.end.note(Settlement::Released);
                Ok(self.end.watch(place, settle))
            }
            Err(lease) => Err(Self { end: self.end, lease }),
        }
    }

    fn renew(&self) -> L::Renew {
        self.lease.renew()
    }

    fn lock_duration(&self) -> Option<Duration> {
        self.lease.lock_duration()
    }

    fn lock_token(&self) -> Option<LockToken> {
        self.lease.lock_token()
    }

    fn must_settle(&self) -> bool {
        self.lease.must_settle()
    }
}

impl<L> fmt::Debug for RecordedLease<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordedLease").field("message", &self.end.message).finish_non_exhaustive()
    }
}

impl<R: Receiver> fmt::Debug for RecordedReceiver<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordedReceiver").field("recorder", &self.recorder).finish_non_exhaustive()
    }
}
