use std::sync::Arc;

use crate::{
    BuildError, BuildErrorKind,
    message::Properties,
    transport::{Capabilities, Capability, ReplySource},
};

/// Where replies go, which is stamped on each request.
#[derive(Clone)]
pub(super) struct ReplyAddress {
    pub(super) reply_to: Arc<str>,
    pub(super) session_id: Option<Arc<str>>,
    /// Whether the deadline is the time to live of the request.
    pub(super) has_time_to_live: bool,
}

impl ReplyAddress {
    /// That of a source. The capabilities are those of the transport of the requests, if they were given.
    pub(super) fn of<R: ReplySource>(source: &R, capabilities: Option<Capabilities>) -> Result<Self, BuildError> {
        if source.address().is_empty() {
            let advice = "the path of the entity for replies is empty";
            return Err(BuildError::new(BuildErrorKind::NoReplyAddress, advice));
        }
        if !source.is_exclusive() && source.session_id().is_none() {
            let advice =
                "a reply entity that others receive from needs sessions: use one of your own, or `ReplySession`";
            return Err(BuildError::new(BuildErrorKind::SharedWithoutSessions, advice));
        }
        // What is stamped on every request is checked once.
        if let Some(session) = source.session_id() {
            Properties::new().set_reply_to_session_id(session.to_owned())?;
        }
        let capabilities = capabilities.unwrap_or_else(|| source.capabilities());
        Ok(Self {
            reply_to: source.address().into(),
            session_id: source.session_id().map(Into::into),
            has_time_to_live: capabilities.supports(Capability::TimeToLive),
        })
    }
}
