//! The places of connections: those that have authenticated, and those that have not.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::{limits::Limits, log::warn_of};

/// More connections than a process can have.
const ALL: u32 = u32::MAX >> 3;

/// The places of a server. A connection takes one of the limit only when it has authenticated, so that others cannot use it up.
pub(crate) struct Places {
    /// Every connection has one.
    present: Arc<Semaphore>,
    authenticated: Arc<Semaphore>,
    max_unauthenticated: usize,
    unauthenticated: Mutex<Unauthenticated>,
}

/// The connections that have not authenticated, the oldest first, with what closes them.
#[derive(Default)]
struct Unauthenticated {
    next: u64,
    waiting: BTreeMap<u64, Arc<Notify>>,
}

impl Places {
    pub(crate) fn new(limits: &Limits) -> Arc<Self> {
        Arc::new(Self {
            present: Arc::new(Semaphore::new(ALL as usize)),
            authenticated: Arc::new(Semaphore::new(limits.max_connections)),
            max_unauthenticated: limits.max_unauthenticated,
            unauthenticated: Mutex::default(),
        })
    }

    /// Adds a connection that has not authenticated. If there are too many, the oldest is closed.
    pub(crate) fn enter(self: &Arc<Self>) -> Place {
        let evicted = Arc::new(Notify::new());
        let mut unauthenticated = self.unauthenticated.lock();
        let number = unauthenticated.next;
        unauthenticated.next += 1;
        unauthenticated.waiting.insert(number, Arc::clone(&evicted));
        let over = unauthenticated.waiting.len() > self.max_unauthenticated;
        let oldest = if over { unauthenticated.waiting.pop_first() } else { None };
        drop(unauthenticated);
        if let Some((_, oldest)) = oldest {
            let limit = self.max_unauthenticated;
            warn_of!("UnauthenticatedLimit", limit, "a connection was closed before it has authenticated");
            oldest.notify_one();
        }
        Place { places: Arc::clone(self), number, evicted, authenticated: None, _present: self.count() }
    }

    /// Counts a connection that has a limit of its own, until the permit is dropped.
    pub(crate) fn count(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.present).try_acquire_owned().ok()
    }

    /// Returns the number of connections.
    pub(crate) fn connections(&self) -> usize {
        ALL as usize - self.present.available_permits()
    }

    /// Waits until there is no connection.
    pub(crate) async fn empty(&self) {
        // The semaphore is never closed.
        let _ = self.present.acquire_many(ALL).await;
    }
}

/// The place of a connection, until it is dropped.
pub(crate) struct Place {
    places: Arc<Places>,
    number: u64,
    evicted: Arc<Notify>,
    authenticated: Option<OwnedSemaphorePermit>,
    _present: Option<OwnedSemaphorePermit>,
}

impl Place {
    /// Notified when the connection is to be closed, as it has not authenticated and there are too many of that kind.
    pub(crate) fn evicted(&self) -> Arc<Notify> {
        Arc::clone(&self.evicted)
    }

    pub(crate) fn is_authenticated(&self) -> bool {
        self.authenticated.is_some()
    }

    /// The client has authenticated. False if there are too many of those.
    pub(crate) fn authenticate(&mut self) -> bool {
        if self.authenticated.is_none() {
            self.authenticated = Arc::clone(&self.places.authenticated).try_acquire_owned().ok();
            if self.authenticated.is_some() {
                self.leave();
            }
        }
        self.authenticated.is_some()
    }

    fn leave(&self) {
        self.places.unauthenticated.lock().waiting.remove(&self.number);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.authenticated.is_none() {
            self.leave();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places() -> Arc<Places> {
        Places::new(&Limits::default().max_connections(1).max_unauthenticated(2))
    }

    fn is_evicted(place: &Place) -> bool {
        use futures_util::FutureExt;
        place.evicted.notified().now_or_never().is_some()
    }

    #[test]
    fn the_oldest_unauthenticated_connection_is_evicted() {
        let places = places();
        let (mut first, second, third) = (places.enter(), places.enter(), places.enter());
        assert_eq!([&first, &second, &third].map(is_evicted), [true, false, false]);
        drop(second);
        let fourth = places.enter();
        assert_eq!([&third, &fourth].map(is_evicted), [false, false]);
        assert_eq!(places.connections(), 3);
        // It has authenticated at the same time.
        assert!(first.authenticate());
    }

    #[test]
    fn authenticated_connections_have_a_limit_of_their_own() {
        let places = places();
        let (mut first, mut second) = (places.enter(), places.enter());
        assert!(first.authenticate() && first.authenticate());
        assert!(!second.authenticate());
        let third = places.enter();
        assert!(!is_evicted(&second));
        drop(first);
        assert!(second.authenticate());
        drop((second, third));
        assert_eq!(places.connections(), 0);
        assert!(places.unauthenticated.lock().waiting.is_empty());
    }
}
