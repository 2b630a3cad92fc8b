use std::fmt;

use consign_codecs::Codecs;

/// The shared context of handlers: the application's state and the codecs.
pub struct Context<S, C> {
    state: S,
    codecs: Codecs<C>,
    /// Where messages say their type, if it is not the subject.
    pub(super) type_property: Option<&'static str>,
}

impl<S, C> Context<S, C> {
    pub(super) fn new(state: S, codecs: Codecs<C>) -> Self {
        Self { state, codecs, type_property: None }
    }

    /// Returns the application's state.
    #[inline]
    pub fn state(&self) -> &S {
        &self.state
    }

    /// Returns the codecs.
    #[inline]
    pub fn codecs(&self) -> &Codecs<C> {
        &self.codecs
    }
}

impl<S, C> fmt::Debug for Context<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").finish_non_exhaustive()
    }
}
