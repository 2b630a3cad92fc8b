//! Descriptors as symbols.

use super::composite::Composite;
use crate::{message, types};

/// The number of a descriptor that was written as a symbol.
pub(crate) fn code_of(name: &[u8]) -> Option<u64> {
    NAMES.iter().find(|(known, _)| known.as_bytes() == name).map(|(_, code)| u64::from(*code))
}

macro_rules! names {
    ($($type:ty)*) => { &[$((<$type>::NAME, <$type as Composite>::CODE)),*] };
}

const NAMES: &[(&str, u8)] = names! {
    types::Open types::Begin types::Attach types::Flow types::Transfer types::Disposition types::Detach types::End types::Close
    types::Error types::Received types::Accepted types::Rejected types::Released types::Modified
    types::Source types::Target
    types::Coordinator types::Declare types::Discharge types::Declared types::TransactionalState
    types::SaslMechanisms types::SaslInit types::SaslChallenge types::SaslResponse types::SaslOutcome
    message::Header message::DeliveryAnnotations message::MessageAnnotations message::Properties
    message::ApplicationProperties message::Data message::AmqpSequence message::AmqpValue message::Footer
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_of_descriptors_are_unique() {
        for (index, (name, code)) in NAMES.iter().enumerate() {
            for (other_name, other_code) in &NAMES[..index] {
                assert!(name != other_name && code != other_code, "{name} {other_name}");
            }
        }
        assert_eq!((NAMES.len(), code_of(b"amqp:flow:list"), code_of(b"amqp:flow")), (36, Some(0x13), None));
    }
}
