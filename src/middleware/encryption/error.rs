use std::{error, fmt};

use crate::{
    Disposition,
    middleware::keys::shown,
    settlement::{DeadLetterReason, IntoDisposition},
};

/// The error of a message that was not decrypted. As a [`Disposition`] it is a dead letter with the reason
/// `SignatureInvalid`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecryptError {
    /// It is not encrypted.
    NotEncrypted,
    /// It is encrypted in another version of the format, or has no version.
    Version,
    /// It is encrypted by another algorithm.
    Algorithm,
    /// No key has its id.
    UnknownKey {
        /// The id, escaped.
        id: Box<str>,
    },
    /// The body is an AMQP sequence, or a value that is not bytes.
    NotBytes,
    /// The body is shorter than a nonce and a tag.
    TooShort,
    /// The body, or a property that is bound to it, is not what was encrypted, or the key is another one of that id.
    NotAuthentic {
        /// The id of the key, escaped.
        id: Box<str>,
    },
    /// The message does not authenticate a property that the layer [requires](super::DecryptLayer::require_bound).
    NotBound {
        /// The name of the property, escaped.
        property: Box<str>,
    },
}

impl DecryptError {
    #[cold]
    pub(super) fn unknown_key(id: &str) -> Self {
        Self::UnknownKey { id: shown(id) }
    }

    #[cold]
    pub(super) fn not_authentic(id: &str) -> Self {
        Self::NotAuthentic { id: shown(id) }
    }

    #[cold]
    pub(super) fn not_bound(property: &str) -> Self {
        Self::NotBound { property: shown(property) }
    }
}

impl fmt::Display for DecryptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotEncrypted => f.write_str("the message is not encrypted"),
            Self::Version => f.write_str("the version of the encryption's format is not 2"),
            Self::Algorithm => f.write_str("the algorithm of the encryption is not xchacha20poly1305"),
            Self::UnknownKey { id } => write!(f, "there is no key `{id}` to decrypt with"),
            Self::NotBytes => f.write_str("the body is an AMQP value or sequence, and not encrypted bytes"),
            Self::TooShort => f.write_str("the body is too short to be encrypted"),
            Self::NotAuthentic { id } => {
                write!(f, "not authentic: the encryption by the key `{id}` does not match")
            }
            Self::NotBound { property } => write!(f, "the encryption does not cover the property `{property}`"),
        }
    }
}

impl error::Error for DecryptError {}

impl IntoDisposition for DecryptError {
    #[cold]
    fn into_disposition(self) -> Disposition {
        Disposition::dead_letter(DeadLetterReason::SignatureInvalid, self.to_string())
    }
}
