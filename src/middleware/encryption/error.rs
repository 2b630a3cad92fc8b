use std::{error, fmt};

use crate::{
    Disposition,
    middleware::keys::shown,
    settlement::{DeadLetterReason, IntoDisposition},
};

/// Why a message was not decrypted. As a [`Disposition`] it is a dead letter with the reason `SignatureInvalid`.
#[derive(Debug)]
pub struct DecryptError {
    kind: DecryptErrorKind,
    /// The id of the key, escaped.
    key: Box<str>,
}

/// What was wrong with a message that should be encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DecryptErrorKind {
    /// It is not encrypted.
    NotEncrypted,
    /// It is encrypted in another way, or does not say how.
    Algorithm,
    /// No key has its id.
    UnknownKey,
    /// The body is an AMQP value or sequence.
    NotBytes,
    /// The body is shorter than a nonce and a tag.
    TooShort,
    /// The body, or a property that is bound to it, is not what was encrypted, or the key is another one of that id.
    NotAuthentic,
}

impl DecryptError {
    #[cold]
    pub(super) fn new(kind: DecryptErrorKind) -> Self {
        Self { kind, key: Box::default() }
    }

    #[cold]
    pub(super) fn with_key(mut self, id: &str) -> Self {
        self.key = shown(id);
        self
    }

    /// What was wrong.
    #[must_use]
    pub fn kind(&self) -> DecryptErrorKind {
        self.kind
    }
}

impl fmt::Display for DecryptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            DecryptErrorKind::NotEncrypted => f.write_str("the message is not encrypted"),
            DecryptErrorKind::Algorithm => f.write_str("the message is encrypted in a way that is not supported"),
            DecryptErrorKind::UnknownKey => write!(f, "no key `{}` to decrypt by", self.key),
            DecryptErrorKind::NotBytes => f.write_str("the body is an AMQP value or sequence, and not encrypted bytes"),
            DecryptErrorKind::TooShort => f.write_str("the body is too short to be encrypted"),
            DecryptErrorKind::NotAuthentic => write!(f, "not what was encrypted by the key `{}`", self.key),
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
