//! Where a receiver receives from.

use std::sync::{Arc, OnceLock, atomic::AtomicBool};

use consign_amqp::client::Settler;
use consign_core::{
    message::EntityPath,
    transport::{EntityInfo, ErrorKind},
};

use super::unreadable::{Refused, Waiting};
use crate::{core::Core, dialer::Dialer, error::Failure, log, sender::Amqp10Sender};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    PeekLock,
    ReceiveAndDelete,
}

/// The node of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Entity,
    DeadLetters,
    /// The broker makes an address for the link, which ends with it.
    Dynamic,
}

pub(crate) struct Source {
    pub(crate) core: Arc<Core>,
    pub(crate) dialer: Dialer,
    pub(crate) path: EntityPath,
    pub(crate) place: Place,
    pub(crate) mode: Mode,
    pub(super) address: String,
    /// Senders of copies, to the dead-letter address and to the entity.
    dead_letters: OnceLock<Amqp10Sender>,
    again: OnceLock<Amqp10Sender>,
    pub(super) refused: Refused,
    /// Whether the caller browses messages and releases all of them.
    pub(super) only_browses: AtomicBool,
}

/// What the leases of a link share.
pub(super) struct Origin {
    pub(super) settler: Settler,
    pub(super) source: Arc<Source>,
    pub(super) waiting: Waiting,
}

const OVER_LIMIT: &str =
    "a message is larger than max_message_size: the receive fails until it is removed or the option is higher";

impl Source {
    pub(crate) fn new(core: &Arc<Core>, dialer: Dialer, path: EntityPath, mode: Mode, place: Place) -> Self {
        let address = core.address(&path);
        Self {
            core: Arc::clone(core),
            dialer,
            path,
            place,
            mode,
            address,
            dead_letters: OnceLock::new(),
            again: OnceLock::new(),
            refused: Refused::default(),
            only_browses: AtomicBool::new(false),
        }
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.place == Place::DeadLetters
    }

    /// A sender to the dead-letter address.
    pub(super) fn dead_letters(&self) -> &Amqp10Sender {
        self.dead_letters.get_or_init(|| self.sender(self.path.dead_letter()))
    }

    /// A sender to the entity.
    pub(super) fn again(&self) -> &Amqp10Sender {
        self.again.get_or_init(|| self.sender(self.path.clone()))
    }

    fn sender(&self, path: EntityPath) -> Amqp10Sender {
        let shares = self.core.product().shares_connections();
        let dialer = if shares { self.dialer.clone() } else { Dialer::new(&self.core) };
        Amqp10Sender::new(&self.core, dialer, path)
    }

    /// Messages that are locked ahead.
    pub(super) fn prefetch(&self) -> u32 {
        if self.mode == Mode::PeekLock { self.core.options.prefetch } else { 0 }
    }

    pub(super) fn entity_info(&self) -> EntityInfo {
        let info = EntityInfo::new(self.path.as_str());
        if self.place == Place::Entity && self.mode == Mode::PeekLock {
            return info.max_delivery_count(self.core.options.max_delivery_count);
        }
        info
    }

    /// Whether a lost link is attached again at once.
    pub(super) fn attaches_again(&self, failure: &Failure) -> bool {
        self.place != Place::Dynamic
            && !self.core.is_closed()
            && matches!(
                failure.kind(),
                ErrorKind::CommunicationProblem | ErrorKind::General | ErrorKind::ServiceTimeout
            )
    }

    /// Logs that the limit of the options has ended a link.
    pub(super) fn log_over_limit(&self, failure: &Failure) {
        if failure.is_over_limit() {
            log::failed(&self.path, OVER_LIMIT, failure);
        }
    }

    /// The error of a link that is lost. Receiving again is useless from a closed transport, and at an address that is gone.
    pub(super) fn last_error(&self, failure: Failure) -> Failure {
        if self.place == Place::Dynamic || self.core.is_closed() { failure.for_good() } else { failure }
    }
}
