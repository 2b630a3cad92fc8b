//! Messages of AMQP 1.0 as those of `consign-core`, and back.
//!
//! Random tests are seeded: `SEED` sets the seed and `CONSIGN_CASES` the number of cases; a failure prints both.
#![cfg(feature = "message")]
#![allow(clippy::unwrap_used)]

#[path = "../codec/generate.rs"]
mod generate;
mod properties;
mod random;
mod received;
mod refusals;
mod values;
mod vectors;

use consign_amqp::{
    codec,
    mapping::{self, Direction, InboundMessage, MappingError},
    message::{EncodedMessage, Sections},
};
use consign_core::message::Message;

/// What a peer that gets these sections over the wire reads.
fn read(sections: &Sections, direction: Direction) -> Result<InboundMessage, MappingError> {
    let encoded = EncodedMessage::split(codec::encode(sections).unwrap()).unwrap();
    InboundMessage::decode(&encoded, direction)
}

fn write(message: &Message, direction: Direction) -> Sections {
    mapping::to_sections(message, direction).unwrap()
}

/// The same sections in the order in which they are compared.
fn sorted(mut sections: Sections) -> Sections {
    if let Some(annotations) = &mut sections.message_annotations {
        annotations.0.0.sort_by(|one, other| one.0.cmp(&other.0));
    }
    if let Some(application) = &mut sections.application_properties {
        application.0.sort_by(|one, other| one.0.cmp(&other.0));
    }
    sections
}
