use std::collections::HashMap;

use parking_lot::Mutex;
use tokio::sync::watch;

/// The signals of changes, by entity.
#[derive(Default)]
pub(crate) struct Hub(Mutex<HashMap<i64, watch::Sender<()>>>);

impl Hub {
    /// Returns the signal of an entity. Changes from here on are seen.
    pub(crate) fn watch(&self, entity: i64) -> watch::Receiver<()> {
        let mut all = self.0.lock();
        if all.len() > 64 && all.len().is_power_of_two() {
            all.retain(|_, sender| sender.receiver_count() > 0);
        }
        all.entry(entity).or_insert_with(|| watch::channel(()).0).subscribe()
    }

    pub(crate) fn wake(&self, entity: i64) {
        let mut all = self.0.lock();
        if let Some(sender) = all.get(&entity)
            && sender.send(()).is_err()
        {
            all.remove(&entity);
        }
    }

    pub(crate) fn wake_all(&self) {
        self.0.lock().retain(|_, sender| sender.send(()).is_ok());
    }
}
