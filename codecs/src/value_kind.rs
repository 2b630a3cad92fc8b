use std::fmt;

use serde::de::Unexpected;

/// The kind of a value in a body that does not match the expected type. It is reported in place of the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ValueKind {
    /// Null, nil, undefined or an absent value.
    Null,
    /// True or false.
    Boolean,
    /// A number without a fraction, in an encoding of integers.
    Integer,
    /// A number in an encoding of floats.
    Float,
    /// Text.
    Text,
    /// A byte string.
    Bytes,
    /// An array: a sequence, a tuple.
    Array,
    /// A map: an object, a struct with names.
    Map,
    /// A variant of an enum that holds other data than expected.
    Variant,
}

impl ValueKind {
    const ALL: [Self; 9] = [
        Self::Null,
        Self::Boolean,
        Self::Integer,
        Self::Float,
        Self::Text,
        Self::Bytes,
        Self::Array,
        Self::Map,
        Self::Variant,
    ];

    /// Returns the code for a trail and an error text: the name of the variant in lower case.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean => "boolean",
            Self::Integer => "integer",
            Self::Float => "float",
            Self::Text => "text",
            Self::Bytes => "bytes",
            Self::Array => "array",
            Self::Map => "map",
            Self::Variant => "variant",
        }
    }

    /// Returns the kind of this code.
    pub(crate) fn from_code(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }

    /// Returns the kind of the value that serde found. `None` if serde's text is the caller's own.
    pub(crate) fn of(found: &Unexpected<'_>) -> Option<Self> {
        Some(match found {
            Unexpected::Unit | Unexpected::Option => Self::Null,
            Unexpected::Bool(_) => Self::Boolean,
            Unexpected::Unsigned(_) | Unexpected::Signed(_) => Self::Integer,
            Unexpected::Float(_) => Self::Float,
            Unexpected::Char(_) | Unexpected::Str(_) => Self::Text,
            Unexpected::Bytes(_) => Self::Bytes,
            Unexpected::Seq => Self::Array,
            Unexpected::Map => Self::Map,
            Unexpected::Enum
            | Unexpected::UnitVariant
            | Unexpected::NewtypeVariant
            | Unexpected::TupleVariant
            | Unexpected::StructVariant => Self::Variant,
            Unexpected::NewtypeStruct | Unexpected::Other(_) => return None,
        })
    }

    /// Returns the kind of the value in serde's text, by its first words: a value follows them.
    pub(crate) fn of_text(text: &str) -> Option<Self> {
        const WORDS: [(&str, ValueKind); 16] = [
            ("null", ValueKind::Null),
            ("unit value", ValueKind::Null),
            ("Option value", ValueKind::Null),
            ("boolean `", ValueKind::Boolean),
            ("integer `", ValueKind::Integer),
            ("floating point `", ValueKind::Float),
            ("character `", ValueKind::Text),
            ("string \"", ValueKind::Text),
            ("byte array", ValueKind::Bytes),
            ("sequence", ValueKind::Array),
            ("map", ValueKind::Map),
            ("enum", ValueKind::Variant),
            ("unit variant", ValueKind::Variant),
            ("newtype variant", ValueKind::Variant),
            ("tuple variant", ValueKind::Variant),
            ("struct variant", ValueKind::Variant),
        ];
        WORDS.iter().find(|(words, _)| text.starts_with(words)).map(|&(_, kind)| kind)
    }
}

impl fmt::Display for ValueKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

#[cfg(test)]
mod tests {
    use serde::de::{Error as _, value::Error};

    use super::*;

    /// Rules: P-122.
    #[test]
    fn the_kind_is_the_same_by_value_and_by_text() {
        for found in [
            Unexpected::Unit,
            Unexpected::Option,
            Unexpected::Bool(true),
            Unexpected::Unsigned(7),
            Unexpected::Signed(-7),
            Unexpected::Float(1.5),
            Unexpected::Char('x'),
            Unexpected::Str("integer `7`"),
            Unexpected::Bytes(b"x"),
            Unexpected::Seq,
            Unexpected::Map,
            Unexpected::Enum,
            Unexpected::UnitVariant,
            Unexpected::NewtypeVariant,
            Unexpected::TupleVariant,
            Unexpected::StructVariant,
            Unexpected::NewtypeStruct,
            Unexpected::Other("a thing"),
        ] {
            let text = Error::invalid_type(found, &"u8").to_string();
            let text = text.strip_prefix("invalid type: ").unwrap();
            assert_eq!(ValueKind::of_text(text), ValueKind::of(&found), "{text}");
        }
    }

    #[test]
    fn each_code_is_read_back() {
        for kind in ValueKind::ALL {
            assert_eq!(ValueKind::from_code(kind.code()), Some(kind));
        }
        assert_eq!(ValueKind::from_code("Text"), None);
    }
}
