use std::{fmt, sync::Arc};

use super::{Key, KeyProvider};

/// A provider as a layer holds it.
#[derive(Clone)]
pub(crate) struct Held(Arc<dyn KeyProvider>);

impl Held {
    pub(crate) fn new(keys: impl KeyProvider) -> Self {
        Self(Arc::new(keys))
    }

    pub(crate) fn newest(&self) -> Option<Key> {
        self.0.key(None)
    }

    /// The key with this id. A provider may answer with another one, which does not count.
    pub(crate) fn named(&self, id: &str) -> Option<Key> {
        self.0.key(Some(id)).filter(|key| key.id() == id)
    }
}

/// Shows nothing of the keys.
impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyProvider").finish_non_exhaustive()
    }
}

/// An id from a message, which may be any text, as a description shows it.
pub(crate) fn shown(id: &str) -> Box<str> {
    id.chars().take(Key::ID_BYTES).flat_map(char::escape_debug).collect()
}
