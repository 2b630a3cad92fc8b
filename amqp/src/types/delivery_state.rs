use super::{
    Declared, Error, TransactionalState,
    composite::{composite, one_of},
};
use crate::value::Map;

composite! {
    /// The receiver has received a part of the message.
    Received = 0x23 "amqp:received:list" {
        /// The section of the message, from 0. Mandatory.
        section_number: mandatory u32,
        /// The first byte of that section that was not received. Mandatory.
        section_offset: mandatory u64,
    }
}

composite! {
    /// The receiver has processed the message.
    Accepted = 0x24 "amqp:accepted:list" {}
}

composite! {
    /// The message is invalid.
    Rejected = 0x25 "amqp:rejected:list" {
        /// Why.
        error: optional Error,
    }
}

composite! {
    /// The receiver did not process the message.
    Released = 0x26 "amqp:released:list" {}
}

composite! {
    /// The receiver did not process the message, and changes it.
    Modified = 0x27 "amqp:modified:list" {
        /// Whether the transfer counts as a failed delivery. False by default.
        delivery_failed: default bool = false,
        /// Whether the message is not sent on this link again. False by default.
        undeliverable_here: default bool = false,
        /// Annotations to merge into those of the message.
        message_annotations: optional Map,
    }
}

one_of! {
    /// The state of a delivery: how far it is, or its outcome.
    DeliveryState "delivery state" {
        /// A part was received.
        Received(Received) of Received,
        /// Processed.
        Accepted(Accepted) of Accepted,
        /// Invalid.
        Rejected(Box<Rejected>) of Rejected,
        /// Not processed.
        Released(Released) of Released,
        /// Not processed, and changed.
        Modified(Modified) of Modified,
        /// A transaction has begun.
        Declared(Declared) of Declared,
        /// A state within a transaction.
        Transactional(Box<TransactionalState>) of TransactionalState,
    }
}

impl DeliveryState {
    /// Returns whether it is an outcome, which ends a delivery: every state but [`DeliveryState::Received`] and a transactional
    /// state without an outcome.
    #[must_use]
    pub fn is_outcome(&self) -> bool {
        match self {
            Self::Received(_) => false,
            Self::Transactional(state) => state.outcome.is_some(),
            _ => true,
        }
    }
}
