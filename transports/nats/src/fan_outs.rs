//! Which fan-outs run on a connection, and how many use each.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;

/// The fan-outs of a connection, by the streams of their subscriptions.
#[derive(Default)]
pub(crate) struct FanOuts(Mutex<HashMap<String, Arc<Users>>>);

/// The users of one fan-out.
pub(crate) struct Users {
    /// The subscription, which another of its name does not share.
    subscription: String,
    count: AtomicUsize,
    /// Whether the subscription is deleted.
    is_over: AtomicBool,
}

impl FanOuts {
    /// Adds a user, and returns whether it is the first: it starts the fan-out.
    pub(crate) fn join(&self, stream: &str, subscription: &str) -> (Arc<Users>, bool) {
        let mut all = self.0.lock();
        if let Some(users) = all.get(stream).filter(|users| users.subscription == subscription) {
            users.add();
            return (Arc::clone(users), false);
        }
        let users = Arc::new(Users {
            subscription: subscription.into(),
            count: AtomicUsize::new(1),
            is_over: AtomicBool::new(false),
        });
        all.insert(stream.into(), Arc::clone(&users));
        (users, true)
    }

    /// Ends a fan-out, unless it has users. A new user starts another one.
    pub(crate) fn end(&self, stream: &str, users: &Arc<Users>, is_forced: bool) -> bool {
        let mut all = self.0.lock();
        if !is_forced && users.is_any() {
            return false;
        }
        if all.get(stream).is_some_and(|running| Arc::ptr_eq(running, users)) {
            all.remove(stream);
        }
        true
    }
}

impl Users {
    pub(crate) fn is_any(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    /// Returns whether the subscription is deleted.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Release);
    }

    pub(crate) fn add(&self) {
        self.count.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn remove(&self) {
        self.count.fetch_sub(1, Ordering::AcqRel);
    }
}
