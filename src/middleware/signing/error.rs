use std::{error, fmt};

use crate::{
    Disposition,
    middleware::keys::shown,
    settlement::{DeadLetterReason, IntoDisposition},
};

/// Why a message was not accepted. As a [`Disposition`] it is a dead letter with the reason `SignatureInvalid`.
#[derive(Debug)]
pub struct VerifyError {
    kind: VerifyErrorKind,
    /// The id of the key, escaped.
    key: Box<str>,
}

/// What was wrong with a message that should be signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum VerifyErrorKind {
    /// It has no signature.
    NotSigned,
    /// No key has its id.
    UnknownKey,
    /// What it has is no signature.
    NoSignature,
    /// The body is an AMQP value or sequence.
    NotBytes,
    /// The body, or a property that is bound to it, is not what was signed, or the key is another one of that id.
    NotAuthentic,
}

impl VerifyError {
    #[cold]
    pub(super) fn new(kind: VerifyErrorKind) -> Self {
        Self { kind, key: Box::default() }
    }

    #[cold]
    pub(super) fn with_key(mut self, id: &str) -> Self {
        self.key = shown(id);
        self
    }

    /// What was wrong.
    #[must_use]
    pub fn kind(&self) -> VerifyErrorKind {
        self.kind
    }
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            VerifyErrorKind::NotSigned => f.write_str("the message is not signed"),
            VerifyErrorKind::UnknownKey => write!(f, "no key `{}` to verify by", self.key),
            VerifyErrorKind::NoSignature => f.write_str("the signature is not 64 hexadecimal digits in lower case"),
            VerifyErrorKind::NotBytes => f.write_str("the body is an AMQP value or sequence, which nobody signs"),
            VerifyErrorKind::NotAuthentic => write!(f, "not what was signed by the key `{}`", self.key),
        }
    }
}

impl error::Error for VerifyError {}

impl IntoDisposition for VerifyError {
    #[cold]
    fn into_disposition(self) -> Disposition {
        Disposition::dead_letter(DeadLetterReason::SignatureInvalid, self.to_string())
    }
}
