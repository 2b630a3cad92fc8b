//! Messages that a receiver in this process takes as an entity accepts them.

use std::sync::{Arc, atomic::Ordering};

use consign_core::transport::{DirectReceiver, SendError};

use super::Shared;
use crate::engine::{Arrival, Now, StoreId};

impl Shared {
    /// Lets `direct` take messages of an entity. On a disk a message is written before its receiver has it.
    pub(crate) fn receive_directly(&self, store: StoreId, direct: &Arc<dyn DirectReceiver>) {
        #[cfg(feature = "durable")]
        if self.recorder().is_some() {
            return;
        }
        self.with(|state| state.direct.insert(store, direct));
        self.has_direct.store(true, Ordering::Relaxed);
    }

    /// Whether a receiver may take messages directly.
    #[inline]
    pub(crate) fn has_direct(&self) -> bool {
        self.has_direct.load(Ordering::Relaxed)
    }

    /// Sends a message, or passes it to the receiver that expects it.
    #[inline(never)]
    pub(crate) fn send_directly(&self, now: Now, store: StoreId, arrival: Arrival) -> Result<(), SendError> {
        // The last reference may be this one: what it holds is the user's, and is dropped without the lock.
        let (mut direct, mut passed) = (None, None);
        self.with(|state| {
            direct = state.direct.of(store);
            match direct.as_deref() {
                Some(direct) => {
                    passed = state.engine.send_or_pass(now, store, arrival, |properties| direct.expects(properties))?;
                    Ok(())
                }
                None => state.engine.send(now, store, arrival),
            }
        })?;
        if let (Some(message), Some(direct)) = (passed, direct) {
            direct.receive(message);
        }
        Ok(())
    }
}
