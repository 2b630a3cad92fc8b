use std::time::Duration;

use consign_codecs::{Trail, TrailEntry};

use super::{RESUBMIT_COUNT, show::BodyShown};
use crate::{
    Message,
    message::{Properties, PropertyValue, Received, SequenceNumber},
    settlement::DeadLetter,
    time::Timestamp,
};

/// A dead letter with its reason, source and history. A part that is missing or unreadable is left out.
///
/// `Display` is a few lines for people: text from elsewhere is escaped and cut, and of the body there is the size alone.
#[derive(Clone)]
pub struct Explained {
    message: Message,
    now: Timestamp,
    attempts: Vec<TrailEntry>,
    trail_unreadable: bool,
}

impl Explained {
    /// Explains a message, whatever is in it. Ages are counted to `now`.
    #[must_use]
    pub fn new(message: Message, now: Timestamp) -> Self {
        let (attempts, trail_unreadable) = match message.application_properties().get(DeadLetter::TRAIL) {
            Some(trail) => trail.as_str().map_or((Vec::new(), true), attempts),
            None => (Vec::new(), false),
        };
        Self { message, now, attempts, trail_unreadable }
    }

    /// Returns the message, with its body.
    #[must_use]
    pub fn message(&self) -> &Message {
        &self.message
    }

    /// The message, with its body.
    #[must_use]
    pub fn into_message(self) -> Message {
        self.message
    }

    /// Returns the number by which an operator can look it up: the one that it had in its queue. 0 if the transport has
    /// none.
    #[must_use]
    pub fn sequence_number(&self) -> SequenceNumber {
        self.received().map_or_else(SequenceNumber::default, |received| received.sequence_number)
    }

    /// Returns the reason code of the dead letter. `None` without one, or if the value is not
    /// text.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.message.dead_letter_reason()
    }

    /// Returns the description of the dead letter.
    #[must_use]
    pub fn description(&self) -> Option<&str> {
        self.message.dead_letter_description()
    }

    /// Returns the attempts to decode its body, in order: those that can be read of the property
    /// [`x-decode-trail`](DeadLetter::TRAIL).
    #[must_use]
    pub fn attempts(&self) -> &[TrailEntry] {
        &self.attempts
    }

    /// Returns whether a part of the trail cannot be read.
    #[must_use]
    pub fn is_trail_unreadable(&self) -> bool {
        self.trail_unreadable
    }

    /// Returns when its queue accepted it, if the transport reports that.
    #[must_use]
    pub fn enqueued_time(&self) -> Option<Timestamp> {
        self.received()?.known_enqueued_time()
    }

    /// Returns how long ago its queue accepted it. The time of the dead-lettering is not known.
    #[must_use]
    pub fn age(&self) -> Option<Duration> {
        Some(self.now.saturating_since(self.enqueued_time()?))
    }

    /// Returns how many deliveries have failed.
    #[must_use]
    pub fn failed_deliveries(&self) -> Option<u32> {
        let received = self.received()?;
        Some(received.delivery_count - u32::from(received.locked_until.is_some() && received.delivery_count > 0))
    }

    /// Returns the entity that dead-lettered it, if it was forwarded from there.
    #[must_use]
    pub fn source(&self) -> Option<&str> {
        self.message.dead_letter_source()
    }

    /// Returns the `MessageId` that it was sent under first; see [`Properties::original_message_id`].
    #[must_use]
    pub fn original_message_id(&self) -> Option<&str> {
        self.message.original_message_id()
    }

    /// Returns how often it was resubmitted: the property [`RESUBMIT_COUNT`]. A value that is not a number
    /// is 0.
    #[must_use]
    pub fn resubmit_count(&self) -> u32 {
        resubmit_count(self.message.properties())
    }

    /// `Display` with the first `max` bytes of the body, escaped. It may be secret.
    #[must_use]
    pub fn with_body(&self, max: usize) -> impl std::fmt::Display {
        BodyShown::new(self, max)
    }

    fn received(&self) -> Option<&Received> {
        self.message.received()
    }
}

/// What can be read of a trail, and whether that is not all of it.
fn attempts(text: &str) -> (Vec<TrailEntry>, bool) {
    if let Ok(trail) = text.parse::<Trail>() {
        return (trail.entries().to_vec(), false);
    }
    let mut read = Vec::new();
    for entry in text.split(',').take(Trail::MAX_ENTRIES) {
        read.extend(entry.parse::<Trail>().unwrap_or_default().entries().iter().cloned());
    }
    (read, true)
}

/// A broker on the way may have made text, or another type, of the number.
pub(super) fn resubmit_count(properties: &Properties) -> u32 {
    let count = properties.application_properties().get(RESUBMIT_COUNT).and_then(PropertyValue::to_u64);
    count.map_or(0, |count| u32::try_from(count).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rules: L-02.
    #[test]
    fn the_valid_part_of_a_trail_is_read() {
        let entry = "json;exact;Syntax;1:5";
        for (text, read, unreadable) in [
            (entry.to_owned(), 1, false),
            (String::new(), 0, false),
            (format!("{entry},garbage,{entry}"), 2, true),
            (format!("{entry},"), 1, true),
            ([entry; 9].join(","), 8, true),
            ("\u{1b}[31m".to_owned(), 0, true),
        ] {
            let (entries, is_unreadable) = attempts(&text);
            assert_eq!((entries.len(), is_unreadable), (read, unreadable), "{text:?}");
        }
    }

    /// Rules: L-13.
    #[test]
    fn a_count_of_any_type_is_read() {
        let of = |value: PropertyValue| {
            let mut properties = Properties::new();
            properties.application_properties_mut().insert(RESUBMIT_COUNT, value);
            resubmit_count(&properties)
        };
        for value in [3_u8.into(), 3_u16.into(), 3_u32.into(), 3_u64.into(), 3_i8.into(), 3_i16.into(), 3_i32.into()] {
            assert_eq!(of(value), 3);
        }
        assert_eq!((of(3_i64.into()), of("3".into())), (3, 3));
        assert_eq!((of("x".into()), of((-3_i32).into()), of(true.into())), (0, 0, 0));
        assert_eq!((of(u64::MAX.into()), resubmit_count(&Properties::new())), (u32::MAX, 0));
    }
}
