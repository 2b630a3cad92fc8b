use std::fmt;

/// A media type that a codec reads: an exact type, a structured-syntax suffix (RFC 6839), or a whole top-level type.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct MediaType {
    text: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Exact,
    Parameterised,
    Suffix,
    Range,
}

impl MediaType {
    /// Creates an exact type, `type/subtype`, in canonical form: lower case, no spaces; parameters only where the codec writes
    /// them.
    #[must_use]
    pub const fn exact(text: &'static str) -> Self {
        Self { text, kind: if has_parameters(text) { Kind::Parameterised } else { Kind::Exact } }
    }

    /// Creates every type that ends in `+suffix`: `MediaType::suffix("json")`.
    #[must_use]
    pub const fn suffix(suffix: &'static str) -> Self {
        Self { text: suffix, kind: Kind::Suffix }
    }

    /// Creates every subtype of a top-level type: `MediaType::range("text")` for `text/*`.
    #[must_use]
    pub const fn range(top_level: &'static str) -> Self {
        Self { text: top_level, kind: Kind::Range }
    }

    /// Returns the text it was made from.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        self.text
    }

    /// Returns whether this is one exact type.
    #[must_use]
    pub const fn is_exact(&self) -> bool {
        matches!(self.kind, Kind::Exact | Kind::Parameterised)
    }

    /// Returns whether this is one exact type without parameters, whose text alone decides.
    pub(crate) const fn is_plain(&self) -> bool {
        matches!(self.kind, Kind::Exact)
    }

    /// Returns whether this stands for a `+suffix`.
    #[must_use]
    pub const fn is_suffix(&self) -> bool {
        matches!(self.kind, Kind::Suffix)
    }

    /// Returns whether this stands for a whole top-level type.
    #[must_use]
    pub const fn is_range(&self) -> bool {
        matches!(self.kind, Kind::Range)
    }
}

const fn has_parameters(text: &str) -> bool {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == b';' {
            return true;
        }
        at += 1;
    }
    false
}

impl fmt::Display for MediaType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Exact | Kind::Parameterised => f.write_str(self.text),
            Kind::Suffix => write!(f, "*/*+{}", self.text),
            Kind::Range => write!(f, "{}/*", self.text),
        }
    }
}

impl fmt::Debug for MediaType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
