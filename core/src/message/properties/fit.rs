//! Properties of another producer, brought within the limits.

use super::Properties;
use crate::message::{TraceContext, limits};

/// Bytes that stay free for the reason of a dead letter, and how many properties.
const RESERVED_BYTES: usize = 4_096;
const RESERVED: usize = 8;

/// A longer `ContentEncoding` is removed.
const ENCODING_BYTES: usize = 64;

/// What stays before all else: why the message is a dead letter, and its trace.
const FIRST: [&str; 5] = {
    let [parent, state, older] = TraceContext::PROPERTIES;
    [Properties::DEAD_LETTER_REASON, Properties::DEAD_LETTER_DESCRIPTION, parent, state, older]
};

impl Properties {
    /// Removes what exceeds the limits of [`check`](Self::check), and returns whether anything was removed. For
    /// transports, whose brokers may hold messages of other producers with larger headers.
    ///
    /// Application properties go first, the largest before the smaller ones and those of dead letters and traces last.
    /// Then go annotations, footer, the user id, the first acquirer, the request to force persistence, and a `ContentEncoding` of
    /// more than 64 bytes: without its `ContentEncoding`, a body is misread. Last go `ContentType`, `Subject`, `ReplyTo`,
    /// `CorrelationId` and `To`. 4 KiB and 8 properties stay free, so that a dead-letter reason fits in.
    pub fn fit(&mut self) -> bool {
        self.check().is_err() && {
            self.fit_within(limits::ALL_PROPERTIES_BYTES - RESERVED_BYTES);
            true
        }
    }

    /// Removes properties, like [`fit`](Self::fit), until all together have at most this many bytes, for a transport whose
    /// broker has a lower limit. Ids, which are bounded by themselves, stay.
    pub fn fit_within(&mut self, bytes: usize) {
        let application = std::mem::take(&mut self.application);
        self.remove_texts(bytes);
        let mut room = bytes.saturating_sub(self.size());
        let mut by_size: Vec<_> =
            application.iter().map(|(key, value)| (!FIRST.contains(&key), key.len() + value.size(), key)).collect();
        by_size.sort_unstable();
        for (_, size, key) in by_size {
            if self.application.len() == limits::PROPERTIES - RESERVED || size > room.min(limits::PROPERTY_BYTES) {
                continue;
            }
            room -= size;
            if let Some(value) = application.get(key) {
                self.application.insert(key, value.clone());
            }
        }
    }

    fn remove_texts(&mut self, bytes: usize) {
        if self.size() > bytes
            && let Some(rest) = self.rare.as_mut().and_then(|rare| rare.pass_through.as_mut())
        {
            **rest = super::PassThrough {
                content_encoding: rest.content_encoding.take().filter(|encoding| encoding.len() <= ENCODING_BYTES),
                group_sequence: rest.group_sequence,
                creation_time: rest.creation_time,
                durable: rest.durable,
                priority: rest.priority,
                ..super::PassThrough::default()
            };
        }
        if self.size() > bytes {
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
        properties.application_properties_mut().insert(Properties::DEAD_LETTER_REASON, "HeaderSizeExceeded");
        properties.application_properties_mut().insert(Properties::DEAD_LETTER_DESCRIPTION, "why".repeat(1_000));
        properties
    }

    /// Rules: K-104.
    #[test]
    fn properties_that_fit_are_unchanged() {
        let mut properties = Properties::new();
        properties.set_subject("s");
        properties.application_properties_mut().insert("a", "x".repeat(32_000));
        let before = properties.clone();
        assert!(!properties.fit());
        assert_eq!(properties, before);
    }

    /// Rules: K-104.
    #[test]
    fn the_largest_properties_go_first_and_a_reason_fits_in() {
        let mut one = Properties::new();
        one.application_properties_mut().insert("large", "x".repeat(40_000));
        let mut many = Properties::new();
        *many.application_properties_mut() = (0..limits::PROPERTIES * 2).map(|n| (n.to_string(), true)).collect();
        let mut together = Properties::new();
        *together.application_properties_mut() = (0..9).map(|n| (n.to_string(), "x".repeat(9_000 + n))).collect();
        for (mut properties, left) in [(one, 1), (many, limits::PROPERTIES - RESERVED), (together, 7)] {
            properties.set_subject("s");
            properties.application_properties_mut().insert("traceparent", "x".repeat(200));
            assert!(properties.fit());
            assert_eq!(properties.application_properties().len(), left);
            assert!(properties.application_properties().get("traceparent").is_some());
            assert_eq!((properties.subject(), properties.application_properties().get("large")), (Some("s"), None));
            with_reason(properties).check().unwrap();
        }
    }

    /// Rules: K-104.
    #[test]
    fn texts_that_are_too_long_go_too() {
        let mut properties = Properties::new();
        properties.set_message_id("id").unwrap();
        properties.set_content_type("x".repeat(70_000));
        properties.pass_through_mut().content_encoding = Some("x".repeat(70_000).into());
        properties.pass_through_mut().priority = Some(3);
        properties.application_properties_mut().insert("a", true);
        assert!(properties.fit());
        assert_eq!((properties.content_type(), properties.message_id()), (None, Some("id")));
        let rest = properties.pass_through().unwrap();
        assert_eq!((rest.priority, rest.content_encoding.as_deref()), (Some(3), None));
        assert_eq!(properties.application_properties().len(), 1);
        with_reason(properties).check().unwrap();
    }

    /// Rules: K-104.
    #[test]
    fn of_what_is_passed_through_numbers_and_times_stay() {
        use crate::{message::PassThrough, time::Timestamp};

        let stays = PassThrough {
            content_encoding: Some("gzip".into()),
            group_sequence: Some(7),
            creation_time: Some(Timestamp::from_millis(8)),
            durable: Some(true),
            priority: Some(9),
            ..PassThrough::default()
        };
        let mut properties = Properties::new();
        *properties.pass_through_mut() = PassThrough {
            user_id: Some("user".into()),
            first_acquirer: Some(true),
            force_persistence: true,
            annotations: vec![("key".into(), "x".repeat(70_000).into())],
            footer: vec![("hash".into(), "text".into())],
            ..stays.clone()
        };
        assert!(properties.fit());
        assert_eq!(properties.pass_through(), Some(&stays));
    }

    /// Rules: K-104.
    /// Without it, a codec would read a compressed body.
    #[test]
    fn a_short_content_encoding_stays() {
        let mut properties = Properties::new();
        let rest = properties.pass_through_mut();
        rest.content_encoding = Some("gzip".into());
        rest.user_id = Some(vec![0; 100].into());
        rest.footer = vec![("hash".into(), "x".repeat(70_000).into())];
        assert!(properties.fit());
        let rest = properties.pass_through().unwrap();
        assert_eq!((rest.content_encoding.as_deref(), &rest.user_id), (Some("gzip"), &None));
        with_reason(properties).check().unwrap();
    }
}
