/// The property that a responder puts into the `CorrelationId` of a reply.
///
/// An id that a [broker has made](crate::message::Properties::is_message_id_stamped) counts as none: the requester does not
/// know it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize)]
#[non_exhaustive]
pub enum Correlate {
    /// The `MessageId` of the request if its sender set one, or else its `CorrelationId`, as clients of AMQP 0-9-1 and NATS
    /// set it.
    #[default]
    MessageIdOrCorrelationId,
    /// The `MessageId` of the request.
    MessageId,
    /// The `CorrelationId` of the request, for requesters that expect it unchanged.
    CorrelationId,
    /// The `CorrelationId` of the request, or its `MessageId` if it has none.
    CorrelationIdOrMessageId,
}

impl Correlate {
    /// Whether a requester writes its id into the `CorrelationId` of the request too.
    pub(super) fn is_by_correlation_id(self) -> bool {
        matches!(self, Self::CorrelationId | Self::CorrelationIdOrMessageId)
    }

    /// The properties that are read, for people.
    pub(super) fn expected(self) -> &'static str {
        match self {
            Self::MessageId => "MessageId",
            Self::CorrelationId => "CorrelationId",
            Self::MessageIdOrCorrelationId | Self::CorrelationIdOrMessageId => "MessageId or CorrelationId",
        }
    }
}
