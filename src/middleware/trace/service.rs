use std::{fmt, marker::PhantomData, sync::Arc};

use super::Names;

/// Opens a span for each message; see the [module](super).
pub struct Trace<S, D> {
    pub(super) inner: S,
    pub(super) names: Arc<Names>,
    pub(super) direction: PhantomData<fn() -> D>,
}

impl<S: Clone, D> Clone for Trace<S, D> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), names: Arc::clone(&self.names), direction: PhantomData }
    }
}

impl<S: fmt::Debug, D> fmt::Debug for Trace<S, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trace").field("inner", &self.inner).field("span", &self.names.span).finish_non_exhaustive()
    }
}
