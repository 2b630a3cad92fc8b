use std::fmt;

use serde::Serialize;

use crate::rpc::Correlate;

/// How a [`Responder`](super::Responder) replies, as data, and by `Display` as text for people. It has no types: a handler's type of
/// reply is not known.
///
/// Besides the replies to these requests, each message that the responder takes may be answered with a
/// [`Fault`](crate::rpc::Fault).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RepliesDescription {
    /// The subjects whose handlers reply, in the order in which they were added.
    pub subjects: Vec<String>,
    /// Whether the handler of all other messages replies.
    pub has_otherwise: bool,
    /// What is in the `CorrelationId` of a reply.
    pub correlate: Correlate,
    /// The subject of replies, if set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The ContentType of the bodies of faults. Without it they are empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault_content_type: Option<String>,
}

impl fmt::Display for RepliesDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "replies")?;
        for subject in &self.subjects {
            write!(f, "\n  to subject {subject:?}")?;
        }
        if self.has_otherwise {
            write!(f, "\n  to others")?;
        }
        let correlation = match self.correlate {
            Correlate::MessageIdOrCorrelationId => "MessageId, else CorrelationId",
            Correlate::MessageId => "MessageId",
            Correlate::CorrelationId => "CorrelationId",
            Correlate::CorrelationIdOrMessageId => "CorrelationId, else MessageId",
        };
        write!(f, "\n  CorrelationId: {correlation}")?;
        if let Some(subject) = &self.subject {
            write!(f, "\n  Subject: {subject:?}")?;
        }
        match &self.fault_content_type {
            Some(content_type) => write!(f, "\n  body of faults: {content_type}"),
            None => write!(f, "\n  body of faults: empty"),
        }
    }
}
