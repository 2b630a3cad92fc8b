//! Receivers, sessions and leases with a fault.

use std::{
    mem,
    pin::Pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use consign::{
    Disposition, Message,
    broker::{QueueLease, SessionAcceptor, SessionReceiver},
    message::limits,
    settlement::{Changes, DeadLetter},
    time::Timestamp,
    transport::{
        AcceptSession, BoxFuture, Capabilities, Capability, Delivery, ErrorKind, Lease, ReceiveError, Receiver,
        Session, SessionSource, SettleError, Unsupported,
    },
};

use super::{Fault, sending::Kept};

/// Polls with the waker that a transport with the fault would keep.
fn poll_as<T>(
    fault: Fault,
    first: &mut Option<Waker>,
    cx: &Context<'_>,
    poll: impl FnOnce(&mut Context<'_>) -> Poll<T>,
) -> Poll<T> {
    let waker = match fault {
        Fault::WakesNobody => Waker::noop(),
        Fault::WakesTheFirst => &*first.get_or_insert_with(|| cx.waker().clone()),
        _ => cx.waker(),
    };
    let polled = poll(&mut Context::from_waker(waker));
    if polled.is_ready() {
        *first = None;
    }
    polled
}

pub(super) struct WrongReceiver<R> {
    pub(super) inner: R,
    pub(super) fault: Fault,
    kept: Kept,
    first: Option<Waker>,
}

impl<R> WrongReceiver<R> {
    pub(super) fn new(inner: R, fault: Fault, kept: Kept) -> Self {
        Self { inner, fault, kept, first: None }
    }

    /// Returns the message as a transport with the fault delivers it.
    fn changed(&self, mut message: Message) -> Message {
        let kept = message.message_id().and_then(|id| self.kept.lock().get(id).cloned());
        let received = message.received().copied();
        match (self.fault, kept, received) {
            (Fault::KeepsNumbers, Some(kept), Some(mut received)) => {
                received.sequence_number =
                    kept.received().map_or(received.sequence_number, |kept| kept.sequence_number);
                return message.with_received(received);
            }
            (Fault::KeepsSource, Some(kept), _) => {
                return match kept.dead_letter_source() {
                    Some(source) => message.with_dead_letter_source(source),
                    None => message,
                };
            }
            (Fault::KeepsExtensions, Some(kept), _) => *message.extensions_mut() = kept.extensions().clone(),
            (Fault::LosesTransactionKey, ..) => {
                message.properties_mut().clear_transaction_partition_key();
            }
            (Fault::LosesPassedTime, ..) => {
                message.properties_mut().clear_scheduled_enqueue_time();
            }
            (Fault::LosesPriority, ..) => message.properties_mut().pass_through_mut().priority = None,
            (Fault::CutsDeath, ..) if message.dead_letter_reason() == Some("MaxDeliveryCountExceeded") => {
                message.properties_mut().application_properties_mut().remove("k");
            }
            (Fault::ForgetsDeath, _, Some(mut received)) => {
                received.dead_lettered = false;
                return message.with_received(received);
            }
            _ => {}
        }
        message
    }
}

impl<R: Receiver<Lease = QueueLease>> Receiver for WrongReceiver<R> {
    type Lease = WrongLease;

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<WrongLease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        if self.fault == Fault::ReceivesNone && max == 0 {
            return Poll::Ready(Ok(0));
        }
        let (fault, inner, mut received) = (self.fault, &mut self.inner, Vec::new());
        let polled = poll_as(fault, &mut self.first, cx, |cx| inner.poll_receive(cx, max, &mut received));
        out.extend(received.into_iter().map(|Delivery { message, lease }| Delivery {
            lease: WrongLease::new(lease, fault, message.clone()),
            message: self.changed(message),
        }));
        polled
    }

    fn stop(&mut self) {
        self.first = None;
        self.inner.stop();
    }

    fn capabilities(&self) -> Capabilities {
        match self.fault {
            Fault::ReceiverDeclaresNothing => Capabilities::none(),
            fault => fault.left(self.inner.capabilities()),
        }
    }
}

pub(super) struct WrongLease {
    pub(super) inner: QueueLease,
    fault: Fault,
    message: Message,
}

impl WrongLease {
    pub(super) fn new(inner: QueueLease, fault: Fault, message: Message) -> Self {
        Self { inner, fault, message }
    }

    /// Whether the message is lost or released when this dead letter is refused.
    fn loses(&self, dead_letter: &DeadLetter) -> bool {
        let is_long = |text: &str| text.len() > limits::DEAD_LETTER_TEXT;
        match self.fault {
            Fault::LosesRefused | Fault::ReleasesRefused => {
                is_long(dead_letter.reason.as_str()) || is_long(&dead_letter.description)
            }
            Fault::LosesRefusedDescription => is_long(&dead_letter.description),
            _ => false,
        }
    }

    /// Whether the settlement would make the properties too large.
    fn outgrows(&self, disposition: &Disposition) -> bool {
        let mut message = self.message.clone();
        let properties = message.properties_mut().application_properties_mut();
        match disposition.clone() {
            Disposition::Complete => {}
            Disposition::Abandon(changes) | Disposition::Defer(changes) => properties.merge(changes.into_permitted()),
            Disposition::DeadLetter(dead_letter) => dead_letter.write_to(properties),
        }
        message.check().is_err()
    }

    /// Returns the refusal of a settlement that has another effect than that of `instead`.
    fn refuse(self, instead: Disposition, error: impl Into<SettleError>) -> BoxFuture<Result<(), SettleError>> {
        let (settled, error) = (self.inner.settle(instead), error.into());
        Box::pin(async { settled.await.and(Err(error)) })
    }
}

impl Lease for WrongLease {
    type Settle = BoxFuture<Result<(), SettleError>>;
    type Renew = <QueueLease as Lease>::Renew;

    fn settle(self, disposition: Disposition) -> Self::Settle {
        match disposition {
            Disposition::DeadLetter(dead_letter) if self.loses(&dead_letter) => {
                if self.fault == Fault::ReleasesRefused {
                    let released = Lease::release(self.inner);
                    return Box::pin(async { released.await.and(Err(SettleError::new(ErrorKind::InvalidArgument))) });
                }
                self.refuse(Disposition::Complete, SettleError::new(ErrorKind::InvalidArgument))
            }
            Disposition::Defer(_) if self.fault == Fault::Refuses => {
                self.refuse(Disposition::ABANDON, Unsupported::new(Capability::Deferral))
            }
            Disposition::Defer(_) if self.fault == Fault::RefusesTooLate => {
                self.refuse(Disposition::DEFER, Unsupported::new(Capability::Deferral))
            }
            outgrown if self.fault == Fault::RefusesOutgrown && self.outgrows(&outgrown) => {
                self.refuse(Disposition::ABANDON, SettleError::new(ErrorKind::InvalidArgument))
            }
            disposition if self.fault == Fault::SettlesDeleted => {
                let settled = self.inner.settle(disposition);
                Box::pin(async { settled.await.or(Ok(())) })
            }
            disposition => Box::pin(self.inner.settle(disposition)),
        }
    }

    fn release(self) -> Self::Settle {
        if self.fault == Fault::ReleasesLate {
            return Box::pin(async { Lease::release(self.inner).await });
        }
        Box::pin(Lease::release(self.inner))
    }

    fn abandon_after(self, changes: Changes, _: Duration) -> Result<Self::Settle, Self> {
        if self.fault == Fault::DelaysNothing { Ok(self.settle(Disposition::Abandon(changes))) } else { Err(self) }
    }

    fn renew(&self) -> Self::Renew {
        Lease::renew(&self.inner)
    }

    fn lock_duration(&self) -> Option<Duration> {
        // A consumer would renew the lock that it need not settle.
        if self.fault == Fault::NeedsNoSettlement { None } else { Lease::lock_duration(&self.inner) }
    }
}

pub(super) struct WrongSource {
    inner: SessionAcceptor,
    fault: Fault,
    first: Option<Waker>,
}

impl WrongSource {
    pub(super) fn new(inner: SessionAcceptor, fault: Fault) -> Self {
        Self { inner, fault, first: None }
    }
}

impl SessionSource for WrongSource {
    type Session = WrongSession;

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Result<WrongSession, ReceiveError>> {
        let (fault, inner) = (self.fault, &mut self.inner);
        let polled = poll_as(fault, &mut self.first, cx, |cx| inner.poll_accept(cx));
        polled.map_ok(|session| WrongSession::new(session, fault))
    }

    fn stop(&mut self) {
        self.first = None;
        SessionSource::stop(&mut self.inner);
    }
}

impl AcceptSession for WrongSource {
    type Session = WrongSession;
    type Accept = BoxFuture<Result<WrongSession, ReceiveError>>;

    fn accept(&mut self, id: &str) -> Self::Accept {
        let (fault, accepted) = (self.fault, AcceptSession::accept(&mut self.inner, id));
        Box::pin(async move { accepted.await.map(|session| WrongSession::new(session, fault)) })
    }
}

pub(super) struct WrongSession {
    /// `None` once it is closed.
    receiver: Option<WrongReceiver<SessionReceiver>>,
    id: String,
}

impl WrongSession {
    fn new(session: SessionReceiver, fault: Fault) -> Self {
        let id = session.session_id().to_owned();
        Self { receiver: Some(WrongReceiver::new(session, fault, Kept::default())), id }
    }
}

impl Receiver for WrongSession {
    type Lease = WrongLease;

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<WrongLease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        match &mut self.receiver {
            Some(receiver) => receiver.poll_receive(cx, max, out),
            None => Poll::Ready(Err(ReceiveError::new(ErrorKind::SessionLockLost))),
        }
    }

    fn stop(&mut self) {
        if let Some(receiver) = &mut self.receiver {
            receiver.stop();
        }
    }
}

impl Session for WrongSession {
    type Renew = Pin<Box<dyn Future<Output = Result<Timestamp, SettleError>> + Send>>;
    type Close = BoxFuture<Result<(), SettleError>>;

    fn session_id(&self) -> &str {
        &self.id
    }

    fn lock_duration(&self) -> Duration {
        self.receiver.as_ref().map_or(Duration::ZERO, |receiver| Session::lock_duration(&receiver.inner))
    }

    fn renew(&self) -> Self::Renew {
        let renewed = self.receiver.as_ref().map(|receiver| Session::renew(&receiver.inner));
        Box::pin(async move {
            match renewed {
                Some(renewed) => renewed.await,
                None => Err(SettleError::new(ErrorKind::SessionLockLost)),
            }
        })
    }

    fn close(mut self) -> Self::Close {
        let closed = self.receiver.take().map(|receiver| Session::close(receiver.inner));
        Box::pin(async move {
            match closed {
                Some(closed) => closed.await,
                None => Ok(()),
            }
        })
    }
}

impl Drop for WrongSession {
    fn drop(&mut self) {
        if let Some(receiver) = self.receiver.take_if(|receiver| receiver.fault == Fault::KeepsDroppedSessions) {
            mem::forget(receiver);
        }
    }
}
