//! Dead letters as text for people. All of it may come from elsewhere, so it is escaped and cut.

use std::{
    fmt::{self, Write as _},
    time::Duration,
};

use super::Explained;

/// Most characters of one text.
const TEXT: usize = 200;
/// Most lines of a description.
const LINES: usize = 16;

/// Escapes what is not printable.
fn escaped(f: &mut fmt::Formatter<'_>, text: impl IntoIterator<Item = char>) -> fmt::Result {
    text.into_iter().try_for_each(|char| match char {
        '"' | '\'' => f.write_char(char),
        _ => write!(f, "{}", char.escape_debug()),
    })
}

/// One text, cut.
struct Shown<'t>(&'t str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut chars = self.0.chars();
        escaped(f, chars.by_ref().take(TEXT))?;
        if chars.next().is_some() { f.write_str("…") } else { Ok(()) }
    }
}

/// A duration in its largest whole unit.
struct Age(Duration);

impl fmt::Display for Age {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_secs() {
            seconds @ ..60 => write!(f, "{seconds} s"),
            seconds @ ..3_600 => write!(f, "{} min", seconds / 60),
            seconds @ ..86_400 => write!(f, "{} h", seconds / 3_600),
            seconds => write!(f, "{} d", seconds / 86_400),
        }
    }
}

impl fmt::Display for Explained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = self.message();
        write!(f, "#{} {}", self.sequence_number(), Shown(self.reason().unwrap_or("(no reason)")))?;
        if let Some(failed @ 1..) = self.failed_deliveries() {
            write!(f, ", {failed} failed {}", if failed == 1 { "delivery" } else { "deliveries" })?;
        }
        if let (Some(enqueued), Some(age)) = (self.enqueued_time(), self.age()) {
            write!(f, ", enqueued {enqueued}, {} ago", Age(age))?;
        }
        write!(f, "\n  {} B", message.body().size())?;
        for (name, text) in [
            ("content-type", message.content_type()),
            ("subject", message.subject()),
            ("id", message.message_id()),
            ("first id", self.original_message_id().filter(|first| Some(*first) != message.message_id())),
            ("session", message.session_id()),
            ("died in", self.source()),
        ] {
            if let Some(text) = text {
                write!(f, ", {name} {}", Shown(text))?;
            }
        }
        match self.resubmit_count() {
            0 => {}
            count => write!(f, ", resubmitted {count} {}", if count == 1 { "time" } else { "times" })?,
        }
        for line in self.description().unwrap_or_default().lines().take(LINES) {
            write!(f, "\n  {}", Shown(line))?;
        }
        for attempt in self.attempts() {
            write!(f, "\n  tried {} ({}): {}", attempt.codec(), attempt.chosen(), attempt.code())?;
            if let Some(position) = attempt.position() {
                write!(f, " at {position}")?;
            }
            if let Some(path) = attempt.path() {
                write!(f, " in {}", Shown(path))?;
            }
            if let Some(expected) = attempt.expected() {
                write!(f, ", expected {}", Shown(expected))?;
            }
            if let Some(found) = attempt.found() {
                write!(f, ", found {found}")?;
            }
        }
        if self.is_trail_unreadable() {
            f.write_str("\n  the trail has attempts that cannot be parsed")?;
        }
        Ok(())
    }
}

/// As `Display`, in few words.
impl fmt::Debug for Explained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Explained")
            .field("message", self.message())
            .field("reason", &self.reason())
            .field("attempts", &self.attempts().len())
            .finish_non_exhaustive()
    }
}

/// With the beginning of the body.
pub(super) struct BodyShown<'e> {
    explained: &'e Explained,
    max: usize,
}

impl<'e> BodyShown<'e> {
    pub(super) fn new(explained: &'e Explained, max: usize) -> Self {
        Self { explained, max }
    }
}

impl fmt::Display for BodyShown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n  body ", self.explained)?;
        let Some(payload) = self.explained.message().payload() else {
            return write!(f, "is {}, not bytes", self.explained.message().body().kind());
        };
        let shown = &payload[..payload.len().min(self.max)];
        for chunk in shown.utf8_chunks() {
            escaped(f, chunk.valid().chars())?;
            write!(f, "{}", chunk.invalid().escape_ascii())?;
        }
        if shown.len() < payload.len() { f.write_str("…") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Message,
        message::{Received, SequenceNumber},
        settlement::DeadLetter,
        time::Timestamp,
    };

    const ENQUEUED: Timestamp = Timestamp::from_millis(1_700_000_000_000);

    fn explained(message: Message, age: u64) -> Explained {
        let received = Received::new(SequenceNumber::new(12), ENQUEUED, 1);
        Explained::new(message.with_received(received), ENQUEUED.saturating_add(Duration::from_secs(age)))
    }

    /// Rules: L-01.
    #[test]
    fn a_dead_letter_says_why_for_people() {
        let message = Message::builder()
            .message_id("second")
            .subject("order.created")
            .property("x-original-message-id", "first")
            .property("x-resubmit-count", 1_u32)
            .property(DeadLetter::REASON, "DeserializationFailed")
            .property(DeadLetter::DESCRIPTION, "the first line\nthe second")
            .property(DeadLetter::TRAIL, "json;exact;Type;1:5;lines[3].price;f64;text,msgpack;fallback;Trailing;17,odd")
            .content_type("application/json")
            .build("canary")
            .unwrap();
        let expected = "#12 DeserializationFailed, 1 failed delivery, enqueued 2023-11-14T22:13:20.000Z, 3 min ago
  6 B, content-type application/json, subject order.created, id second, first id first, resubmitted 1 time
  the first line
  the second
  tried json (exact): Type at 1:5 in lines[3].price, expected f64, found text
  tried msgpack (fallback): Trailing at 17
  the trail has attempts that cannot be parsed";
        let explained = explained(message, 200);
        assert_eq!(explained.to_string(), expected);
        assert_eq!(explained.with_body(3).to_string(), format!("{expected}\n  body can…"));
        assert_eq!(explained.with_body(6).to_string(), format!("{expected}\n  body canary"));
    }

    /// Rules: L-03.
    /// Attacks: 55.
    #[test]
    fn neither_display_nor_debug_shows_a_body_or_a_control_character() {
        let nasty = "\u{1b}[31m\u{202e}evil";
        let message = Message::builder()
            .message_id(nasty)
            .subject(nasty)
            .property(DeadLetter::REASON, nasty)
            .property(DeadLetter::DESCRIPTION, nasty.repeat(400))
            .content_type(nasty)
            .build(&b"canary\x1b\xe2\x80\xae\xff'\xe8\xaa\x9e\""[..])
            .unwrap();
        let explained = explained(message, 0);
        assert!(explained.with_body(100).to_string().ends_with("canary\\u{1b}\\u{202e}\\xff'語\""));
        for shown in [explained.to_string(), format!("{explained:?}"), explained.with_body(100).to_string()] {
            assert!(!shown.contains(['\u{1b}', '\u{202e}']), "{shown}");
            assert!(shown.len() < 6_000, "{}", shown.len());
        }
        assert!(!format!("{explained} {explained:?}").contains("canary"));
    }

    #[test]
    fn ages_have_one_unit() {
        let ages = [0, 59, 60, 3_599, 3_600, 86_399, 86_400].map(|age| Age(Duration::from_secs(age)).to_string());
        assert_eq!(ages, ["0 s", "59 s", "1 min", "59 min", "1 h", "23 h", "1 d"]);
    }
}
