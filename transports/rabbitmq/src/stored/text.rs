//! Settings as one text, which RabbitMQ stores and compares as an argument of a queue.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use super::Known;
use crate::QueueSettings;

/// The version of the form. A reader refuses a later one.
const VERSION: u8 = 1;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Queue,
    Topic,
}

/// Settings at their default are written too: a later version may have other defaults.
#[derive(Serialize, Deserialize)]
struct Text {
    v: u8,
    kind: Kind,
    #[serde(skip_serializing_if = "Option::is_none")]
    lock_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deliveries: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl_ms: Option<u64>,
    /// Whether expired messages are dead-lettered.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    dead_letter: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_bytes: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue_bytes: Option<u64>,
    /// With sessions: the number of slots.
    #[serde(skip_serializing_if = "Option::is_none")]
    slots: Option<u16>,
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the text. It is a routing key, at most 255 bytes.
pub(super) fn write(known: &Known) -> String {
    let text = match known {
        Known::Topic(ttl) => Text {
            v: VERSION,
            kind: Kind::Topic,
            lock_ms: None,
            deliveries: None,
            ttl_ms: ttl.map(millis),
            dead_letter: false,
            message_bytes: None,
            queue_bytes: None,
            slots: None,
        },
        Known::Queue(settings) => Text {
            v: VERSION,
            kind: Kind::Queue,
            lock_ms: Some(millis(settings.lock_duration)),
            deliveries: Some(settings.max_delivery_count),
            ttl_ms: settings.default_time_to_live.map(millis),
            dead_letter: settings.dead_letter_on_expiration,
            message_bytes: settings.max_message_size,
            queue_bytes: settings.max_length_bytes,
            slots: settings.requires_session.then_some(settings.session_slots),
        },
    };
    // Numbers and short texts can always be written.
    serde_json::to_string(&text).unwrap_or_default()
}

/// Reads a text; `None` for one of a later version, or that is not such a text.
pub(super) fn read(text: &str) -> Option<Known> {
    let text: Text = serde_json::from_str(text).ok().filter(|text: &Text| text.v == VERSION)?;
    let ttl = text.ttl_ms.map(Duration::from_millis);
    if let Kind::Topic = text.kind {
        return Some(Known::Topic(ttl));
    }
    let defaults = QueueSettings::default();
    let settings = QueueSettings {
        lock_duration: text.lock_ms.map_or(defaults.lock_duration, Duration::from_millis),
        max_delivery_count: text.deliveries.unwrap_or(defaults.max_delivery_count),
        default_time_to_live: ttl,
        dead_letter_on_expiration: text.dead_letter,
        max_message_size: text.message_bytes,
        max_length_bytes: text.queue_bytes,
        requires_session: text.slots.is_some(),
        session_slots: text.slots.unwrap_or(defaults.session_slots),
    };
    // Another program may have written it.
    settings.check().ok()?;
    Some(Known::Queue(Arc::new(settings)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn longest() -> QueueSettings {
        QueueSettings {
            lock_duration: Duration::from_secs(25 * 60),
            max_delivery_count: u32::MAX,
            default_time_to_live: Some(Duration::from_millis(u32::MAX.into())),
            dead_letter_on_expiration: true,
            max_message_size: Some(usize::MAX),
            max_length_bytes: Some(u64::MAX),
            requires_session: true,
            session_slots: 64,
        }
    }

    #[test]
    fn written_settings_are_read_back_and_fit_a_routing_key() {
        let queue = |settings| Known::Queue(Arc::new(settings));
        let longest_ttl = Some(Duration::from_millis(u64::MAX));
        for known in [queue(QueueSettings::default()), queue(longest()), Known::Topic(None), Known::Topic(longest_ttl)]
        {
            let text = write(&known);
            assert!(text.len() <= 255, "{} bytes: {text}", text.len());
            assert_eq!(read(&text), Some(known));
        }
    }

    /// Other versions must read it.
    #[test]
    fn the_form_stays_the_same() {
        let default = write(&Known::Queue(Arc::default()));
        assert_eq!(default, r#"{"v":1,"kind":"queue","lock_ms":30000,"deliveries":10}"#);
        assert_eq!(write(&Known::Topic(Some(Duration::from_secs(1)))), r#"{"v":1,"kind":"topic","ttl_ms":1000}"#);
    }

    #[test]
    fn a_text_of_another_version_or_program_is_refused() {
        for text in [
            "",
            "{}",
            "orders",
            r#"{"v":2,"kind":"queue"}"#,
            r#"{"v":1,"kind":"stream"}"#,
            r#"{"v":1,"kind":"queue","deliveries":0}"#,
        ] {
            assert_eq!(read(text), None, "{text}");
        }
        assert!(read(r#"{"v":1,"kind":"queue","later":[1]}"#).is_some());
    }
}
