use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::{RecordedReply, ReplyStore};
use crate::{
    message::random_id::random_uuid,
    middleware::dedup::{DedupKey, StoreError},
    time::{Clock, SystemClock},
};

/// Replies in the memory of this process. They are gone with it.
///
/// A reply is kept for the window. What does not fit into the limit of bytes pushes the oldest out, and a reply that is
/// larger than the limit is not kept.
pub struct MemoryReplies {
    clock: Box<dyn Clock>,
    secret: [u8; 16],
    window: Duration,
    max_bytes: usize,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    replies: HashMap<[u8; 16], Recorded>,
    /// In the order of time. One that was replaced stands here twice, and its number tells which one counts.
    order: VecDeque<([u8; 16], u64)>,
    bytes: usize,
    next: u64,
}

struct Recorded {
    reply: RecordedReply,
    until: Duration,
    bytes: usize,
    number: u64,
}

impl MemoryReplies {
    /// How many bytes are kept by default: 16 MiB.
    pub const MAX_BYTES: usize = 16 << 20;

    /// Creates a store that has each reply for `window`, by tokio's time.
    #[must_use]
    pub fn new(window: Duration) -> Self {
        Self {
            clock: Box::new(SystemClock::new()),
            secret: random_uuid(),
            window,
            max_bytes: Self::MAX_BYTES,
            kept: Mutex::default(),
        }
    }

    /// Sets the maximum size in bytes: the replies, and 256 bytes for each.
    #[must_use]
    pub fn max_bytes(self, max_bytes: usize) -> Self {
        Self { max_bytes, ..self }
    }

    /// Takes the time from `clock`.
    #[must_use]
    pub fn clock(self, clock: impl Clock) -> Self {
        Self { clock: Box::new(clock), ..self }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, key: DedupKey<'_>, reply: RecordedReply) {
        const AROUND: usize = 256;
        let digest = key.digest(&self.secret);
        let (now, bytes) = (self.clock.now().elapsed, reply.size().saturating_add(AROUND));
        let mut kept = self.kept();
        kept.remove(&digest);
        if bytes > self.max_bytes {
            return;
        }
        kept.drop_oldest(|kept, oldest| oldest.until <= now || kept.bytes + bytes > self.max_bytes);
        let (number, until) = (kept.next, now.saturating_add(self.window));
        kept.next += 1;
        kept.bytes += bytes;
        kept.order.push_back((digest, number));
        kept.replies.insert(digest, Recorded { reply, until, bytes, number });
        kept.tidy();
    }

    fn look_up(&self, key: DedupKey<'_>) -> Option<RecordedReply> {
        let (digest, now) = (key.digest(&self.secret), self.clock.now().elapsed);
        let kept = self.kept();
        kept.replies.get(&digest).filter(|recorded| recorded.until > now).map(|recorded| recorded.reply.clone())
    }
}

impl ReplyStore for MemoryReplies {
    async fn put(&self, key: DedupKey<'_>, reply: RecordedReply) -> Result<(), StoreError> {
        self.keep(key, reply);
        Ok(())
    }

    async fn find(&self, key: DedupKey<'_>) -> Result<Option<RecordedReply>, StoreError> {
        Ok(self.look_up(key))
    }
}

impl Kept {
    fn remove(&mut self, digest: &[u8; 16]) {
        if let Some(recorded) = self.replies.remove(digest) {
            self.bytes -= recorded.bytes;
        }
    }

    /// Keeps the order from growing when the same few replies are replaced over and over.
    fn tidy(&mut self) {
        if self.order.len() > 2 * self.replies.len() + 16 {
            let replies = &self.replies;
            self.order.retain(|(digest, number)| replies.get(digest).is_some_and(|kept| kept.number == *number));
        }
    }

    fn drop_oldest(&mut self, is_too_much: impl Fn(&Self, &Recorded) -> bool) {
        while let Some(&(digest, number)) = self.order.front() {
            match self.replies.get(&digest).filter(|recorded| recorded.number == number) {
                Some(oldest) if !is_too_much(self, oldest) => return,
                Some(_) => self.remove(&digest),
                None => {}
            }
            self.order.pop_front();
        }
    }
}

impl fmt::Debug for MemoryReplies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryReplies").field("window", &self.window).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        Message,
        time::{ManualClock, Timestamp},
    };

    const WINDOW: Duration = Duration::from_secs(60);

    fn replies(max_bytes: usize) -> (MemoryReplies, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::new(Timestamp::EPOCH));
        (MemoryReplies::new(WINDOW).max_bytes(max_bytes).clock(Arc::clone(&clock)), clock)
    }

    fn reply(bytes: usize) -> RecordedReply {
        RecordedReply::of(&Message::new(vec![0; bytes]))
    }

    fn put(replies: &MemoryReplies, id: u8, bytes: usize) {
        replies.keep(DedupKey::new("", &[id]), reply(bytes));
    }

    fn has(replies: &MemoryReplies, id: u8) -> bool {
        replies.look_up(DedupKey::new("", &[id])).is_some()
    }

    /// Rules: W-16.
    #[test]
    fn the_oldest_replies_are_pushed_out_by_what_does_not_fit() {
        let (replies, _) = replies(10_000);
        for id in 0..100 {
            put(&replies, id, 1_000);
        }
        let found: Vec<_> = (0..100).filter(|&id| has(&replies, id)).collect();
        assert_eq!(found, (93..100).collect::<Vec<_>>());
        // One that is replaced counts once.
        for _ in 0..1_000 {
            put(&replies, 99, 1_000);
        }
        assert_eq!(replies.kept().replies.len(), 7);
        assert!(replies.kept().order.len() < 40);
        put(&replies, 99, 10_000);
        assert!(!has(&replies, 99) && has(&replies, 98));
        assert_eq!(replies.kept().replies.len(), 6);
    }

    /// Rules: W-16.
    #[test]
    fn a_reply_that_is_replaced_is_not_the_oldest_any_more() {
        let (replies, _) = replies(10_000);
        for id in [0, 1, 2, 1, 3, 4, 5, 6, 7, 8] {
            put(&replies, id, 1_000);
        }
        let found: Vec<_> = (0..9).filter(|&id| has(&replies, id)).collect();
        assert_eq!(found, [1, 3, 4, 5, 6, 7, 8]);
    }

    /// Rules: W-16.
    #[test]
    fn a_reply_is_kept_for_its_window() {
        let (replies, clock) = replies(10_000);
        put(&replies, 1, 1);
        clock.advance(Duration::from_millis(59_999));
        put(&replies, 2, 1);
        assert!(has(&replies, 1));
        clock.advance(Duration::from_millis(1));
        assert!(!has(&replies, 1) && has(&replies, 2));
        put(&replies, 3, 1);
        assert_eq!(replies.kept().replies.len(), 2, "the first is forgotten");
    }
}
