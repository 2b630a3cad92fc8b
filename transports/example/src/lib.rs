#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod administration;
mod queue;
mod receiver;

use std::{
    collections::BTreeMap,
    future::{Ready, ready},
    sync::Arc,
};

use consign_core::{
    Message,
    message::EntityPath,
    time::SystemClock,
    transport::{
        Batch, BoxFuture, Capabilities, Capability, ConnectError, Connector, DynTransport, ErrorKind, Level,
        ReceiveError, ReceiveMode, SendError, Sender, Transport, TransportUrl, Unsupported,
    },
};
use parking_lot::Mutex;

pub use self::receiver::{ChannelLease, ChannelReceiver};
use crate::queue::{Part, Queue};

/// Queues in the memory of this process. Clones share them; the queues end with the last clone, sender, receiver and lease.
#[derive(Clone, Debug)]
pub struct Channels {
    /// By path, in lower case: case does not matter in a path.
    queues: Arc<Mutex<BTreeMap<String, Arc<Queue>>>>,
    clock: Arc<SystemClock>,
}

/// Sends to a queue. A send has ended when it returns.
#[derive(Clone, Debug)]
pub struct ChannelSender(Arc<Queue>);

impl Channels {
    /// The capabilities of this transport. What is not listed is refused as
    /// [`NotSupported`](consign_core::transport::ErrorKind::NotSupported) and has no effect, except that a refused settlement
    /// abandons the message.
    pub const CAPABILITIES: Capabilities = Capabilities::none()
        .with_each(
            &[
                Capability::Acceptance,
                Capability::Rejection,
                Capability::PeekLock,
                Capability::LockFencing,
                Capability::SettleElsewhere,
                Capability::DeliveryCount,
                Capability::MaxDeliveryCount,
                Capability::DeadLetterReason,
                Capability::DeadLetterIntact,
                Capability::SequenceNumbers,
                Capability::EnqueuedTime,
                Capability::AbandonInPlace,
                Capability::Release,
                Capability::Prefetch,
                Capability::LargeMessages,
            ],
            Level::Native,
        )
        .with(Capability::RequestReply, Level::Emulated);

    /// Creates a transport without queues.
    #[must_use]
    pub fn new() -> Self {
        Self { queues: Arc::default(), clock: Arc::new(SystemClock::new()) }
    }

    fn find(&self, path: &EntityPath) -> Option<(Arc<Queue>, Part)> {
        if path.is_transfer_dead_letter() {
            return None;
        }
        let part = if path.is_dead_letter() { Part::DeadLetters } else { Part::Main };
        let queue = self.queues.lock().get(&key(&path.parent())).cloned()?;
        Some((queue, part))
    }
}

fn key(path: &EntityPath) -> String {
    path.as_str().to_lowercase()
}

impl Default for Channels {
    fn default() -> Self {
        Self::new()
    }
}

impl Transport for Channels {
    type Sender = ChannelSender;
    type Lease = ChannelLease;
    type Receiver = ChannelReceiver;

    fn capabilities(&self) -> Capabilities {
        Channels::CAPABILITIES
    }

    async fn sender(&self, path: &EntityPath) -> Result<ChannelSender, SendError> {
        match self.find(path) {
            Some((queue, Part::Main)) => Ok(ChannelSender(queue)),
            Some((_, Part::DeadLetters)) => {
                Err(SendError::new(ErrorKind::InvalidOperation).with_detail("only dead-lettering sends to a sub-queue"))
            }
            None => Err(SendError::new(ErrorKind::EntityNotFound).with_detail(path.to_string())),
        }
    }

    async fn receiver(&self, path: &EntityPath, mode: ReceiveMode) -> Result<ChannelReceiver, ReceiveError> {
        if mode == ReceiveMode::ReceiveAndDelete {
            return Err(Unsupported::new(Capability::ReceiveAndDelete).into());
        }
        let found = self.find(path).map(|(queue, part)| ChannelReceiver::new(queue, part));
        found.ok_or_else(|| ReceiveError::new(ErrorKind::EntityNotFound).with_detail(path.to_string()))
    }
}

impl Sender for ChannelSender {
    type Send = Ready<Result<(), SendError>>;

    fn send(&self, message: Message) -> Self::Send {
        ready(self.0.send(&[message]))
    }

    fn send_batch(&self, batch: Batch) -> Self::Send {
        ready(self.0.send(batch.messages()))
    }

    fn capabilities(&self) -> Capabilities {
        Channels::CAPABILITIES
    }
}

impl From<Channels> for DynTransport {
    fn from(channels: Channels) -> Self {
        Self::builder(channels.clone()).administration().extension(channels).build()
    }
}

/// Returns the connector of `channel:`. Each call makes new queues.
#[must_use]
pub fn connector() -> impl Connector {
    ChannelConnector
}

struct ChannelConnector;

impl Connector for ChannelConnector {
    fn schemes(&self) -> &'static [&'static str] {
        &["channel"]
    }

    fn connect(&self, url: TransportUrl) -> BoxFuture<Result<DynTransport, ConnectError>> {
        Box::pin(async move {
            url.finish()?;
            if !url.address().is_empty() {
                return Err(ConnectError::invalid_url("expected `channel:` with nothing after it"));
            }
            Ok(Channels::new().into())
        })
    }
}

#[cfg(doctest)]
#[doc = include_str!("../../../docs/writing-a-transport.md")]
struct WritingATransport;
