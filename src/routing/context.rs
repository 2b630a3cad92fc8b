use std::{fmt, sync::Arc};

use consign_codecs::Codecs;

/// The shared context of handlers: the application's state and the codecs. A clone is one reference count.
pub struct Context<S, C>(Arc<Shared<S, C>>);

struct Shared<S, C> {
    state: S,
    codecs: Codecs<C>,
    /// Where messages say their type, if it is not the subject.
    type_property: Option<&'static str>,
}

impl<S, C> Context<S, C> {
    pub(super) fn new(state: S, codecs: Codecs<C>, type_property: Option<&'static str>) -> Self {
        Self(Arc::new(Shared { state, codecs, type_property }))
    }

    /// Returns the application's state.
    #[must_use]
    #[inline]
    pub fn state(&self) -> &S {
        &self.0.state
    }

    /// Returns the codecs.
    #[must_use]
    #[inline]
    pub fn codecs(&self) -> &Codecs<C> {
        &self.0.codecs
    }

    pub(super) fn type_property(&self) -> Option<&'static str> {
        self.0.type_property
    }
}

impl<S, C> Clone for Context<S, C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S, C> fmt::Debug for Context<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").finish_non_exhaustive()
    }
}
