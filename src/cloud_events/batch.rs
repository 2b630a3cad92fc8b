use super::{CloudEvent, CloudEventError, structured};
use crate::{
    Message,
    routing::{Context, FromMessage},
};

/// Events that travel in one message: a JSON array, by the ContentType `application/cloudevents-batch+json`. It may be
/// empty.
///
/// ```
/// use consign::cloud_events::{CloudEvent, CloudEventBatch};
///
/// let events = ["1", "2"].map(|id| CloudEvent::new(id, "/sensors", "com.example.reading"));
/// let batch: CloudEventBatch = events.into_iter().collect::<Result<_, _>>()?;
/// let message = batch.to_message()?;
/// assert_eq!(message.content_type(), Some("application/cloudevents-batch+json; charset=utf-8"));
///
/// let read = CloudEventBatch::from_message(&message)?;
/// assert_eq!(read.iter().map(CloudEvent::id).collect::<Vec<_>>(), ["1", "2"]);
/// # Ok::<(), consign::cloud_events::CloudEventError>(())
/// ```
///
/// As an argument of a handler it also takes a single event in either mode, as a batch of one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CloudEventBatch(Vec<CloudEvent>);

impl CloudEventBatch {
    /// A batch of these events, in their order.
    #[must_use]
    pub fn new(events: Vec<CloudEvent>) -> Self {
        Self(events)
    }

    /// Returns the events.
    #[must_use]
    pub fn events(&self) -> &[CloudEvent] {
        &self.0
    }

    /// The events, by value.
    #[must_use]
    pub fn into_events(self) -> Vec<CloudEvent> {
        self.0
    }

    /// Returns the events, in their order.
    pub fn iter(&self) -> std::slice::Iter<'_, CloudEvent> {
        self.0.iter()
    }

    /// Reads the batch of a message. A message that is a single event, in either mode, is a batch of one.
    ///
    /// # Errors
    ///
    /// [`CloudEventError::InBatch`] names the first event that cannot be read; none of the others is returned. Otherwise as
    /// [`CloudEvent::from_message`].
    pub fn from_message(message: &Message) -> Result<Self, CloudEventError> {
        match message.content_type().map(structured::kind) {
            Some(Some(structured::Kind::Batch)) => structured::read_batch(message).map(Self),
            _ => CloudEvent::from_message(message).map(|event| Self(vec![event])),
        }
    }

    /// Returns a message with all events in its body. It has no MessageId and no Subject yet.
    ///
    /// # Errors
    ///
    /// [`CloudEventError::InBatch`] names the first event that cannot be written.
    pub fn to_message(&self) -> Result<Message, CloudEventError> {
        structured::write_batch(&self.0)
    }
}

impl From<Vec<CloudEvent>> for CloudEventBatch {
    fn from(events: Vec<CloudEvent>) -> Self {
        Self(events)
    }
}

impl FromIterator<CloudEvent> for CloudEventBatch {
    fn from_iter<I: IntoIterator<Item = CloudEvent>>(events: I) -> Self {
        Self(events.into_iter().collect())
    }
}

impl IntoIterator for CloudEventBatch {
    type Item = CloudEvent;
    type IntoIter = std::vec::IntoIter<CloudEvent>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'b> IntoIterator for &'b CloudEventBatch {
    type Item = &'b CloudEvent;
    type IntoIter = std::slice::Iter<'b, CloudEvent>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Reads as [`CloudEventBatch::from_message`]. Any other message is dead-lettered.
impl<S, C> FromMessage<S, C> for CloudEventBatch {
    type Rejection = CloudEventError;

    fn from_message(message: &Message, _: &Context<S, C>) -> Result<Self, CloudEventError> {
        Self::from_message(message)
    }
}
