//! The sessions that consumers of this process hold, by number.
//!
//! A message carries the number of its session and not a reference to it: a message that outlives its handler must not keep the
//! session locked, and one without a session must not cost more.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use bytes::Bytes;

use crate::{
    Message,
    message::SessionKey,
    transport::{BoxFuture, SettleError},
};

/// A session that a consumer holds, for the handlers of its messages.
pub(super) trait HeldSession: Send + Sync {
    fn id(&self) -> &Arc<str>;
    fn operation_timeout(&self) -> Duration;
    fn state(&self) -> BoxFuture<Result<Option<Bytes>, SettleError>>;
    fn set_state(&self, state: Option<Bytes>) -> BoxFuture<Result<(), SettleError>>;
}

#[derive(Default)]
struct Registry {
    sessions: HashMap<u32, Weak<dyn HeldSession>>,
    last: u32,
}

static REGISTRY: LazyLock<Mutex<Registry>> = LazyLock::new(Mutex::default);

fn registry() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The number of a session, until this is dropped.
pub(super) struct Registered(SessionKey);

impl Registered {
    pub(super) fn key(&self) -> SessionKey {
        self.0
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        registry().sessions.remove(&self.0.0);
    }
}

/// Makes a session that handlers find by its number.
pub(super) fn register<H: HeldSession + 'static>(session: impl FnOnce(Registered) -> H) -> Arc<H> {
    Arc::new_cyclic(|own: &Weak<H>| {
        let own: Weak<dyn HeldSession> = Weak::<H>::clone(own);
        let mut registry = registry();
        loop {
            registry.last = registry.last.wrapping_add(1);
            let key = registry.last;
            // 0 is no session, and after four billion sessions the first may be held still.
            if key != 0
                && let Entry::Vacant(free) = registry.sessions.entry(key)
            {
                free.insert(own);
                drop(registry);
                break session(Registered(SessionKey(key)));
            }
        }
    })
}

/// The session that delivered the message, while a consumer holds it.
pub(super) fn session_of(message: &Message) -> Option<Arc<dyn HeldSession>> {
    let SessionKey(key) = message.received()?.session;
    if key == 0 {
        return None;
    }
    registry().sessions.get(&key).and_then(Weak::upgrade)
}
