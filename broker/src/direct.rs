//! The receivers in this process that take messages as an entity accepts them.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
};

use consign_core::transport::DirectReceiver;

use super::engine::StoreId;

/// At most one receiver of an entity. The loop that owns it may be gone.
#[derive(Default)]
pub(super) struct Direct(BTreeMap<StoreId, Weak<dyn DirectReceiver>>);

impl Direct {
    pub(super) fn of(&self, store: StoreId) -> Option<Arc<dyn DirectReceiver>> {
        self.0.get(&store)?.upgrade()
    }

    pub(super) fn insert(&mut self, store: StoreId, direct: &Arc<dyn DirectReceiver>) {
        self.0.retain(|_, direct| direct.strong_count() > 0);
        self.0.entry(store).or_insert_with(|| Arc::downgrade(direct));
    }
}
