//! Messages that cannot be decoded: they are dead-lettered, and wait while the broker accepts no dead letter.

use std::{
    collections::VecDeque,
    hash::{BuildHasher, RandomState},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    task::Context,
    time::Duration,
};

use consign_core::transport::ErrorKind;
use futures_util::task::AtomicWaker;
use parking_lot::Mutex;
use tokio::{runtime::Handle, time::Instant};

use super::{
    copy,
    held::Held,
    live::MOST_CREDIT,
    settle::{NO_DEAD_LETTERS, Settling, rejected},
    source::Origin,
};
use crate::{log, options::DeadLetters, wire::Unreadable};

/// Beyond so many messages that cannot be decoded and are not settled, no more is requested.
const MOST: u32 = 64;
/// How many messages are remembered: as many as one receive can request. One that was forgotten waits as after its first failure.
const REMEMBERED: usize = MOST_CREDIT as usize;
/// The wait after the first failure. Each further one doubles it, up to the longest.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);
/// The end of a link wakes no one who waits: how often it is looked for.
const SLICE: Duration = Duration::from_secs(1);

const DEAD_LETTERED: &str = "a message cannot be decoded: it is dead-lettered as MalformedMessage";
const NOT_REJECTED: &str =
    "a message that cannot be decoded was not dead-lettered: the broker did not confirm that it is rejected";
const NOT_REMOVED: &str =
    "a message that cannot be decoded was dead-lettered, and not removed: the broker did not confirm its settlement";
const NOT_RELEASED: &str =
    "a message that cannot be decoded is not redelivered so far: the broker did not confirm its settlement";
const REFUSED: &str = "the broker does not accept the dead letter of a message that cannot be decoded: the message is redelivered after a pause";

/// The messages of a link that cannot be decoded and are not settled.
#[derive(Default)]
pub(super) struct Waiting {
    count: AtomicU32,
    receiver: AtomicWaker,
    /// Whether the log has a line of there being too many.
    is_logged: AtomicBool,
}

impl Waiting {
    /// Returns how much credit a link that has `left` gets when `requested` is. The task is woken when it is more.
    ///
    /// Credit that the broker has already is not taken back: what arrived for it in the meantime would stay locked.
    pub(super) fn credit(&self, cx: &Context<'_>, requested: u32, left: u32) -> u32 {
        // First, as a message may be settled in between.
        self.receiver.register(cx.waker());
        match self.count.load(Ordering::Acquire) {
            0 => requested,
            count => requested.min(MOST.saturating_sub(count).max(left)),
        }
    }

    /// Returns whether a line about too many of them is due: one, until there are far fewer.
    pub(super) fn is_new(&self) -> bool {
        !self.is_logged.swap(true, Ordering::AcqRel)
    }

    fn remove_one(&self) {
        if self.count.fetch_sub(1, Ordering::AcqRel) <= MOST / 2 {
            self.is_logged.store(false, Ordering::Release);
        }
        self.receiver.wake();
    }
}

/// Counts one of them until it is dropped.
struct Counted(Arc<Origin>);

impl Counted {
    fn new(origin: &Arc<Origin>) -> Self {
        origin.waiting.count.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(origin))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.waiting.remove_one();
    }
}

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
    /// Dead-letters a message that cannot be decoded, in a task, and logs the first attempt. `content` is the message without what brokers change.
    pub(super) fn dead_letter_unreadable(self, content: &[u8], error: &Unreadable) {
        let source = &self.origin.source;
        let key = source.refused.hasher.hash_one(content);
        if !source.refused.is_known(key) {
            log::failed(&source.path, DEAD_LETTERED, error);
        }
        let counted = Counted::new(&self.origin);
        if source.core.options.dead_letters == DeadLetters::Reject {
            let source = Arc::clone(source);
            let rejecting = self.finish(rejected(error.why()));
            spawn(async move {
                if let Err(failure) = rejecting.await {
                    log::failed(&source.path, NOT_REJECTED, &failure);
                }
                drop(counted);
            });
            return;
        }
        let copy = copy::dead(&self, error.why());
        spawn(async move {
            // Moved into the task, and dropped when the message is settled.
            let _counted = counted;
            // The broker delivers it again.
            let origin = Arc::clone(&self.origin);
            let is_over = || origin.settler.ended().is_some();
            if is_over() {
                return;
            }
            let source = &origin.source;
            let Err(failure) = self.send(copy, source.dead_letters()).await else {
                take(&mut source.refused.entries.lock(), key);
                settled(&origin, self.complete(), NOT_REMOVED).await;
                return;
            };
            let failures = source.refused.count(key);
            if failures == 1 {
                let is_missing = failure.kind() == ErrorKind::EntityNotFound;
                log::failed(source.dead_letters().path(), if is_missing { NO_DEAD_LETTERS } else { REFUSED }, &failure);
            }
            // Locked, so that the broker does not deliver it again at once.
            wait(pause(failures), is_over).await;
            if !is_over() {
                settled(&origin, self.fail(), NOT_RELEASED).await;
            }
        });
    }
}

/// Waits, but not much longer than the link lasts.
async fn wait(pause: Duration, is_over: impl Fn() -> bool) {
    let until = Instant::now() + pause;
    while Instant::now() < until && !is_over() {
        tokio::time::sleep_until(until.min(Instant::now() + SLICE)).await;
    }
}

/// Waits for a settlement. The end of its link is logged there, and the message is redelivered.
async fn settled(origin: &Origin, settling: Settling, what: &'static str) {
    if let Err(error) = settling.await
        && origin.settler.ended().is_none()
    {
        log::failed(&origin.source.path, what, &error);
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

    #[test]
    fn too_many_are_logged_once_until_there_are_far_fewer() {
        let waiting = Waiting::default();
        for _ in 0..2 {
            waiting.count.store(MOST, Ordering::Release);
            assert!(waiting.is_new() && !waiting.is_new());
            for _ in 0..MOST / 2 {
                waiting.remove_one();
                waiting.count.fetch_add(1, Ordering::AcqRel);
                assert!(!waiting.is_new());
            }
            (0..=MOST / 2).for_each(|_| waiting.remove_one());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_soon_after_its_link() {
        let began = Instant::now();
        wait(LONGEST, || false).await;
        assert_eq!(began.elapsed(), LONGEST);
        let began = Instant::now();
        wait(LONGEST, || began.elapsed() >= Duration::from_millis(2_500)).await;
        assert_eq!(began.elapsed(), Duration::from_secs(3));
    }
}
