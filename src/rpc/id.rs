use std::fmt;

use uuid::Uuid;

/// What a request is known by until it is answered: 122 random bits, so that nobody who was not sent a request can answer
/// it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct CallId(u128);

impl CallId {
    const DIGITS: usize = 32;

    pub(super) fn random() -> Self {
        Self(Uuid::new_v4().as_u128())
    }

    /// Reads what [`Display`](fmt::Display) writes, and no other spelling of the same number.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let is_id = text.len() == Self::DIGITS && text.bytes().all(is_digit);
        is_id.then(|| u128::from_str_radix(text, 16).ok()).flatten().map(Self)
    }

    /// Its low half, which is as random as the rest, for a hash.
    pub(super) fn low(self) -> u64 {
        #[expect(clippy::cast_possible_truncation, reason = "the other half is not wanted")]
        let low = self.0 as u64;
        low
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_own_spelling_is_read() {
        let id = CallId::random();
        let text = id.to_string();
        assert!(CallId::parse(&text) == Some(id));
        let spellings = [text.to_uppercase(), format!("{text}0"), format!("+{}", &text[1..]), text[1..].to_string()];
        let zeros = "0".repeat(31);
        for other in spellings.iter().filter(|other| **other != text).chain([&zeros]) {
            assert!(CallId::parse(other).is_none(), "{other}");
        }
    }
}
