//! Why an imported message was a dead letter.

use consign::{Message, settlement::DeadLetter};

use crate::cli::{failure::Failure, output::Output};

/// The properties that a send does not set, and the names that keep their values.
const KEPT: [(&str, &str); 3] = [
    (DeadLetter::REASON, "x-original-dead-letter-reason"),
    (DeadLetter::DESCRIPTION, "x-original-dead-letter-description"),
    (DeadLetter::TRAIL, "x-original-decode-trail"),
];

/// Counts the messages that were dead letters.
#[derive(Default)]
pub(super) struct Originals {
    /// Those that have the properties under their new names.
    pub(super) kept: u64,
    /// Those whose properties would be too large with the longer names.
    pub(super) dropped: u64,
}

impl Originals {
    /// Keeps the reason and the description under names that a send does not remove.
    pub(super) fn keep(&mut self, message: Message) -> Message {
        let properties = message.application_properties();
        if KEPT.iter().all(|(name, _)| properties.get(name).is_none()) {
            return message;
        }
        let mut renamed = message.clone();
        let properties = renamed.properties_mut().application_properties_mut();
        for (name, kept) in KEPT {
            if let Some(value) = properties.remove(name) {
                properties.insert(kept, value);
            }
        }
        if renamed.properties().check().is_err() {
            self.dropped += 1;
            return message;
        }
        self.kept += 1;
        renamed
    }

    /// Prints the counts for people.
    pub(super) fn report(&self, out: &mut Output) -> Result<(), Failure> {
        let [(_, reason), (_, description), _] = KEPT;
        if self.kept > 0 {
            out.line(format_args!(
                "note: {} were dead letters: their reasons are in {reason}, their descriptions in {description}",
                self.kept
            ))?;
        }
        if self.dropped > 0 {
            out.line(format_args!(
                "note: {} were dead letters whose reasons are not kept: their properties would be too large",
                self.dropped
            ))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use consign::message::PropertyValue;

    use super::*;

    fn dead(description: usize) -> Message {
        let mut message = Message::builder().property("x-original-dead-letter-reason", "earlier").build("a").unwrap();
        let properties = message.properties_mut().application_properties_mut();
        properties.insert(DeadLetter::REASON, "Poison");
        properties.insert(DeadLetter::DESCRIPTION, "d".repeat(description));
        message
    }

    #[test]
    fn the_reason_is_kept_where_its_name_has_space() {
        let mut originals = Originals::default();
        assert!(originals.keep(Message::new("a")).application_properties().is_empty());
        let kept = originals.keep(dead(10));
        let get = |name| kept.application_properties().get(name).and_then(PropertyValue::as_str);
        assert_eq!(get("x-original-dead-letter-reason"), Some("Poison"));
        assert_eq!(get("x-original-dead-letter-description"), Some("dddddddddd"));
        assert_eq!((get(DeadLetter::REASON), get(DeadLetter::DESCRIPTION)), (None, None));

        // The longest that is allowed under its own name.
        let largest = (0..=u16::MAX.into()).rev().find(|length| dead(*length).properties().check().is_ok()).unwrap();
        let dropped = originals.keep(dead(largest));
        assert!(dropped.application_properties().get(DeadLetter::REASON).is_some());
        assert_eq!((originals.kept, originals.dropped), (1, 1));
    }
}
