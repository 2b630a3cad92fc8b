use std::task::{Context, Poll};

use consign_core::transport::{Capabilities, Delivery, EntityInfo, ReceiveError, Receiver, ReplySource};

use crate::{Amqp10Lease, Amqp10Receiver};

/// Replies at an address that the broker has made: [`Amqp10::dynamic_replies`](crate::Amqp10::dynamic_replies). A
/// [`ReplySource`] for `consign::rpc`.
///
/// The address ends with its connection. A receive then returns `CommunicationProblem`, which is not retryable: replies that are in
/// transit are lost, and a new source has another address.
#[derive(Debug)]
pub struct Amqp10Replies {
    receiver: Amqp10Receiver,
    address: String,
}

impl Amqp10Replies {
    pub(crate) fn new(receiver: Amqp10Receiver, address: String) -> Self {
        Self { receiver, address }
    }
}

impl Receiver for Amqp10Replies {
    type Lease = Amqp10Lease;

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<Amqp10Lease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        self.receiver.poll_receive(cx, max, out)
    }

    fn stop(&mut self) {
        self.receiver.stop();
    }

    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.receiver.poll_stopped(cx)
    }

    fn capabilities(&self) -> Capabilities {
        self.receiver.capabilities()
    }

    fn entity_info(&self) -> EntityInfo {
        EntityInfo::new(self.address.as_str())
    }
}

impl ReplySource for Amqp10Replies {
    fn address(&self) -> &str {
        &self.address
    }

    fn session_id(&self) -> Option<&str> {
        None
    }

    fn is_exclusive(&self) -> bool {
        true
    }
}
