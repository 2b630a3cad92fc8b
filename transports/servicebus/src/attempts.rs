//! Attempts that are under way, each for all of its callers.

use std::{collections::HashMap, sync::Arc};

use consign_core::transport::BoxFuture;
use futures_util::{
    FutureExt,
    future::{Shared, WeakShared},
};
use parking_lot::Mutex;

use crate::error::Failure;

type Attempt<T> = BoxFuture<Result<Arc<T>, Failure>>;

/// By the keys of their entities. An attempt is given up when its last caller is dropped.
pub(crate) struct Attempts<T>(Mutex<HashMap<String, WeakShared<Attempt<T>>>>);

impl<T> Attempts<T> {
    /// Joins the attempt for a key, or begins one.
    pub(crate) fn join(&self, key: &str, begin: impl FnOnce() -> Attempt<T>) -> Shared<Attempt<T>> {
        let mut attempts = self.0.lock();
        attempts.retain(|_, attempt| attempt.upgrade().is_some_and(|attempt| attempt.peek().is_none()));
        if let Some(attempt) = attempts.get(key).and_then(WeakShared::upgrade) {
            return attempt;
        }
        let attempt = begin().shared();
        if let Some(weak) = attempt.downgrade() {
            attempts.insert(key.to_owned(), weak);
        }
        attempt
    }
}

impl<T> Default for Attempts<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}
