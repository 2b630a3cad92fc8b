use std::{sync::Arc, time::Duration};

use super::{Handle, Requester, Settings};
use crate::{
    BuildError,
    message::Properties,
    rpc::{Correlate, Replies, address::ReplyAddress, pending::Pending},
    transport::{Capabilities, ReplySource},
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
    /// Without [`Capability::TimeToLive`](crate::transport::Capability::TimeToLive) the deadline of a request is its property
    /// [`x-timeout-ms`](Properties::TIMEOUT).
    pub fn capabilities(mut self, capabilities: Capabilities) -> Self {
        self.capabilities = Some(capabilities);
        self
    }

    /// Builds the requester, and the loop that receives its replies from `source`, which the caller
    /// has to run: `tokio::spawn(async move { replies.run().await })`.
    pub fn build<R: ReplySource>(self, source: R) -> Result<(Requester<S>, Replies<R>), BuildError> {
        let address = ReplyAddress::of(&source, self.capabilities)?;
        // What is stamped on every request is checked once.
        Properties::new().set_time_to_live(self.timeout)?;
        let pending = Arc::new(Pending::new(self.max_in_flight, address));
        let settings = Settings { timeout: self.timeout, correlate: self.correlate };
        let handle = Arc::new(Handle { pending: Arc::clone(&pending), settings });
        Ok((Requester { sender: self.sender, handle }, Replies::new(source, pending, self.capabilities)))
    }
}
