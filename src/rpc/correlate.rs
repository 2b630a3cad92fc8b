/// What a responder puts into the `CorrelationId` of a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Correlate {
    /// The `MessageId` of the request.
    #[default]
    MessageId,
    /// The `CorrelationId` of the request: for peers that hand it on unchanged.
    CorrelationId,
    /// The `CorrelationId` of the request, or its `MessageId` if it has none.
    CorrelationIdOrMessageId,
}
