//! Messages that this connection has returned and not received since.
//!
//! The server delivers returned messages before new ones, but in the order in which they were returned. A receiver that gets
//! one of them while an older one is in transit waits for that.

use std::{
    collections::{BTreeMap, HashMap},
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::source::Source;

/// How long a returned message is expected.
const EXPECTED: Duration = Duration::from_secs(5);

#[derive(Default)]
pub(crate) struct Returned {
    count: AtomicUsize,
    by_consumer: Mutex<HashMap<String, BTreeMap<u64, Instant>>>,
}

impl Returned {
    fn key(source: &Source) -> String {
        format!("{}.{}", source.stream, source.consumer)
    }

    pub(crate) fn insert(&self, source: &Source, number: u64) {
        let mut all = self.by_consumer.lock();
        let now = Instant::now();
        all.retain(|_, numbers| {
            numbers.retain(|_, at| now.duration_since(*at) < EXPECTED);
            !numbers.is_empty()
        });
        all.entry(Self::key(source)).or_default().insert(number, now);
        self.count.store(all.len(), Ordering::Release);
    }

    /// Removes a message that has arrived, or is not expected any more.
    pub(crate) fn remove(&self, source: &Source, number: u64) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut all = self.by_consumer.lock();
        if let Some(numbers) = all.get_mut(&Self::key(source)) {
            numbers.remove(&number);
            if numbers.is_empty() {
                all.remove(&Self::key(source));
            }
        }
        self.count.store(all.len(), Ordering::Release);
    }

    /// Returns a message before `number` that is in transit.
    pub(crate) fn before(&self, source: &Source, number: u64) -> Option<u64> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let all = self.by_consumer.lock();
        let numbers = all.get(&Self::key(source))?;
        let now = Instant::now();
        let mut before = numbers.range(..number).filter(|(_, at)| now.duration_since(**at) < EXPECTED);
        before.next().map(|(number, _)| *number)
    }
}
