//! Messages that cannot be decoded: they are dead-lettered, and wait while the broker accepts no dead letter.

use std::{
    collections::VecDeque,
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::Duration,
};

use consign_core::transport::ErrorKind;
use parking_lot::Mutex;
use tokio::runtime::Handle;

use super::{
    copy,
    held::Held,
    settle::{NO_DEAD_LETTERS, rejected},
};
use crate::{log, options::DeadLetters, wire::Unreadable};

/// How many messages are remembered. One that was forgotten waits as after its first failure.
const REMEMBERED: usize = 1_024;
/// The wait after the first failure. Each further one doubles it, up to the longest.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);

const DEAD_LETTERED: &str = "a message cannot be decoded: it is dead-lettered as MalformedMessage";
const NOT_REJECTED: &str =
    "a message that cannot be decoded was not dead-lettered: the broker did not confirm that it is rejected";
const REFUSED: &str = "the broker does not accept the dead letter of a message that cannot be decoded: the message is redelivered after a pause";

/// The messages of a source that the broker has not accepted as dead letters.
#[derive(Default)]
pub(super) struct Refused {
    /// The key of each and its failures. The one that has failed last is the last.
    entries: Mutex<VecDeque<(u64, u32)>>,
    hasher: RandomState,
}

impl Refused {
    fn is_known(&self, key: u64) -> bool {
        self.entries.lock().iter().any(|(entry, _)| *entry == key)
    }

    /// Counts a failure, and returns how many the message has had.
    fn count(&self, key: u64) -> u32 {
        let mut entries = self.entries.lock();
        let failures = take(&mut entries, key).saturating_add(1);
        if entries.len() >= REMEMBERED {
            entries.pop_front();
        }
        entries.push_back((key, failures));
        failures
    }
}

fn take(entries: &mut VecDeque<(u64, u32)>, key: u64) -> u32 {
    let known = entries.iter().position(|(entry, _)| *entry == key).and_then(|at| entries.remove(at));
    known.map_or(0, |(_, failures)| failures)
}

fn pause(failures: u32) -> Duration {
    FIRST.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(LONGEST)
}

impl Held {
    /// Dead-letters a message that cannot be decoded, in a task, and logs the first attempt. `content` is the message without what the broker changes.
    pub(super) fn dead_letter_unreadable(self, content: &[u8], error: &Unreadable) {
        let source = &self.origin.source;
        let key = source.refused.hasher.hash_one(content);
        if !source.refused.is_known(key) {
            log::failed(&source.path, DEAD_LETTERED, error);
        }
        if source.core.options.dead_letters == DeadLetters::Reject {
            let source = Arc::clone(source);
            let rejecting = self.finish(rejected(error.why()));
            spawn(async move {
                if let Err(failure) = rejecting.await {
                    log::failed(&source.path, NOT_REJECTED, &failure);
                }
            });
            return;
        }
        let copy = copy::dead(&self, error.why());
        spawn(async move {
            let source = &self.origin.source;
            let Err(failure) = self.send(copy, source.dead_letters()).await else {
                take(&mut source.refused.entries.lock(), key);
                // The end of its link is logged there, and the message is redelivered.
                drop(self.complete().await);
                return;
            };
            let failures = source.refused.count(key);
            if failures == 1 {
                let is_missing = failure.kind() == ErrorKind::EntityNotFound;
                log::failed(source.dead_letters().path(), if is_missing { NO_DEAD_LETTERS } else { REFUSED }, &failure);
            }
            // Locked, so that the broker does not deliver it again at once.
            tokio::time::sleep(pause(failures)).await;
            drop(self.fail().await);
        });
    }
}

/// A receiver is polled within a runtime. Without one the message stays locked until the link ends.
fn spawn(settling: impl Future<Output = ()> + Send + 'static) {
    if let Ok(runtime) = Handle::try_current() {
        runtime.spawn(settling);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rules: K-283.
    #[test]
    fn the_pause_of_each_message_doubles_up_to_a_minute() {
        let refused = Refused::default();
        let pauses = |key, count: usize| (0..count).map(|_| pause(refused.count(key)).as_secs()).collect::<Vec<_>>();
        assert_eq!(pauses(1, 9), [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert_eq!(pauses(2, 2), [1, 2]);
        assert_eq!(pauses(1, 40), [60; 40]);
    }

    #[test]
    fn a_bounded_number_of_messages_is_remembered() {
        let refused = Refused::default();
        for key in 0..=REMEMBERED as u64 {
            assert_eq!(refused.count(key), 1);
        }
        assert_eq!(refused.entries.lock().len(), REMEMBERED);
        assert_eq!((refused.count(0), refused.count(REMEMBERED as u64)), (1, 2));
    }
}
