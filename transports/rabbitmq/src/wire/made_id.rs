//! The MessageId that a sender makes if a message has none. It has the sequence number of the message, and the number the enqueued
//! time, so that such a message has no header for any of these.
//!
//! Format 1 is `consign1-`, the number in 16 hexadecimal digits, and 16 random ones.

use std::fmt::Write;

const PREFIX: &str = "consign1-";
const DIGITS: usize = 16;

pub(super) fn make(number: u64) -> String {
    let mut id = String::with_capacity(PREFIX.len() + 2 * DIGITS);
    // Writing to a text does not fail.
    let _ = write!(id, "{PREFIX}{number:016x}{:016x}", fastrand::u64(..));
    id
}

/// Returns the sequence number of an id that a sender has made.
pub(super) fn number(id: &str) -> Option<u64> {
    let digits = id.strip_prefix(PREFIX).filter(|digits| digits.len() == 2 * DIGITS)?;
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if !digits.bytes().all(is_digit) {
        return None;
    }
    u64::from_str_radix(&digits[..DIGITS], 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_its_number() {
        for made in [0, 7, 1_700_000_000_123 << 20, u64::MAX] {
            let id = make(made);
            assert_eq!((number(&id), id.len()), (Some(made), 41));
            assert_ne!(id, make(made));
        }
    }

    #[test]
    fn ids_of_others_have_none() {
        let id = make(0xabc);
        let changed = [id.to_uppercase(), id.replace("consign1", "consign2"), id[..40].to_owned(), format!("{id}0")];
        for other in changed.iter().map(String::as_str).chain(["", "consign1-", "0123456789abcdef0123456789abcdef"]) {
            assert_eq!(number(other), None, "{other}");
        }
        assert_eq!(number(&format!("{PREFIX}{}", "é".repeat(16))), None);
        assert_eq!(number(&format!("{PREFIX}+{}", "0".repeat(31))), None);
    }
}
