//! What the bytes of a record mean.
//!
//! Every record begins with the version of its kind; what follows is in `docs/store-format.md`, and is read for ever. A
//! change of a kind is a new version, which is the one that is written from then on: it adds fields behind those that
//! there are, and what reads an older version takes the default that the field had before. Nothing is removed and no number
//! is used again.
//!
//! They are written by hand, and not through serde and postcard: that takes more than half as many instructions again, cannot
//! add a field, and bounds no depth.
//!
//! A record is written in one pass behind what its buffer holds. Reading allocates for what is there, not for what is
//! announced, and no input makes it panic; whether the bytes are those that were written is the journal's to know.

mod body;
mod broker;
mod counter;
mod entity;
mod id;
mod malformed;
mod message;
mod properties;
mod reader;
mod rules;
mod session;
mod settings;
#[cfg(test)]
mod tests;
mod value;
mod write;

pub(crate) use self::{
    broker::BrokerRecord,
    counter::{CounterRecord, LastNumber},
    entity::{EntityKind, EntityRecord},
    id::IdRecord,
    message::{MessageRecord, MessageState, MessageView, Place},
    session::SessionRecord,
    value::{MAX_DEPTH, can_be_stored},
};
