//! The reason of a dead letter, as a row has it.

use std::borrow::Cow;

use consign_core::{
    message::limits,
    settlement::{DeadLetter, DeadLetterReason},
    transport::SendError,
};

/// Returns the reason of a message that was stored, by another version or another program, and cannot be stored again.
pub(crate) fn not_stored(refused: &SendError) -> DeadLetter {
    DeadLetter::new(DeadLetterReason::Application(Cow::Borrowed("SerializationFailed")), refused.to_string())
}

/// The same of a message that was to be forwarded to `target`.
pub(crate) fn not_forwarded(target: &str, refused: &SendError) -> DeadLetter {
    let mut dead_letter = DeadLetter::forward_target_unavailable(target, refused);
    dead_letter.reason = not_stored(refused).reason;
    dead_letter
}

/// Returns the reason and the description.
pub(crate) fn columns(dead_letter: &DeadLetter) -> (String, Option<String>) {
    let description = Some(text(&dead_letter.description)).filter(|text| !text.is_empty());
    (text(dead_letter.reason.as_str()), description)
}

/// Returns a text that PostgreSQL takes, without NUL and within the limit of a description. The text may be of another program.
pub(crate) fn text(text: &str) -> String {
    let mut left = limits::DEAD_LETTER_TEXT;
    let fits = text.chars().take_while(|character| {
        let units = character.len_utf16();
        let fits = units <= left;
        left = left.saturating_sub(units);
        fits
    });
    fits.map(|character| if character == '\0' { char::REPLACEMENT_CHARACTER } else { character }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_no_nul_and_an_end() {
        assert_eq!(text("a\0b"), "a\u{fffd}b");
        assert_eq!(text(&"🦀".repeat(3_000)).chars().count(), limits::DEAD_LETTER_TEXT / 2);
    }
}
