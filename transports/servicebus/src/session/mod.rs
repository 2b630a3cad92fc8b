//! Sessions.

mod source;

use std::{
    future::Future,
    sync::{Arc, Weak, atomic::Ordering},
    task::{Context, Poll},
    time::Duration,
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
use futures_util::FutureExt;

pub use self::source::ServiceBusSessions;
use crate::{
    ServiceBusLease, ServiceBusReceiver,
    authorization::Wire,
    error::Failure,
    management::Management,
    receiver::{Live, Origin, Source},
    retry::{Effect, retry},
    transport,
};

/// A locked session: its messages in order, and its state. The lock ends with its link: when the connection is lost, so is the
/// session.
pub struct ServiceBusSession {
    receiver: Option<ServiceBusReceiver>,
    shared: Arc<Shared>,
    /// The next number of a peek.
    peeked: SequenceNumber,
}

struct Shared {
    source: Arc<Source>,
    /// The connection of the link: operations on the session go over it.
    wire: Arc<Wire>,
    /// The link that holds the session. An operation that outlives the session does not keep it attached.
    origin: Weak<Origin>,
    /// The name of the link.
    link: String,
}

impl Shared {
    /// Returns the id, which every source of a session has.
    fn id(&self) -> &str {
        self.source.session.as_ref().map_or("", |session| &session.id)
    }

    /// Calls the management node over the connection of the session.
    async fn call<T, F>(
        &self,
        effect: Effect,
        operation: impl Fn(Arc<Management>) -> F + Send + Sync,
    ) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Failure>> + Send,
    {
        let operation = &operation;
        let called = retry(&self.source.core, effect, || async move {
            self.check_link()?;
            let management = self.wire.management(&self.source.path).await;
            operation(management.map_err(Failure::without_effect)?).await
        });
        called.await
    }

    /// Another link of the connection may hold the session when this one has ended.
    fn check_link(&self) -> Result<(), Failure> {
        let lost = |detail| Err(Failure::new(ErrorKind::SessionLockLost, detail).for_good());
        if self.wire.connection.is_closed() {
            return lost("the connection of the session was lost");
        }
        match self.origin.upgrade() {
            Some(origin) if origin.settler.ended().is_none() => Ok(()),
            _ => lost("the link of the session has ended"),
        }
    }
}

impl ServiceBusSession {
    pub(crate) fn new(source: Arc<Source>, live: Live) -> Self {
        let origin = live.origin();
        let shared = Shared {
            source: Arc::clone(&source),
            wire: Arc::clone(&origin.wire),
            origin: Arc::downgrade(origin),
            link: origin.name.clone(),
        };
        let shared = Arc::new(shared);
        let receiver = Some(ServiceBusReceiver::of_link(source, live));
        Self { receiver, shared, peeked: SequenceNumber::new(0) }
    }

    fn receiver(&mut self) -> Result<&mut ServiceBusReceiver, ReceiveError> {
        // It is there until the session is closed.
        self.receiver.as_mut().ok_or_else(|| ReceiveError::new(ErrorKind::SessionLockLost))
    }
}

impl Receiver for ServiceBusSession {
    type Lease = ServiceBusLease;

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<ServiceBusLease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        self.receiver()?.poll_receive(cx, max, out)
    }

    fn stop(&mut self) {
        if let Some(receiver) = &mut self.receiver {
            receiver.stop();
        }
    }

    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.receiver.as_mut().map_or(Poll::Ready(()), |receiver| receiver.poll_stopped(cx))
    }

    fn capabilities(&self) -> Capabilities {
        crate::capabilities::CAPABILITIES
    }

    fn entity_info(&self) -> EntityInfo {
        EntityInfo::new(self.shared.source.path.as_str())
    }
}

impl Session for ServiceBusSession {
    type Renew = BoxFuture<Result<Timestamp, SettleError>>;
    type Close = BoxFuture<Result<(), SettleError>>;

    fn session_id(&self) -> &str {
        self.shared.id()
    }

    fn lock_duration(&self) -> Duration {
        self.shared.source.session.as_ref().map_or(Duration::ZERO, |session| session.duration)
    }

    fn renew(&self) -> Self::Renew {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            let own = &shared;
            let renewing = shared.call(Effect::Repeatable, |management| async move {
                management.renew_session(own.id(), &own.link).await
            });
            let until = renewing.await?;
            if let Some(session) = &shared.source.session {
                session.locked_until.store(until.as_millis(), Ordering::Relaxed);
            }
            Ok(until)
        })
    }

    fn close(mut self) -> Self::Close {
        let receiver = self.receiver.take();
        Box::pin(async move {
            match receiver {
                None => Ok(()),
                Some(receiver) => match receiver.close().await {
                    Ok(()) => Ok(()),
                    // A link that had ended before.
                    Err(failure) if failure.has_ended() => {
                        Err(failure.with_kind(ErrorKind::SessionLockLost).for_good().into())
                    }
                    Err(failure) => Err(failure.into()),
                },
            }
        })
    }

    fn state(&self) -> impl Future<Output = Result<Option<Bytes>, SettleError>> + Send + use<> {
        let shared = Arc::clone(&self.shared);
        async move {
            let own = &shared;
            let reading = shared.call(Effect::Repeatable, |management| async move {
                management.session_state(own.id(), &own.link).await
            });
            Ok(reading.await?)
        }
    }

    fn set_state(&self, state: Option<Bytes>) -> impl Future<Output = Result<(), SettleError>> + Send + use<> {
        let shared = Arc::clone(&self.shared);
        async move {
            let own = &shared;
            let setting = shared.call(Effect::Repeatable, |management| {
                let state = state.clone();
                async move { management.set_session_state(own.id(), &own.link, state).await }
            });
            Ok(setting.await?)
        }
    }

    async fn receive_deferred(
        &mut self,
        numbers: &[SequenceNumber],
    ) -> Result<Vec<Delivery<ServiceBusLease>>, ReceiveError> {
        let (shared, numbers) = (Arc::clone(&self.shared), numbers.to_vec());
        let receiving = async move {
            let (own, numbers) = (&shared, &numbers[..]);
            let locked = shared.call(Effect::Once, |management| async move {
                management.receive_deferred(numbers, Some((own.id(), &own.link))).await
            });
            locked.await.map(|locked| transport::deferred(&shared.source, locked))
        };
        Ok(transport::unless_dropped(receiving).await?)
    }

    async fn peek(&mut self, max: usize) -> Result<Vec<Message>, ReceiveError> {
        let (shared, from) = (Arc::clone(&self.shared), self.peeked);
        let own = &shared;
        let peeking = shared
            .call(Effect::Repeatable, |management| async move { management.peek(from, max, Some(own.id())).await });
        let peeked = transport::peeked(&shared.source, peeking.await?);
        if let Some(last) = peeked.iter().rev().find_map(Message::received) {
            self.peeked = last.sequence_number.next();
        }
        Ok(peeked)
    }
}

/// Detaches the link, without waiting for it.
impl Drop for ServiceBusSession {
    fn drop(&mut self) {
        if let Some(receiver) = self.receiver.take() {
            // It begins with the first poll.
            let _ = receiver.detach().now_or_never();
        }
    }
}

impl std::fmt::Debug for ServiceBusSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServiceBusSession").field("path", &self.shared.source.path).finish_non_exhaustive()
    }
}
