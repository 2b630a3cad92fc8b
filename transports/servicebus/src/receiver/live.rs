//! The attached link of a receiver.

use std::{
    sync::{Arc, atomic::AtomicI64},
    task::{Context, Poll, ready},
    time::Duration,
};

use consign_amqp::{
    client::ReceiverLink,
    engine,
    mapping::Direction,
    types::{self, Attach, ReceiverSettleMode, SenderSettleMode, Target, condition},
    value::{Map, Symbol, Uuid, Value},
};
use consign_core::{
    message::{EntityPath, LockToken},
    time::Timestamp,
    transport::{Delivery, ErrorKind},
};
use tokio::time::Instant;

use super::{
    lease::ServiceBusLease,
    settle::OnLink,
    source::{Mode, Origin, SessionLock, Source},
};
use crate::{
    authorization::Wire,
    claim::Claim,
    core::Core,
    error::Failure,
    retry::{Effect, retry},
    wire,
};

/// The most messages that are requested at once.
const MOST_CREDIT: u32 = 8_192;

const FILTER: Symbol = Symbol::from_static("com.microsoft:session-filter");
const TIMEOUT: Symbol = Symbol::from_static("com.microsoft:timeout");
const LOCKED_UNTIL: &str = "com.microsoft:locked-until-utc";

/// An attached link.
pub(crate) struct Live {
    link: ReceiverLink,
    origin: Arc<Origin>,
    /// The deliveries that may still be received: those that wait in the link, and those that may still arrive.
    credit: u32,
    since: Instant,
}

/// A link that was attached, before it has a source.
pub(crate) struct Attached {
    link: ReceiverLink,
    name: String,
    wire: Arc<Wire>,
    claim: Arc<Claim>,
}

impl Source {
    /// Attaches a link in place of one that is lost, after a pause if `fruitless` attaches before brought no delivery. A failure
    /// that may pass is tried again.
    pub(super) async fn attach_again(self: &Arc<Self>, fruitless: u32) -> Result<Live, Failure> {
        if self.session.is_some() {
            let detail = "the link of the session has ended";
            return Err(Failure::new(ErrorKind::SessionLockLost, detail).for_good());
        }
        if fruitless > 1 {
            tokio::time::sleep(self.core.pause(fruitless - 2)).await;
        }
        retry(&self.core, Effect::Repeatable, || self.attach()).await
    }

    /// Attaches a link.
    pub(super) async fn attach(self: &Arc<Self>) -> Result<Live, Failure> {
        let attached = attach(&self.core, &self.path, self.mode, None).await?;
        Ok(Live::new(attached, Arc::clone(self)))
    }
}

/// Which session a link is for.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    Named(String),
    /// The next one that is free, and how long the server waits for one.
    Next(Duration),
}

/// Attaches a link to an entity, for a session if it is for one.
pub(crate) async fn attach(
    core: &Arc<Core>,
    path: &EntityPath,
    mode: Mode,
    session: Option<Wanted>,
) -> Result<Attached, Failure> {
    let wire = core.wire().await?;
    let claim = wire.claim(path).await?;
    let in_session = wire.begin().await?;
    let mut properties = Map::default();
    let mut filter = Map::default();
    match session {
        None => {}
        Some(Wanted::Named(id)) => filter.push(FILTER, id),
        Some(Wanted::Next(wait)) => {
            filter.push(FILTER, Value::Null);
            properties.push(TIMEOUT, u32::try_from(wait.as_millis()).unwrap_or(u32::MAX));
        }
    }
    let source = types::Source {
        address: Some(path.as_str().into()),
        filter: (!filter.is_empty()).then_some(filter),
        ..types::Source::default()
    };
    let name = core.link_name(path.as_str());
    let (snd_settle_mode, rcv_settle_mode) = match mode {
        Mode::PeekLock => (SenderSettleMode::Unsettled, ReceiverSettleMode::Second),
        Mode::ReceiveAndDelete => (SenderSettleMode::Settled, ReceiverSettleMode::First),
    };
    let attach = Attach {
        name: name.as_str().into(),
        snd_settle_mode,
        rcv_settle_mode,
        source: Some(Box::new(source)),
        target: Some(Target { address: Some(core.container.as_str().into()), ..Target::default() }.into()),
        max_message_size: Some(core.options.max_message_size),
        properties: (!properties.is_empty()).then_some(properties),
        ..Attach::default()
    };
    let attached = in_session.attach_receiver_with(attach).await.map_err(Failure::from);
    let link = attached.inspect_err(|failure| unauthorized(failure, &claim))?;
    Ok(Attached { link, name, wire, claim })
}

/// Has the next attach send another token if it is for the lack of one that a link has ended.
fn unauthorized(failure: &Failure, claim: &Claim) {
    if failure.kind() == ErrorKind::Unauthorized {
        claim.expire();
    }
}

impl Attached {
    /// Returns the session that the server has chosen, with its lock as of `now`.
    pub(crate) fn session(&self, now: Timestamp) -> Option<SessionLock> {
        let peer = self.link.peer();
        let filter = peer.source.as_ref()?.filter.as_ref()?;
        let id = match filter.get(FILTER.as_str())? {
            Value::Described(described) => described.value.as_str()?,
            plain => plain.as_str()?,
        };
        let until = peer.properties.as_ref().and_then(|properties| wire::instant(properties.get(LOCKED_UNTIL)?));
        let until = until.unwrap_or(now);
        Some(SessionLock {
            id: id.to_owned(),
            locked_until: AtomicI64::new(until.as_millis()),
            duration: duration(Some(until), now),
        })
    }
}

/// The shortest duration that a lock is taken for: the clocks of client and server may differ.
const SHORTEST: Duration = Duration::from_secs(1);

/// Returns how long a lock holds at `now`.
pub(crate) fn duration(until: Option<Timestamp>, now: Timestamp) -> Duration {
    until.map_or(SHORTEST, |until| until.saturating_since(now).max(SHORTEST))
}

impl Live {
    pub(crate) fn new(attached: Attached, source: Arc<Source>) -> Self {
        let Attached { link, name, wire, claim } = attached;
        let origin = Arc::new(Origin { settler: link.settler(), source, name, wire, claim });
        Self { link, origin, credit: 0, since: Instant::now() }
    }

    /// How long the link has been attached.
    pub(super) fn age(&self) -> Duration {
        self.since.elapsed()
    }

    /// Whether a delivery may still be received.
    pub(super) fn may_receive(&self) -> bool {
        self.credit > 0
    }

    pub(super) fn has_ended(&self) -> bool {
        self.origin.settler.ended().is_some()
    }

    pub(super) fn has_failed(&self, failure: &Failure) {
        unauthorized(failure, &self.origin.claim);
    }

    /// What the leases of the link share.
    pub(crate) const fn origin(&self) -> &Arc<Origin> {
        &self.origin
    }

    /// Has the server send `max` messages, and `ahead` more.
    pub(super) fn ask_for(&mut self, max: usize, ahead: u32) -> Result<(), Failure> {
        let credit = u32::try_from(max).unwrap_or(u32::MAX).saturating_add(ahead).min(MOST_CREDIT);
        // Less than the server has already is not requested: what is on its way would not be counted.
        if self.credit < credit {
            self.credit = self.link.request(credit)?;
        }
        Ok(())
    }

    /// Gives no more credit, and waits until no delivery can arrive any longer.
    pub(super) async fn take_credit_back(&mut self) -> Result<(), Failure> {
        self.link.drain().await?;
        self.credit = 0;
        Ok(())
    }

    /// Detaches the link. It has begun when this was polled once.
    pub(super) async fn detach(self) -> Result<(), Failure> {
        Ok(self.link.detach().await?)
    }

    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Delivery<ServiceBusLease>, Failure>> {
        loop {
            let raw = match ready!(self.link.poll_recv(cx)) {
                Ok(raw) => raw,
                Err(error) => {
                    let is_deleted = error.condition() == Some(&condition::RESOURCE_DELETED);
                    let failure = Failure::from(error);
                    return Poll::Ready(Err(if is_deleted { failure.for_good() } else { failure }));
                }
            };
            self.credit = self.credit.saturating_sub(1);
            if let Some(delivery) = self.origin.deliver(raw) {
                return Poll::Ready(Ok(delivery));
            }
        }
    }
}

impl Origin {
    /// Decodes a delivery. One that is not a message is dead-lettered. Where it cannot be, it is delivered as bytes.
    fn deliver(self: &Arc<Self>, raw: engine::Delivery) -> Option<Delivery<ServiceBusLease>> {
        let source = &self.source;
        let (message, mut unreadable) = wire::read(raw.payload.into_bytes(), Direction::Deliver);
        let buried = if raw.settled || source.path.is_sub_queue() { None } else { unreadable.take() };
        let message = source.message(message, unreadable);
        if raw.settled {
            return Some(Delivery { message, lease: ServiceBusLease::removed() });
        }
        let token = <[u8; 16]>::try_from(&raw.tag[..]).ok();
        let token = token.map(|tag| LockToken::from_bytes(Uuid::from_guid_bytes(tag).0));
        let lock = match &source.session {
            Some(session) => session.duration,
            None => duration(message.received().and_then(|received| received.locked_until), source.core.now()),
        };
        let held = OnLink { origin: Arc::clone(self), id: raw.id, token, lock };
        let lease = ServiceBusLease::on_link(held);
        match buried {
            Some(error) => {
                source.bury(lease, &error);
                None
            }
            None => Some(Delivery { message, lease }),
        }
    }
}
