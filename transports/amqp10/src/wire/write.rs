use bytes::Bytes;
use consign_amqp::{
    codec,
    mapping::{self, Direction, annotation},
    message::{Annotations, Body, MessageAnnotations, Sections},
    value::{Symbol, Timestamp as Millis, Value},
};
use consign_core::{
    Message,
    time::Timestamp,
    transport::{ErrorKind, SendError},
};

use super::names;
use crate::Product;

/// What the transport writes beside the message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    pub(crate) number: u64,
    pub(crate) enqueued: Timestamp,
    /// Deliveries that have failed.
    pub(crate) failed: u32,
    /// When the broker delivers it, if not at once.
    pub(crate) due: Option<Timestamp>,
    /// Whether it is a dead letter: the broker gets no time to live.
    pub(crate) never_expires: bool,
}

/// Encodes a message.
pub(crate) fn write(message: &Message, stamp: &Stamp, product: Product) -> Result<Bytes, SendError> {
    let sections = mapping::to_sections(message, Direction::Send);
    let mut sections = sections.map_err(|error| {
        SendError::new(ErrorKind::InvalidArgument).with_detail(error.to_string()).with_source(error)
    })?;
    let header = sections.header.get_or_insert_default();
    // Without it, a broker that restarts forgets what it has accepted.
    header.durable = message.pass_through().and_then(|rest| rest.durable).unwrap_or(true);
    let time_to_live = if stamp.never_expires { header.ttl.take() } else { None };
    if stamp.never_expires
        && let Some(properties) = &mut sections.properties
    {
        properties.absolute_expiry_time = None;
    }
    if let Some(section) = &mut sections.message_annotations {
        section.0.0.retain(|(name, _)| *name != annotation::SCHEDULED_ENQUEUE_TIME);
    }
    if product.damages(&sections) {
        sections = wrapped(sections)?;
    }
    let annotations = &mut sections.message_annotations.get_or_insert_default().0;
    annotations.push(names::NUMBER, stamp.number.cast_signed());
    annotations.push(names::ENQUEUED, timestamp(stamp.enqueued));
    if stamp.failed > 0 {
        annotations.push(names::FAILED, stamp.failed);
    }
    if let Some(millis) = time_to_live {
        annotations.push(names::TIME_TO_LIVE, millis);
    }
    if message.is_message_id_stamped() {
        annotations.push(names::STAMPED, true);
    }
    if let Some(due) = stamp.due {
        annotations.push(Symbol::from_static(annotation::SCHEDULED_ENQUEUE_TIME), timestamp(due));
    }
    sections.to_bytes().map_err(unwritable)
}

/// Returns a message whose body is the encoded message, and which has what passes the broker unchanged.
fn wrapped(mut sections: Sections) -> Result<Sections, SendError> {
    let header = sections.header.take();
    let body = sections.to_bytes().map_err(unwritable)?;
    let mut properties = sections.properties;
    if let Some(properties) = &mut properties {
        properties.user_id = None;
    }
    let application_properties = sections.application_properties.map(|mut section| {
        section.0.retain(|(_, value)| crate::broker::is_plain(value));
        section
    });
    let mut annotations = Annotations::default();
    annotations.push(names::WRAPPED, true);
    Ok(Sections {
        header,
        message_annotations: Some(MessageAnnotations(annotations)),
        properties,
        application_properties: application_properties.filter(|section| !section.0.is_empty()),
        body: Body::Data(vec![body.into()]),
        ..Sections::default()
    })
}

fn timestamp(at: Timestamp) -> Value {
    Value::Timestamp(Millis(at.as_millis()))
}

fn unwritable(error: codec::EncodeError) -> SendError {
    SendError::new(ErrorKind::Serialization).with_detail("the message cannot be encoded").with_source(error)
}
