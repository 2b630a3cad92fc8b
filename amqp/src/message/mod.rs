//! The sections of a message, and an encoded message that is split into them.

mod annotations;
mod batch;
mod body;
mod encoded;
mod id;
mod properties;
mod sections;

pub use self::{
    annotations::{Annotations, ApplicationProperties, DeliveryAnnotations, Footer, MessageAnnotations},
    batch::{Batch, BatchBuilder, BatchError, BatchMessages, BatchTransfer},
    body::{AmqpSequence, AmqpValue, Data},
    encoded::{BodyKind, BodySections, EncodedMessage, Section},
    id::MessageId,
    properties::{Header, Properties},
    sections::{Body, Sections},
};

/// The message format of one message.
pub const FORMAT: u32 = 0;

/// The message format of a batch on Service Bus: each data section is an encoded message.
pub const BATCH_FORMAT: u32 = 0x8001_3700;
