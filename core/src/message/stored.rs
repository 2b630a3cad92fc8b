//! A message as a broker stores it.

use std::{
    fmt,
    sync::{Arc, LazyLock},
};

use super::{Content, InvalidArgument, Message, MessageBody, Properties, Received};

/// The message as a broker stores it: one pointer.
#[derive(Clone)]
#[doc(hidden)]
pub struct Stored(Arc<Content>);

impl Stored {
    /// Whether no value has more levels than it may have.
    #[inline]
    #[doc(hidden)]
    pub fn check_levels(&self) -> Result<(), InvalidArgument> {
        self.0.check_levels()
    }

    #[doc(hidden)]
    #[must_use]
    pub fn new(message: Message) -> Self {
        Self(message.without_extensions().content)
    }

    /// Returns a placeholder for a message that is not in memory.
    #[doc(hidden)]
    pub fn away() -> Self {
        static AWAY: LazyLock<Stored> = LazyLock::new(|| Stored::new(Message::new("")));
        AWAY.clone()
    }

    /// The message as it is delivered: one reference count.
    #[inline]
    #[doc(hidden)]
    #[must_use]
    pub fn deliver(&self, received: Received) -> Message {
        Message { content: Arc::clone(&self.0), received: Some(received) }
    }

    #[doc(hidden)]
    #[must_use]
    pub fn size(&self) -> usize {
        self.0.properties.size() + self.0.body.size()
    }

    #[doc(hidden)]
    #[must_use]
    pub fn properties(&self) -> &Properties {
        &self.0.properties
    }

    #[doc(hidden)]
    pub fn properties_mut(&mut self) -> &mut Properties {
        &mut Arc::make_mut(&mut self.0).properties
    }

    /// The message as it was stored.
    #[doc(hidden)]
    #[must_use]
    pub fn into_message(self) -> Message {
        Message { content: self.0, received: None }
    }

    #[inline]
    #[doc(hidden)]
    #[must_use]
    pub fn body(&self) -> &MessageBody {
        &self.0.body
    }

    #[inline]
    #[doc(hidden)]
    #[must_use]
    pub fn dead_letter_source(&self) -> Option<&str> {
        self.0.dead_letter_source.as_deref()
    }

    #[doc(hidden)]
    pub fn set_dead_letter_source(&mut self, path: &str) {
        Arc::make_mut(&mut self.0).dead_letter_source = Some(path.into());
    }

    #[inline]
    #[doc(hidden)]
    pub fn clear_dead_letter_source(&mut self) {
        if self.0.dead_letter_source.is_some() {
            Arc::make_mut(&mut self.0).dead_letter_source = None;
        }
    }
}

impl fmt::Debug for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stored").field(&self.properties().message_id()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Field, Problem, Value};

    #[test]
    fn a_stored_message_has_the_source_of_a_dead_letter_until_it_is_cleared() {
        let mut stored = Stored::new(Message::new("body").with_dead_letter_source("orders/$deadletterqueue"));
        assert_eq!(stored.dead_letter_source(), Some("orders/$deadletterqueue"));
        stored.set_dead_letter_source("audit/$deadletterqueue");
        assert_eq!(stored.dead_letter_source(), Some("audit/$deadletterqueue"));
        stored.clear_dead_letter_source();
        assert_eq!(stored.dead_letter_source(), None);
    }

    /// Rules: V-220.
    #[test]
    fn a_stored_value_has_at_most_32_levels() {
        let nested = |levels| (1..levels).fold(Value::from(1), |value, _| Value::List(vec![value]));
        let messages = |levels| {
            let mut annotated = Message::new("body");
            let annotation = ("name".into(), nested(levels));
            annotated.properties_mut().pass_through_mut().annotations.push(annotation);
            let mut with_footer = Message::new("body");
            let entry = ("name".into(), nested(levels));
            with_footer.properties_mut().pass_through_mut().footer.push(entry);
            let sequence = MessageBody::Sequence([vec![Value::from(1), nested(levels)]].into());
            [Message::new(nested(levels)), Message::new(sequence), annotated, with_footer]
        };
        for message in messages(32).into_iter().chain([Message::new("body")]) {
            assert_eq!(Stored::new(message).check_levels(), Ok(()));
        }
        for message in messages(33) {
            let error = Stored::new(message).check_levels().unwrap_err();
            assert_eq!((error.field(), error.problem()), (&Field::Message, &Problem::TooDeep { limit: 32 }));
        }
    }
}
