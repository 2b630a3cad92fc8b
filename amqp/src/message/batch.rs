use std::{error, fmt};

use bytes::Bytes;

use super::{
    Annotations, BATCH_FORMAT, BodyKind, BodySections, Data, EncodedMessage, FORMAT, MessageAnnotations, Properties,
};
use crate::{
    codec::{self, DecodeError, EncodeError, Limits},
    value::Symbol,
};

const PARTITION_KEYS: [&str; 2] = ["x-opt-partition-key", "x-opt-via-partition-key"];

/// A received batch: a message of the format [`BATCH_FORMAT`] whose data sections are one encoded message each. Messages are
/// split one by one, without copying them.
///
/// ```
/// use consign_amqp::message::{Batch, BatchBuilder, EncodedMessage};
///
/// let one = EncodedMessage::split([0x00, 0x53, 0x75, 0xa0, 1, b'1'].as_slice().into())?;
/// let mut builder = BatchBuilder::new(1_048_576);
/// builder.try_add(&one)?;
/// builder.try_add(&one)?;
/// let transfer = builder.build()?;
///
/// let batch = Batch::split(transfer.payload, 4_096)?;
/// assert_eq!(batch.len(), 2);
/// assert_eq!(batch.messages().next(), Some(Ok(one)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Batch {
    envelope: EncodedMessage,
    len: usize,
    limits: Limits,
}

impl Batch {
    /// Splits a batch of at most `max_messages`, with the default [`Limits`] for each message.
    ///
    /// The number of messages is counted before the first is split, and nothing is allocated for them.
    ///
    /// # Errors
    /// [`BatchError::Malformed`] if the payload is not a message, [`BatchError::NotData`] if its body is not data sections,
    /// [`BatchError::TooMany`] if there are more than `max_messages` of them.
    pub fn split(payload: Bytes, max_messages: usize) -> Result<Self, BatchError> {
        Self::split_with(payload, max_messages, Limits::default())
    }

    /// Splits a batch, with limits for each message.
    ///
    /// # Errors
    /// As [`Batch::split`].
    pub fn split_with(payload: Bytes, max_messages: usize, limits: Limits) -> Result<Self, BatchError> {
        let envelope = EncodedMessage::split_with(payload, limits).map_err(BatchError::Malformed)?;
        if envelope.body_kind() != Some(BodyKind::Data) {
            return Err(BatchError::NotData);
        }
        let mut len = 0;
        for data in envelope.data() {
            data.map_err(BatchError::Malformed)?;
            if len == max_messages {
                return Err(BatchError::TooMany { limit: max_messages });
            }
            len += 1;
        }
        Ok(Self { envelope, len, limits })
    }

    /// Returns the message around the messages: its properties and annotations are those of the first message.
    #[must_use]
    pub const fn envelope(&self) -> &EncodedMessage {
        &self.envelope
    }

    /// Returns the number of messages, at least 1.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a batch is never empty")]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Splits the messages, in order. It ends at the first that is malformed: the batch is refused as a whole.
    #[must_use]
    pub fn messages(&self) -> BatchMessages<'_> {
        BatchMessages { sections: Some(self.envelope.data()), next: 0, limits: self.limits }
    }
}

/// The messages of a [`Batch`].
#[derive(Debug)]
pub struct BatchMessages<'b> {
    sections: Option<BodySections<'b, Data>>,
    next: usize,
    limits: Limits,
}

impl Iterator for BatchMessages<'_> {
    type Item = Result<EncodedMessage, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        let section = self.sections.as_mut()?.next()?;
        let index = self.next;
        self.next += 1;
        let message = section.and_then(|Data(bytes)| EncodedMessage::split_with(bytes.0, self.limits));
        if message.is_err() {
            self.sections = None;
        }
        Some(message.map_err(|cause| BatchError::Message { index, cause }))
    }
}

/// Builds the payload of a batch, up to a size.
#[derive(Clone, Debug)]
pub struct BatchBuilder {
    max_size: usize,
    messages: Vec<Bytes>,
    envelope: Vec<u8>,
    size: usize,
    forced: bool,
}

/// The payload of a transfer, and its message format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchTransfer {
    /// [`BATCH_FORMAT`], or [`FORMAT`] for one message that is not batched.
    pub message_format: u32,
    /// The encoded batch or message.
    pub payload: Bytes,
}

impl BatchBuilder {
    /// Creates a batch of at most `max_size` bytes: the encoded envelope with all messages.
    #[must_use]
    pub const fn new(max_size: usize) -> Self {
        Self { max_size, messages: Vec::new(), envelope: Vec::new(), size: 0, forced: false }
    }

    /// Batches a message that is the only one, too. By default it is sent as it is.
    #[must_use]
    pub const fn force(mut self, forced: bool) -> Self {
        self.forced = forced;
        self
    }

    /// Appends a message, without delivery annotations at its end. The first one also makes the envelope, which has its message-id,
    /// group-id and partition keys.
    ///
    /// # Errors
    /// [`BatchError::Full`] if the batch would exceed its size, [`BatchError::Malformed`] if the properties or annotations of the
    /// first message are malformed. The batch is then unchanged.
    pub fn try_add(&mut self, message: &EncodedMessage) -> Result<(), BatchError> {
        let of_first = if self.messages.is_empty() { envelope_of(message)? } else { Vec::new() };
        let section = section_size(message.bytes().len());
        let size = self.size.saturating_add(of_first.len()).saturating_add(section);
        if size > self.max_size {
            return Err(BatchError::Full { limit: self.max_size });
        }
        if self.messages.is_empty() {
            self.envelope = of_first;
        }
        self.size = size;
        self.messages.push(message.bytes().clone());
        Ok(())
    }

    /// Returns the number of messages.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.messages.len()
    }

    /// Returns whether there is no message.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Returns the size of the batch in bytes: that of its envelope and its messages.
    #[must_use]
    pub const fn size(&self) -> usize {
        self.size
    }

    /// Returns the transfer. One message is not batched, unless that is [forced](Self::force).
    ///
    /// # Errors
    /// [`BatchError::Empty`] without a message.
    pub fn build(self) -> Result<BatchTransfer, BatchError> {
        if let ([message], false) = (self.messages.as_slice(), self.forced) {
            return Ok(BatchTransfer { message_format: FORMAT, payload: message.clone() });
        }
        if self.messages.is_empty() {
            return Err(BatchError::Empty);
        }
        let mut payload = self.envelope;
        payload.reserve(self.size.saturating_sub(payload.len()));
        for message in self.messages {
            codec::encode_into(&Data(message.into()), &mut payload).map_err(BatchError::Encode)?;
        }
        Ok(BatchTransfer { message_format: BATCH_FORMAT, payload: payload.into() })
    }
}

/// The bytes of a data section of so many bytes.
const fn section_size(bytes: usize) -> usize {
    // A descriptor of three bytes, a format code, and a size of one byte or of four.
    if bytes > 255 { bytes.saturating_add(8) } else { bytes + 5 }
}

/// The sections before the body of a batch whose first message this is.
fn envelope_of(first: &EncodedMessage) -> Result<Vec<u8>, BatchError> {
    let mut annotations = Annotations::default();
    let of_first = first.message_annotations().map_err(BatchError::Malformed)?.unwrap_or_default().0;
    for name in PARTITION_KEYS {
        if let Some(key) = of_first.get(name) {
            annotations.push(Symbol::from_static(name), key.clone());
        }
    }
    let mut out = Vec::new();
    if !annotations.0.is_empty() {
        codec::encode_into(&MessageAnnotations(annotations), &mut out).map_err(BatchError::Encode)?;
    }
    let of_first = first.properties().map_err(BatchError::Malformed)?.unwrap_or_default();
    if of_first.message_id.is_some() || of_first.group_id.is_some() {
        let Properties { message_id, group_id, .. } = of_first;
        let properties = Properties { message_id, group_id, ..Properties::default() };
        codec::encode_into(&properties, &mut out).map_err(BatchError::Encode)?;
    }
    Ok(out)
}

/// The refusal of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BatchError {
    /// The envelope is malformed.
    Malformed(DecodeError),
    /// The body of the envelope is not data sections.
    NotData,
    /// There are more messages than `limit`.
    TooMany {
        /// The most messages.
        limit: usize,
    },
    /// A message in the batch is malformed.
    Message {
        /// The number of the message, from 0.
        index: usize,
        /// Its error, whose offset counts from the start of the message.
        cause: DecodeError,
    },
    /// The message does not fit into the batch.
    Full {
        /// The largest size in bytes.
        limit: usize,
    },
    /// A batch has at least one message.
    Empty,
    /// A message is longer than AMQP 1.0 allows.
    Encode(EncodeError),
}

impl fmt::Display for BatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(cause) => write!(f, "the envelope of the batch is malformed: {cause}"),
            Self::NotData => f.write_str("the body of a batch is data sections"),
            Self::TooMany { limit } => write!(f, "the batch has more than {limit} messages"),
            Self::Message { index, cause } => write!(f, "message {index} of the batch is malformed: {cause}"),
            Self::Full { limit } => write!(f, "the batch would be larger than {limit} bytes"),
            Self::Empty => f.write_str("a batch has at least one message"),
            Self::Encode(cause) => fmt::Display::fmt(cause, f),
        }
    }
}

impl error::Error for BatchError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Malformed(cause) | Self::Message { cause, .. } => Some(cause),
            Self::Encode(cause) => Some(cause),
            Self::NotData | Self::TooMany { .. } | Self::Full { .. } | Self::Empty => None,
        }
    }
}
