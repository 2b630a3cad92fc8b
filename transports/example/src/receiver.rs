use std::{
    future::{Ready, ready},
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use consign_core::{
    Disposition,
    time::Timestamp,
    transport::{
        Capabilities, Capability, Delivery, EntityInfo, Lease, ReceiveError, Receiver, SettleError, Unsupported,
    },
};

use crate::{
    Channels,
    queue::{Entry, Part, Queue, ReceiverId},
};

/// Receives from a queue or its dead-letter sub-queue.
#[derive(Debug)]
pub struct ChannelReceiver {
    queue: Arc<Queue>,
    part: Part,
    id: ReceiverId,
    is_waiting: bool,
}

/// The right to settle one delivery. Dropping it abandons the message.
#[derive(Debug)]
pub struct ChannelLease {
    queue: Arc<Queue>,
    part: Part,
    /// `None` once the message is settled.
    entry: Option<Entry>,
}

impl ChannelReceiver {
    pub(crate) fn new(queue: Arc<Queue>, part: Part) -> Self {
        let id = queue.receiver_id();
        Self { queue, part, id, is_waiting: false }
    }
}

impl Receiver for ChannelReceiver {
    type Lease = ChannelLease;

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<ChannelLease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        self.is_waiting = true;
        let entries = ready!(self.queue.poll_receive(self.part, self.id, max, cx));
        self.is_waiting = false;
        let (queue, part, entries) = (&self.queue, self.part, entries?);
        let count = entries.len();
        out.extend(entries.into_iter().map(|entry| Delivery {
            message: entry.delivered(part),
            lease: ChannelLease { queue: Arc::clone(queue), part, entry: Some(entry) },
        }));
        Poll::Ready(Ok(count))
    }

    fn stop(&mut self) {
        if std::mem::take(&mut self.is_waiting) {
            self.queue.stop_waiting(self.part, self.id);
        }
    }

    fn capabilities(&self) -> Capabilities {
        Channels::CAPABILITIES
    }

    fn entity_info(&self) -> EntityInfo {
        match self.part {
            Part::Main => {
                EntityInfo::new(self.queue.path.as_str()).max_delivery_count(self.queue.settings.max_delivery_count)
            }
            Part::DeadLetters => EntityInfo::new(self.queue.path.dead_letter().as_str()),
        }
    }
}

impl Drop for ChannelReceiver {
    fn drop(&mut self) {
        self.stop();
    }
}

impl ChannelLease {
    fn end(&mut self, disposition: Option<Disposition>) -> Result<(), SettleError> {
        self.entry.take().map_or(Ok(()), |entry| self.queue.settle(self.part, entry, disposition))
    }
}

impl Lease for ChannelLease {
    type Settle = Ready<Result<(), SettleError>>;
    type Renew = Ready<Result<Timestamp, SettleError>>;

    fn settle(mut self, disposition: Disposition) -> Self::Settle {
        ready(self.end(Some(disposition)))
    }

    fn release(mut self) -> Self::Settle {
        ready(self.end(None))
    }

    fn renew(&self) -> Self::Renew {
        ready(Err(Unsupported::new(Capability::LockRenewal).into()))
    }

    fn lock_duration(&self) -> Option<Duration> {
        None
    }

    fn must_settle(&self) -> bool {
        true
    }
}

impl Drop for ChannelLease {
    fn drop(&mut self) {
        // A lock that is lost with its queue has nothing to abandon.
        let _ = self.end(Some(Disposition::ABANDON));
    }
}
