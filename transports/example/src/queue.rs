//! The state of one queue. No method waits, so whatever a method begins has ended when it returns.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt, iter,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use consign_core::{
    Disposition, Message,
    administration::{Counts, QueueSettings},
    message::{EntityPath, Field, InvalidArgument, Problem, Received, SequenceNumber, limits},
    settlement::DeadLetter,
    time::{Clock, SystemClock, Timestamp},
    transport::{Capability, ErrorKind, ReceiveError, SendError, SettleError, Unsupported},
};
use parking_lot::Mutex;
use uuid::Uuid;

pub(crate) struct Queue {
    pub(crate) path: EntityPath,
    pub(crate) settings: QueueSettings,
    clock: Arc<SystemClock>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    main: Line,
    dead_letters: Line,
    last_number: u64,
    last_receiver: u64,
    /// Bytes of all messages, locked ones and dead letters too.
    size: u64,
    is_deleted: bool,
}

/// Messages in line, and the receivers that wait for one.
#[derive(Default)]
struct Line {
    /// By sequence number, so that a message that returns has its place again.
    ready: BTreeMap<u64, Entry>,
    locked: usize,
    /// A receiver that was woken is not in it.
    waiting: VecDeque<(ReceiverId, Waker)>,
}

/// The queue, or its dead-letter sub-queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Main,
    DeadLetters,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReceiverId(u64);

/// A stored message. The lease owns the entry of a locked message, so no other receiver can take it.
#[derive(Debug)]
pub(crate) struct Entry {
    number: u64,
    enqueued_time: Timestamp,
    failures: u32,
    size: u64,
    message: Message,
}

impl State {
    fn line(&mut self, part: Part) -> &mut Line {
        match part {
            Part::Main => &mut self.main,
            Part::DeadLetters => &mut self.dead_letters,
        }
    }
}

impl Line {
    /// Puts a message in its place. The caller wakes the receiver once the state is unlocked: a waker is foreign code.
    #[must_use]
    fn put(&mut self, entry: Entry) -> Option<Waker> {
        self.ready.insert(entry.number, entry);
        self.next_waker()
    }

    fn next_waker(&mut self) -> Option<Waker> {
        self.waiting.pop_front().map(|(_, waker)| waker)
    }

    fn place_of(&self, receiver: ReceiverId) -> Option<usize> {
        self.waiting.iter().position(|(waiting, _)| *waiting == receiver)
    }
}

impl Entry {
    pub(crate) fn delivered(&self, part: Part) -> Message {
        let number = SequenceNumber::new(self.number);
        let mut received = Received::new(number, self.enqueued_time, self.failures.saturating_add(1));
        received.dead_lettered = part == Part::DeadLetters;
        self.message.clone().with_received(received)
    }
}

impl Queue {
    pub(crate) fn new(path: EntityPath, settings: QueueSettings, clock: Arc<SystemClock>) -> Self {
        Self { path, settings, clock, state: Mutex::default() }
    }

    /// Stores all messages, or none.
    pub(crate) fn send(&self, messages: &[Message]) -> Result<(), SendError> {
        let now = self.clock.now().utc;
        let checked = messages.iter().map(|message| self.checked(message, now)).collect::<Result<Vec<_>, _>>()?;
        let mut woken = Vec::new();
        let mut state = self.state.lock();
        if state.is_deleted {
            return Err(SendError::new(ErrorKind::EntityNotFound).with_detail(self.path.to_string()));
        }
        let size = checked.iter().map(stored_size).fold(state.size, u64::saturating_add);
        if size > self.settings.max_size {
            return Err(SendError::new(ErrorKind::QuotaExceeded).with_detail(self.path.to_string()));
        }
        state.size = size;
        for message in checked {
            state.last_number += 1;
            let (number, size) = (state.last_number, stored_size(&message));
            woken.extend(state.main.put(Entry { number, enqueued_time: now, failures: 0, size, message }));
        }
        drop(state);
        woken.into_iter().for_each(Waker::wake);
        Ok(())
    }

    /// Returns the message as it is stored: what an earlier receive or dead-lettering added is gone.
    fn checked(&self, message: &Message, now: Timestamp) -> Result<Message, SendError> {
        let mut message = Message::from_parts(message.properties().clone(), message.body().clone());
        DeadLetter::remove_from(&mut message);
        message.check()?;
        if message.time_to_live().is_some() {
            return Err(Unsupported::new(Capability::TimeToLive).into());
        }
        if message.scheduled_enqueue_time().is_some_and(|at| at > now) {
            return Err(Unsupported::new(Capability::Scheduling).into());
        }
        if message.size() > self.settings.max_message_size {
            let detail = format!("{} bytes, and the queue takes {}", message.size(), self.settings.max_message_size);
            return Err(SendError::new(ErrorKind::MessageSizeExceeded).with_detail(detail));
        }
        if message.message_id().is_none() {
            message.properties_mut().stamp_message_id(Uuid::new_v4().simple().to_string())?;
        }
        Ok(message)
    }

    pub(crate) fn receiver_id(&self) -> ReceiverId {
        let mut state = self.state.lock();
        state.last_receiver += 1;
        ReceiverId(state.last_receiver)
    }

    /// Locks up to `max` messages, where 0 counts as 1, or adds the receiver to those that wait.
    pub(crate) fn poll_receive(
        &self,
        part: Part,
        receiver: ReceiverId,
        max: usize,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Vec<Entry>, ReceiveError>> {
        // To clone or drop a waker is foreign code too: the state is not locked then.
        let waker = cx.waker().clone();
        let mut state = self.state.lock();
        if state.is_deleted {
            let gone = ReceiveError::new(ErrorKind::EntityNotFound);
            return Poll::Ready(Err(gone.with_detail(self.path.to_string())));
        }
        let line = state.line(part);
        let entries: Vec<Entry> = iter::from_fn(|| Some(line.ready.pop_first()?.1)).take(max.max(1)).collect();
        line.locked += entries.len();
        let place = line.place_of(receiver);
        let old = match (entries.is_empty(), place) {
            (false, place) => place.and_then(|place| line.waiting.remove(place)),
            (true, Some(place)) => Some(std::mem::replace(&mut line.waiting[place], (receiver, waker))),
            (true, None) => {
                line.waiting.push_back((receiver, waker));
                None
            }
        };
        drop(state);
        drop(old);
        if entries.is_empty() { Poll::Pending } else { Poll::Ready(Ok(entries)) }
    }

    /// A receiver that waited does not poll any more. If it was woken, its message is still there for another one.
    pub(crate) fn stop_waiting(&self, part: Part, receiver: ReceiverId) {
        let mut state = self.state.lock();
        let line = state.line(part);
        let own = line.place_of(receiver).and_then(|place| line.waiting.remove(place));
        let was_woken = own.is_none();
        let next = if was_woken && !line.ready.is_empty() { line.next_waker() } else { None };
        drop(state);
        drop(own);
        next.into_iter().for_each(Waker::wake);
    }

    /// Settles a message, or releases it without a disposition. A settlement that is refused abandons the message: its lease
    /// is used up, and no clock would end its lock.
    pub(crate) fn settle(
        &self,
        part: Part,
        mut entry: Entry,
        disposition: Option<Disposition>,
    ) -> Result<(), SettleError> {
        let settled = match disposition {
            None => Ok(Some(part)),
            Some(Disposition::Complete) => Ok(None),
            Some(Disposition::Abandon(changes)) => {
                let mut message = entry.message.clone();
                message.properties_mut().application_properties_mut().merge(changes.into_permitted());
                Ok(Some(if message.check().is_ok() {
                    entry.message = message;
                    self.failed(part, &mut entry)
                } else {
                    outgrown(part, &mut entry)
                }))
            }
            Some(Disposition::DeadLetter(dead_letter)) => {
                bury(part, &mut entry, *dead_letter).map(|()| Some(Part::DeadLetters))
            }
            Some(Disposition::Defer(_)) => Err(Unsupported::new(Capability::Deferral).into()),
        };
        let (to, result) = match settled {
            Ok(to) => (to, Ok(())),
            Err(refused) => (Some(self.failed(part, &mut entry)), Err(refused)),
        };
        let mut state = self.state.lock();
        if state.is_deleted {
            return Err(SettleError::new(ErrorKind::MessageLockLost).with_detail("the queue was deleted"));
        }
        state.line(part).locked -= 1;
        state.size -= entry.size;
        let woken = to.and_then(|to| {
            // The settlement may have changed the properties.
            entry.size = stored_size(&entry.message);
            state.size = state.size.saturating_add(entry.size);
            state.line(to).put(entry)
        });
        drop(state);
        woken.into_iter().for_each(Waker::wake);
        result
    }

    /// Counts a failed delivery, and returns where the message goes. Nothing counts in the dead-letter sub-queue.
    fn failed(&self, part: Part, entry: &mut Entry) -> Part {
        if part == Part::DeadLetters {
            return part;
        }
        entry.failures += 1;
        if entry.failures < self.settings.max_delivery_count {
            return part;
        }
        let mut dead_letter = DeadLetter::max_delivery_count_exceeded(entry.failures, None);
        dead_letter.fit(entry.message.properties());
        dead_letter.write_to(entry.message.properties_mut().application_properties_mut());
        Part::DeadLetters
    }

    /// Ends the queue: receivers that wait fail, and so do settlements.
    pub(crate) fn delete(&self) {
        let mut state = self.state.lock();
        let State { main, dead_letters, .. } = std::mem::take(&mut *state);
        state.is_deleted = true;
        drop(state);
        main.waiting.into_iter().chain(dead_letters.waiting).for_each(|(_, waker)| waker.wake());
    }

    pub(crate) fn counts(&self, part: Part) -> Counts {
        let mut state = self.state.lock();
        let mut counts = Counts::default();
        if part == Part::Main {
            counts.dead_lettered = state.dead_letters.ready.len() + state.dead_letters.locked;
            counts.size = state.size;
        }
        let line = state.line(part);
        (counts.active, counts.locked) = (line.ready.len(), line.locked);
        counts
    }
}

fn stored_size(message: &Message) -> u64 {
    u64::try_from(message.size()).unwrap_or(u64::MAX).saturating_add(QueueSettings::OVERHEAD)
}

/// Makes the message a dead letter.
fn bury(part: Part, entry: &mut Entry, dead_letter: DeadLetter) -> Result<(), SettleError> {
    if part == Part::DeadLetters {
        let detail = "a dead letter cannot be dead-lettered again";
        return Err(SettleError::new(ErrorKind::InvalidOperation).with_detail(detail));
    }
    let limit = limits::DEAD_LETTER_TEXT;
    let texts = [
        (Field::DeadLetterReason, dead_letter.reason.as_str()),
        (Field::DeadLetterErrorDescription, &*dead_letter.description),
    ];
    for (field, text) in texts {
        if text.encode_utf16().count() > limit {
            return Err(InvalidArgument::new(field, Problem::TooLong { limit }).into());
        }
    }
    let is_reason_alone = dead_letter.description.is_empty() && dead_letter.changes.is_empty();
    let mut message = entry.message.clone();
    dead_letter.write_to(message.properties_mut().application_properties_mut());
    if is_reason_alone || message.check().is_ok() {
        entry.message = message;
    } else {
        outgrown(part, entry);
    }
    Ok(())
}

/// A settlement would make the properties too large: the message becomes a dead letter without the changes, and in the
/// dead-letter sub-queue it stays as it was. Returns where it goes.
fn outgrown(part: Part, entry: &mut Entry) -> Part {
    if part == Part::Main {
        DeadLetter::header_size_exceeded().write_to(entry.message.properties_mut().application_properties_mut());
    }
    Part::DeadLetters
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("path", &self.path).finish_non_exhaustive()
    }
}
