use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use consign_amqp::{
    client::{Connection, ReceiverLink, SenderLink},
    engine::OutboundDelivery,
    types::{Attach, DeliveryState, Source, Target},
};
use consign_core::{
    Message,
    message::{EntityPath, SequenceNumber, random_id::random_uuid_text},
    settlement::DeadLetter,
    time::Timestamp,
    transport::{
        Batch, BoxFuture, Capabilities, Capability, ErrorKind, PresettledSender, SendError, Sender, Unsupported,
    },
};
use tokio::sync::Mutex;

use crate::{
    core::Core,
    dialer::Dialer,
    error::Failure,
    log,
    wire::{self, Stamp},
};

/// Sends to an entity. Several sends may be under way: while the link is attached, they reach the broker in the order in which
/// their futures are polled first.
///
/// A connection that is lost is opened again by the next send. A send that was under way has an unknown outcome, and is not repeated.
#[derive(Clone)]
pub struct Amqp10Sender(Arc<Shared>);

struct Shared {
    core: Arc<Core>,
    dialer: Dialer,
    path: EntityPath,
    address: String,
    open: Mutex<Option<Arc<Open>>>,
}

/// An attached link.
struct Open {
    link: SenderLink,
    connection: Connection,
    /// Ends with the entity, on a broker that discards messages for a missing one.
    guard: Option<ReceiverLink>,
}

impl Open {
    /// Whether the link has ended, or the broker has answered nothing on it for the timeout of a call.
    fn is_over(&self, timeout: Duration) -> bool {
        let is_silent = self.link.silent_for().is_some_and(|time| time >= timeout);
        let is_unguarded = self.guard.as_ref().is_some_and(|guard| guard.ended().is_some());
        self.connection.is_closed() || self.link.ended().is_some() || is_unguarded || is_silent
    }

    /// Refuses a message that is larger than the broker accepts.
    fn check_size(&self, encoded: &Bytes) -> Result<(), Failure> {
        let (bytes, limit) = (encoded.len(), self.link.peer().max_message_size);
        let Some(limit) = limit.filter(|limit| *limit > 0 && *limit < bytes as u64) else { return Ok(()) };
        Err(Failure::new(ErrorKind::MessageSizeExceeded, format!("{bytes} bytes; the limit is {limit}")))
    }
}

impl std::fmt::Debug for Amqp10Sender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Amqp10Sender").field("path", &self.0.path).finish_non_exhaustive()
    }
}

impl Amqp10Sender {
    pub(crate) fn new(core: &Arc<Core>, dialer: Dialer, path: EntityPath) -> Self {
        let address = core.address(&path);
        Self(Arc::new(Shared { core: Arc::clone(core), dialer, path, address, open: Mutex::default() }))
    }

    /// Returns the path of the entity.
    #[must_use]
    pub fn path(&self) -> &EntityPath {
        &self.0.path
    }

    /// Attaches the link, unless it is attached.
    pub(crate) async fn open(&self) -> Result<(), Failure> {
        self.0.open().await.map(drop)
    }

    /// Sends an encoded message, and waits until the broker has accepted it.
    pub(crate) async fn send_encoded(&self, encoded: Bytes) -> Result<(), Failure> {
        let open = self.0.open().await?;
        self.0.send(&open, encoded).await
    }

    /// Sends messages that the broker delivers at `at`. Returns their numbers in order.
    pub(crate) async fn schedule(
        &self,
        messages: Vec<Message>,
        at: Timestamp,
    ) -> Result<Vec<SequenceNumber>, SendError> {
        let mut numbers = Vec::with_capacity(messages.len());
        let mut prepared = Vec::with_capacity(messages.len());
        for mut message in messages {
            message.properties_mut().set_scheduled_enqueue_time(at);
            let (number, encoded) = self.0.prepare(message)?;
            numbers.push(SequenceNumber::new(number));
            prepared.push(encoded);
        }
        send_all(Arc::clone(&self.0), prepared).await?;
        Ok(numbers)
    }
}

impl Shared {
    async fn open(&self) -> Result<Arc<Open>, Failure> {
        let mut slot = self.open.lock().await;
        if let Some(open) = slot.as_ref().filter(|open| !open.is_over(self.core.options.timeout)) {
            return Ok(Arc::clone(open));
        }
        *slot = None;
        let (connection, session) = self.dialer.begin().await?;
        let guard = if self.core.product().refuses_senders() {
            None
        } else {
            let guard = session.attach_receiver(self.core.link_name("guard"), self.address.as_str()).await;
            Some(self.dialer.attached(guard)?)
        };
        let target = Target { address: Some(self.address.as_str().into()), ..Target::default() };
        let attach = Attach {
            name: self.core.link_name("sender").into(),
            source: Some(Box::new(Source { address: Some(self.core.container.as_str().into()), ..Source::default() })),
            target: Some(target.into()),
            ..Attach::default()
        };
        let link = self.dialer.attached(session.attach_sender_with(attach).await)?;
        let open = Arc::new(Open { link, connection, guard });
        *slot = Some(Arc::clone(&open));
        Ok(open)
    }

    async fn send(&self, open: &Open, encoded: Bytes) -> Result<(), Failure> {
        open.check_size(&encoded)?;
        let sending = open.link.begin_with(OutboundDelivery::default(), &[encoded]).await.map_err(Failure::unsent)?;
        match sending.wait().await.map_err(Failure::unanswered)? {
            None | Some(DeliveryState::Accepted(_)) => Ok(()),
            Some(DeliveryState::Rejected(rejected)) => Err(Failure::rejected(rejected.error.as_ref())),
            // The broker has not stored it.
            Some(DeliveryState::Released(_) | DeliveryState::Modified(_)) => {
                Err(Failure::new(ErrorKind::ServiceBusy, "the broker released the message"))
            }
            Some(_) => Err(Failure::new(ErrorKind::General, "the broker answered with an unknown state")),
        }
    }

    /// Checks and encodes a message. Returns its number too.
    fn prepare(&self, mut message: Message) -> Result<(u64, Bytes), SendError> {
        DeadLetter::remove_from(&mut message);
        message.check()?;
        let (options, now) = (&self.core.options, self.core.now());
        if message.time_to_live().is_some() && !options.sends_time_to_live {
            return Err(Unsupported::new(Capability::TimeToLive).into());
        }
        let due = message.scheduled_enqueue_time().filter(|at| *at > now);
        if due.is_some() && !options.schedules {
            return Err(Unsupported::new(Capability::Scheduling).into());
        }
        if message.message_id().is_none() {
            message.properties_mut().stamp_message_id(random_uuid_text())?;
        }
        let stamp = Stamp {
            number: self.core.numbers.next(now),
            enqueued: due.unwrap_or(now),
            failed: 0,
            due,
            never_expires: false,
        };
        Ok((stamp.number, wire::write(&message, &stamp, self.core.product())?))
    }
}

async fn send_all(shared: Arc<Shared>, prepared: Vec<Bytes>) -> Result<(), SendError> {
    let timeout = shared.core.options.timeout;
    let sending = async {
        let open = shared.open().await?;
        let sends = prepared.into_iter().map(|encoded| shared.send(&open, encoded));
        let outcomes = futures_util::future::join_all(sends).await;
        let accepted = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        let mut failures = outcomes.into_iter().filter_map(Result::err);
        let Some(first) = failures.next() else { return Ok(()) };
        // With the outcome of one message, that of the batch is unknown.
        let is_unknown = |failure: &Failure| failure.kind().is_outcome_unknown();
        let failure = if is_unknown(&first) { first } else { failures.find(is_unknown).unwrap_or(first) };
        if accepted == 0 {
            return Err(failure.into());
        }
        let detail = format!("a part of the batch was stored; {failure}");
        let error = SendError::new(ErrorKind::CommunicationProblem).with_detail(detail);
        Err(error.with_source(SendError::from(failure)))
    };
    match tokio::time::timeout(timeout, sending).await {
        Ok(sent) => sent,
        Err(_) => Err(SendError::new(ErrorKind::ServiceTimeout).with_detail(format!("no outcome within {timeout:?}"))),
    }
}

impl Sender for Amqp10Sender {
    type Send = BoxFuture<Result<(), SendError>>;

    fn send(&self, message: Message) -> Self::Send {
        let (shared, prepared) = (Arc::clone(&self.0), self.0.prepare(message));
        Box::pin(async move { send_all(shared, vec![prepared?.1]).await })
    }

    /// One transfer for each message, without waiting in between. If the broker accepts only some of them, the outcome is unknown.
    fn send_batch(&self, batch: Batch) -> Self::Send {
        let prepared =
            batch.into_messages().into_iter().map(|message| self.0.prepare(message).map(|(_, encoded)| encoded));
        let (shared, prepared) = (Arc::clone(&self.0), prepared.collect::<Result<Vec<_>, _>>());
        Box::pin(async move { send_all(shared, prepared?).await })
    }

    fn capabilities(&self) -> Capabilities {
        self.0.core.capabilities()
    }
}

/// A transfer that is settled as it is sent.
impl PresettledSender for Amqp10Sender {
    type HandOver = BoxFuture<()>;

    fn send_presettled(&self, message: Message) -> Self::HandOver {
        let (shared, prepared) = (Arc::clone(&self.0), self.0.prepare(message));
        Box::pin(async move {
            let sent = async {
                let (_, encoded) = prepared?;
                let delivery = OutboundDelivery { settled: true, ..OutboundDelivery::default() };
                let open = shared.open().await?;
                open.check_size(&encoded)?;
                open.link.send_with(delivery, &[encoded]).await.map_err(Failure::from)?;
                Ok::<_, SendError>(())
            };
            if let Err(error) = sent.await {
                log::failed(&shared.path, "a message without acknowledgement was not sent", &error);
            }
        })
    }
}
