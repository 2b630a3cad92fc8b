use std::{error, fmt};

/// The rule that a set of codecs breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ConfigErrorKind {
    /// The set is empty.
    NoCodec,
    /// The set has more than 32 codecs.
    TooManyCodecs,
    /// A codec's name cannot be in a trail.
    InvalidName,
    /// Two codecs have one name.
    DuplicateName,
    /// A codec has no media type, or one that is not in canonical form.
    InvalidMediaType,
    /// Two codecs claim one media type, or one codec claims it twice.
    DuplicateMediaType,
    /// A codec does not read the ContentType that it writes.
    UnreadContentType,
    /// A name is not that of a codec of the set.
    UnknownCodec,
    /// The chain names a codec twice.
    DuplicateInChain,
    /// The chain is longer than allowed.
    ChainTooLong,
    /// A positional codec would read bodies of other formats without an opt-in.
    PositionalNotAllowed,
    /// A chain has a second positional codec.
    SecondPositional,
    /// A codec that accepts other formats' bytes precedes one that does not.
    ChainOrder,
    /// No policy uses the chain.
    ChainUnreachable,
    /// A policy uses the chain, but the set has no chain.
    NoChain,
    /// The allow-list is empty, or an entry is not a media type.
    InvalidAllowList,
}

/// A set of codecs that cannot be built. `Display` names in one sentence the change to make.
#[derive(Clone, PartialEq, Eq)]
pub struct ConfigError {
    kind: ConfigErrorKind,
    mend: Box<str>,
}

impl ConfigError {
    pub(super) fn new(kind: ConfigErrorKind, mend: impl Into<Box<str>>) -> Self {
        Self { kind, mend: mend.into() }
    }

    /// Returns the broken rule.
    #[must_use]
    pub fn kind(&self) -> ConfigErrorKind {
        self.kind
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.mend)
    }
}

impl fmt::Debug for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConfigError({:?}: {})", self.kind, self.mend)
    }
}

impl error::Error for ConfigError {}
