//! The receivers in this process that take messages as an entity accepts them.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak, atomic::Ordering},
};

use consign_core::{
    Message,
    transport::{DirectReceiver, SendError},
};

use super::{
    engine::{Arrival, Now, StoreId},
    shared::{Shared, State},
};

/// At most one receiver of an entity. The loop that owns it may be gone.
#[derive(Default)]
pub(super) struct Direct(BTreeMap<StoreId, Weak<dyn DirectReceiver>>);

impl Direct {
    fn of(&self, store: StoreId) -> Option<Arc<dyn DirectReceiver>> {
        self.0.get(&store)?.upgrade()
    }

    fn insert(&mut self, store: StoreId, direct: &Arc<dyn DirectReceiver>) {
        self.0.retain(|_, direct| direct.strong_count() > 0);
        self.0.entry(store).or_insert_with(|| Arc::downgrade(direct));
    }
}

impl Shared {
    /// Lets `direct` take messages of an entity. On a disk a message is written before its receiver has it.
    pub(super) fn receive_directly(&self, store: StoreId, direct: &Arc<dyn DirectReceiver>) {
        #[cfg(feature = "durable")]
        if self.recorder().is_some() {
            return;
        }
        self.with(|state| state.direct.insert(store, direct));
        self.has_direct.store(true, Ordering::Relaxed);
    }

    /// Whether a receiver may take messages directly.
    #[inline]
    pub(super) fn has_direct(&self) -> bool {
        self.has_direct.load(Ordering::Relaxed)
    }

    /// Sends a message, or passes it to the receiver that expects it.
    #[inline(never)]
    pub(super) fn send_directly(&self, now: Now, store: StoreId, arrival: Arrival) -> Result<(), SendError> {
        // The last reference may be this one: what it holds is the user's, and is dropped without the lock.
        let (direct, sent) = self.with(|state| {
            let direct = state.direct.of(store);
            let sent = state.send(now, store, arrival, direct.as_deref());
            (direct, sent)
        });
        if let (Some(message), Some(direct)) = (sent?, direct) {
            direct.receive(message);
        }
        Ok(())
    }
}

impl State {
    #[inline]
    fn send(
        &mut self,
        now: Now,
        store: StoreId,
        arrival: Arrival,
        direct: Option<&dyn DirectReceiver>,
    ) -> Result<Option<Message>, SendError> {
        match direct {
            Some(direct) => self.engine.send_or_pass(now, store, arrival, |properties| direct.expects(properties)),
            None => self.engine.send(now, store, arrival).map(|()| None),
        }
    }
}
