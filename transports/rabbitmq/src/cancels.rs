//! Ends of subscriptions to queues that this client deletes.
//!
//! RabbitMQ answers a `basic.cancel` twice if the quorum queue is deleted in that instant, and lapin closes the connection for
//! an answer that it does not expect. So no `basic.cancel` is in flight while this client deletes a queue. A subscription to a
//! deleted queue ends with the broker's own notice.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::Mutex;
use tokio::sync::{OwnedRwLockReadGuard, RwLock};

#[derive(Default)]
pub(crate) struct Cancels {
    /// Read by a subscription that is being cancelled, written by a deletion.
    turn: Arc<RwLock<()>>,
    subscriptions: Mutex<HashMap<u64, (String, Arc<AtomicBool>)>>,
}

/// No queue is deleted while it lives.
pub(crate) type Turn = OwnedRwLockReadGuard<()>;

/// A subscription of this client, as long as it exists.
pub(crate) struct Subscribed {
    cancels: Arc<Cancels>,
    id: u64,
    is_deleted: Arc<AtomicBool>,
}

impl Cancels {
    /// Registers a subscription before it is requested: its queue may be deleted before that is answered.
    pub(crate) fn subscribe(self: &Arc<Self>, id: u64, queue: &str) -> Subscribed {
        let is_deleted = Arc::new(AtomicBool::new(false));
        self.subscriptions.lock().insert(id, (queue.to_owned(), Arc::clone(&is_deleted)));
        Subscribed { cancels: Arc::clone(self), id, is_deleted }
    }

    /// Deletes a queue while no subscription is cancelled.
    pub(crate) async fn deleting<T, E>(
        &self,
        queue: &str,
        deleting: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let _turn = self.turn.write().await;
        self.mark(queue, true);
        let deleted = deleting.await;
        if deleted.is_err() {
            self.mark(queue, false);
        }
        deleted
    }

    fn mark(&self, queue: &str, is_deleted: bool) {
        let subscriptions = self.subscriptions.lock();
        let of_queue = subscriptions.values().filter(|(name, _)| name == queue);
        of_queue.for_each(|(_, mark)| mark.store(is_deleted, Ordering::Release));
    }
}

impl Subscribed {
    /// Waits until no queue is being deleted.
    pub(crate) fn turn(&self) -> impl Future<Output = Turn> + Send + use<> {
        Arc::clone(&self.cancels.turn).read_owned()
    }

    /// Whether the queue was deleted here, so that the broker ends the subscription itself.
    pub(crate) fn is_deleted(&self) -> bool {
        self.is_deleted.load(Ordering::Acquire)
    }
}

impl Drop for Subscribed {
    fn drop(&mut self) {
        self.cancels.subscriptions.lock().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn no_subscription_is_cancelled_while_its_queue_is_deleted() {
        let cancels = Arc::new(Cancels::default());
        let (one, other) = (cancels.subscribe(1, "a"), cancels.subscribe(2, "b"));
        let turn = one.turn().await;
        let mut deleting = Box::pin(cancels.deleting("a", async { Ok::<_, ()>(()) }));
        assert!(deleting.as_mut().now_or_never().is_none() && !one.is_deleted());
        drop(turn);
        deleting.await.unwrap();
        assert!(one.is_deleted() && !other.is_deleted());
        cancels.deleting("b", async { Err::<(), _>(()) }).await.unwrap_err();
        assert!(!other.is_deleted());
        drop((one, other));
        assert!(cancels.subscriptions.lock().is_empty());
    }
}
