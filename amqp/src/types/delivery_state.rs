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

    /// Returns whether a broker that settles a delivery with this has its message again, although the receiver had reported
    /// another outcome: `released` or `modified` instead of `accepted` or `rejected`, or instead of a `modified` that sets the
    /// message aside. The outcome that was reported had no effect then. The outcomes of a transaction are compared likewise.
    #[must_use]
    pub fn is_return_instead_of(&self, reported: &Self) -> bool {
        match (self, reported) {
            (Self::Transactional(answer), _) => {
                answer.outcome.as_ref().is_some_and(|outcome| outcome.is_return_instead_of(reported))
            }
            (_, Self::Transactional(reported)) => {
                reported.outcome.as_ref().is_some_and(|outcome| self.is_return_instead_of(outcome))
            }
            (Self::Released(_) | Self::Modified(_), Self::Accepted(_) | Self::Rejected(_)) => true,
            (Self::Released(_), Self::Modified(reported)) => reported.undeliverable_here,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rules: A-20.
    #[test]
    fn a_message_that_the_broker_has_again_is_told_from_a_confirmed_outcome() {
        let modified =
            |undeliverable_here| -> DeliveryState { Modified { undeliverable_here, ..Modified::default() }.into() };
        let accepted: DeliveryState = Accepted {}.into();
        let rejected: DeliveryState = Rejected::default().into();
        let released: DeliveryState = Released {}.into();
        for reported in [&accepted, &rejected] {
            assert!(released.is_return_instead_of(reported), "{reported:?}");
            assert!(modified(false).is_return_instead_of(reported), "{reported:?}");
        }
        assert!(released.is_return_instead_of(&modified(true)));
        for reported in [&accepted, &rejected, &released, &modified(false), &modified(true)] {
            assert!(!reported.is_return_instead_of(reported), "{reported:?}");
            assert!(!accepted.is_return_instead_of(reported), "{reported:?}");
        }
        assert!(!released.is_return_instead_of(&modified(false)) && !modified(true).is_return_instead_of(&released));
        let within = |outcome: &DeliveryState| -> DeliveryState {
            let outcome = Some(Box::new(outcome.clone()));
            DeliveryState::Transactional(Box::new(TransactionalState { txn_id: Vec::new().into(), outcome }))
        };
        assert!(within(&released).is_return_instead_of(&within(&accepted)));
        assert!(released.is_return_instead_of(&within(&accepted)));
        assert!(!within(&accepted).is_return_instead_of(&within(&accepted)));
    }
}
