#[cfg(feature = "durable")]
use std::ops::Range;
use std::{
    collections::{HashMap, HashSet, VecDeque},
    hash::{BuildHasherDefault, Hasher},
};

use siphasher::sip128::{Hasher128, SipHasher13};

use super::{KEPT, Ticks, common_key};
use consign_core::message::{Properties, SequenceNumber};

#[cfg(feature = "durable")]
use crate::{
    engine::record::{IdRecord, RecordSink},
    engine::time::Now,
    sabotage::Defect,
};

/// The ids that an entity has accepted within its window.
///
/// An id is kept as 128 bits of SipHash-1-3 under a secret of this table's own, so that no sender can choose ids that
/// collide.
#[derive(Debug)]
pub(super) struct Duplicates {
    window: Ticks,
    capacity: usize,
    secret: [u8; 16],
    ids: HashSet<Id, BuildHasherDefault<Hashed>>,
    /// By first acceptance, the oldest first.
    order: VecDeque<(Ticks, Id)>,
    /// The numbers of those that are scheduled messages.
    scheduled: HashMap<Id, SequenceNumber, BuildHasherDefault<Hashed>>,
    /// How many were forgotten, which is the number of the oldest.
    forgotten: u64,
    /// The numbers of those that are on a disk.
    #[cfg(feature = "durable")]
    written: Range<u64>,
}

/// The hash of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Id([u64; 2]);

impl Id {
    #[cfg(feature = "durable")]
    fn to_bytes(self) -> [u8; 16] {
        (u128::from(self.0[1]) << 64 | u128::from(self.0[0])).to_le_bytes()
    }

    #[cfg(feature = "durable")]
    fn from_bytes(bytes: [u8; 16]) -> Self {
        let all = u128::from_le_bytes(bytes);
        Self([all, all >> 64].map(|half| u64::try_from(half & u128::from(u64::MAX)).unwrap_or_default()))
    }
}

impl std::hash::Hash for Id {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0[0]);
    }
}

/// A hasher for keys that are a hash already.
#[derive(Debug, Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// The state of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// It is new, and there is capacity to remember it.
    New(Id),
    /// It was accepted within the window; if that message is scheduled, its number.
    Before(Option<SequenceNumber>),
    /// It is new, and the table is full.
    Full,
}

impl Duplicates {
    pub(super) fn new(window: Ticks, capacity: usize) -> Self {
        let mut secret = [0; 16];
        getrandom::fill(&mut secret).expect("the system has random numbers");
        Self::with_secret(window, capacity, secret)
    }

    /// Under the same secret the same ids are equal, in any process and version.
    fn with_secret(window: Ticks, capacity: usize, secret: [u8; 16]) -> Self {
        Self {
            window,
            capacity,
            secret,
            ids: HashSet::default(),
            order: VecDeque::new(),
            scheduled: HashMap::default(),
            forgotten: 0,
            #[cfg(feature = "durable")]
            written: 0..0,
        }
    }

    /// Changes the window. It applies to the ids that are remembered, not to those whose window has passed.
    pub(super) fn configure(&mut self, now: Ticks, window: Ticks, capacity: usize) {
        self.forget_old(now);
        (self.window, self.capacity) = (window, capacity);
    }

    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.order.capacity().max(self.scheduled.capacity())
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    pub(super) fn look(&mut self, now: Ticks, properties: &Properties, partitioned: bool) -> Seen {
        self.forget_old(now);
        let id = self.id(properties, partitioned);
        if self.ids.contains(&id) {
            Seen::Before(self.scheduled.get(&id).copied())
        } else if self.order.len() >= self.capacity {
            Seen::Full
        } else {
            Seen::New(id)
        }
    }

    pub(super) fn record(&mut self, now: Ticks, id: Id) {
        self.ids.insert(id);
        self.order.push_back((now, id));
    }

    pub(super) fn record_scheduled(&mut self, id: Id, number: SequenceNumber) {
        self.scheduled.insert(id, number);
    }

    /// Records that the message of this number is no longer scheduled. Its id may be that of a later one by now.
    pub(super) fn forget_scheduled(&mut self, number: SequenceNumber, properties: &Properties, partitioned: bool) {
        let id = self.id(properties, partitioned);
        if self.scheduled.get(&id) == Some(&number) {
            self.scheduled.remove(&id);
        }
    }

    /// Removes old ids. The window is from the first acceptance, and does not include its end.
    pub(super) fn forget_old(&mut self, now: Ticks) {
        while let Some(&(first, id)) = self.order.front() {
            if now < first.saturating_add(self.window) {
                break;
            }
            self.order.pop_front();
            self.forgotten += 1;
            self.ids.remove(&id);
            self.scheduled.remove(&id);
        }
        if self.order.is_empty() && self.order.capacity() > KEPT {
            (self.order, self.ids, self.scheduled) = (VecDeque::new(), HashSet::default(), HashMap::default());
        }
    }

    fn id(&self, properties: &Properties, partitioned: bool) -> Id {
        let mut hasher = SipHasher13::new_with_key(&self.secret);
        if partitioned {
            let key = common_key(properties);
            // The length separates the end of the key from the beginning of the id.
            hasher.write(&key.map_or(0, |key| key.len() as u64 + 1).to_le_bytes());
            hasher.write(key.unwrap_or_default().as_bytes());
        }
        hasher.write(properties.message_id().unwrap_or_default().as_bytes());
        let hash = hasher.finish128();
        Id([hash.h1, hash.h2])
    }
}

#[cfg(feature = "durable")]
impl Duplicates {
    pub(super) fn secret(&self) -> [u8; 16] {
        self.secret
    }

    /// Sets the secret of the ids that are restored.
    pub(super) fn set_secret(&mut self, secret: [u8; 16]) {
        self.secret = secret;
    }

    /// Returns the numbers of those that are on a disk.
    pub(super) fn written(&self) -> Range<u64> {
        self.written.clone()
    }

    /// Passes to `sink` the ids that were added and removed since the last call.
    pub(super) fn write_changes(&mut self, serial: u64, now: Now, sink: &mut impl RecordSink) {
        if Defect::ForgetIds.is_there() {
            return;
        }
        let end = self.forgotten + self.order.len() as u64;
        for number in self.written.start..self.written.end.min(self.forgotten) {
            sink.remove_id(serial, number);
        }
        for number in self.written.end.max(self.forgotten)..end {
            let at = usize::try_from(number - self.forgotten).unwrap_or(usize::MAX);
            let Some(&(first, id)) = self.order.get(at) else { continue };
            let scheduled = self.scheduled.get(&id).copied();
            let record = IdRecord { digest: id.to_bytes(), accepted: now.utc_at(first), scheduled };
            sink.put_id(serial, number, &record);
        }
        self.written = self.forgotten..end;
    }

    /// Ends a restore after all messages: a number stays with an id as long as its message is scheduled.
    pub(super) fn finish_restoring(&mut self, is_scheduled: impl Fn(SequenceNumber) -> bool) {
        self.scheduled.retain(|_, number| is_scheduled(*number));
    }

    /// Restores an id that was written. Ids come in the order of their numbers.
    pub(super) fn restore(&mut self, now: Now, number: u64, record: IdRecord) {
        if self.order.is_empty() {
            self.forgotten = number;
            self.written = number..number;
        }
        let id = Id::from_bytes(record.digest);
        // UTC may have been set back since.
        self.record(now.ticks_at(record.accepted).min(now.ticks), id);
        self.written.end = number + 1;
        if let Some(number) = record.scheduled {
            self.scheduled.insert(id, number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Ticks = 1_000;

    fn properties(id: usize) -> Properties {
        let mut properties = Properties::new();
        properties.set_message_id(id.to_string()).unwrap();
        properties
    }

    /// Accepts a message of this id, which is new.
    fn accept(duplicates: &mut Duplicates, now: Ticks, id: usize) {
        let Seen::New(id) = duplicates.look(now, &properties(id), false) else {
            panic!("{id} is new, and there is space for it")
        };
        duplicates.record(now, id);
        duplicates.record_scheduled(id, SequenceNumber::new(now));
    }

    fn sizes(duplicates: &Duplicates) -> [usize; 3] {
        [duplicates.ids.len(), duplicates.order.len(), duplicates.scheduled.len()]
    }

    /// Rules: S-07, T-42.
    #[test]
    fn the_table_is_cleaned_as_time_passes() {
        let mut duplicates = Duplicates::new(WINDOW, 100);
        for id in 0..10_000_usize {
            accept(&mut duplicates, 10 * id as Ticks, id);
            assert_eq!(sizes(&duplicates), [id.min(99) + 1; 3], "{id}");
        }
        // The first of them is removed at the end of its window, and the others at the end of theirs.
        let last = 99_990;
        for (now, left) in [(last + 9, 100), (last + 10, 99), (last + WINDOW - 1, 1), (last + WINDOW, 0)] {
            duplicates.forget_old(now);
            assert_eq!(sizes(&duplicates), [left; 3], "{now}");
        }
    }

    /// They are stored, and so is the secret.
    #[test]
    fn an_id_is_what_it_was_in_another_process() {
        let duplicates = Duplicates::with_secret(WINDOW, 1, std::array::from_fn(|nth| [0, 1, 0x80, 0xff][nth % 4]));
        let mut with_key = properties(1);
        with_key.set_partition_key("key").unwrap();
        let ids = [(properties(1), false), (with_key.clone(), false), (properties(1), true), (with_key, true)]
            .map(|(properties, partitioned)| duplicates.id(&properties, partitioned).0);
        let plain = [0xc16d_2df2_e69d_b6e5, 0xe437_93b3_5108_62cb];
        let without_key = [0xa635_bba8_07e0_69c9, 0x3ed6_8731_e6e4_f132];
        let with_key = [0xdac0_1e08_1a9c_72f5, 0x7c37_990a_56bb_05e4];
        let expected = [plain, plain, without_key, with_key];
        assert_eq!(ids, expected);
    }

    #[test]
    fn a_key_does_not_go_on_in_the_id() {
        let duplicates = Duplicates::new(WINDOW, 1);
        let ids = [(None, "abc"), (Some(""), "abc"), (Some("a"), "bc"), (Some("ab"), "c")].map(|(key, id)| {
            let mut properties = Properties::new();
            properties.set_message_id(id).unwrap();
            if let Some(key) = key {
                properties.set_partition_key(key).unwrap();
            }
            duplicates.id(&properties, true)
        });
        assert_eq!(std::collections::BTreeSet::from(ids).len(), 4);
    }

    /// Rules: S-07.
    #[test]
    fn the_table_never_grows_beyond_its_capacity() {
        let mut duplicates = Duplicates::new(WINDOW, 10);
        for id in 0..10 {
            accept(&mut duplicates, 0, id);
        }
        for id in 0..1_000 {
            let known = matches!(duplicates.look(WINDOW - 1, &properties(id), false), Seen::Before(Some(_)));
            assert_eq!(known, id < 10, "{id}");
        }
        assert_eq!(duplicates.look(WINDOW - 1, &properties(10), false), Seen::Full);
        assert_eq!(sizes(&duplicates), [10; 3]);
    }
}
