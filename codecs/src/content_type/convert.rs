//! Conversions into a [`ContentType`], and the trait for values that one can be set to.

use std::{borrow::Cow, convert::Infallible, str::FromStr};

use mime::Mime;

use super::ContentType;

/// A value that a ContentType can be set to: text, a [`Mime`] or a [`ContentType`].
///
/// Text is stored unchanged and unchecked.
#[diagnostic::on_unimplemented(
    message = "a ContentType cannot be set to `{Self}`",
    label = "not a text, a `Mime` or a `ContentType`",
    note = "a text that is not `'static` is set as a `String`"
)]
pub trait IntoContentType {
    /// Returns the text that is set.
    fn into_content_type(self) -> Cow<'static, str>;
}

macro_rules! texts {
    ($($text:ty)*) => {$(
        impl IntoContentType for $text {
            #[inline]
            fn into_content_type(self) -> Cow<'static, str> {
                self.into()
            }
        }
    )*};
}

texts! { &'static str String Cow<'static, str> }

impl IntoContentType for Box<str> {
    #[inline]
    fn into_content_type(self) -> Cow<'static, str> {
        self.into_string().into()
    }
}

macro_rules! copied {
    ($($value:ty, $text:ident;)*) => {$(
        impl IntoContentType for $value {
            fn into_content_type(self) -> Cow<'static, str> {
                String::from(self.$text()).into()
            }
        }
    )*};
}

copied! {
    &String, as_str;
    Mime, as_ref;
    &Mime, as_ref;
    ContentType, as_str;
    &ContentType, as_str;
}

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
