use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use crate::{Message, message::Properties};

/// The answer of a responder that completes a request without a handler, because its requester does not wait any more. The id
/// of such a request is forgotten: its repetition is the first that is handled.
#[derive(Clone)]
pub(crate) struct Unhandled(Arc<AtomicBool>);

impl Unhandled {
    /// Lets a request with a timeout be marked. Other messages are never completed without a handler.
    #[inline]
    pub(super) fn watch(message: &mut Message) -> Option<Self> {
        if message.application_properties().is_empty() {
            return None;
        }
        Self::watch_request(message)
    }

    #[cold]
    fn watch_request(message: &mut Message) -> Option<Self> {
        message.application_properties().get(Properties::TIMEOUT)?;
        let unhandled = Self(Arc::default());
        message.extensions_mut().insert(unhandled.clone());
        Some(unhandled)
    }

    /// Marks a request that is completed without a handler.
    #[cold]
    pub(crate) fn mark(message: &Message) {
        if let Some(Self(mark)) = message.extensions().get() {
            mark.store(true, Ordering::Relaxed);
        }
    }

    pub(super) fn is_marked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
