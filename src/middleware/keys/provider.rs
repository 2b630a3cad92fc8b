use std::{fmt, sync::Arc};

use zeroize::Zeroizing;

use crate::{BuildError, BuildErrorKind};

/// A secret and its id. A clone is one reference count; the secret is wiped after the last one.
#[derive(Clone)]
pub struct Key(Arc<Inner>);

struct Inner {
    id: Box<str>,
    secret: Zeroizing<[u8; Key::BYTES]>,
}

impl Key {
    /// The length of a secret: 32 bytes, which have to be random.
    pub const BYTES: usize = 32;
    /// The maximum length of an id: 64 characters of visible US-ASCII.
    pub const ID_BYTES: usize = 64;

    /// A key by this id: 1 to 64 characters of visible US-ASCII, for it travels with each message.
    pub fn new(id: impl Into<Box<str>>, secret: [u8; Self::BYTES]) -> Result<Self, BuildError> {
        let (id, secret) = (id.into(), Zeroizing::new(secret));
        if id.is_empty() || id.len() > Self::ID_BYTES || !id.bytes().all(|byte| byte.is_ascii_graphic()) {
            let advice = "the id of a key must have 1 to 64 visible US-ASCII characters";
            return Err(BuildError::new(BuildErrorKind::InvalidKeyId, advice));
        }
        Ok(Self(Arc::new(Inner { id, secret })))
    }

    /// Returns the id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.0.id
    }

    pub(in crate::middleware) fn secret(&self) -> &[u8; Self::BYTES] {
        &self.0.secret
    }
}

/// Shows the id, never the secret.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("id", &self.id()).finish_non_exhaustive()
    }
}

/// Where keys come from: [`Keys`], a closure `Fn(Option<&str>) -> Option<Key>`, or your own type.
///
/// # Examples
///
/// Keys that a task replaces while the program runs:
///
/// ```
/// use std::sync::RwLock;
///
/// use consign::middleware::keys::{Key, KeyProvider, Keys};
///
/// struct Rotating(RwLock<Keys>);
///
/// impl KeyProvider for Rotating {
///     fn key(&self, id: Option<&str>) -> Option<Key> {
///         self.0.read().ok()?.key(id)
///     }
/// }
///
/// # // Secrets are random; these are for the example.
/// let old = Key::new("2025", [1; Key::BYTES])?;
/// let rotating = Rotating(RwLock::new(Keys::new(old.clone())));
/// *rotating.0.write().unwrap() = Keys::new(Key::new("2026", [2; Key::BYTES])?).and_old(old);
/// assert_eq!(rotating.key(None).as_ref().map(Key::id), Some("2026"));
/// assert!(rotating.key(Some("2025")).is_some());
/// # Ok::<(), consign::BuildError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not provide keys",
    note = "give `Keys`, a closure `|id: Option<&str>| -> Option<Key>`, or implement `KeyProvider`"
)]
pub trait KeyProvider: Send + Sync + 'static {
    /// Returns the key with this id; without an id the newest one, which is what a sender uses.
    fn key(&self, id: Option<&str>) -> Option<Key>;
}

impl<F> KeyProvider for F
where
    F: Fn(Option<&str>) -> Option<Key> + Send + Sync + 'static,
{
    fn key(&self, id: Option<&str>) -> Option<Key> {
        self(id)
    }
}

/// Keys that stay what they are.
#[derive(Clone, Debug)]
pub struct Keys {
    newest: Key,
    old: Vec<Key>,
}

impl Keys {
    /// One key, which is the newest.
    #[must_use]
    pub fn new(newest: Key) -> Self {
        Self { newest, old: Vec::new() }
    }

    /// Adds a key that is used for reading only: an old one, or a future one. Of two with the same id the first counts.
    #[must_use]
    pub fn and_old(mut self, key: Key) -> Self {
        self.old.push(key);
        self
    }
}

impl KeyProvider for Keys {
    fn key(&self, id: Option<&str>) -> Option<Key> {
        let Some(id) = id else { return Some(self.newest.clone()) };
        std::iter::once(&self.newest).chain(&self.old).find(|key| key.id() == id).cloned()
    }
}
