use std::{error, fmt};

use crate::{
    Disposition,
    middleware::keys::shown,
    settlement::{DeadLetterReason, IntoDisposition},
};

/// The error of a message whose signature was not accepted. As a [`Disposition`] it is a dead letter with the reason
/// `SignatureInvalid`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum VerifyError {
    /// It has no signature.
    NotSigned,
    /// Its signature is of another version of the format, or does not say which.
    Version,
    /// Its signature is of another algorithm.
    Algorithm,
    /// No key has its id.
    UnknownKey {
        /// The id, escaped.
        id: Box<str>,
    },
    /// Its signature is malformed.
    NoSignature,
    /// The body is an AMQP sequence, or a value that is not bytes.
    NotBytes,
    /// The body, or a property that is bound to it, is not what was signed, or the key is another one of that id.
    NotAuthentic {
        /// The id of the key, escaped.
        id: Box<str>,
    },
    /// The signature does not cover a property that the layer [requires](super::VerifyLayer::require_bound).
    NotBound {
        /// The name of the property, escaped.
        property: Box<str>,
    },
}

impl VerifyError {
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

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotSigned => f.write_str("the message is not signed"),
            Self::Version => f.write_str("the version of the signature's format is not 2"),
            Self::Algorithm => f.write_str("the algorithm of the signature is not hmac-sha256"),
            Self::UnknownKey { id } => write!(f, "there is no key `{id}` to verify with"),
            Self::NoSignature => f.write_str("the signature is not 64 hexadecimal digits in lower case"),
            Self::NotBytes => f.write_str("the body is an AMQP value or sequence, and signed bytes were expected"),
            Self::NotAuthentic { id } => {
                write!(f, "not authentic: the signature by the key `{id}` does not match")
            }
            Self::NotBound { property } => write!(f, "the signature does not cover the property `{property}`"),
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
