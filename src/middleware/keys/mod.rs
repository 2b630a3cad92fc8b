//! Keys for [encryption](super::encryption) and [signing](super::signing), and their rotation.
//!
//! A key has an id, which travels with each message, and 32 secret bytes, which do not. A [`KeyProvider`] answers two
//! questions: which key is the newest, and which one has an id. [`Keys`] is one that is told its keys; a closure is
//! another, over whatever holds yours.
//!
//! ```
//! use consign::middleware::keys::{Key, KeyProvider, Keys};
//!
//! # let (of_last_year, of_this_year) = ([1; 32], [2; 32]);
//! let keys = Keys::new(Key::new("2026", of_this_year)?).and_old(Key::new("2025", of_last_year)?);
//! assert_eq!(keys.key(None).map(|key| key.id().to_owned()).as_deref(), Some("2026"));
//! assert!(keys.key(Some("2025")).is_some());
//! assert!(keys.key(Some("2024")).is_none());
//! # Ok::<(), consign::middleware::keys::InvalidKey>(())
//! ```
//!
//! # Rotation
//!
//! A new key goes to all receivers first, as one that is not the newest, then to the senders, as the newest. Remove the
//! old one when no message is left that names it, in dead-letter queues too. A provider is called for each message, in
//! the middle of a call, and must not block. So one that loads its keys keeps them in memory. A
//! [pipeline](crate::pipeline) calls it once more when it is built, to refuse a sender without a key.
//!
//! Do not use one key for both layers, or outside of them.
//!
//! What keys authenticate is on the page of each layer, under *What is authenticated*, and specified to the byte in
//! `docs/signed-and-encrypted-messages.md`.

mod bound;
mod held;
mod names;
mod provider;

pub use self::provider::{InvalidKey, Key, KeyProvider, Keys};
pub(crate) use self::{bound::decides, held::Held, names::Names};
pub(super) use self::{
    bound::{Bound, Purpose},
    held::shown,
};
