use std::borrow::Cow;

use mime::Mime;

/// A value that a ContentType can be set to: text or a [`Mime`].
///
/// Text is stored unchanged and unchecked.
#[diagnostic::on_unimplemented(
    message = "a ContentType cannot be set to `{Self}`",
    label = "not a text or a `Mime`",
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
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rules: P-144.
    #[test]
    fn a_text_and_a_mime_are_kept_as_written() {
        assert_eq!(mime::TEXT_PLAIN_UTF_8.into_content_type(), "text/plain; charset=utf-8");
        assert_eq!((&mime::IMAGE_PNG).into_content_type(), "image/png");
        assert_eq!(String::from("json").into_content_type(), "json");
        assert_eq!(Box::<str>::from("A/b ;c=d").into_content_type(), "A/b ;c=d");
    }
}
