use std::{
    future::{Future, ready},
    sync::Arc,
    time::Duration,
};

use super::{Key, StoreError};

/// Keeps ids: reserved ones for the time of a lease, committed ones for the window of the store.
///
/// Consumers in several processes share what is handled by sharing a store. Methods are called at once and from many
/// tasks; between two calls of `begin` for one key only one answers [`Begin::New`], as long as the lease of that one
/// lasts. A future that is dropped may have had its effect or not.
pub trait DedupStore: Send + Sync + 'static {
    /// The right to end a reservation.
    type Token: Send + Sync + 'static;

    /// Reserves an id that is neither committed nor reserved. The reservation ends by itself when `lease` is over. Fails as
    /// [`Full`](super::StoreErrorKind::Full) rather than forget an id early.
    fn begin(
        &self,
        key: Key<'_>,
        lease: Duration,
    ) -> impl Future<Output = Result<Begin<Self::Token>, StoreError>> + Send;

    /// Extends the reservation to `lease` from now, even if it has ended. Fails as
    /// [`Superseded`](super::StoreErrorKind::Superseded) if the id was reserved elsewhere since, or the store has
    /// dropped it. The layer calls it while a handler runs. A store that does not implement it extends nothing, and the
    /// lease has to outlast every handler.
    fn renew(&self, token: &Self::Token, lease: Duration) -> impl Future<Output = Result<(), StoreError>> + Send {
        let _ = (token, lease);
        ready(Ok(()))
    }

    /// Makes the id a committed one, from now until the window is over; what is answered `Ok` is not lost. To commit
    /// again what is committed does nothing. A lease that is over does not matter, unless the id was reserved elsewhere
    /// since: that fails as [`Superseded`](super::StoreErrorKind::Superseded).
    fn commit(&self, token: &Self::Token) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Ends the reservation: the id is unknown again. Does nothing if the reservation is not this token's any more.
    fn forget(&self, token: &Self::Token) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// The answer of a store about an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin<T> {
    /// It was unknown, and is reserved now.
    New(T),
    /// It is reserved by another caller.
    InProgress {
        /// How long the lease still lasts; zero if the store does not know.
        left: Duration,
    },
    /// Its message was handled.
    Committed,
}

impl<S: DedupStore> DedupStore for Arc<S> {
    type Token = S::Token;

    fn begin(
        &self,
        key: Key<'_>,
        lease: Duration,
    ) -> impl Future<Output = Result<Begin<Self::Token>, StoreError>> + Send {
        (**self).begin(key, lease)
    }

    fn renew(&self, token: &Self::Token, lease: Duration) -> impl Future<Output = Result<(), StoreError>> + Send {
        (**self).renew(token, lease)
    }

    fn commit(&self, token: &Self::Token) -> impl Future<Output = Result<(), StoreError>> + Send {
        (**self).commit(token)
    }

    fn forget(&self, token: &Self::Token) -> impl Future<Output = Result<(), StoreError>> + Send {
        (**self).forget(token)
    }
}
