//! Where a receiver receives from.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use consign_amqp::client::Settler;
use consign_core::{
    Disposition, Message,
    message::EntityPath,
    time::Timestamp,
    transport::{EntityInfo, ErrorKind, Lease},
};
use tokio::runtime::Handle;

use super::lease::ServiceBusLease;
use crate::{authorization::Wire, claim::Claim, core::Core, error::Failure, log, wire};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    PeekLock,
    ReceiveAndDelete,
}

pub(crate) struct Source {
    pub(crate) core: Arc<Core>,
    pub(crate) path: EntityPath,
    pub(crate) mode: Mode,
    pub(crate) session: Option<Arc<SessionLock>>,
}

/// The lock of a session.
#[derive(Debug)]
pub(crate) struct SessionLock {
    pub(crate) id: String,
    /// In milliseconds since 1970.
    pub(crate) locked_until: AtomicI64,
    pub(crate) duration: Duration,
}

/// What the leases of a link share.
pub(crate) struct Origin {
    pub(crate) settler: Settler,
    pub(crate) source: Arc<Source>,
    /// The name of the link.
    pub(crate) name: String,
    /// The connection of the link, which stays open for its leases.
    pub(crate) wire: Arc<Wire>,
    pub(super) claim: Arc<Claim>,
}

const OVER_LIMIT: &str =
    "a message is larger than max_message_size: the receive fails until it is removed or the option is higher";

impl Source {
    pub(crate) fn new(core: &Arc<Core>, path: EntityPath, mode: Mode) -> Self {
        Self { core: Arc::clone(core), path, mode, session: None }
    }

    /// Messages that are locked ahead.
    pub(super) fn prefetch(&self) -> u32 {
        if self.mode == Mode::PeekLock { self.core.options.prefetch } else { 0 }
    }

    pub(super) fn entity_info(&self) -> EntityInfo {
        EntityInfo::new(self.path.as_str())
    }

    /// Whether a link that was attached and is lost is attached again at once. The lock of a session is lost with its link.
    pub(super) fn attaches_again(&self, failure: &Failure) -> bool {
        // If its token has expired, the attach sends another one, and fails if that is refused.
        let may_pass = failure.is_retryable() || failure.kind() == ErrorKind::Unauthorized;
        self.session.is_none() && !self.core.is_closed() && may_pass
    }

    /// Logs that the limit of the options has ended a link.
    pub(super) fn log_over_limit(&self, failure: &Failure) {
        if failure.is_over_limit() {
            log::failed(&self.path, OVER_LIMIT, failure);
        }
    }

    /// The error of a link that was attached and is lost. Without authorization, so is the lock of a session: whether the client
    /// may still use the entity is known by the next accept.
    pub(super) fn last_error(&self, failure: Failure) -> Failure {
        match (&self.session, failure.kind()) {
            (_, ErrorKind::EntityNotFound | ErrorKind::EntityDisabled) => failure,
            _ if failure.is_over_limit() => failure,
            (Some(_), _) => failure.with_kind(ErrorKind::SessionLockLost).for_good(),
            (None, _) if self.core.is_closed() => failure.for_good(),
            (None, _) => failure,
        }
    }

    /// Dead-letters a message that cannot be decoded. No caller waits for it.
    pub(super) fn bury(&self, lease: ServiceBusLease, error: &wire::Unreadable) {
        log::failed(&self.path, "a message cannot be decoded: it is dead-lettered as MalformedMessage", error);
        let settling = lease.settle(Disposition::DeadLetter(Box::new(error.why())));
        let path = self.path.clone();
        let Ok(runtime) = Handle::try_current() else { return };
        runtime.spawn(async move {
            if let Err(error) = settling.await {
                log::failed(&path, "a message that cannot be decoded was not dead-lettered: it is redelivered", &error);
            }
        });
    }

    /// Decodes a message that was delivered or peeked.
    pub(crate) fn message(&self, mut message: Message, unreadable: Option<wire::Unreadable>) -> Message {
        if let Some(error) = unreadable {
            log::failed(&self.path, "a message cannot be decoded: it is delivered as bytes", &error);
        }
        if let Some(mut received) = message.received().copied() {
            received.dead_lettered = self.path.is_sub_queue();
            if let Some(session) = &self.session {
                let until = Timestamp::from_millis(session.locked_until.load(Ordering::Relaxed));
                received.locked_until = Some(until);
            }
            message = message.with_received(received);
        }
        message
    }
}
