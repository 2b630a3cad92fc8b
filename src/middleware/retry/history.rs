use std::fmt::{self, Write};

use crate::{
    message::{Properties, PropertyValue},
    time::Timestamp,
};

/// The history of a message's failed deliveries: the application property [`RetryHistory::PROPERTY`], text of the form
/// `3;1700000000000;connection refused`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetryHistory {
    /// How many deliveries have failed, attempts within one of them counted once.
    pub failures: u32,
    /// When the first of them failed, by the clock of the consumer.
    pub first_failure: Timestamp,
    /// The text of the last error, at most [`RetryHistory::ERROR_BYTES`]; control characters are
    /// escaped.
    pub last_error: String,
}

impl RetryHistory {
    /// The application property that holds the history. What sends a dead letter on to be handled anew removes it, or
    /// the attempts before count.
    pub const PROPERTY: &'static str = "x-retry-history";
    /// The maximum length of the last error's text, in bytes.
    pub const ERROR_BYTES: usize = 256;

    /// The history of a message. `None` if it has none, or one that cannot be read: then counting begins anew.
    #[must_use]
    pub fn of(properties: &Properties) -> Option<Self> {
        let text = properties.application_properties().get(Self::PROPERTY).and_then(PropertyValue::as_str)?;
        let (failures, rest) = text.split_once(';')?;
        let (first, error) = rest.split_once(';')?;
        let first_failure = Timestamp::from_millis(first.parse().ok()?);
        Some(Self { failures: failures.parse().ok()?, first_failure, last_error: cut(error) })
    }

    /// The history after one more failure.
    pub(super) fn after(before: Option<Self>, now: Timestamp, error: &dyn fmt::Display) -> Self {
        let (failures, first) = before.map_or((0, now), |before| (before.failures, before.first_failure));
        // The clock of another consumer may be ahead.
        Self { failures: failures.saturating_add(1), first_failure: first.min(now), last_error: cut(error) }
    }

    pub(super) fn to_property(&self) -> String {
        format!("{};{};{}", self.failures, self.first_failure.as_millis(), self.last_error)
    }
}

/// The beginning of what is shown, however long that is.
fn cut(text: impl fmt::Display) -> String {
    let mut cut = Cut(String::new());
    // That it is full is the only failure, or one of the text's own; what is there will do.
    let _ = write!(cut, "{text}");
    cut.0
}

struct Cut(String);

impl Write for Cut {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        const MARK: char = '…';
        for char in text.chars() {
            let mut push = |char: char| {
                if self.0.len() + char.len_utf8() + MARK.len_utf8() > RetryHistory::ERROR_BYTES {
                    self.0.push(MARK);
                    return Err(fmt::Error);
                }
                self.0.push(char);
                Ok(())
            };
            if char.is_control() { char.escape_default().try_for_each(push)? } else { push(char)? }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<RetryHistory> {
        let mut properties = Properties::new();
        properties.application_properties_mut().insert(RetryHistory::PROPERTY, text);
        RetryHistory::of(&properties)
    }

    /// Rules: Y-13.
    #[test]
    fn a_history_is_read_as_it_was_written() {
        let now = Timestamp::from_millis(1_700_000_000_000);
        let once = RetryHistory::after(None, now, &"connection refused; try later");
        assert_eq!(once.to_property(), "1;1700000000000;connection refused; try later");
        assert_eq!(read(&once.to_property()), Some(once.clone()));
        let later = now.saturating_add(std::time::Duration::from_secs(5));
        let twice = RetryHistory::after(Some(once), later, &"");
        assert_eq!(twice.to_property(), "2;1700000000000;");
        assert_eq!(
            read("4294967295;-1;e").map(|full| RetryHistory::after(Some(full), now, &"").failures),
            Some(u32::MAX)
        );
        let ahead = RetryHistory { failures: 1, first_failure: later, last_error: String::new() };
        assert_eq!(RetryHistory::after(Some(ahead), now, &"").first_failure, now);
    }

    /// Rules: Y-13.
    #[test]
    fn an_invalid_history_counts_as_none() {
        for text in ["", "1", "1;2", ";;", "-1;0;e", "x;0;e", "1;x;e", "4294967296;0;e", "1;99999999999999999999;e"] {
            assert_eq!(read(text), None, "{text}");
        }
        let mut number = Properties::new();
        number.application_properties_mut().insert(RetryHistory::PROPERTY, 7);
        assert_eq!(RetryHistory::of(&number), None);
    }

    /// Rules: Y-13.
    #[test]
    fn a_history_stays_short_and_shows_no_control_characters() {
        let most = RetryHistory::ERROR_BYTES;
        let escapes = "\u{1b}".repeat(1_000);
        for error in ["e".repeat(1 << 20), "é".repeat(1 << 18), "🦀".repeat(1 << 18), escapes] {
            let history = RetryHistory::after(None, Timestamp::MAX, &error);
            assert!((most - 8..=most).contains(&history.last_error.len()), "{}", history.last_error.len());
            assert!(history.last_error.ends_with('…') && !history.last_error.contains(char::is_control));
            assert_eq!(read(&history.to_property()).as_ref(), Some(&history));
        }
        let hostile = read(&format!("1;0;{}\n", "e".repeat(1 << 14))).unwrap();
        assert!(hostile.last_error.len() <= most);
        let whole = "e".repeat(most - 3);
        assert_eq!(RetryHistory::after(None, Timestamp::MAX, &whole).last_error, whole);
    }
}
