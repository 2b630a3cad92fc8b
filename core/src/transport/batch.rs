use std::{error, fmt};

use super::{ErrorKind, SendError};
use crate::Message;

/// Messages that are sent as one transfer: the broker accepts all of them, or none.
///
/// A batch with a maximum size is filled with [`try_add`](Self::try_add):
///
/// ```
/// use consign::{Message, transport::{Batch, BatchFull}};
///
/// /// Distributes messages to batches of at most `max_size` bytes.
/// fn batches(messages: Vec<Message>, max_size: usize) -> Result<Vec<Batch>, BatchFull> {
///     let (mut full, mut batch) = (Vec::new(), Batch::with_max_size(max_size));
///     for message in messages {
///         if let Err(error) = batch.try_add(message) {
///             full.push(std::mem::replace(&mut batch, Batch::with_max_size(max_size)));
///             // An error here: the message fits into no batch.
///             batch.try_add(error.into_message())?;
///         }
///     }
///     full.push(batch);
///     Ok(full)
/// }
///
/// let batches = batches(vec![Message::new("0123456789"); 5], 25)?;
/// assert_eq!(batches.iter().map(Batch::len).collect::<Vec<_>>(), [2, 2, 1]);
/// # Ok::<(), BatchFull>(())
/// ```
///
/// The limit is that of the transport, such as `QueueSender::MAX_BATCH` of the embedded broker, or of the entity. The
/// transport checks it again. A batch from a `Vec`, an array or an iterator has no maximum size of its own.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    messages: Vec<Message>,
    max_size: Option<usize>,
    /// `None` if the messages may have changed since they were added up.
    size: Option<usize>,
}

impl Batch {
    /// Creates an empty batch without a maximum size.
    #[must_use]
    pub const fn new() -> Self {
        Self { messages: Vec::new(), max_size: None, size: None }
    }

    /// Creates an empty batch of at most `bytes`, bodies and properties of all messages together.
    #[must_use]
    pub const fn with_max_size(bytes: usize) -> Self {
        Self { messages: Vec::new(), max_size: Some(bytes), size: None }
    }

    /// Adds a message at the end.
    ///
    /// # Errors
    ///
    /// The batch would be larger than its maximum size. The error returns the message, and the batch is unchanged. A message
    /// that does not fit into an empty batch fits into none.
    pub fn try_add(&mut self, message: Message) -> Result<(), BatchFull> {
        let size = self.size.unwrap_or_else(|| self.size()).saturating_add(message.size());
        if let Some(max_size) = self.max_size.filter(|&max_size| size > max_size) {
            return Err(BatchFull { message, size, max_size });
        }
        self.size = Some(size);
        self.messages.push(message);
        Ok(())
    }

    /// Returns the number of messages.
    #[must_use]
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Returns whether the batch has no message.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Returns the bytes of all messages: bodies and properties.
    #[must_use]
    pub fn size(&self) -> usize {
        self.messages.iter().fold(0, |sum, message| sum.saturating_add(message.size()))
    }

    /// Returns the maximum size, in bytes.
    #[must_use]
    pub const fn max_size(&self) -> Option<usize> {
        self.max_size
    }

    /// Returns the messages.
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Returns the messages.
    #[must_use]
    pub fn into_messages(self) -> Vec<Message> {
        self.messages
    }

    pub(super) fn messages_mut(&mut self) -> &mut [Message] {
        self.size = None;
        &mut self.messages
    }
}

impl From<Vec<Message>> for Batch {
    fn from(messages: Vec<Message>) -> Self {
        Self { messages, ..Self::new() }
    }
}

impl<const N: usize> From<[Message; N]> for Batch {
    fn from(messages: [Message; N]) -> Self {
        Vec::from(messages).into()
    }
}

impl FromIterator<Message> for Batch {
    fn from_iter<I: IntoIterator<Item = Message>>(messages: I) -> Self {
        messages.into_iter().collect::<Vec<_>>().into()
    }
}

/// A message that does not fit into a [`Batch`]; see [`Batch::try_add`].
#[derive(Clone, Debug)]
pub struct BatchFull {
    message: Message,
    size: usize,
    max_size: usize,
}

impl BatchFull {
    /// Returns the message.
    #[must_use]
    pub fn message(&self) -> &Message {
        &self.message
    }

    /// Returns the message, for another batch.
    #[must_use]
    pub fn into_message(self) -> Message {
        self.message
    }
}

impl fmt::Display for BatchFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the batch would have {} bytes, the limit is {}", self.size, self.max_size)
    }
}

impl error::Error for BatchFull {}

impl From<BatchFull> for SendError {
    fn from(error: BatchFull) -> Self {
        Self::new(ErrorKind::MessageSizeExceeded).with_detail(error.to_string()).with_source(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::SendRequest;

    fn bytes(bytes: usize) -> Message {
        Message::new(vec![0; bytes])
    }

    #[test]
    fn try_add_refuses_a_message_over_the_limit_and_returns_it() {
        let mut batch = Batch::with_max_size(100);
        assert_eq!((batch.is_empty(), batch.max_size()), (true, Some(100)));
        batch.try_add(bytes(40)).unwrap();
        assert!(!batch.is_empty());
        batch.try_add(bytes(60)).unwrap();
        let error = batch.try_add(bytes(1)).unwrap_err();
        assert_eq!(error.to_string(), "the batch would have 101 bytes, the limit is 100");
        assert_eq!((error.message().size(), error.clone().into_message().size()), (1, 1));
        assert_eq!(SendError::from(error).kind(), ErrorKind::MessageSizeExceeded);
        assert_eq!((batch.len(), batch.size()), (2, 100));
        // It is not full for a message without bytes.
        batch.try_add(bytes(0)).unwrap();
    }

    #[test]
    fn properties_that_a_layer_adds_count() {
        let mut batch = Batch::with_max_size(100);
        batch.try_add(bytes(50)).unwrap();
        for properties in batch.all_properties_mut() {
            properties.set_to("0123456789");
        }
        assert!(batch.size() > 50);
        batch.try_add(bytes(50)).unwrap_err();
    }

    #[test]
    fn a_batch_of_messages_has_no_limit() {
        let mut batch: Batch = [bytes(1), bytes(2)].into_iter().collect();
        batch.try_add(bytes(1_000)).unwrap();
        let sizes: Vec<_> = batch.into_messages().iter().map(Message::size).collect();
        assert_eq!(sizes, [1, 2, 1_000]);
    }
}
