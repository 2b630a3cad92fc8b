mod deadlines;
#[cfg(all(test, shuttle))]
mod explored;
mod several;
#[cfg(test)]
mod tests;
mod timer;

use std::{
    collections::{HashMap, hash_map::Entry},
    hash::{BuildHasherDefault, Hasher},
    sync::PoisonError,
    task::{Context, Poll, Waker},
};

use tokio::time::Instant;

pub(super) use self::timer::DeadlineTimer;
use self::{deadlines::Deadlines, several::Several};
use super::{CallErrorKind, address::ReplyAddress};
use crate::{
    Message,
    message::{Properties, random_id::random_id, text::Token},
    sync::{AtomicBool, Mutex, MutexGuard, Ordering},
};

/// The calls that wait for replies. It holds as many as it may, and each holds no more replies than it asked for.
pub(super) struct Pending {
    table: Mutex<Table>,
    limit: usize,
    /// Whether the keeper of the deadlines has something to do. Changed under the lock.
    is_due: AtomicBool,
    is_closed: AtomicBool,
}

struct Table {
    slots: HashMap<Key, Slot, BuildHasherDefault<KeyItself>>,
    state: State,
    /// Where the replies to the calls go.
    address: ReplyAddress,
    deadlines: Deadlines,
    /// The task that fails calls at their deadlines. While there is none each call has a timer of its own.
    keeper: Option<Waker>,
    /// When the keeper looks again, if at all.
    kept_until: Option<Instant>,
    answered: u64,
    orphans: u64,
}

/// What a call is found by: some bits of its id, which no other call that waits has.
pub(super) type Key = u64;

/// Whether replies can come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    Disconnected,
    Closed,
}

struct Slot {
    id: Token,
    /// The reply, until the call takes it.
    reply: Option<Message>,
    /// Where more than one reply is wanted.
    several: Option<Box<Several>>,
    /// After what arrived there is nothing more.
    failed: Option<CallErrorKind>,
    waker: Option<Waker>,
}

impl Slot {
    /// Whether the call has not got all that it waits for.
    fn takes(&self) -> bool {
        let takes = self.several.as_ref().map_or(self.reply.is_none(), |several| several.wanted > 0);
        takes && self.failed.is_none()
    }

    /// Passes the reply on if its call still takes it and has not received it before.
    #[inline]
    fn take(&mut self, reply: Message) -> Result<(), Message> {
        if self.failed.is_some() {
            return Err(reply);
        }
        match &mut self.several {
            Some(several) => several.take(reply),
            None if self.reply.is_some() => Err(reply),
            None => {
                self.reply = Some(reply);
                Ok(())
            }
        }
    }
}

/// What a call is told that asks for a reply and has none yet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Deadline {
    /// It is failed when its deadline comes.
    Kept,
    /// It has to look after its deadline itself.
    Own,
}

impl Pending {
    pub(super) fn new(limit: usize, address: ReplyAddress) -> Self {
        let table = Table {
            slots: HashMap::default(),
            state: State::Open,
            address,
            deadlines: Deadlines::default(),
            keeper: None,
            kept_until: None,
            answered: 0,
            orphans: 0,
        };
        Self { table: Mutex::new(table), limit, is_due: AtomicBool::new(false), is_closed: AtomicBool::new(false) }
    }

    /// Of user code only the clone of a waker runs under this lock, and it changes nothing: nothing is half done in a table
    /// whose lock is poisoned.
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a call that takes one reply until its deadline.
    pub(super) fn register(&self, deadline: Instant) -> Result<(Key, Token, ReplyAddress), CallErrorKind> {
        let mut table = self.table();
        let (key, id) = table.insert(self.limit, None)?;
        let address = table.address.clone();
        let Table { slots, deadlines, keeper, kept_until, .. } = &mut *table;
        deadlines.push(deadline, key, slots.len(), |call| slots.contains_key(&call));
        if keeper.is_some() && kept_until.is_none_or(|until| deadline < until) {
            *kept_until = Some(deadline);
            self.is_due.store(true, Ordering::Relaxed);
            let keeper = keeper.clone();
            drop(table);
            keeper.into_iter().for_each(Waker::wake);
        }
        Ok((key, id, address))
    }

    /// A place for a call that takes up to `wanted` replies until its deadline, which it looks after itself.
    pub(super) fn register_several(
        &self,
        wanted: usize,
        deadline: Instant,
    ) -> Result<(Key, Token, ReplyAddress), CallErrorKind> {
        let several = Several::new(wanted, deadline);
        let mut table = self.table();
        let (key, id) = table.insert(self.limit, Some(Box::new(several)))?;
        Ok((key, id, table.address.clone()))
    }

    /// Whether a call takes a reply with these properties. Only the id is looked up.
    pub(super) fn expects(&self, properties: &Properties) -> bool {
        let Some(id) = properties.correlation_bytes() else { return false };
        self.table().slots.get(&key(id)).is_some_and(|slot| slot.id.as_bytes() == id && slot.takes())
    }

    /// Passes a reply to the call that waits for it. A reply without a waiting call is counted.
    #[inline]
    pub(super) fn offer(&self, reply: Message) {
        let mut table = self.table();
        let slot = reply.properties().correlation_bytes().and_then(|id| {
            let slot = table.slots.get_mut(&key(id))?;
            (slot.id.as_bytes() == id).then_some(slot)
        });
        let (refused, waker) = match slot {
            Some(slot) => match slot.take(reply) {
                Ok(()) => (None, slot.waker.take()),
                Err(refused) => (Some(refused), None),
            },
            None => (Some(reply), None),
        };
        *(if refused.is_none() { &mut table.answered } else { &mut table.orphans }) += 1;
        drop(table);
        // Not under the lock: these are somebody else's code.
        drop(refused);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// The reply; or why there is none. What is ready has left its place.
    #[inline]
    pub(super) fn poll_reply(
        &self,
        call: Key,
        cx: &mut Context<'_>,
    ) -> Result<Result<Message, CallErrorKind>, Deadline> {
        let mut table = self.table();
        let has_keeper = table.keeper.is_some();
        let Entry::Occupied(mut place) = table.slots.entry(call) else {
            return Ok(Err(CallErrorKind::Closed));
        };
        let slot = place.get_mut();
        if slot.reply.is_none() && slot.failed.is_none() {
            let replaced = slot.watch(cx);
            drop(table);
            drop(replaced);
            return Err(if has_keeper { Deadline::Kept } else { Deadline::Own });
        }
        let Slot { reply, failed, waker, .. } = place.remove();
        drop(table);
        drop(waker);
        Ok(reply.ok_or(failed.unwrap_or(CallErrorKind::Closed)))
    }

    /// The next of several replies; or why there is none, after those that arrived in time.
    pub(super) fn poll_next(&self, call: Key, cx: &mut Context<'_>) -> Poll<Result<Message, CallErrorKind>> {
        let mut table = self.table();
        let Some(slot) = table.slots.get_mut(&call) else {
            return Poll::Ready(Err(CallErrorKind::Closed));
        };
        if let Some(reply) = slot.several.as_mut().and_then(|several| several.replies.pop_front()) {
            return Poll::Ready(Ok(reply));
        }
        if let Some(failed) = slot.failed {
            return Poll::Ready(Err(failed));
        }
        let replaced = slot.watch(cx);
        drop(table);
        drop(replaced);
        Poll::Pending
    }

    /// Why no reply can come any more to a call that takes several, if none can.
    pub(super) fn poll_failed(&self, call: Key, cx: &mut Context<'_>) -> Poll<CallErrorKind> {
        let mut table = self.table();
        let Some(slot) = table.slots.get_mut(&call) else { return Poll::Ready(CallErrorKind::Closed) };
        if let Some(failed) = slot.failed {
            return Poll::Ready(failed);
        }
        let replaced = slot.watch(cx);
        drop(table);
        drop(replaced);
        Poll::Pending
    }

    /// Whether a call that takes several replies has one that it has not got yet.
    pub(super) fn has_replies(&self, call: Key) -> bool {
        let table = self.table();
        let several = table.slots.get(&call).and_then(|slot| slot.several.as_ref());
        several.is_some_and(|several| !several.replies.is_empty())
    }

    /// Empties the place of a call.
    pub(super) fn remove(&self, call: Key) {
        let slot = self.table().slots.remove(&call);
        // Not under the lock: a waker's drop is somebody else's code.
        drop(slot);
    }

    pub(super) fn address(&self) -> ReplyAddress {
        self.table().address.clone()
    }

    /// Where the replies to later calls go. If that changes no call may wait: its reply goes to the address before.
    pub(super) fn set_address(&self, address: ReplyAddress) {
        self.table().address = address;
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

    /// As [`disconnect`](Self::disconnect), for good: nothing is received any more.
    pub(super) fn end(&self) {
        self.fail(State::Closed, CallErrorKind::Disconnected);
    }

    /// As [`end`](Self::end), at the user's request.
    pub(super) fn close(&self) {
        self.fail(State::Closed, CallErrorKind::Closed);
        self.wake_keeper();
    }

    fn fail(&self, state: State, why: CallErrorKind) {
        let mut table = self.table();
        if table.state == State::Closed {
            return;
        }
        table.state = state;
        if state == State::Closed {
            self.is_closed.store(true, Ordering::Relaxed);
        }
        let mut woken = Vec::new();
        for slot in table.slots.values_mut() {
            slot.failed.get_or_insert(why);
            woken.extend(slot.waker.take());
        }
        drop(table);
        woken.into_iter().for_each(Waker::wake);
    }

    /// Has the loop of the replies look at what is due.
    fn wake_keeper(&self) {
        let table = self.table();
        self.is_due.store(true, Ordering::Relaxed);
        let keeper = table.keeper.clone();
        drop(table);
        keeper.into_iter().for_each(Waker::wake);
    }

    /// Whether it is closed for good. The receiver of the replies is woken when it is.
    #[inline]
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    pub(super) fn len(&self) -> usize {
        self.table().slots.len()
    }

    pub(super) fn answered(&self) -> u64 {
        self.table().answered
    }

    pub(super) fn orphans(&self) -> u64 {
        self.table().orphans
    }
}

impl Table {
    #[inline]
    fn insert(&mut self, limit: usize, several: Option<Box<Several>>) -> Result<(Key, Token), CallErrorKind> {
        match self.state {
            State::Open if self.slots.len() < limit => {}
            State::Open => return Err(CallErrorKind::TooManyRequests),
            State::Disconnected => return Err(CallErrorKind::Disconnected),
            State::Closed => return Err(CallErrorKind::Closed),
        }
        loop {
            let id = random_id();
            let key = key(id.as_bytes());
            if let Entry::Vacant(place) = self.slots.entry(key) {
                place.insert(Slot { id, reply: None, several, failed: None, waker: None });
                return Ok((key, id));
            }
        }
    }
}

impl Slot {
    /// Has the caller woken when there is something. What is replaced is dropped where no lock is held.
    #[inline]
    fn watch(&mut self, cx: &mut Context<'_>) -> Option<Waker> {
        match &self.waker {
            Some(waker) if waker.will_wake(cx.waker()) => None,
            _ => self.waker.replace(cx.waker().clone()),
        }
    }
}

/// The last 16 digits of an id, mixed.
#[inline]
fn key(id: &[u8; Token::LENGTH]) -> Key {
    let &[.., a, b] = id.as_chunks::<8>().0 else { return 0 };
    let mixed = (u64::from_le_bytes(a) << 4 ^ u64::from_le_bytes(b)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed ^ mixed >> 32
}

/// Keys are as good as hashes: ids are made here and at random, so no sender can make them collide.
#[derive(Default)]
struct KeyItself(u64);

impl Hasher for KeyItself {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}
