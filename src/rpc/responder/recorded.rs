use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::{
    Message,
    message::random_id::random_uuid,
    middleware::dedup::{Key, MakeKey, OriginalMessageId},
    time::{Clock, SystemClock},
};

/// The replies to the last requests, in the memory of this process.
///
/// A reply is kept for the window, which is best that of the store of ids. What does not fit into the limit of bytes pushes
/// the oldest out, and a reply that is larger than the limit is not kept: a duplicate of its request is completed without
/// an answer, and never handled again for it.
pub struct RecordedReplies {
    key: Box<dyn MakeKey + Send + Sync>,
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

/// What a requester was answered.
struct Recorded {
    reply: Message,
    until: Duration,
    bytes: usize,
    number: u64,
}

impl RecordedReplies {
    /// How many bytes are kept by default: 16 MiB.
    pub const MAX_BYTES: usize = 16 << 20;

    /// Keeps each reply for `window`, by tokio's time.
    #[must_use]
    pub fn new(window: Duration) -> Self {
        Self {
            key: Box::new(OriginalMessageId),
            clock: Box::new(SystemClock::new()),
            secret: random_uuid(),
            window,
            max_bytes: Self::MAX_BYTES,
            kept: Mutex::default(),
        }
    }

    /// Knows requests by `key`, which is best that of the layer that finds the duplicates.
    #[must_use]
    pub fn key(self, key: impl MakeKey + Send + Sync + 'static) -> Self {
        Self { key: Box::new(key), ..self }
    }

    /// Keeps at most so many bytes: those of the replies, and 256 for what is around each.
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

    fn digest(&self, request: &Message) -> Option<[u8; 16]> {
        self.key.make_key(request).map(|id| Key::new("", &id).digest(&self.secret))
    }

    pub(super) fn put(&self, request: &Message, reply: &Message) {
        const AROUND: usize = 256;
        let Some(digest) = self.digest(request) else { return };
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
        kept.replies.insert(digest, Recorded { reply: reply.clone(), until, bytes, number });
        kept.tidy();
    }

    pub(super) fn find(&self, request: &Message) -> Option<Message> {
        let digest = self.digest(request)?;
        let now = self.clock.now().elapsed;
        let kept = self.kept();
        kept.replies.get(&digest).filter(|recorded| recorded.until > now).map(|recorded| recorded.reply.clone())
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

impl fmt::Debug for RecordedReplies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordedReplies").field("window", &self.window).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::time::{ManualClock, Timestamp};

    const WINDOW: Duration = Duration::from_secs(60);

    fn request(id: usize) -> Message {
        Message::builder().message_id(id.to_string()).build("").unwrap()
    }

    fn replies(max_bytes: usize) -> (RecordedReplies, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::new(Timestamp::EPOCH));
        (RecordedReplies::new(WINDOW).max_bytes(max_bytes).clock(Arc::clone(&clock)), clock)
    }

    #[test]
    fn w_16_the_oldest_replies_are_pushed_out_by_what_does_not_fit() {
        let (replies, _) = replies(10_000);
        let reply = Message::new(vec![0; 1_000]);
        for id in 0..100 {
            replies.put(&request(id), &reply);
        }
        let found: Vec<_> = (0..100).filter(|&id| replies.find(&request(id)).is_some()).collect();
        assert_eq!(found, (93..100).collect::<Vec<_>>());
        // One that is replaced counts once.
        for _ in 0..1_000 {
            replies.put(&request(99), &reply);
        }
        assert_eq!(replies.kept().replies.len(), 7);
        assert!(replies.kept().order.len() < 40);
        replies.put(&request(99), &Message::new(vec![0; 10_000]));
        assert!(replies.find(&request(99)).is_none() && replies.find(&request(98)).is_some());
        replies.put(&Message::new("no id"), &reply);
        assert_eq!(replies.kept().replies.len(), 6);
    }

    #[test]
    fn w_16_a_reply_that_is_replaced_is_not_the_oldest_any_more() {
        let (replies, _) = replies(10_000);
        let reply = Message::new(vec![0; 1_000]);
        for id in [0, 1, 2, 1, 3, 4, 5, 6, 7, 8] {
            replies.put(&request(id), &reply);
        }
        let found: Vec<_> = (0..9).filter(|&id| replies.find(&request(id)).is_some()).collect();
        assert_eq!(found, [1, 3, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn w_16_a_reply_is_kept_for_its_window() {
        let (replies, clock) = replies(10_000);
        replies.put(&request(1), &Message::new("one"));
        clock.advance(Duration::from_millis(59_999));
        replies.put(&request(2), &Message::new("two"));
        assert!(replies.find(&request(1)).is_some());
        clock.advance(Duration::from_millis(1));
        assert!(replies.find(&request(1)).is_none() && replies.find(&request(2)).is_some());
        replies.put(&request(3), &Message::new("three"));
        assert_eq!(replies.kept().replies.len(), 2, "the first is forgotten");
    }
}
