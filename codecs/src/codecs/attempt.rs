use std::fmt;

use crate::{DecodeError, Trail};

/// The reason why a codec was chosen for a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Chosen {
    /// The declared type is the one that the codec writes.
    Exact,
    /// The declared type is another of the codec's exact types.
    Alias,
    /// The declared type has a structured-syntax suffix that the codec reads.
    Suffix,
    /// The codec reads every subtype of the declared top-level type.
    Range,
    /// A [policy](crate::Policy) names the codec for this case.
    Default,
    /// The codec is of the chain.
    Fallback,
}

impl Chosen {
    pub(super) const ALL: [Self; 6] =
        [Self::Exact, Self::Alias, Self::Suffix, Self::Range, Self::Default, Self::Fallback];

    /// Returns the code for a trail: the name of the variant in lower case.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Alias => "alias",
            Self::Suffix => "suffix",
            Self::Range => "range",
            Self::Default => "default",
            Self::Fallback => "fallback",
        }
    }
}

impl fmt::Display for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// A failed attempt of one codec.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attempt {
    /// The codec's name.
    pub codec: &'static str,
    /// The reason for choosing the codec.
    pub chosen: Chosen,
    /// The error with which the codec refused the body.
    pub error: DecodeError,
}

/// A value, and how it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Decoded<T> {
    /// The value.
    pub value: T,
    /// The name of the codec that read it.
    pub by: &'static str,
    /// The reason for choosing that codec.
    pub chosen: Chosen,
    /// The attempts that failed before, in order.
    pub attempts: Vec<Attempt>,
}

impl<T> Decoded<T> {
    /// Returns the value alone.
    #[must_use]
    pub fn into_value(self) -> T {
        self.value
    }

    /// Returns the same record of another value.
    #[must_use]
    pub fn map<U>(self, map: impl FnOnce(T) -> U) -> Decoded<U> {
        Decoded { value: map(self.value), by: self.by, chosen: self.chosen, attempts: self.attempts }
    }

    /// Returns the attempts that failed before, for a property.
    #[must_use]
    pub fn trail(&self) -> Trail {
        Trail::of(&self.attempts)
    }
}
