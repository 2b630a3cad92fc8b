use std::{
    collections::{HashMap, HashSet, VecDeque},
    hash::{BuildHasherDefault, Hash, Hasher},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
};

use tokio::time::Instant;

use super::{CallErrorKind, id::CallId};
use crate::Message;

/// The calls that wait for replies. It holds as many as it may, and each holds no more replies than it asked for.
pub(super) struct Pending {
    table: Mutex<Table>,
    limit: usize,
    answered: AtomicU64,
    orphans: AtomicU64,
}

struct Table {
    slots: HashMap<CallId, Slot, BuildHasherDefault<LowHalf>>,
    state: State,
}

/// Whether replies can come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    Disconnected,
    Closed,
}

struct Slot {
    /// Replies that may still come.
    wanted: usize,
    arrived: Arrived,
    several: Option<Box<Several>>,
    /// After what arrived there is nothing more.
    failed: Option<CallErrorKind>,
    waker: Option<Waker>,
}

/// What is known of a call that takes several replies.
struct Several {
    deadline: Instant,
    /// The ids of the replies, as many as are wanted at most.
    seen: HashSet<Box<str>>,
}

impl Slot {
    /// The slot, if its call still takes this reply and has not got it before.
    fn taking(&mut self, reply: &Message) -> Option<&mut Self> {
        if self.wanted == 0 || self.failed.is_some() {
            return None;
        }
        if let Some(several) = &mut self.several {
            let is_over = Instant::now() >= several.deadline;
            if is_over || reply.message_id().is_some_and(|id| !several.seen.insert(id.into())) {
                return None;
            }
        }
        Some(self)
    }
}

/// Replies in their order. The first, which is the only one of most calls, needs no memory of its own.
#[derive(Default)]
struct Arrived {
    first: Option<Message>,
    others: VecDeque<Message>,
}

impl Arrived {
    fn push(&mut self, reply: Message) {
        if self.first.is_none() && self.others.is_empty() {
            self.first = Some(reply);
        } else {
            self.others.push_back(reply);
        }
    }

    fn pop(&mut self) -> Option<Message> {
        self.first.take().or_else(|| self.others.pop_front())
    }
}

/// The place of one call in the table. Dropping it empties the place.
pub(super) struct Ticket {
    pending: Arc<Pending>,
    id: CallId,
}

impl Pending {
    pub(super) fn new(limit: usize) -> Self {
        let table = Table { slots: HashMap::default(), state: State::Open };
        Self { table: Mutex::new(table), limit, answered: AtomicU64::new(0), orphans: AtomicU64::new(0) }
    }

    /// Of user code only the clone of a waker runs under this lock, and it changes nothing: nothing is half done in a table
    /// whose lock is poisoned.
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a call that takes up to `wanted` replies until its deadline.
    pub(super) fn register(self: &Arc<Self>, wanted: usize, deadline: Instant) -> Result<Ticket, CallErrorKind> {
        let id = CallId::random();
        let mut table = self.table();
        match table.state {
            State::Open if table.slots.len() < self.limit => {}
            State::Open => return Err(CallErrorKind::TooManyRequests),
            State::Disconnected => return Err(CallErrorKind::Disconnected),
            State::Closed => return Err(CallErrorKind::Closed),
        }
        // One reply ends its call. Of several, some may come after the end, and one of them twice.
        let several = (wanted > 1).then(|| Box::new(Several { deadline, seen: HashSet::new() }));
        table.slots.insert(id, Slot { wanted, arrived: Arrived::default(), several, failed: None, waker: None });
        drop(table);
        Ok(Ticket { pending: Arc::clone(self), id })
    }

    /// Hands a reply to the call that waits for it. What nobody waits for is counted.
    pub(super) fn offer(&self, reply: Message) {
        let id = reply.correlation_id().and_then(CallId::parse);
        let mut table = self.table();
        let Some(slot) = id.and_then(|id| table.slots.get_mut(&id)?.taking(&reply)) else {
            drop(table);
            self.orphans.fetch_add(1, Ordering::Relaxed);
            return;
        };
        slot.wanted -= 1;
        slot.arrived.push(reply);
        let waker = slot.waker.take();
        drop(table);
        self.answered.fetch_add(1, Ordering::Relaxed);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Lets calls in again, unless they were told that this is the end.
    pub(super) fn open(&self) {
        let mut table = self.table();
        if table.state == State::Disconnected {
            table.state = State::Open;
        }
    }

    /// Fails the calls that wait and refuses those that come.
    pub(super) fn disconnect(&self) {
        self.fail(State::Disconnected, CallErrorKind::Disconnected);
    }

    /// As [`disconnect`](Self::disconnect), for good: nobody receives any more.
    pub(super) fn end(&self) {
        self.fail(State::Closed, CallErrorKind::Disconnected);
    }

    /// As [`end`](Self::end), because the user says so.
    pub(super) fn close(&self) {
        self.fail(State::Closed, CallErrorKind::Closed);
    }

    fn fail(&self, state: State, why: CallErrorKind) {
        let mut table = self.table();
        if table.state == State::Closed {
            return;
        }
        table.state = state;
        let mut woken = Vec::new();
        for slot in table.slots.values_mut() {
            slot.failed.get_or_insert(why);
            woken.extend(slot.waker.take());
        }
        drop(table);
        woken.into_iter().for_each(Waker::wake);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.table().state == State::Closed
    }

    pub(super) fn len(&self) -> usize {
        self.table().slots.len()
    }

    pub(super) fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    pub(super) fn orphans(&self) -> u64 {
        self.orphans.load(Ordering::Relaxed)
    }
}

impl Ticket {
    pub(super) fn id(&self) -> CallId {
        self.id
    }

    /// The next reply; or why there is none, after those that arrived in time.
    pub(super) fn poll_reply(&self, cx: &mut Context<'_>) -> Poll<Result<Message, CallErrorKind>> {
        let mut table = self.pending.table();
        let Some(slot) = table.slots.get_mut(&self.id) else {
            return Poll::Ready(Err(CallErrorKind::Closed));
        };
        if let Some(reply) = slot.arrived.pop() {
            return Poll::Ready(Ok(reply));
        }
        if let Some(failed) = slot.failed {
            return Poll::Ready(Err(failed));
        }
        if slot.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            return Poll::Pending;
        }
        let replaced = slot.waker.replace(cx.waker().clone());
        drop(table);
        drop(replaced);
        Poll::Pending
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let slot = self.pending.table().slots.remove(&self.id);
        // Not under the lock: a waker's drop is somebody else's code.
        drop(slot);
    }
}

/// Hashes an id as its low half. Ids are made here and at random, so no sender can make them collide.
#[derive(Default)]
struct LowHalf(u64);

impl Hasher for LowHalf {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u64(&mut self, half: u64) {
        self.0 = half;
    }
}

impl Hash for CallId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.low());
    }
}
