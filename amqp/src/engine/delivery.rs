use bytes::{Bytes, BytesMut};

use super::{DeliveryId, LinkId};
use crate::{
    types::{DeliveryState, ReceiverSettleMode},
    value::Binary,
};

/// A delivery that was received completely.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Delivery {
    /// The receiving link.
    pub link: LinkId,
    /// Names the delivery in [`Connection::settle`](super::Connection::settle).
    pub id: DeliveryId,
    /// The delivery tag, at most 32 bytes. Empty if the sender left it out.
    pub tag: Binary,
    /// The message format. 0 if the sender left it out.
    pub format: u32,
    /// Whether the sender has settled it. It is then not tracked, and cannot be settled.
    pub settled: bool,
    /// The state at the sender, such as a transactional state.
    pub state: Option<DeliveryState>,
    /// Overrides the settle mode of the link.
    pub receiver_settle_mode: Option<ReceiverSettleMode>,
    /// Whether the receiver may delay its answer.
    pub batchable: bool,
    /// The message.
    pub payload: Payload,
}

/// The bytes of a message, in one or several pieces. Pieces of at least 4,096 bytes, and all of a message in one frame, are slices of
/// the input.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Payload {
    first: Bytes,
    rest: Vec<Bytes>,
}

impl Payload {
    /// Returns the number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.first.len() + self.rest.iter().map(Bytes::len).sum::<usize>()
    }

    /// Returns whether there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the pieces in order.
    pub fn chunks(&self) -> impl Iterator<Item = &Bytes> {
        std::iter::once(&self.first).chain(&self.rest)
    }

    /// Returns the bytes in one piece. Only a message of several frames is copied.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        if self.rest.is_empty() {
            return self.first;
        }
        let mut whole = BytesMut::with_capacity(self.len());
        for chunk in self.chunks() {
            whole.extend_from_slice(chunk);
        }
        whole.freeze()
    }

    pub(super) fn push(&mut self, chunk: Bytes) {
        if self.first.is_empty() {
            self.first = chunk;
        } else {
            self.rest.push(chunk);
        }
    }
}

impl From<Bytes> for Payload {
    fn from(bytes: Bytes) -> Self {
        Self { first: bytes, rest: Vec::new() }
    }
}

/// Shows the number of bytes only.
impl std::fmt::Debug for Payload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Payload({} bytes)", self.len())
    }
}

/// The fields of a delivery to send. The payload is given beside it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OutboundDelivery {
    /// The delivery tag, at most 32 bytes, unique among the unsettled deliveries of the link.
    pub tag: Binary,
    /// The message format, such as [`message::FORMAT`](crate::message::FORMAT).
    pub format: u32,
    /// Whether it is settled as it is sent. It is then not tracked.
    pub settled: bool,
    /// The state at the sender, such as a transactional state.
    pub state: Option<DeliveryState>,
    /// Overrides the settle mode of the link.
    pub receiver_settle_mode: Option<ReceiverSettleMode>,
    /// Whether the receiver may delay its answer.
    pub batchable: bool,
}
