//! The representation of the texts of a message.

use std::{borrow::Cow, fmt, sync::Arc};

/// A text. What is stamped on many messages is shared by them.
#[derive(Clone)]
#[doc(hidden)]
pub enum Text {
    Static(&'static str),
    Owned(String),
    Shared(Arc<str>),
}

/// An identity. Those that the library makes itself are held in place, and cost no allocation.
#[derive(Clone)]
pub(super) enum Id {
    Text(Text),
    Token(Token),
}

/// An identity that the library makes: 32 hexadecimal digits in lower case. Its alignment makes it cheap to see that it is
/// text.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(align(8))]
#[doc(hidden)]
pub struct Token([u8; Token::LENGTH]);

impl Text {
    #[inline]
    pub(super) fn as_str(&self) -> &str {
        match self {
            Self::Static(text) => text,
            Self::Owned(text) => text,
            Self::Shared(text) => text,
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.as_str().len()
    }

    /// From now on clones are cheap.
    pub(super) fn share(&mut self) {
        if let Self::Owned(text) = self {
            *self = Self::Shared(Arc::from(std::mem::take(text)));
        }
    }
}

impl Id {
    #[inline]
    pub(super) fn as_str(&self) -> &str {
        match self {
            Self::Text(text) => text.as_str(),
            Self::Token(token) => token.as_str(),
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Token(_) => Token::LENGTH,
        }
    }

    /// The bytes, if they can be those of a token.
    #[inline]
    pub(super) fn token_bytes(&self) -> Option<&[u8; Token::LENGTH]> {
        match self {
            Self::Text(text) => text.as_str().as_bytes().try_into().ok(),
            Self::Token(token) => Some(&token.0),
        }
    }
}

impl Token {
    #[doc(hidden)]
    pub const LENGTH: usize = 32;

    /// The digits of 16 bytes.
    #[inline]
    #[doc(hidden)]
    #[must_use]
    pub fn new(bytes: [u8; Self::LENGTH / 2]) -> Self {
        let mut digits = [0; Self::LENGTH];
        for (four, eight) in bytes.as_chunks::<4>().0.iter().zip(digits.as_chunks_mut::<8>().0) {
            *eight = hexadecimal(*four);
        }
        Self(digits)
    }

    #[inline]
    #[doc(hidden)]
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; Self::LENGTH] {
        &self.0
    }

    #[inline]
    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("digits are ASCII")
    }
}

/// Eight digits at once, each in a byte of one number.
#[inline]
fn hexadecimal(bytes: [u8; 4]) -> [u8; 8] {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let packed = u64::from(u32::from_be_bytes(bytes));
    let packed = (packed | packed << 16) & 0x0000_FFFF_0000_FFFF;
    let packed = (packed | packed << 8) & 0x00FF_00FF_00FF_00FF;
    let digits = (packed | packed << 4) & (0x0F * EACH);
    // A digit of ten or more has its fifth bit set by adding six.
    let letters = (digits + 6 * EACH) >> 4 & EACH;
    (digits + u64::from(b'0') * EACH + letters * u64::from(b'a' - b'9' - 1)).to_be_bytes()
}

impl From<Cow<'static, str>> for Text {
    #[inline]
    fn from(text: Cow<'static, str>) -> Self {
        match text {
            Cow::Borrowed(text) => Self::Static(text),
            Cow::Owned(text) => Self::Owned(text),
        }
    }
}

impl From<Text> for Id {
    #[inline]
    fn from(text: Text) -> Self {
        Self::Text(text)
    }
}

macro_rules! as_text {
    ($($text:ty)*) => {$(
        impl PartialEq for $text {
            #[inline]
            fn eq(&self, other: &Self) -> bool {
                self.as_str() == other.as_str()
            }
        }

        impl fmt::Debug for $text {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(self.as_str(), f)
            }
        }
    )*};
}

as_text! { Text Id }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_equal_to_its_spelling() {
        let bytes = [0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0xfe, 0xdc, 0xba, 0x98, 0x76, 0x54, 0x32, 0x10];
        let (token, digits) = (Token::new(bytes), "0123456789abcdeffedcba9876543210");
        assert_eq!((token.as_str(), Id::Token(token).len()), (digits, 32));
        let spelled = Id::from(Text::Owned(digits.to_owned()));
        assert_eq!(Id::Token(token), spelled);
        assert_eq!(spelled.token_bytes(), Some(token.as_bytes()));
        for other in [&digits[1..], &digits.to_uppercase(), ""] {
            assert_ne!(Id::from(Text::Owned(other.to_owned())).token_bytes(), Some(token.as_bytes()), "{other}");
        }
    }

    #[test]
    fn every_byte_has_its_digits() {
        for byte in 0..=u8::MAX {
            let digits = hexadecimal([byte, !byte, 0, 0xff]);
            assert_eq!(digits, *format!("{byte:02x}{:02x}00ff", !byte).as_bytes());
        }
    }

    #[test]
    fn a_text_that_is_shared_stays_what_it_was() {
        for mut text in [Text::Static("a"), Text::Owned(String::from("a")), Text::Shared(Arc::from("a"))] {
            text.share();
            assert_eq!((text.as_str(), matches!(text, Text::Owned(_))), ("a", false));
        }
    }
}
