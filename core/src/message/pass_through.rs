use std::borrow::Cow;

use bytes::Bytes;

use super::Value;
use crate::time::Timestamp;

/// Properties that a broker stores and returns unchanged, and never reads.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct PassThrough {
    /// `properties.user-id`.
    pub user_id: Option<Bytes>,
    /// `properties.content-encoding`.
    pub content_encoding: Option<Cow<'static, str>>,
    /// `properties.group-sequence`.
    pub group_sequence: Option<u32>,
    /// `properties.creation-time`.
    pub creation_time: Option<Timestamp>,
    /// `header.durable`.
    pub durable: Option<bool>,
    /// `header.priority`.
    pub priority: Option<u8>,
    /// `header.first-acquirer`.
    pub first_acquirer: Option<bool>,
    /// A request for the message to be on disk before it is accepted, which an HTTP sender may make.
    pub force_persistence: bool,
    /// Message annotations that the library does not define, in their order.
    pub annotations: Vec<(Cow<'static, str>, Value)>,
    /// The footer, in its order.
    pub footer: Vec<(Cow<'static, str>, Value)>,
}

impl PassThrough {
    /// The annotation that holds the AMQP 1.0 type of the `MessageId`: the symbol `ulong`, `uuid` or `binary`. Without it the id is a
    /// string.
    ///
    /// It is never sent to an AMQP 1.0 peer. Other transports and stores keep it like any annotation.
    pub const MESSAGE_ID_TYPE: &'static str = "x-opt-consign-message-id-type";

    /// The annotation that holds the AMQP 1.0 type of the `CorrelationId`, like [`MESSAGE_ID_TYPE`](Self::MESSAGE_ID_TYPE).
    pub const CORRELATION_ID_TYPE: &'static str = "x-opt-consign-correlation-id-type";

    /// The annotation that holds `properties.absolute-expiry-time`, which a broker returns unchanged and does not obey.
    ///
    /// It is never sent to an AMQP 1.0 peer as an annotation. Other transports and stores keep it like any annotation.
    pub const ABSOLUTE_EXPIRY_TIME: &'static str = "x-opt-consign-absolute-expiry-time";

    /// The annotation that holds the delivery annotations of the sender, a map. A server returns them with each delivery, as Azure
    /// Service Bus does.
    ///
    /// It is never sent to an AMQP 1.0 peer as an annotation. Other transports and stores keep it like any annotation.
    pub const DELIVERY_ANNOTATIONS: &'static str = "x-opt-consign-delivery-annotations";

    /// The annotation that is there, and null, if the sender has sent a message without a section for its body. A server delivers it
    /// without one.
    ///
    /// It is never sent to an AMQP 1.0 peer. Other transports and stores keep it like any annotation.
    pub const NO_BODY: &'static str = "x-opt-consign-no-body";

    /// The annotation that holds the application properties of a received message which are lists, maps or others that a property
    /// cannot be: a map with the name of each.
    ///
    /// An AMQP 1.0 peer gets them as application properties again. Other transports and stores keep it like any annotation.
    pub const APPLICATION_PROPERTIES: &'static str = "x-opt-consign-application-properties";

    /// Returns the value of the first annotation of this name.
    #[must_use]
    pub fn annotation(&self, name: &str) -> Option<&Value> {
        self.annotations.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    pub(super) fn size(&self) -> usize {
        let pairs = self.annotations.iter().chain(&self.footer);
        self.user_id.as_ref().map_or(0, Bytes::len)
            + self.content_encoding.as_ref().map_or(0, |text| text.len())
            + pairs.map(|(key, value)| key.len() + value.size()).sum::<usize>()
    }
}
