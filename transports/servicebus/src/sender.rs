use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use consign_amqp::{
    client::SenderLink,
    engine::OutboundDelivery,
    message::{BatchBuilder, BatchError, BatchTransfer, EncodedMessage},
    types::{Attach, DeliveryState, Source, Target, TransactionalState},
    value::{Binary, Symbol, Value},
};
use consign_core::{
    Message,
    message::EntityPath,
    transport::{Batch, BoxFuture, Capabilities, ErrorKind, PresettledSender, SendError, Sender},
};
use tokio::sync::Mutex;

use crate::{
    authorization::Wire,
    capabilities::CAPABILITIES,
    claim::Claim,
    core::Core,
    error::Failure,
    log,
    retry::{Effect, retry},
    wire,
};

/// Sends to a queue or a topic. Several sends may be under way: while the link is attached, they reach the server in the order in
/// which their futures are polled first.
///
/// A connection that is lost is opened again by the next send. A send that was under way has an unknown outcome, and is not repeated.
#[derive(Clone)]
pub struct ServiceBusSender(Arc<Shared>);

struct Shared {
    core: Arc<Core>,
    path: EntityPath,
    open: Mutex<Option<Arc<Open>>>,
}

/// An attached link.
pub(crate) struct Open {
    link: SenderLink,
    wire: Arc<Wire>,
    claims: Vec<Arc<Claim>>,
}

/// The link property that names the entity to which the messages of a link are transferred.
const TRANSFER_DESTINATION: &str = "com.microsoft:transfer-destination-address";

impl Open {
    /// Attaches a link that sends to an entity, or transfers to it via another one.
    pub(crate) async fn attach(
        core: &Arc<Core>,
        wire: Arc<Wire>,
        path: &EntityPath,
        via: Option<&EntityPath>,
    ) -> Result<Self, Failure> {
        let mut claims = vec![wire.claim(path).await?];
        let mut properties = None;
        if let Some(via) = via {
            claims.push(wire.claim(via).await?);
            let destination = (Symbol::from_static(TRANSFER_DESTINATION).into(), Value::from(path.as_str()));
            properties = Some([destination].into_iter().collect());
        }
        let session = wire.begin().await?;
        let address = via.unwrap_or(path).as_str();
        let target = Target { address: Some(address.into()), ..Target::default() };
        let attach = Attach {
            name: core.link_name(address).into(),
            properties,
            source: Some(Box::new(Source { address: Some(core.container.as_str().into()), ..Source::default() })),
            target: Some(target.into()),
            ..Attach::default()
        };
        let link = session.attach_sender_with(attach).await?;
        Ok(Self { link, wire, claims })
    }

    /// Whether the link has ended, or the server has answered nothing on it for the timeout of a call.
    fn is_over(&self, timeout: Duration) -> bool {
        let is_silent = self.link.silent_for().is_some_and(|time| time >= timeout);
        self.wire.connection.is_closed() || self.link.ended().is_some() || is_silent
    }

    /// Has the next attach send other tokens if it is for the lack of one that the link has ended.
    fn renew_claims(&self) {
        if self.link.ended().is_some_and(|error| Failure::from(error).kind() == ErrorKind::Unauthorized) {
            self.claims.iter().for_each(|claim| claim.expire());
        }
    }

    /// The largest transfer that the entity accepts, in bytes.
    fn max_message_size(&self) -> usize {
        match self.link.peer().max_message_size {
            None | Some(0) => usize::MAX,
            Some(bytes) => usize::try_from(bytes).unwrap_or(usize::MAX),
        }
    }

    /// Makes the transfer of a batch, which the server accepts as a whole.
    fn transfer(&self, encoded: &[Bytes]) -> Result<BatchTransfer, Failure> {
        let limit = self.max_message_size();
        let too_large =
            |bytes: usize| Failure::new(ErrorKind::MessageSizeExceeded, format!("{bytes} bytes; the limit is {limit}"));
        if let [one] = encoded {
            if one.len() > limit {
                return Err(too_large(one.len()));
            }
            return Ok(BatchTransfer { message_format: consign_amqp::message::FORMAT, payload: one.clone() });
        }
        let mut builder = BatchBuilder::new(limit);
        for one in encoded {
            let message = EncodedMessage::split(one.clone())?;
            builder.try_add(&message).map_err(|error| match error {
                BatchError::Full { .. } => too_large(encoded.iter().map(Bytes::len).sum()),
                other => Failure::new(ErrorKind::Serialization, other.to_string()),
            })?;
        }
        builder.build().map_err(|error| Failure::new(ErrorKind::Serialization, error.to_string()))
    }

    /// Sends encoded messages as one transfer, in a transaction if there is one, and waits for the outcome.
    pub(crate) async fn send(&self, encoded: &[Bytes], txn_id: Option<&Binary>) -> Result<(), Failure> {
        let BatchTransfer { message_format: format, payload } = self.transfer(encoded)?;
        let state = txn_id.map(|txn_id| {
            let state = TransactionalState { txn_id: txn_id.clone(), outcome: None };
            DeliveryState::Transactional(Box::new(state))
        });
        let delivery = OutboundDelivery { format, state, ..OutboundDelivery::default() };
        let sending = self.link.begin_with(delivery, &[payload]).await.map_err(Failure::unsent)?;
        accepted(sending.wait().await.map_err(Failure::unanswered)?)
    }
}

/// Reads the outcome of a transfer.
pub(crate) fn accepted(outcome: Option<DeliveryState>) -> Result<(), Failure> {
    match outcome {
        None | Some(DeliveryState::Accepted(_)) => Ok(()),
        Some(DeliveryState::Rejected(rejected)) => Err(Failure::rejected(rejected.error.as_ref())),
        // The server has not stored it.
        Some(DeliveryState::Released(_) | DeliveryState::Modified(_)) => {
            Err(Failure::new(ErrorKind::ServiceBusy, "the server released the message"))
        }
        Some(DeliveryState::Transactional(state)) => match state.outcome {
            Some(outcome) if !matches!(*outcome, DeliveryState::Transactional(_)) => accepted(Some(*outcome)),
            _ => Ok(()),
        },
        Some(_) => Err(Failure::new(ErrorKind::General, "the server answered with an unknown state")),
    }
}

/// Returns the error of a send. The server has no condition of its own for a message without the session that its entity requires.
pub(crate) fn refused(failure: Failure, lacks_session: bool) -> SendError {
    let names_session = || failure.to_string().contains("SessionId");
    if failure.kind() != ErrorKind::InvalidOperation || !lacks_session || !names_session() {
        return failure.into();
    }
    let error = SendError::session_required();
    match failure.condition() {
        Some(condition) => error.with_condition(condition.to_owned()),
        None => error,
    }
}

impl std::fmt::Debug for ServiceBusSender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServiceBusSender").field("path", &self.0.path).finish_non_exhaustive()
    }
}

impl ServiceBusSender {
    pub(crate) fn new(core: &Arc<Core>, path: EntityPath) -> Self {
        Self(Arc::new(Shared { core: Arc::clone(core), path, open: Mutex::default() }))
    }

    /// Returns the path of the entity.
    #[must_use]
    pub fn path(&self) -> &EntityPath {
        &self.0.path
    }

    /// Returns the largest message or batch that the entity accepts, in bytes as they are encoded.
    ///
    /// # Errors
    ///
    /// As a send.
    pub async fn max_message_size(&self) -> Result<usize, SendError> {
        Ok(self.opened().await?.max_message_size())
    }

    /// Attaches the link, unless it is attached.
    pub(crate) async fn opened(&self) -> Result<Arc<Open>, Failure> {
        retry(&self.0.core, Effect::Repeatable, || self.0.open()).await
    }
}

impl Shared {
    async fn open(&self) -> Result<Arc<Open>, Failure> {
        let mut slot = self.open.lock().await;
        if let Some(open) = slot.as_ref().filter(|open| !open.is_over(self.core.options.timeout)) {
            return Ok(Arc::clone(open));
        }
        if let Some(open) = slot.take() {
            open.renew_claims();
        }
        let wire = self.core.wire().await?;
        let open = Arc::new(Open::attach(&self.core, wire, &self.path, None).await?);
        *slot = Some(Arc::clone(&open));
        Ok(open)
    }

    /// Sends encoded messages. Attaching may be repeated, sending only if nothing was sent.
    async fn send(&self, encoded: &[Bytes]) -> Result<(), Failure> {
        let attempt = || async {
            let open = self.open().await.map_err(Failure::without_effect)?;
            open.send(encoded, None).await
        };
        retry(&self.core, Effect::Once, attempt).await
    }
}

impl Sender for ServiceBusSender {
    type Send = BoxFuture<Result<(), SendError>>;

    fn send(&self, message: Message) -> Self::Send {
        let lacks_session = message.session_id().is_none();
        let (shared, prepared) = (Arc::clone(&self.0), wire::prepare(message, self.0.core.now()));
        Box::pin(async move { shared.send(&[prepared?]).await.map_err(|failure| refused(failure, lacks_session)) })
    }

    /// One transfer, which the server accepts as a whole. The encoded batch must not be larger than the largest message of the
    /// entity.
    fn send_batch(&self, batch: Batch) -> Self::Send {
        let now = self.0.core.now();
        let lacks_session = batch.messages().iter().any(|message| message.session_id().is_none());
        let prepared = batch.into_messages().into_iter().map(|message| wire::prepare(message, now));
        let (shared, prepared) = (Arc::clone(&self.0), prepared.collect::<Result<Vec<_>, _>>());
        Box::pin(async move {
            let prepared = prepared?;
            if prepared.is_empty() {
                return Ok(());
            }
            shared.send(&prepared).await.map_err(|failure| refused(failure, lacks_session))
        })
    }

    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }
}

/// A transfer that is settled as it is sent.
impl PresettledSender for ServiceBusSender {
    type HandOver = BoxFuture<()>;

    fn send_presettled(&self, message: Message) -> Self::HandOver {
        let (shared, prepared) = (Arc::clone(&self.0), wire::prepare(message, self.0.core.now()));
        Box::pin(async move {
            let sent = async {
                let delivery = OutboundDelivery { settled: true, ..OutboundDelivery::default() };
                let open = shared.open().await?;
                open.link.send_with(delivery, &[prepared?]).await.map_err(Failure::from)?;
                Ok::<_, SendError>(())
            };
            if let Err(error) = sent.await {
                log::failed(&shared.path, "a message without acknowledgement was not sent", &error);
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_without_the_session_that_it_needs_is_recognised_by_the_text() {
        let failure = |text| Failure::reported("amqp:not-allowed", Some(text));
        let of_the_service = "The SessionId was not set on a message, and it cannot be sent to the entity.";
        assert!(refused(failure(of_the_service), true).is_session_required());
        assert!(!refused(failure(of_the_service), false).is_session_required());
        assert!(!refused(failure("The entity is not a queue."), true).is_session_required());
    }
}
