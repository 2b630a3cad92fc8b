//! The attached link of a receiver.

use std::{
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll, ready},
    time::Duration,
};

use consign_amqp::{
    client::{ReceiverLink, Session},
    engine,
    types::{self, Attach, SenderSettleMode, Target, condition},
};
use consign_core::{
    message::{Received, SequenceNumber},
    settlement::DeadLetter,
    time::Timestamp,
    transport::{Delivery, ErrorKind},
};
use tokio::time::Instant;

use super::{
    held::Held,
    lease::Amqp10Lease,
    source::{Mode, Origin, Place, Source},
    unreadable::Waiting,
};
use crate::{dialer, error::Failure, log, wire};

/// An attached link.
pub(super) struct Live {
    link: ReceiverLink,
    pub(super) session: Session,
    origin: Arc<Origin>,
    /// The deliveries that may still be received: those that wait in the link, and those that may still arrive.
    credit: u32,
    since: Instant,
}

impl Source {
    /// Attaches a link in place of one that is lost, after a pause if `fruitless` attaches before brought no delivery. A failure
    /// that may pass is tried again until the timeout.
    pub(super) async fn attach_again(self: &Arc<Self>, fruitless: u32) -> Result<Live, Failure> {
        if self.place == Place::Dynamic {
            let why = "the address of the replies ended with its connection";
            return Err(Failure::new(ErrorKind::CommunicationProblem, why).for_good());
        }
        let (backoff, timeout) = (self.core.options.backoff, self.core.options.timeout);
        if fruitless > 1 {
            tokio::time::sleep(dialer::pause(backoff, fruitless - 2)).await;
        }
        let until = Instant::now() + timeout;
        let mut failures = 0;
        loop {
            match self.attach().await {
                Err(failure) if self.attaches_again(&failure) && Instant::now() < until => {
                    log::failed(&self.path, "the link was not attached: it is tried again after a pause", &failure);
                    tokio::time::sleep(dialer::pause(backoff, failures)).await;
                    failures = failures.saturating_add(1);
                }
                attached => return attached,
            }
        }
    }

    /// Attaches a link.
    pub(super) async fn attach(self: &Arc<Self>) -> Result<Live, Failure> {
        let (_, session) = self.dialer.begin().await?;
        let mut source = types::Source::default();
        if self.place == Place::Dynamic {
            source.dynamic = true;
        } else {
            source.address = Some(self.address.as_str().into());
        }
        let attach = Attach {
            name: self.core.link_name("receiver").into(),
            snd_settle_mode: match self.mode {
                Mode::PeekLock => SenderSettleMode::Unsettled,
                Mode::ReceiveAndDelete => SenderSettleMode::Settled,
            },
            source: Some(Box::new(source)),
            target: Some(Target { address: Some(self.core.container.as_str().into()), ..Target::default() }.into()),
            max_message_size: Some(self.core.options.max_message_size),
            ..Attach::default()
        };
        let link = self.dialer.attached(session.attach_receiver_with(attach).await)?;
        if self.mode == Mode::ReceiveAndDelete && link.peer().snd_settle_mode != SenderSettleMode::Settled {
            let why = "the broker does not send settled messages: use the mode peek-lock";
            return Err(Failure::new(ErrorKind::NotSupported, why));
        }
        let origin =
            Arc::new(Origin { settler: link.settler(), source: Arc::clone(self), waiting: Waiting::default() });
        Ok(Live { link, session, origin, credit: 0, since: Instant::now() })
    }

    /// Attaches and detaches a link without credit. The broker answers after everything that it did before for the session.
    pub(super) async fn barrier(&self, session: &Session) -> Result<(), Failure> {
        let name = self.core.link_name("barrier");
        session.attach_receiver(name, self.address.as_str()).await?.detach().await?;
        Ok(())
    }
}

impl Live {
    pub(super) fn dynamic_address(&self) -> Option<String> {
        let source = self.link.peer().source.as_ref()?;
        source.address.as_ref().map(|address| address.as_str().to_owned())
    }

    /// How long the link has been attached.
    pub(super) fn age(&self) -> Duration {
        self.since.elapsed()
    }

    /// Whether a delivery may still be received.
    pub(super) fn may_receive(&self) -> bool {
        self.credit > 0
    }

    /// Has the broker send `max` messages, and `ahead` more: fewer while messages that cannot be decoded are not settled.
    pub(super) fn ask_for(&mut self, cx: &Context<'_>, max: usize, ahead: u32) -> Result<(), Failure> {
        let requested = u32::try_from(max).unwrap_or(u32::MAX).saturating_add(ahead).min(MOST_CREDIT);
        let credit = self.origin.waiting.credit(cx, requested, self.credit);
        if credit == 0 && self.origin.waiting.is_new() {
            log::warn(&self.origin.source.path, TOO_MANY);
        }
        // Less than the broker has already is not requested either.
        if self.credit < credit {
            self.credit = self.link.request(credit)?;
        }
        Ok(())
    }

    /// Gives no more credit, and waits until no delivery can arrive any longer.
    pub(super) async fn take_credit_back(&mut self) -> Result<(), Failure> {
        let source = Arc::clone(&self.origin.source);
        if source.core.product().drains() {
            self.link.drain().await?;
        } else {
            self.link.set_credit(0)?;
            // The first one may pass deliveries that are on their way.
            source.barrier(&self.session).await?;
            source.barrier(&self.session).await?;
        }
        self.credit = 0;
        Ok(())
    }

    /// Detaches the link.
    pub(super) async fn detach(self) {
        // It is over either way.
        let _ = self.link.detach().await;
    }

    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Delivery<Amqp10Lease>, Failure>> {
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

/// The most messages that are requested at once.
pub(super) const MOST_CREDIT: u32 = 8_192;

const TOO_MANY: &str =
    "too many messages that cannot be decoded are not settled: no message is received until one of them is";

impl Origin {
    /// Decodes a delivery. One that is not a message is dead-lettered. Where it cannot be, or the caller browses, it is
    /// delivered as bytes.
    fn deliver(self: &Arc<Self>, raw: engine::Delivery) -> Option<Delivery<Amqp10Lease>> {
        let source = &self.source;
        let encoded = raw.payload.into_bytes();
        let (mut message, facts, unreadable) = wire::read(encoded.clone());
        let only_browses = source.only_browses.load(Ordering::Acquire);
        let is_dead_lettered = source.place == Place::Entity && !raw.settled && !only_browses;
        if let Some(error) = unreadable.as_ref().filter(|_| !is_dead_lettered) {
            log::failed(&source.path, "a message cannot be decoded: it is delivered as bytes", error);
        }
        let counted = if source.core.product().counts() { facts.failed_at_broker } else { 0 };
        let failed = facts.failed.saturating_add(counted);
        let enqueued = facts.enqueued.unwrap_or_else(|| source.core.now());
        let mut received = Received::new(SequenceNumber::new(facts.number), enqueued, failed.saturating_add(1));
        let time_to_live = message.time_to_live().filter(|_| !source.is_dead());
        received.expires_at = time_to_live.map_or(Timestamp::MAX, |ttl| enqueued.saturating_add(ttl));
        received.dead_lettered = source.is_dead();
        if !source.is_dead() {
            // Another program may have set them.
            DeadLetter::remove_reason(&mut message);
        }
        let message = message.with_received(received);
        if raw.settled {
            let lease = Amqp10Lease::removed(source.place == Place::Dynamic);
            return Some(Delivery { message, lease });
        }
        let (origin, copied) = (Arc::clone(self), message.clone());
        let held = Held { origin, id: raw.id, message: copied, number: facts.number, enqueued, failed };
        match unreadable.filter(|_| is_dead_lettered) {
            Some(error) => {
                held.dead_letter_unreadable(&wire::unchanged(&encoded), &error);
                None
            }
            None => Some(Delivery { message, lease: Amqp10Lease::held(held) }),
        }
    }
}
