use std::{
    future::{Future, ready},
    sync::Arc,
    time::Duration,
};

use super::{DedupKey, StoreError};

/// A store of ids: reserved ones for the time of a lease, committed ones for the window of the store.
///
/// Consumers in several processes share what is handled by sharing a store. Methods are called at once and from many
/// tasks; between two calls of `begin` for one key only one answers [`Begin::New`], as long as the lease of that one
/// lasts.
///
/// # Cancel safety
///
/// A future that is dropped may have had its effect or not.
///
/// # Examples
///
/// Ids in memory. A store for production has a window after which it drops an id, and a limit:
///
/// ```
/// use std::{collections::HashMap, sync::Mutex, time::Duration};
///
/// use consign::middleware::dedup::{Begin, DedupStore, DedupKey, StoreError, StoreErrorKind};
/// use tokio::time::Instant;
///
/// /// The end of each reservation; `None` for an id that is committed.
/// #[derive(Default)]
/// struct Ids(Mutex<HashMap<Vec<u8>, Option<Instant>>>);
///
/// /// The id, and the end of its reservation as a name of it.
/// struct Reserved(Vec<u8>, Instant);
///
/// impl DedupStore for Ids {
///     type Token = Reserved;
///
///     async fn begin(&self, key: DedupKey<'_>, lease: Duration) -> Result<Begin<Reserved>, StoreError> {
///         let id = [key.scope().as_bytes(), b"/", key.id()].concat();
///         let (mut ids, now) = (self.0.lock().unwrap(), Instant::now());
///         match ids.get(&id) {
///             Some(None) => Ok(Begin::Committed),
///             Some(Some(end)) if *end > now => Ok(Begin::InProgress { left: *end - now }),
///             _ => {
///                 ids.insert(id.clone(), Some(now + lease));
///                 Ok(Begin::New(Reserved(id, now + lease)))
///             }
///         }
///     }
///
///     async fn commit(&self, Reserved(id, end): &Reserved) -> Result<(), StoreError> {
///         match self.0.lock().unwrap().get_mut(id) {
///             Some(reserved) if reserved.is_none_or(|other| other == *end) => *reserved = None,
///             _ => return Err(StoreError::new(StoreErrorKind::Superseded)),
///         }
///         Ok(())
///     }
///
///     async fn forget(&self, Reserved(id, end): &Reserved) -> Result<(), StoreError> {
///         self.0.lock().unwrap().retain(|other, reserved| other != id || *reserved != Some(*end));
///         Ok(())
///     }
/// }
///
/// # tokio_test::block_on(async {
/// let (ids, key) = (Ids::default(), DedupKey::new("orders", b"order-7"));
/// let Begin::New(reserved) = ids.begin(key, Duration::from_secs(60)).await? else { panic!() };
/// assert!(matches!(ids.begin(key, Duration::from_secs(60)).await?, Begin::InProgress { .. }));
/// ids.commit(&reserved).await?;
/// assert!(matches!(ids.begin(key, Duration::from_secs(60)).await?, Begin::Committed));
/// # Ok::<(), StoreError>(())
/// # }).unwrap();
/// ```
pub trait DedupStore: Send + Sync + 'static {
    /// The right to end a reservation.
    type Token: Send + Sync + 'static;

    /// Whether its futures are ready when they are polled first, as those of a store in memory are. Then a call of the layer
    /// needs no allocation. A future of such a store that is pending all the same is dropped, and the call begins anew.
    const IS_IMMEDIATE: bool = false;

    /// Reserves an id that is neither committed nor reserved. The reservation ends by itself when `lease` is over.
    ///
    /// # Errors
    ///
    /// [`Full`](super::StoreErrorKind::Full): a store does not forget an id early.
    fn begin(
        &self,
        key: DedupKey<'_>,
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

    const IS_IMMEDIATE: bool = S::IS_IMMEDIATE;

    fn begin(
        &self,
        key: DedupKey<'_>,
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
