//! The dead-letter queue and the sender of a run, as the command line uses them.
//!
//! Where the transport has transactions, a copy is kept until its dead letter is completed, and both are committed together.
//! Elsewhere the copy gets a MessageId that is the same in each run, so that an entity with duplicate detection accepts it
//! once.

use std::{
    collections::HashMap,
    future::{Future, ready},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use consign::{
    Disposition, Message,
    broker::Broker,
    dead_letters::{DeadLetterFilter, DeadLetterQueue, Explained, RESUBMIT_COUNT},
    message::{EntityPath, LockToken, Properties, SequenceNumber},
    time::Timestamp,
    transport::{
        Batch, BoxFuture, Capabilities, Capability, Delivery, DynLease, DynReceiver, DynSender, DynTransport,
        EntityInfo, Lease, PeekMessages, ReceiveError, ReceiveMode, Receiver, SendError, Sender, SettleError,
        Transaction, TransactionError, Transactions, Transport,
    },
};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use super::{
    super::{body::hex, target::now},
    pace::Pace,
};

/// The property by which a copy names its dead letter inside this process. It is not sent.
const KEY: &str = "x-consign-dead-letter";

/// Whether dead letters can be listed without receiving them.
pub(super) fn can_peek(transport: &DynTransport) -> bool {
    let capabilities = transport.capabilities();
    capabilities.supports(Capability::Peek) && capabilities.supports(Capability::SequenceNumbers)
}

/// What holds if a run is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Guarantee {
    /// The copy and the removal are one transaction.
    Transaction,
    /// A second copy has the MessageId of the first.
    SameMessageId,
    /// A second copy has the same `x-original-message-id`.
    SameFirstId,
}

impl Guarantee {
    /// The guarantee of copies from one entity to another.
    pub(super) fn of(transport: &DynTransport, from: &EntityPath, to: &EntityPath) -> Self {
        let capabilities = transport.capabilities();
        // A transaction of the embedded broker is on one entity; a subscription counts as its topic.
        let entity = from.parent();
        let is_same =
            *to == entity || entity.subscription().is_some_and(|(topic, _)| topic.eq_ignore_ascii_case(to.as_str()));
        let is_transactional = is_same || transport.extension::<Broker>().is_none();
        if !capabilities.supports(Capability::SequenceNumbers) {
            Self::SameFirstId
        } else if is_transactional && capabilities.supports(Capability::Transactions) {
            Self::Transaction
        } else {
            Self::SameMessageId
        }
    }

    pub(super) fn code(self) -> &'static str {
        match self {
            Self::Transaction => "transaction",
            Self::SameMessageId => "same-message-id",
            Self::SameFirstId => "same-first-id",
        }
    }
}

/// What the parts of a run share.
struct Shared {
    transport: DynTransport,
    to: Option<EntityPath>,
    from: EntityPath,
    guarantee: Guarantee,
    /// Copies that are sent when their dead letters are completed: at most one for each message in work, and one for each
    /// failure.
    kept: Mutex<HashMap<String, Message>>,
    committed: AtomicU64,
}

/// The dead letters of a run.
pub(super) struct RunQueue {
    shared: Arc<Shared>,
    filter: DeadLetterFilter,
    rate: Option<f64>,
}

/// The sender of a run.
pub(super) struct RunSender {
    shared: Arc<Shared>,
    inner: DynSender,
}

impl RunQueue {
    /// The queue of a purge has no entity `to` which copies are sent.
    pub(super) fn new(
        transport: &DynTransport,
        from: EntityPath,
        to: Option<EntityPath>,
        filter: DeadLetterFilter,
        rate: Option<f64>,
    ) -> Self {
        let guarantee = to.as_ref().map_or(Guarantee::SameFirstId, |to| Guarantee::of(transport, &from, to));
        let shared = Shared {
            transport: transport.clone(),
            to,
            from,
            guarantee,
            kept: Mutex::new(HashMap::new()),
            committed: AtomicU64::new(0),
        };
        Self { shared: Arc::new(shared), filter, rate }
    }

    pub(super) async fn sender(&self, to: &EntityPath) -> Result<RunSender, SendError> {
        Ok(RunSender { shared: Arc::clone(&self.shared), inner: self.shared.transport.sender(to).await? })
    }

    pub(super) fn counter(&self) -> Committed {
        Committed(Arc::clone(&self.shared))
    }
}

/// The number of copies that were committed with the removal of their dead letters.
pub(super) struct Committed(Arc<Shared>);

impl Committed {
    /// `None` where there are no transactions.
    pub(super) fn get(&self) -> Option<u64> {
        (self.0.guarantee == Guarantee::Transaction).then(|| self.0.committed.load(Ordering::Relaxed))
    }
}

impl DeadLetterQueue for RunQueue {
    type Receiver = RunReceiver;

    async fn receiver(&self) -> Result<RunReceiver, ReceiveError> {
        let inner = self.shared.transport.receiver(&self.shared.from, ReceiveMode::PeekLock).await?;
        let (shared, filter) = (Arc::clone(&self.shared), self.filter.clone());
        Ok(RunReceiver { shared, filter, inner, pace: Pace::new(self.rate), taken: Vec::new() })
    }

    async fn peek(&self, from: SequenceNumber, max: usize) -> Result<Vec<Message>, ReceiveError> {
        self.shared.transport.peek(&self.shared.from, from, max).await
    }

    fn can_peek(&self) -> bool {
        can_peek(&self.shared.transport)
    }
}

/// A receiver of dead letters at a maximum rate of those that pass the filter.
pub(super) struct RunReceiver {
    shared: Arc<Shared>,
    filter: DeadLetterFilter,
    inner: DynReceiver,
    pace: Pace,
    taken: Vec<Delivery<DynLease>>,
}

impl Receiver for RunReceiver {
    type Lease = RunLease;

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<RunLease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        let room = ready!(self.pace.poll_room(cx)).min(max);
        let received = ready!(self.inner.poll_receive(cx, room, &mut self.taken))?;
        let mut matching = 0;
        for Delivery { mut message, lease } in self.taken.drain(..) {
            matching += u32::from(self.filter.matches(&Explained::new(message.clone(), now())));
            let key = self.shared.mark(&mut message);
            out.push(Delivery { message, lease: RunLease { shared: Arc::clone(&self.shared), lease, key } });
        }
        self.pace.took(matching);
        Poll::Ready(Ok(received))
    }

    fn stop(&mut self) {
        self.inner.stop();
    }

    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.inner.poll_stopped(cx)
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn entity_info(&self) -> EntityInfo {
        self.inner.entity_info()
    }
}

impl Shared {
    /// Writes into a dead letter which one it is.
    fn mark(&self, message: &mut Message) -> Option<String> {
        if self.to.is_none() || self.guarantee == Guarantee::SameFirstId {
            return None;
        }
        let received = *message.received()?;
        let key = format!("{}/{}", received.sequence_number, received.enqueued_time.as_millis());
        message.properties_mut().application_properties_mut().insert(KEY, key.as_str());
        Some(key)
    }

    /// The MessageId of the copy of a dead letter: the same in each run. The number of a dead letter and the time when it was
    /// enqueued tell it from others of one MessageId.
    fn message_id(&self, key: &str, properties: &Properties) -> String {
        let first = properties.original_message_id().unwrap_or_default();
        let hops = properties.application_properties().get(RESUBMIT_COUNT).and_then(|count| count.to_u64());
        let mut hash = Sha256::new();
        for part in [self.from.as_str().to_lowercase().as_str(), key, first, &hops.unwrap_or(0).to_string()] {
            hash.update(part.len().to_be_bytes());
            hash.update(part);
        }
        hex(&hash.finalize()[..16])
    }

    /// Sends the kept copy and completes its dead letter: both, or none.
    async fn commit(self: Arc<Self>, key: String, copy: Message, lease: DynLease) -> Result<(), SettleError> {
        let Some(to) = &self.to else { return lease.settle(Disposition::Complete).await };
        let mut transaction = self.transport.begin().await.map_err(|error| refused(&error))?;
        if let Err(error) = transaction.send(to, copy).await {
            // The lease is not part of the transaction yet: the dead letter stays, and the delivery does not count.
            let _ = lease.release().await;
            return Err(SettleError::new(error.kind()).with_detail(error.to_string()));
        }
        let settled = transaction.settle(lease, Disposition::Complete).await;
        let committed = match settled {
            Ok(()) => transaction.commit().await.map(drop),
            Err(error) => Err(error),
        };
        if let Err(error) = committed {
            let failure = refused(&error);
            for lease in error.into_leases() {
                let _ = lease.release().await;
            }
            return Err(failure);
        }
        self.kept.lock().remove(&key);
        self.committed.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

fn refused(error: &TransactionError<DynLease>) -> SettleError {
    use std::error::Error;

    let cause = error.source().map(|source| format!(": {source}")).unwrap_or_default();
    SettleError::new(error.kind()).with_detail(format!("{error}{cause}"))
}

impl Sender for RunSender {
    type Send = BoxFuture<Result<(), SendError>>;

    fn send(&self, mut message: Message) -> Self::Send {
        let properties = message.properties_mut();
        let Some(key) = properties.application_properties_mut().remove(KEY) else {
            return Box::pin(self.inner.send(message));
        };
        let key = key.as_str().unwrap_or_default().to_owned();
        let id = self.shared.message_id(&key, properties);
        if let Err(error) = properties.set_message_id(id) {
            return Box::pin(ready(Err(error.into())));
        }
        if self.shared.guarantee == Guarantee::Transaction {
            self.shared.kept.lock().insert(key, message);
            return Box::pin(ready(Ok(())));
        }
        Box::pin(self.inner.send(message))
    }

    fn send_batch(&self, batch: Batch) -> Self::Send {
        let sent: Vec<_> = batch.into_messages().into_iter().map(|message| self.send(message)).collect();
        Box::pin(async move {
            for send in sent {
                send.await?;
            }
            Ok(())
        })
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }
}

/// The right to settle a dead letter. Completing it commits its copy too, where there is one.
pub(super) struct RunLease {
    shared: Arc<Shared>,
    lease: DynLease,
    key: Option<String>,
}

impl Lease for RunLease {
    type Settle = BoxFuture<Result<(), SettleError>>;
    type Renew = BoxFuture<Result<Timestamp, SettleError>>;

    fn settle(self, disposition: Disposition) -> Self::Settle {
        let Self { shared, lease, key } = self;
        let kept = match (&disposition, key) {
            (Disposition::Complete, Some(key)) => {
                // It stays there until it is committed: the run may settle the dead letter once more.
                let copy = shared.kept.lock().get(&key).cloned();
                copy.map(|copy| (key, copy))
            }
            _ => None,
        };
        match kept {
            Some((key, copy)) => Box::pin(shared.commit(key, copy, lease)),
            None => boxed(lease.settle(disposition)),
        }
    }

    fn release(self) -> Self::Settle {
        boxed(self.lease.release())
    }

    fn renew(&self) -> Self::Renew {
        Box::pin(self.lease.renew())
    }

    fn lock_duration(&self) -> Option<Duration> {
        self.lease.lock_duration()
    }

    fn must_settle(&self) -> bool {
        self.lease.must_settle()
    }

    fn lock_token(&self) -> Option<LockToken> {
        self.lease.lock_token()
    }
}

fn boxed(settle: impl Future<Output = Result<(), SettleError>> + Send + 'static) -> BoxFuture<Result<(), SettleError>> {
    Box::pin(settle)
}
