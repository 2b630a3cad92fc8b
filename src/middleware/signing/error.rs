use std::{error, fmt};

use crate::{
    Disposition,
    middleware::keys::shown,
    settlement::{DeadLetterReason, IntoDisposition},
};

/// The error of a message whose signature was not accepted. As a [`Disposition`] it is a dead letter with the reason
/// `SignatureInvalid`.
#[derive(Debug)]
pub struct VerifyError {
    kind: VerifyErrorKind,
    /// The id of the key, or the name of a property, escaped.
    named: Box<str>,
}

/// The kind of a failed verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum VerifyErrorKind {
    /// It has no signature.
    NotSigned,
    /// Its signature is of another version of the format, or does not say which.
    Version,
    /// Its signature is of another algorithm.
    Algorithm,
    /// No key has its id.
    UnknownKey,
    /// Its signature is malformed.
    NoSignature,
    /// The body is an AMQP value or sequence.
    NotBytes,
    /// The body, or a property that is bound to it, is not what was signed, or the key is another one of that id.
    NotAuthentic,
    /// The signature does not cover a property that the layer [requires](super::VerifyLayer::require_bound).
    NotBound,
}

impl VerifyError {
    #[cold]
    pub(super) fn new(kind: VerifyErrorKind) -> Self {
        Self { kind, named: Box::default() }
    }

    #[cold]
    pub(super) fn with(mut self, named: &str) -> Self {
        self.named = shown(named);
        self
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> VerifyErrorKind {
        self.kind
    }
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            VerifyErrorKind::NotSigned => f.write_str("the message is not signed"),
            VerifyErrorKind::Version => f.write_str("the version of the signature's format is not 2"),
            VerifyErrorKind::Algorithm => f.write_str("the algorithm of the signature is not hmac-sha256"),
            VerifyErrorKind::UnknownKey => write!(f, "there is no key `{}` to verify with", self.named),
            VerifyErrorKind::NoSignature => f.write_str("the signature is not 64 hexadecimal digits in lower case"),
            VerifyErrorKind::NotBytes => {
                f.write_str("the body is an AMQP value or sequence, and signed bytes were expected")
            }
            VerifyErrorKind::NotAuthentic => {
                write!(f, "not authentic: the signature by the key `{}` does not match", self.named)
            }
            VerifyErrorKind::NotBound => write!(f, "the signature does not cover the property `{}`", self.named),
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
