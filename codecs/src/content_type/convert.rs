//! Conversions into a [`ContentType`].

use std::{borrow::Cow, convert::Infallible, str::FromStr};

use mime::Mime;

use super::ContentType;

impl From<&str> for ContentType {
    fn from(raw: &str) -> Self {
        Self::parse(raw)
    }
}

impl From<Mime> for ContentType {
    fn from(mime: Mime) -> Self {
        Self::from(&mime)
    }
}

impl From<&Mime> for ContentType {
    fn from(mime: &Mime) -> Self {
        Self::parse(mime.as_ref())
    }
}

impl FromStr for ContentType {
    type Err = Infallible;

    fn from_str(raw: &str) -> Result<Self, Infallible> {
        Ok(Self::parse(raw))
    }
}

/// Compares the meanings; a `Mime` that is malformed here (`*/*`) equals nothing.
impl PartialEq<Mime> for ContentType {
    fn eq(&self, other: &Mime) -> bool {
        let other = Self::from(other);
        !self.is_malformed() && *self == other
    }
}

impl PartialEq<ContentType> for Mime {
    fn eq(&self, other: &ContentType) -> bool {
        other == self
    }
}

/// The text, to set a ContentType to it.
impl From<ContentType> for Cow<'static, str> {
    fn from(content_type: ContentType) -> Self {
        Self::Owned(content_type.as_str().into())
    }
}
