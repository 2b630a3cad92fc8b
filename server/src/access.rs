//! The key of an operator.

use std::fmt;

use crate::auth::is_same_key;

/// The key of the operators of a server: for the page, and for `/metrics`. It is compared in constant time, and no `Debug` and no
/// error shows it.
#[derive(Clone)]
pub struct AccessKey(String);

impl AccessKey {
    /// The shortest key, in bytes: 16.
    pub const SHORTEST: usize = 16;

    /// Creates a key from a text, without the white space around it.
    ///
    /// # Errors
    /// [`ShortKey`] below [`AccessKey::SHORTEST`].
    pub fn new(key: &str) -> Result<Self, ShortKey> {
        let key = key.trim();
        if key.len() < Self::SHORTEST { Err(ShortKey(())) } else { Ok(Self(key.to_owned())) }
    }

    /// Returns whether a text is the key, in a time that depends on the lengths only.
    pub(crate) fn is(&self, key: &str) -> bool {
        is_same_key(&self.0, key)
    }
}

/// Does not show the key.
impl fmt::Debug for AccessKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessKey").finish_non_exhaustive()
    }
}

/// The error for a key that is too short to resist guessing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShortKey(());

impl fmt::Display for ShortKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a key of operators has at least {} bytes", AccessKey::SHORTEST)
    }
}

impl std::error::Error for ShortKey {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_compared_whole_and_never_shown() {
        let key = AccessKey::new(" 0123456789abcdef\n").unwrap();
        assert!(key.is("0123456789abcdef") && !key.is("0123456789abcde") && !key.is(""));
        assert!(!format!("{key:?}").contains("0123"));
        assert_eq!(AccessKey::new("0123456789abcde ").unwrap_err(), ShortKey(()));
    }
}
