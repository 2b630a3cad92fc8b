//! The books: every message is entered once, as handled or as a dead letter.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use consign::{
    Message,
    codecs::{CodecSet, Codecs, Decoded, Trail},
    message::PropertyValue,
    settlement::DeadLetter,
};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

use crate::{
    format::{DECLARED, Format},
    plan::Plan,
};

pub struct Ledger {
    plan: Plan,
    books: Mutex<Books>,
    /// A permit for each message that may be under way. What bounds the memory of a run of any length.
    window: Semaphore,
    /// Whether entries are to be written into a store.
    is_written: bool,
}

/// What has been entered.
#[derive(Debug, Default)]
pub struct Books {
    entered: Vec<u64>,
    /// Entries that are still to be written into the store.
    unwritten: BTreeMap<usize, Entry>,
    pub rows: BTreeMap<Row, u64>,
    /// Dead letters by reason and by what was tried, without positions.
    pub dead: BTreeMap<(String, String), u64>,
    pub handled: u64,
    pub dead_lettered: u64,
    /// Entries of a message that had been entered before.
    pub twice: u64,
    /// Entries that are not what is to become of such a message, or messages that were never sent.
    pub unexpected: u64,
    /// Messages that were delivered more than once.
    redelivered: BTreeSet<usize>,
    pub dead_redelivered: u64,
    /// Entries that an earlier run has made.
    pub resumed: u64,
    /// Messages that an earlier run has entered, and was killed before it had settled them.
    unsettled: BTreeSet<usize>,
    /// Of these, those that came again.
    pub repeated: u64,
}

/// What became of one message.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Entry {
    pub number: usize,
    row: Row,
    /// Whether it is not what is to become of such a message.
    is_unexpected: bool,
    is_redelivered: bool,
    /// Of a dead letter, what was tried.
    tried: Option<String>,
}

/// One line of the table.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Row {
    pub format: Format,
    pub declared: Cow<'static, str>,
    pub by: Cow<'static, str>,
    pub chosen: Cow<'static, str>,
    pub outcome: Outcome,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Outcome {
    /// Read as declared.
    Handled,
    /// Read by another codec, or without a declaration.
    Rescued,
    Dead(String),
}

impl Ledger {
    /// Messages that may be under way: sent, and not yet entered.
    pub const WINDOW: usize = 512;

    pub fn new(plan: Plan, is_written: bool) -> Self {
        let entered = vec![0; plan.messages().div_ceil(64)];
        let books = Mutex::new(Books { entered, ..Books::default() });
        Self { plan, books, window: Semaphore::new(Self::WINDOW), is_written }
    }

    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    pub fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until one more message may be under way.
    pub async fn admit(&self) {
        if let Ok(permit) = self.window.acquire().await {
            permit.forget();
        }
    }

    /// Notes how often a message has been delivered.
    pub fn delivered(&self, message: &Message) {
        if message.received().is_some_and(|received| received.delivery_count > 1) {
            let number = self.plan.number(message);
            self.books().redelivered.extend(number);
        }
    }

    /// Enters a message that a handler has read. `is_right` says whether the value is what was sent.
    pub fn handled<T>(&self, message: &Message, read: &Decoded<T>, is_right: bool) {
        let declared = declared(message);
        let is_rescued = declared.is_none() || !read.attempts.is_empty();
        let outcome = if is_rescued { Outcome::Rescued } else { Outcome::Handled };
        self.enter(message, |format| {
            let row = Row {
                format,
                declared: declared.unwrap_or("-").into(),
                by: read.by.into(),
                chosen: read.chosen.code().into(),
                outcome,
            };
            (row, !is_right || !format.may_be_read(read.by, read.chosen), None)
        });
    }

    /// Enters a dead letter, and compares its body with what was sent.
    pub fn dead<C: CodecSet>(&self, message: &Message, codecs: &Codecs<C>) {
        let text = |key| message.application_properties().get(key).and_then(PropertyValue::as_str).unwrap_or_default();
        let reason = text(DeadLetter::REASON);
        let tried = text(DeadLetter::TRAIL).parse().map_or_else(|_| String::from("(no trail)"), |trail| tried(&trail));
        let number = self.plan.number(message);
        let is_intact = number.is_some_and(|number| {
            let sent = self.plan.body(number, codecs);
            sent.is_ok_and(|(content_type, body)| {
                (message.content_type(), message.payload()) == (content_type, Some(&body[..]))
            })
        });
        self.enter(message, |format| {
            let declared = declared(message).unwrap_or("-").into();
            let outcome = Outcome::Dead(reason.to_owned());
            let row = Row { format, declared, by: "-".into(), chosen: "-".into(), outcome };
            (row, !is_intact || !format.may_be_dead(reason), Some(tried))
        });
    }

    /// Enters a message: as which row, whether that is not as expected, and for a dead letter what was tried.
    fn enter(&self, message: &Message, what: impl FnOnce(Format) -> (Row, bool, Option<String>)) {
        let mut books = self.books();
        let Some(number) = self.plan.number(message) else {
            books.unexpected += 1;
            return;
        };
        if books.unsettled.remove(&number) {
            books.repeated += 1;
            return;
        }
        if books.has(number) {
            books.twice += 1;
            return;
        }
        let (row, is_unexpected, tried) = what(self.plan.format(number));
        let is_redelivered = books.redelivered.contains(&number);
        let entry = Entry { number, row, is_unexpected, is_redelivered, tried };
        if self.is_written {
            books.unwritten.insert(number, entry.clone());
        }
        books.enter(entry);
        drop(books);
        self.window.add_permits(1);
    }

    /// The entry of a message that is to be written before the message is settled.
    pub fn unwritten(&self, message: &Message) -> Option<Entry> {
        self.books().unwritten.remove(&self.plan.number(message)?)
    }

    /// Takes over the entries of an earlier run, and the messages that it has left.
    pub fn resume(&self, entries: impl IntoIterator<Item = Entry>, left: &BTreeSet<usize>) {
        let mut books = self.books();
        for entry in entries {
            if books.has(entry.number) {
                books.twice += 1;
            } else if entry.number < self.plan.messages() {
                books.resumed += 1;
                books.enter(entry);
            }
        }
        books.unsettled = left.iter().copied().filter(|&number| books.has(number)).collect();
        // Their entries give the permits back.
        self.window.forget_permits(left.len() - books.unsettled.len());
    }
}

impl Books {
    /// Messages that are in the books.
    pub fn entered(&self) -> u64 {
        self.handled + self.dead_lettered
    }

    /// Whether the message of this number is.
    pub fn has(&self, number: usize) -> bool {
        self.entered.get(number / 64).is_some_and(|word| word & 1 << (number % 64) != 0)
    }

    fn enter(&mut self, entry: Entry) {
        let Entry { number, row, is_unexpected, is_redelivered, tried } = entry;
        self.entered[number / 64] |= 1 << (number % 64);
        self.unexpected += u64::from(is_unexpected);
        match &row.outcome {
            Outcome::Handled | Outcome::Rescued => self.handled += 1,
            Outcome::Dead(reason) => {
                self.dead_lettered += 1;
                self.dead_redelivered += u64::from(is_redelivered);
                *self.dead.entry((reason.clone(), tried.unwrap_or_default())).or_default() += 1;
            }
        }
        *self.rows.entry(row).or_default() += 1;
    }
}

/// The declared ContentType, of those that there are.
fn declared(message: &Message) -> Option<&'static str> {
    let declared = message.content_type()?;
    Some(DECLARED.into_iter().find(|known| *known == declared).unwrap_or("(another)"))
}

/// What was tried, in words and without positions, so that like cases fall together.
fn tried(trail: &Trail) -> String {
    let entries = trail.entries().iter().map(|entry| format!("{} {} {}", entry.codec(), entry.chosen(), entry.code()));
    entries.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{events, handlers, payloads::Anything};
    use consign::MessageExt;

    fn enter(ledger: &Ledger, number: usize, as_number: usize) {
        let codecs = handlers::codecs().unwrap();
        let mut message = ledger.plan().message(number, &codecs).unwrap();
        message.properties_mut().set_message_id(as_number.to_string()).unwrap();
        let read: Decoded<Anything> = message.decode_traced(&codecs).unwrap();
        ledger.handled(&message, &read, true);
    }

    fn ledger() -> Ledger {
        let codecs = handlers::codecs().unwrap();
        Ledger::new(Plan::new(events::load(None, &codecs).unwrap(), 100, 1), false)
    }

    /// Entered, entered twice, unexpected.
    fn counts(ledger: &Ledger) -> (u64, u64, u64) {
        let books = ledger.books();
        (books.entered(), books.twice, books.unexpected)
    }

    #[test]
    fn a_message_that_comes_twice_is_noticed() {
        let ledger = ledger();
        enter(&ledger, 0, 0);
        enter(&ledger, 9, 9);
        assert_eq!(counts(&ledger), (2, 0, 0));
        enter(&ledger, 9, 9);
        assert_eq!(counts(&ledger), (2, 1, 0));
    }

    #[test]
    fn unsent_and_wrongly_read_messages_are_noticed() {
        let ledger = ledger();
        enter(&ledger, 0, 100);
        assert_eq!(counts(&ledger), (0, 0, 1));
        enter(&ledger, 0, 2);
        assert_eq!(counts(&ledger), (1, 0, 2), "JSON in the place of MessagePack");
    }

    #[test]
    fn a_dead_letter_must_hold_what_was_sent() {
        let (ledger, codecs) = (ledger(), handlers::codecs().unwrap());
        let dead = |number: usize, body: &'static [u8]| {
            let message = Message::builder().message_id(number.to_string()).content_type(DECLARED[0]);
            let message = message.property(DeadLetter::REASON, "DeserializationFailed").build(body).unwrap();
            ledger.dead(&message, &codecs);
            ledger.books().unexpected
        };
        assert_eq!(dead(8, b""), 0);
        assert_eq!(dead(17, b"x"), 1, "another body");
        assert_eq!(dead(9, b""), 2, "JSON is not to be dead-lettered");
    }
}
