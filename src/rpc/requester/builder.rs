use std::{sync::Arc, time::Duration};

use super::{Handle, Requester, Settings};
use crate::{
    BuildError, BuildErrorKind,
    message::Properties,
    rpc::{Correlate, Replies, pending::Pending},
    transport::{Capabilities, Capability, ReplySource},
};

/// Collects what a [`Requester`] is made of.
#[derive(Debug)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct RequesterBuilder<S> {
    sender: S,
    timeout: Duration,
    max_in_flight: usize,
    correlate: Correlate,
    capabilities: Option<Capabilities>,
}

impl<S> RequesterBuilder<S> {
    /// How long a call waits by default: 30 seconds.
    pub const TIMEOUT: Duration = Duration::from_secs(30);
    /// How many calls may wait at once by default: 10,000.
    pub const MAX_IN_FLIGHT: usize = 10_000;

    pub(super) fn new(sender: S) -> Self {
        Self {
            sender,
            timeout: Self::TIMEOUT,
            max_in_flight: Self::MAX_IN_FLIGHT,
            correlate: Correlate::default(),
            capabilities: None,
        }
    }

    /// Sets how long a call waits whose request has no time to live of its own: at least a millisecond, by default
    /// [`TIMEOUT`](Self::TIMEOUT).
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets how many calls may wait at once, by default [`MAX_IN_FLIGHT`](Self::MAX_IN_FLIGHT). One more is refused as
    /// [`TooManyRequests`](crate::rpc::CallErrorKind::TooManyRequests), and its request is not sent.
    pub fn max_in_flight(mut self, calls: usize) -> Self {
        self.max_in_flight = calls;
        self
    }

    /// Sets which property the responders put into the `CorrelationId` of a reply. With [`Correlate::CorrelationId`] and
    /// [`Correlate::CorrelationIdOrMessageId`] the `CorrelationId` of the request has the id as well as its `MessageId`.
    pub fn correlate(mut self, by: Correlate) -> Self {
        self.correlate = by;
        self
    }

    /// Sets the capabilities of the transport of the requests. By default what the transport of the replies
    /// [can](crate::transport::Receiver::capabilities), which is the same one unless requests and replies travel over
    /// different brokers.
    ///
    /// Without [`Capability::TimeToLive`] the deadline of a request is its property
    /// [`x-timeout-ms`](Properties::TIMEOUT).
    pub fn capabilities(mut self, capabilities: Capabilities) -> Self {
        self.capabilities = Some(capabilities);
        self
    }

    /// Builds the requester, and the loop that receives its replies from `source`, which the caller
    /// has to run: `tokio::spawn(async move { replies.run().await })`.
    pub fn build<R: ReplySource>(self, source: R) -> Result<(Requester<S>, Replies<R>), BuildError> {
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
        let mut properties = Properties::new();
        properties.set_time_to_live(self.timeout)?;
        if let Some(session) = source.session_id() {
            properties.set_reply_to_session_id(session.to_owned())?;
        }
        let pending = Arc::new(Pending::new(self.max_in_flight));
        let settings = Settings {
            reply_to: source.address().into(),
            reply_to_session_id: source.session_id().map(Into::into),
            timeout: self.timeout,
            correlate: self.correlate,
            has_time_to_live: self
                .capabilities
                .unwrap_or_else(|| source.capabilities())
                .supports(Capability::TimeToLive),
        };
        let handle = Arc::new(Handle { pending: Arc::clone(&pending), settings });
        Ok((Requester { sender: self.sender, handle }, Replies::new(source, pending)))
    }
}
