//! Properties of another producer, brought within the limits.

use super::Properties;
use crate::message::limits;

/// Bytes that stay free for the reason of a dead letter, and how many properties.
const RESERVED_BYTES: usize = 4_096;
const RESERVED: usize = 8;

impl Properties {
    /// Removes what exceeds the limits of [`check`](Self::check), and returns whether anything was removed. For
    /// transports, whose brokers may hold messages of other producers with larger headers.
    ///
    /// Application properties go first, the largest before the smaller ones, then annotations and footer, then
    /// `ContentType`, `Subject`, `ReplyTo`, `CorrelationId` and `To`. 4 KiB and 8 properties stay free, so that a
    /// dead-letter reason fits in.
    pub fn fit(&mut self) -> bool {
        if self.check().is_ok() {
            return false;
        }
        let application = std::mem::take(&mut self.application);
        if self.size() + RESERVED_BYTES > limits::ALL_PROPERTIES_BYTES {
            self.remove_texts();
        }
        let mut room = limits::ALL_PROPERTIES_BYTES.saturating_sub(RESERVED_BYTES + self.size());
        let mut by_size: Vec<_> = application.iter().map(|(key, value)| (key.len() + value.size(), key)).collect();
        by_size.sort_unstable();
        let most = limits::PROPERTIES - RESERVED;
        for (size, key) in by_size.into_iter().take(most) {
            if size > room.min(limits::PROPERTY_BYTES) {
                break;
            }
            room -= size;
            if let Some(value) = application.get(key) {
                self.application.insert(key, value.clone());
            }
        }
        true
    }

    /// Ids are bounded by themselves.
    fn remove_texts(&mut self) {
        if let Some(rest) = self.rare.as_mut().and_then(|rare| rare.pass_through.as_mut()) {
            **rest = super::PassThrough {
                group_sequence: rest.group_sequence,
                creation_time: rest.creation_time,
                durable: rest.durable,
                priority: rest.priority,
                ..super::PassThrough::default()
            };
        }
        if self.size() + RESERVED_BYTES > limits::ALL_PROPERTIES_BYTES {
            (self.content_type, self.subject, self.reply_to, self.correlation_id) = (None, None, None, None);
            if let Some(rare) = &mut self.rare {
                rare.to = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_reason(mut properties: Properties) -> Properties {
        properties.application_mut().insert(Properties::DEAD_LETTER_REASON, "HeaderSizeExceeded");
        properties.application_mut().insert(Properties::DEAD_LETTER_DESCRIPTION, "why".repeat(1_000));
        properties
    }

    #[test]
    fn k_104_what_fits_stays_as_it_is() {
        let mut properties = Properties::new();
        properties.set_subject("s");
        properties.application_mut().insert("a", "x".repeat(32_000));
        let before = properties.clone();
        assert!(!properties.fit());
        assert_eq!(properties, before);
    }

    #[test]
    fn k_104_the_largest_properties_go_first_and_a_reason_fits_in() {
        let mut one = Properties::new();
        one.application_mut().insert("large", "x".repeat(40_000));
        let mut many = Properties::new();
        *many.application_mut() = (0..limits::PROPERTIES * 2).map(|n| (n.to_string(), true)).collect();
        let mut together = Properties::new();
        *together.application_mut() = (0..9).map(|n| (n.to_string(), "x".repeat(9_000 + n))).collect();
        for (mut properties, left) in [(one, 1), (many, limits::PROPERTIES - RESERVED), (together, 7)] {
            properties.set_subject("s");
            properties.application_mut().insert("", true);
            assert!(properties.fit());
            assert_eq!(properties.application().len(), left);
            assert_eq!((properties.subject(), properties.application().get("large")), (Some("s"), None));
            with_reason(properties).check().unwrap();
        }
    }

    #[test]
    fn k_104_texts_that_are_too_long_go_too() {
        let mut properties = Properties::new();
        properties.set_message_id("id").unwrap();
        properties.set_content_type("x".repeat(70_000));
        properties.pass_through_mut().content_encoding = Some("x".repeat(70_000).into());
        properties.pass_through_mut().priority = Some(3);
        properties.application_mut().insert("a", true);
        assert!(properties.fit());
        assert_eq!((properties.content_type(), properties.message_id()), (None, Some("id")));
        assert_eq!(properties.pass_through().unwrap().priority, Some(3));
        assert_eq!(properties.application().len(), 1);
        with_reason(properties).check().unwrap();
    }
}
