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

/// How long a returned message is expected.
const EXPECTED: Duration = Duration::from_secs(5);

/// The names of a stream and of a consumer there.
pub(crate) type Names<'a> = (&'a str, &'a str);

#[derive(Default)]
pub(crate) struct Returned {
    count: AtomicUsize,
    by_consumer: Mutex<HashMap<String, BTreeMap<u64, Instant>>>,
}

impl Returned {
    fn key((stream, consumer): Names<'_>) -> String {
        format!("{stream}.{consumer}")
    }

    pub(crate) fn insert(&self, from: Names<'_>, number: u64) {
        let mut all = self.by_consumer.lock();
        let now = Instant::now();
        all.retain(|_, numbers| {
            numbers.retain(|_, at| now.duration_since(*at) < EXPECTED);
            !numbers.is_empty()
        });
        all.entry(Self::key(from)).or_default().insert(number, now);
        self.count.store(all.len(), Ordering::Release);
    }

    /// Removes a message that has arrived, or is not expected any more.
    pub(crate) fn remove(&self, from: Names<'_>, number: u64) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut all = self.by_consumer.lock();
        if let Some(numbers) = all.get_mut(&Self::key(from)) {
            numbers.remove(&number);
            if numbers.is_empty() {
                all.remove(&Self::key(from));
            }
        }
        self.count.store(all.len(), Ordering::Release);
    }

    /// Returns a message before `number` that is in transit.
    pub(crate) fn before(&self, from: Names<'_>, number: u64) -> Option<u64> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let all = self.by_consumer.lock();
        let numbers = all.get(&Self::key(from))?;
        let now = Instant::now();
        let mut before = numbers.range(..number).filter(|(_, at)| now.duration_since(**at) < EXPECTED);
        before.next().map(|(number, _)| *number)
    }
}
