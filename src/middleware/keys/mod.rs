//! Keys for [encryption](super::encryption) and [signing](super::signing), and their rotation.
//!
//! A key has an id, which each message contains, and 32 secret bytes. A [`KeyProvider`] returns the newest key, and the key
//! of an id. [`Keys`] is a provider with a fixed list of keys. A closure is a provider too, for your own key store.
//!
//! ```
//! use consign::middleware::keys::{Key, KeyProvider, Keys};
//!
//! # let (of_last_year, of_this_year) = ([1; 32], [2; 32]);
//! let keys = Keys::new(Key::new("2026", of_this_year)?).and_old(Key::new("2025", of_last_year)?);
//! assert_eq!(keys.key(None).map(|key| key.id().to_owned()).as_deref(), Some("2026"));
//! assert!(keys.key(Some("2025")).is_some());
//! assert!(keys.key(Some("2024")).is_none());
//! # Ok::<(), consign::BuildError>(())
//! ```
//!
//! # Rotation
//!
//! Add a new key to all receivers first, as one that is not the newest, then to the senders, as the newest. Remove the old
//! key when no message names it, including dead letters. A provider is called for each message, during the call, and must
//! not block. So a provider that loads its keys caches them in memory. A [pipeline](crate::pipeline) calls it once more
//! when it is built, to refuse a sender without a key.
//!
//! Do not use one key for both layers, or outside of them.
//!
//! The page of each layer lists what its keys authenticate, and `docs/signed-and-encrypted-messages.md` specifies it.

mod bound;
mod held;
mod names;
mod provider;

pub use self::provider::{Key, KeyProvider, Keys};
pub(crate) use self::{bound::decides, held::Held, names::Names};
pub(super) use self::{
    bound::{Bound, Purpose},
    held::shown,
};
