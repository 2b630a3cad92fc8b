//! The deletion of entities that were not used.

use super::{Engine, Entity, Notice, Role, StoreId, entity_mut, store::Store, time::Now};

impl Engine {
    /// Deletes an entity that was not used for as long as its settings say, unless it is a topic whose subscriptions were.
    pub(super) fn delete_idle(&mut self, now: Now, id: StoreId) {
        let Some(entity) = self.entity(id) else { return };
        let accessed = entity.store.accessed();
        // A subscription that is kept is in use now. To record it here is enough, as what ends it is a use too.
        let of = |store: &Store| if store.is_kept() { now.ticks } else { store.accessed() };
        let latest = self.subscriptions_of(id).map(|(_, store)| of(store)).max().unwrap_or(accessed);
        if latest > accessed {
            if let Some(entity) = entity_mut(&mut self.entities, id) {
                entity.store.touch_at(latest);
            }
            return;
        }
        let copies: usize = self.subscriptions_of(id).map(|(_, store)| store.messages()).sum();
        let (path, messages) = (entity.path.clone(), entity.store.messages() + copies);
        self.fx.note().notices.push(Notice::DeletedIdle { path, messages });
        self.remove_entity(id);
    }

    /// Leaves the last use of a subscription that is deleted to its topic.
    pub(super) fn inherit_use(&mut self, id: StoreId) {
        let Some(Entity { role: Role::Subscription(subscription), store, .. }) = self.entity(id) else { return };
        let (topic, accessed) = (subscription.topic, store.accessed());
        if let Some(topic) = entity_mut(&mut self.entities, topic) {
            topic.store.touch_at(accessed);
        }
    }
}
