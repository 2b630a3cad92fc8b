use std::{error, fmt};

use super::BlobId;
use crate::{
    Disposition,
    settlement::{DeadLetterReason, IntoDisposition, cause_of},
    transport::{ErrorKind, SendError},
};

type BoxError = Box<dyn error::Error + Send + Sync>;

/// An error of a blob store.
#[derive(Debug)]
pub struct BlobError {
    kind: BlobErrorKind,
    id: Option<BlobId>,
    source: Option<BoxError>,
}

/// The kind of an error of a blob, or of its store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BlobErrorKind {
    /// There is no blob with that id.
    Missing,
    /// It has another length.
    Length,
    /// The store is full.
    Full,
    /// The store does not let this process in.
    Denied,
    /// The store did not answer, or without a more specific error. It may later.
    Unavailable,
}

impl BlobError {
    /// An error of this kind.
    #[must_use]
    pub fn new(kind: BlobErrorKind) -> Self {
        Self { kind, id: None, source: None }
    }

    /// Adds the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<BoxError>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Adds the id of the blob.
    pub(super) fn of(self, id: &BlobId) -> Self {
        Self { id: Some(*id), ..self }
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> BlobErrorKind {
        self.kind
    }

    /// Returns whether the same call may succeed later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self.kind, BlobErrorKind::Full | BlobErrorKind::Denied | BlobErrorKind::Unavailable)
    }
}

impl fmt::Display for BlobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            BlobErrorKind::Missing => "the blob does not exist",
            BlobErrorKind::Length => "the blob has a different length",
            BlobErrorKind::Full => "the blob store is full",
            BlobErrorKind::Denied => "the blob store denies access",
            BlobErrorKind::Unavailable => "the blob store failed, or did not answer",
        })?;
        self.id.map_or(Ok(()), |id| write!(f, " (blob {id})"))
    }
}

impl error::Error for BlobError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.source.as_ref().map(|source| &**source as _)
    }
}

impl From<BlobError> for SendError {
    fn from(error: BlobError) -> Self {
        let kind = match error.kind {
            BlobErrorKind::Full => ErrorKind::QuotaExceeded,
            BlobErrorKind::Denied => ErrorKind::Unauthorized,
            // `ServiceBusy` would pause all sends.
            _ => ErrorKind::Throttled,
        };
        // Nothing was sent, so there is no outcome that is unknown.
        Self::new(kind).with_detail(error.to_string()).with_source(error)
    }
}

/// A claim that cannot be redeemed. As a [`Disposition`] it is a dead letter.
#[derive(Debug)]
#[non_exhaustive]
pub enum ClaimError {
    /// It is malformed.
    Invalid,
    /// There is a body beside it.
    WithBody,
    /// It is for more bytes than the layer reads.
    TooLarge {
        /// Bytes of the claim.
        length: u64,
        /// Bytes that the layer reads.
        limit: u64,
    },
    /// The store has no such blob, one of another length, or has not returned it.
    Blob(BlobError),
    /// The blob has another digest.
    Altered,
}

impl ClaimError {
    /// Returns the code under which the message is dead-lettered.
    #[must_use]
    pub fn reason(&self) -> DeadLetterReason {
        match self {
            Self::TooLarge { .. } => DeadLetterReason::LimitExceeded,
            _ => DeadLetterReason::ClaimMissing,
        }
    }
}

impl fmt::Display for ClaimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid => f.write_str("the claim is malformed"),
            Self::WithBody => f.write_str("the message has both a claim and a body"),
            Self::TooLarge { length, limit } => write!(f, "the claim is for {length} bytes, the limit is {limit}"),
            Self::Blob(error) => fmt::Display::fmt(error, f),
            Self::Altered => f.write_str("the digest of the blob is not that of the claim"),
        }
    }
}

impl error::Error for ClaimError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Blob(error) => Some(error),
            _ => None,
        }
    }
}

impl IntoDisposition for ClaimError {
    #[cold]
    fn into_disposition(self) -> Disposition {
        let description = match &self {
            Self::Blob(error) => cause_of(error),
            _ => self.to_string(),
        };
        Disposition::dead_letter(self.reason(), description)
    }
}
