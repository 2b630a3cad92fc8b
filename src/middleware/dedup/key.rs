use std::{borrow::Cow, fmt, hash::Hasher};

use siphasher::sip128::{Hasher128, SipHasher13};

use super::sip;
use crate::Message;

/// The key of a message in a store: an id, and its scope.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct DedupKey<'a> {
    scope: &'a str,
    id: &'a [u8],
}

impl<'a> DedupKey<'a> {
    /// Up to how many bytes a key is hashed in one piece, with the length of its scope. A word less than the piece has.
    const SHORT: usize = 127;

    /// An id in a scope. Equal ids in different scopes have nothing to do with each other.
    #[must_use]
    pub const fn new(scope: &'a str, id: &'a [u8]) -> Self {
        Self { scope, id }
    }

    /// Returns the scope of the layer: an entity, or a subscription.
    #[must_use]
    pub const fn scope(&self) -> &'a str {
        self.scope
    }

    /// Returns the bytes of the id. They are as long as the sender likes.
    #[must_use]
    pub const fn id(&self) -> &'a [u8] {
        self.id
    }

    /// Returns the key in 128 bits: SipHash-1-3 under a secret of the store. Keep the secret from the senders, so that
    /// they cannot choose two ids that collide.
    #[must_use]
    #[inline]
    pub fn digest(&self, secret: &[u8; 16]) -> [u8; 16] {
        let [first, second] = self.halves(secret);
        (u128::from(second) << 64 | u128::from(first)).to_le_bytes()
    }

    /// The digest as two numbers.
    #[inline]
    pub(super) fn halves(&self, secret: &[u8; 16]) -> [u64; 2] {
        // The length keeps the end of one part from being the beginning of the other.
        let (scope_length, scope) = ((self.scope.len() as u64).to_le_bytes(), self.scope.as_bytes());
        let id_at = scope_length.len() + scope.len();
        let length = id_at + self.id.len();
        let mut piece = [0; Self::SHORT + 1];
        let Some(parts) = piece[..Self::SHORT].get_mut(..length) else { return self.halves_of_long(secret) };
        parts[..scope_length.len()].copy_from_slice(&scope_length);
        parts[scope_length.len()..id_at].copy_from_slice(scope);
        parts[id_at..].copy_from_slice(self.id);
        sip::hash(secret, &piece, length)
    }

    #[cold]
    fn halves_of_long(&self, secret: &[u8; 16]) -> [u64; 2] {
        let mut hasher = SipHasher13::new_with_key(secret);
        for part in [&(self.scope.len() as u64).to_le_bytes(), self.scope.as_bytes(), self.id] {
            hasher.write(part);
        }
        let digest = hasher.finish128();
        [digest.h1, digest.h2]
    }
}

/// The id may be a whole body, and so is not shown.
impl fmt::Debug for DedupKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("scope", &self.scope).field("bytes", &self.id.len()).finish_non_exhaustive()
    }
}

/// What makes two messages the same: [`OriginalMessageId`], [`BodyBytes`], a closure `Fn(&Message) -> Option<T>` where `T`
/// becomes bytes, or your own type.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not make keys",
    note = "give a closure `Fn(&Message) -> Option<String>`, or implement `MakeKey`"
)]
pub trait MakeKey {
    /// Returns the id of a message. `None` if it has none: then it is passed on as a new message.
    fn make_key<'a>(&self, message: &'a Message) -> Option<Cow<'a, [u8]>>;
}

impl<F, T> MakeKey for F
where
    F: Fn(&Message) -> Option<T>,
    T: Into<Vec<u8>>,
{
    fn make_key<'a>(&self, message: &'a Message) -> Option<Cow<'a, [u8]>> {
        self(message).map(|id| Cow::Owned(id.into()))
    }
}

/// The `MessageId` that the message was first sent under, byte for byte.
#[derive(Clone, Copy, Debug, Default)]
pub struct OriginalMessageId;

impl MakeKey for OriginalMessageId {
    #[inline]
    fn make_key<'a>(&self, message: &'a Message) -> Option<Cow<'a, [u8]>> {
        message.original_message_id().map(|id| Cow::Borrowed(id.as_bytes()))
    }
}

/// The bytes of the body, for senders that have no ids: two messages with the same body are one, whatever their properties
/// say. A store keeps their [digest](DedupKey::digest), not them. An empty body, and one that is not bytes, is no key.
///
/// The body is the one that was received: an encrypted one differs each time, and one that a
/// [claim check](crate::middleware::claim_check) has stored elsewhere is empty. Such messages need a key of their properties.
#[derive(Clone, Copy, Debug, Default)]
pub struct BodyBytes;

impl MakeKey for BodyBytes {
    fn make_key<'a>(&self, message: &'a Message) -> Option<Cow<'a, [u8]>> {
        message.payload().filter(|bytes| !bytes.is_empty()).map(Cow::Borrowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scope_id_and_secret_are_all_in_the_digest() {
        let of = |scope, id, secret: u8| DedupKey::new(scope, id).digest(&[secret; 16]);
        let digest = of("ab", b"c", 0);
        assert_eq!(digest, of("ab", b"c", 0));
        for other in [of("a", b"bc", 0), of("abc", b"", 0), of("ab", b"d", 0), of("ab", b"c", 1)] {
            assert_ne!(digest, other);
        }
    }

    /// Stores keep digests on disks.
    #[test]
    fn the_digest_of_a_short_key_is_that_of_siphasher() {
        let id: Vec<u8> = (0..=255).collect();
        for (scope, secret) in [("", 0), ("a", 1), ("orders", 0xff), ("orders/subscriptions/a", 7)] {
            for length in 0..id.len() {
                let (key, secret) = (DedupKey::new(scope, &id[..length]), [secret; 16]);
                assert_eq!(key.halves(&secret), key.halves_of_long(&secret), "{scope} {length}");
            }
        }
        let digest = DedupKey::new("orders", b"order-7").digest(&[7; 16]);
        assert_eq!(digest, [128, 196, 0, 107, 92, 184, 203, 6, 87, 251, 187, 40, 80, 217, 227, 66]);
    }
}
