use std::{fmt, str::FromStr};

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use super::error::ClaimError;
use crate::{
    Message,
    message::{PropertyValue, random_id::random_uuid},
};

/// The id of a blob: 32 hexadecimal digits in lower case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlobId([u8; 16]);

impl BlobId {
    /// A new one, of 122 random bits.
    #[must_use]
    pub fn random() -> Self {
        Self(random_uuid())
    }
}

impl fmt::Display for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        HEXLOWER.encode_display(&self.0).fmt(f)
    }
}

/// The reference of a message to a body in a blob store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    id: BlobId,
    length: u64,
    digest: [u8; 32],
}

impl Claim {
    /// The application property that holds a claim.
    pub const PROPERTY: &'static str = "x-claim";

    /// A claim to `body` under this id.
    #[must_use]
    pub fn new(id: BlobId, body: &[u8]) -> Self {
        Self { id, length: body.len() as u64, digest: digest(body) }
    }

    /// The claim of a message: `None` without one.
    #[must_use]
    pub fn of(message: &Message) -> Option<Result<Self, ClaimError>> {
        let claim = message.application_properties().get(Self::PROPERTY)?;
        Some(claim.as_str().ok_or(ClaimError::Invalid).and_then(str::parse))
    }

    /// Under which id the body is stored.
    #[must_use]
    pub fn id(&self) -> &BlobId {
        &self.id
    }

    /// Returns how many bytes the body has.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Returns whether these bytes are the body.
    #[must_use]
    pub fn is_of(&self, body: &[u8]) -> bool {
        body.len() as u64 == self.length && digest(body) == self.digest
    }
}

fn digest(body: &[u8]) -> [u8; 32] {
    Sha256::digest(body).into()
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1:{}:{}:{}", self.id, self.length, HEXLOWER.encode_display(&self.digest))
    }
}

impl From<Claim> for PropertyValue {
    fn from(claim: Claim) -> Self {
        claim.to_string().into()
    }
}

impl FromStr for Claim {
    type Err = ClaimError;

    /// One spelling for each claim: digits in lower case, a length without a sign or leading zeros.
    fn from_str(text: &str) -> Result<Self, ClaimError> {
        let read = || {
            let (id, rest) = text.strip_prefix("1:")?.split_once(':')?;
            let (length, digest) = rest.split_once(':')?;
            let claim = Self { id: BlobId(unhex(id)?), length: length.parse().ok()?, digest: unhex(digest)? };
            (claim.to_string() == text).then_some(claim)
        };
        read().ok_or(ClaimError::Invalid)
    }
}

fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    HEXLOWER.decode(text.as_bytes()).ok()?.try_into().ok()
}
