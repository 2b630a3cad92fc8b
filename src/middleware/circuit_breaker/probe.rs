use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use crate::Message;

/// The probe of an open circuit. An inner layer that completes it without the handler marks it: it shows nothing of what
/// the handler depends on.
#[derive(Clone)]
pub(crate) struct Probe(Arc<AtomicBool>);

impl Probe {
    #[cold]
    pub(super) fn begin(message: &mut Message) -> Self {
        let probe = Self(Arc::default());
        message.extensions_mut().insert(probe.clone());
        probe
    }

    /// Marks a message that is completed without a handler, if it is a probe.
    #[cold]
    pub(crate) fn mark_unhandled(message: &Message) {
        if let Some(Self(mark)) = message.extensions().get() {
            mark.store(true, Ordering::Relaxed);
        }
    }

    pub(super) fn is_unhandled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
