use std::{error, fmt};

use crate::{
    Disposition,
    middleware::keys::shown,
    settlement::{DeadLetterReason, IntoDisposition},
};

/// The error of a message that was not decrypted. As a [`Disposition`] it is a dead letter with the reason
/// `SignatureInvalid`.
#[derive(Debug)]
pub struct DecryptError {
    kind: DecryptErrorKind,
    /// The id of the key, or the name of a property, escaped.
    named: Box<str>,
}

/// The kind of a failed decryption.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DecryptErrorKind {
    /// It is not encrypted.
    NotEncrypted,
    /// It is encrypted in another version of the format, or has no version.
    Version,
    /// It is encrypted by another algorithm.
    Algorithm,
    /// No key has its id.
    UnknownKey,
    /// The body is an AMQP value or sequence.
    NotBytes,
    /// The body is shorter than a nonce and a tag.
    TooShort,
    /// The body, or a property that is bound to it, is not what was encrypted, or the key is another one of that id.
    NotAuthentic,
    /// The message does not authenticate a property that the layer [requires](super::DecryptLayer::require_bound).
    NotBound,
}

impl DecryptError {
    #[cold]
    pub(super) fn new(kind: DecryptErrorKind) -> Self {
        Self { kind, named: Box::default() }
    }

    #[cold]
    pub(super) fn with(mut self, named: &str) -> Self {
        self.named = shown(named);
        self
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> DecryptErrorKind {
        self.kind
    }
}

impl fmt::Display for DecryptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            DecryptErrorKind::NotEncrypted => f.write_str("the message is not encrypted"),
            DecryptErrorKind::Version => f.write_str("the version of the encryption's format is not 2"),
            DecryptErrorKind::Algorithm => f.write_str("the algorithm of the encryption is not xchacha20poly1305"),
            DecryptErrorKind::UnknownKey => write!(f, "there is no key `{}` to decrypt with", self.named),
            DecryptErrorKind::NotBytes => f.write_str("the body is an AMQP value or sequence, and not encrypted bytes"),
            DecryptErrorKind::TooShort => f.write_str("the body is too short to be encrypted"),
            DecryptErrorKind::NotAuthentic => {
                write!(f, "not authentic: the encryption by the key `{}` does not match", self.named)
            }
            DecryptErrorKind::NotBound => write!(f, "the encryption does not cover the property `{}`", self.named),
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
