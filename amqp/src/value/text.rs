use std::{borrow::Borrow, error, fmt, ops::Deref};

use bytes::Bytes;

/// Bytes. `Debug` shows their number only.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Binary(pub Bytes);

impl Deref for Binary {
    type Target = Bytes;

    fn deref(&self) -> &Bytes {
        &self.0
    }
}

impl<T: Into<Bytes>> From<T> for Binary {
    fn from(bytes: T) -> Self {
        Self(bytes.into())
    }
}

impl fmt::Debug for Binary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Binary({} bytes)", self.0.len())
    }
}

/// Text: UTF-8. A decoded one shares the memory of its input.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Str(Bytes);

/// ASCII text from a set of names, such as a condition or the key of an annotation. A decoded one shares the memory of its
/// input.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Symbol(Bytes);

macro_rules! text {
    ($text:ident) => {
        impl $text {
            /// Bytes that are known to be text of the type.
            pub(crate) const fn from_checked(bytes: Bytes) -> Self {
                Self(bytes)
            }

            /// Returns the text. This checks again that it is UTF-8; [`as_bytes`](Self::as_bytes) does not.
            #[must_use]
            pub fn as_str(&self) -> &str {
                str::from_utf8(&self.0).unwrap_or_default()
            }

            /// Returns the bytes of the text.
            #[must_use]
            pub fn as_bytes(&self) -> &[u8] {
                &self.0
            }

            /// Returns the bytes of the text without copying them.
            #[must_use]
            pub fn into_bytes(self) -> Bytes {
                self.0
            }

            /// Returns the same text in memory of its own, so that the input it was decoded from can be released.
            #[must_use]
            pub fn to_owned_memory(&self) -> Self {
                Self(Bytes::copy_from_slice(&self.0))
            }
        }

        impl Deref for $text {
            type Target = str;

            fn deref(&self) -> &str {
                self.as_str()
            }
        }

        impl AsRef<str> for $text {
            fn as_ref(&self) -> &str {
                self.as_str()
            }
        }

        impl Borrow<str> for $text {
            fn borrow(&self) -> &str {
                self.as_str()
            }
        }

        impl PartialEq<str> for $text {
            fn eq(&self, other: &str) -> bool {
                self.0 == other.as_bytes()
            }
        }

        impl PartialEq<&str> for $text {
            fn eq(&self, other: &&str) -> bool {
                self.0 == other.as_bytes()
            }
        }

        impl fmt::Display for $text {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl fmt::Debug for $text {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(self.as_str(), f)
            }
        }
    };
}

text!(Str);
text!(Symbol);

impl Str {
    /// Creates a text without copying it.
    #[must_use]
    pub const fn from_static(text: &'static str) -> Self {
        Self(Bytes::from_static(text.as_bytes()))
    }
}

impl From<&str> for Str {
    fn from(text: &str) -> Self {
        Self(Bytes::copy_from_slice(text.as_bytes()))
    }
}

impl From<String> for Str {
    fn from(text: String) -> Self {
        Self(text.into_bytes().into())
    }
}

impl From<Symbol> for Str {
    fn from(symbol: Symbol) -> Self {
        Self(symbol.0)
    }
}

impl Symbol {
    /// Creates a symbol without copying it.
    ///
    /// # Panics
    /// The text is not ASCII. In a constant that is an error of the compiler.
    #[must_use]
    pub const fn from_static(text: &'static str) -> Self {
        assert!(text.is_ascii(), "a symbol is ASCII");
        Self(Bytes::from_static(text.as_bytes()))
    }

    /// Creates a symbol that may have other characters than ASCII.
    ///
    /// AMQP 1.0 does not allow them, and a peer may refuse the connection for one. For data that is decoded with
    /// [`Limits::utf8_symbols`](crate::codec::Limits::utf8_symbols).
    #[must_use]
    pub fn from_utf8(text: impl Into<Str>) -> Self {
        Self(text.into().0)
    }
}

impl TryFrom<&str> for Symbol {
    type Error = NotAscii;

    fn try_from(text: &str) -> Result<Self, NotAscii> {
        Str::from(text).try_into()
    }
}

impl TryFrom<String> for Symbol {
    type Error = NotAscii;

    fn try_from(text: String) -> Result<Self, NotAscii> {
        Str::from(text).try_into()
    }
}

impl TryFrom<Str> for Symbol {
    type Error = NotAscii;

    fn try_from(text: Str) -> Result<Self, NotAscii> {
        if text.0.is_ascii() { Ok(Self(text.0)) } else { Err(NotAscii) }
    }
}

/// The text has a character that is not ASCII, so that it cannot be a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAscii;

impl fmt::Display for NotAscii {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a symbol has only ASCII characters")
    }
}

impl error::Error for NotAscii {}
