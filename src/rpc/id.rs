use uuid::{Uuid, fmt::Simple};

/// What a request is known by until it is answered: 122 random bits, so that nobody who was not sent a request can answer
/// it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct CallId(Uuid);

impl CallId {
    pub(super) fn random() -> Self {
        Self(Uuid::new_v4())
    }

    /// Reads what [`text`](Self::text) writes, and no other spelling of the same number.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let id = Uuid::try_parse(text).ok()?;
        (spelled(id, &mut [0; Simple::LENGTH]) == text).then_some(Self(id))
    }

    /// As it travels: 32 hexadecimal digits in lower case.
    pub(super) fn text(self) -> String {
        spelled(self.0, &mut [0; Simple::LENGTH]).to_owned()
    }

    /// Its low half, which is as random as the rest, for a hash.
    pub(super) fn low(self) -> u64 {
        self.0.as_u64_pair().1
    }
}

fn spelled(id: Uuid, digits: &mut [u8; Simple::LENGTH]) -> &str {
    id.simple().encode_lower(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_own_spelling_is_read() {
        let id = CallId::random();
        let text = id.text();
        assert!(CallId::parse(&text) == Some(id));
        let spellings = [
            text.to_uppercase(),
            format!("{text}0"),
            format!("+{}", &text[1..]),
            text[1..].to_string(),
            id.0.hyphenated().to_string(),
            id.0.braced().to_string(),
        ];
        let zeros = "0".repeat(31);
        for other in spellings.iter().filter(|other| **other != text).chain([&zeros]) {
            assert!(CallId::parse(other).is_none(), "{other}");
        }
    }
}
