//! Messages of AMQP 1.0 as a [`Message`] of `consign-core`, and back.
//!
//! [`InboundMessage`] converts the sections of an encoded message, [`to_sections`] converts a [`Message`]. The [`Direction`] is that
//! of the transfer: a sender does not send the properties that a broker sets, and a broker does not read them.
//!
//! ```
//! use consign_amqp::{codec, mapping::{self, Direction, InboundMessage}, message::EncodedMessage};
//! use consign_core::message::Message;
//!
//! let message = Message::builder().message_id("m-1").property("tenant", 7_i32).build("{}")?;
//! let encoded = codec::encode(&mapping::to_sections(&message, Direction::Send)?)?;
//!
//! let inbound = InboundMessage::decode(&EncodedMessage::split(encoded)?, Direction::Send)?;
//! assert_eq!(inbound.message.message_id(), Some("m-1"));
//! assert_eq!(inbound.message.application_properties(), message.application_properties());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Properties
//!
//! | section | field or key | property of the message |
//! |---|---|---|
//! | header | `durable`, `priority`, `first-acquirer` | [`PassThrough`], unless it is the default of AMQP 1.0 |
//! | header | `ttl` | the time to live |
//! | header | `delivery-count` | [`InboundMessage::delivery_count`]; [`Received::delivery_count`] on a received message |
//! | delivery annotations | all | [`InboundMessage::delivery_annotations`]; of a sender [`PassThrough::DELIVERY_ANNOTATIONS`] too, but no lock token |
//! | message annotations | `x-opt-partition-key`, `x-opt-via-partition-key`, `x-opt-scheduled-enqueue-time` | the property of that name |
//! | message annotations | those of [`annotation`] that a broker sets | [`Received`], and the dead-letter source |
//! | message annotations | others | [`PassThrough::annotations`] |
//! | properties | `message-id`, `correlation-id` | the text of the id, and its type as an annotation: [`PassThrough::MESSAGE_ID_TYPE`] |
//! | properties | `group-id`, `reply-to-group-id` | the session, the session for replies |
//! | properties | `absolute-expiry-time` | [`Received::expires_at`]; otherwise [`PassThrough::ABSOLUTE_EXPIRY_TIME`] |
//! | properties | `user-id`, `content-encoding`, `creation-time`, `group-sequence` | [`PassThrough`] |
//! | application properties | all | application properties of the same type; [`InboundMessage::from_received`] keeps lists, maps and others in [`PassThrough::APPLICATION_PROPERTIES`] |
//! | body | data, value, sequence sections | [`MessageBody`] of the same kind; no section is one empty data section, and [`PassThrough::NO_BODY`] on a message of a sender |
//! | footer | all | [`PassThrough::footer`] |
//!
//! A received message has [`Received`] if it has the annotation `x-opt-sequence-number`. Without it the annotations of a broker are
//! annotations like any other.
//!
//! # Values
//!
//! A value keeps its type. [`PropertyValue`] has no decimal32 and decimal64, and an application property is not a list, a map, an
//! array or another described value: these are an error that names the property, and a receiver keeps them as an annotation. A symbol becomes text. In a body or an annotation
//! decimal32 and decimal64 are described binaries, `consign:decimal32` and `consign:decimal64`, and an empty array is described as
//! `consign:empty-array`. These become the AMQP 1.0 value again, and a peer may not send them.
//!
//! Timestamps later than 9999-12-31T23:59:59.999Z become that instant, which stands for "never".
//!
//! # Limitations
//!
//! Application properties are ordered by name. [`PassThrough::force_persistence`] and the mark of a generated MessageId have no
//! place in AMQP 1.0. The annotations of a broker are ignored on a message that is sent to one.
//!
//! [`Message`]: consign_core::message::Message
//! [`MessageBody`]: consign_core::message::MessageBody
//! [`PassThrough`]: consign_core::message::PassThrough
//! [`PassThrough::NO_BODY`]: consign_core::message::PassThrough::NO_BODY
//! [`PassThrough::annotations`]: consign_core::message::PassThrough::annotations
//! [`PassThrough::footer`]: consign_core::message::PassThrough::footer
//! [`PassThrough::force_persistence`]: consign_core::message::PassThrough::force_persistence
//! [`PassThrough::APPLICATION_PROPERTIES`]: consign_core::message::PassThrough::APPLICATION_PROPERTIES
//! [`PassThrough::ABSOLUTE_EXPIRY_TIME`]: consign_core::message::PassThrough::ABSOLUTE_EXPIRY_TIME
//! [`PassThrough::DELIVERY_ANNOTATIONS`]: consign_core::message::PassThrough::DELIVERY_ANNOTATIONS
//! [`PassThrough::MESSAGE_ID_TYPE`]: consign_core::message::PassThrough::MESSAGE_ID_TYPE
//! [`PropertyValue`]: consign_core::message::PropertyValue
//! [`Received`]: consign_core::message::Received
//! [`Received::delivery_count`]: consign_core::message::Received::delivery_count
//! [`Received::expires_at`]: consign_core::message::Received::expires_at

pub mod annotation;
mod error;
mod id;
mod inbound;
mod outbound;
mod received;
mod value;

pub use self::{
    error::{MappingError, MappingErrorKind},
    inbound::InboundMessage,
    outbound::{stamp_expiry, to_sections},
    value::{property_from_amqp, property_to_amqp, value_from_amqp, value_to_amqp},
};

/// The transfer that a message belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// A sender sends the message to a broker.
    Send,
    /// A broker delivers the message to a receiver. The delivery count includes this delivery.
    Deliver,
    /// A broker returns the message to a client that peeks. The delivery count is that of failed deliveries.
    Peek,
}
