use std::{
    fmt,
    future::Future,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use crate::{
    Nats, NatsLease, NatsReceiver, browse, deferred, deliver,
    error::Fault,
    jobs::{Job, JobPlace},
    receiver::delivery,
    session_lock::SessionLock,
    source::Source,
};
use bytes::Bytes;
use consign_core::{
    Message,
    message::SequenceNumber,
    time::Timestamp,
    transport::{
        BoxFuture, Capabilities, Delivery, EntityInfo, ErrorKind, ReceiveError, Receiver, Session, SettleError,
    },
};

/// A session that is held: its messages in order, and its state.
///
/// The lock is a message beside the entity that each writer replaces, and a consumer that no other hold has. The consumer is
/// deleted when the session is given up or taken over, so a late acknowledgement of a former holder has no effect. A released
/// message stays with the holder and is the next one.
pub struct NatsSession {
    session_lock: Arc<SessionLock>,
    source: Arc<Source>,
    receiver: NatsReceiver,
    /// The next number of a peek.
    peeked: u64,
    place: Option<JobPlace>,
}

impl NatsSession {
    pub(crate) fn new(session_lock: Arc<SessionLock>, source: Arc<Source>, place: JobPlace) -> Self {
        let receiver = NatsReceiver::new(Arc::clone(&source), false);
        Self { session_lock, source, receiver, peeked: 0, place: Some(place) }
    }

    fn check(&self) -> Result<(), ReceiveError> {
        if self.session_lock.is_lost() { Err(ReceiveError::new(ErrorKind::SessionLockLost)) } else { Ok(()) }
    }
}

impl Receiver for NatsSession {
    type Lease = NatsLease;

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<NatsLease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        self.check()?;
        let mut taken = 0;
        while taken < max.max(1) {
            let place = self.source.inner.place();
            let Some(kept) = self.session_lock.next_returned(cx.waker()) else { break };
            let Some(place) = place else {
                self.session_lock.put_back(kept);
                if taken > 0 {
                    break;
                }
                return Poll::Ready(Err(Fault::new(ErrorKind::Throttled, "too many unsettled deliveries").into()));
            };
            let Delivery { message, lease } = delivery(deliver::anew(&self.source, kept), place);
            out.push(Delivery { message, lease: lease.handed_out() });
            taken += 1;
        }
        if taken > 0 { Poll::Ready(Ok(taken)) } else { self.receiver.poll_receive(cx, max, out) }
    }

    fn stop(&mut self) {
        self.receiver.stop();
    }

    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.receiver.poll_stopped(cx)
    }

    fn capabilities(&self) -> Capabilities {
        Nats::CAPABILITIES
    }

    fn entity_info(&self) -> EntityInfo {
        self.source.info()
    }
}

impl Session for NatsSession {
    type Renew = BoxFuture<Result<Timestamp, SettleError>>;
    type Close = BoxFuture<Result<(), SettleError>>;

    fn session_id(&self) -> &str {
        self.session_lock.id()
    }

    fn lock_duration(&self) -> Duration {
        self.source.settings.lock()
    }

    fn renew(&self) -> Self::Renew {
        let session_lock = Arc::clone(&self.session_lock);
        Box::pin(async move { session_lock.renew().await })
    }

    fn close(mut self) -> Self::Close {
        let (session_lock, place) = (Arc::clone(&self.session_lock), self.place.take());
        Box::pin(async move {
            let closed = session_lock.close().await;
            drop(place);
            closed
        })
    }

    fn state(&self) -> impl Future<Output = Result<Option<Bytes>, SettleError>> + Send + use<> {
        let session_lock = Arc::clone(&self.session_lock);
        async move { session_lock.state().await }
    }

    fn set_state(&self, state: Option<Bytes>) -> impl Future<Output = Result<(), SettleError>> + Send + use<> {
        let session_lock = Arc::clone(&self.session_lock);
        async move { session_lock.set_state(state).await }
    }

    /// A deferred message has a lock of its own when it is received.
    async fn receive_deferred(&mut self, numbers: &[SequenceNumber]) -> Result<Vec<Delivery<NatsLease>>, ReceiveError> {
        self.check()?;
        deferred::receive_deferred(&self.source, numbers).await
    }

    async fn peek(&mut self, max: usize) -> Result<Vec<Message>, ReceiveError> {
        self.check()?;
        self.source.catch_up().await?;
        let subject = self.source.session_subject(self.session_lock.id());
        let peeked = browse::peek(&self.source, &subject, self.peeked, max).await?;
        if let Some(last) = peeked.last().and_then(Message::received) {
            self.peeked = last.sequence_number.get() + 1;
        }
        Ok(peeked)
    }
}

/// Gives the session up, without waiting for it.
impl Drop for NatsSession {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            let session_lock = Arc::clone(&self.session_lock);
            let what = "a dropped session was not closed: it is accepted again when its lock ends";
            place.send(Job::dropped(Arc::clone(&self.source), what, async move { session_lock.close().await }));
        }
    }
}

impl fmt::Debug for NatsSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsSession").field("receiver", &self.receiver).finish_non_exhaustive()
    }
}
