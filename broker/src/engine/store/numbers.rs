use consign_core::{
    message::{Properties, SequenceNumber, Stored},
    time::Timestamp,
};

use super::entry::Entry;
use crate::engine::time::Now;

#[cfg(feature = "durable")]
use crate::engine::record::{CounterRecord, LastNumber};

/// The number of partitions of a partitioned entity.
pub(crate) const PARTITIONS: u16 = 16;
/// Bits of a sequence number that count inside a partition; the others are the partition.
const PARTITION_SHIFT: u32 = 48;

/// The numbers and times that an entity assigns when it accepts a message.
#[derive(Clone, Debug)]
pub(super) struct Numbers {
    order: u64,
    last_enqueued: Timestamp,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Plain(SequenceNumber),
    Partitioned(Box<Partitions>),
}

#[derive(Clone, Debug)]
struct Partitions {
    last: [u64; PARTITIONS as usize],
    /// The partition of the next message without a key.
    next: u16,
}

/// The numbers that a message is assigned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Number {
    pub(crate) sequence: SequenceNumber,
    pub(crate) order: u64,
    pub(crate) enqueued: Timestamp,
}

/// The numbers that an entity will assign next.
#[derive(Debug)]
pub(crate) struct Upcoming {
    numbers: Numbers,
    by_id: bool,
}

impl Upcoming {
    pub(super) fn new(numbers: Numbers, by_id: bool) -> Self {
        Self { numbers, by_id }
    }

    pub(crate) fn next(&mut self, now: Now, message: &Stored) -> Number {
        self.numbers.next(now.utc, message.properties(), self.by_id)
    }
}

impl Numbers {
    pub(super) fn plain() -> Self {
        Self { order: 0, last_enqueued: Timestamp::EPOCH, kind: Kind::Plain(SequenceNumber::new(0)) }
    }

    pub(super) fn partitioned() -> Self {
        let partitions = Partitions { last: [0; PARTITIONS as usize], next: 0 };
        Self { order: 0, last_enqueued: Timestamp::EPOCH, kind: Kind::Partitioned(Box::new(partitions)) }
    }

    /// Whether the order of sequence numbers is not the order of acceptance.
    pub(super) fn jump(&self) -> bool {
        match &self.kind {
            Kind::Plain(last) => last.get() != self.order,
            Kind::Partitioned(_) => true,
        }
    }

    /// Returns the next number. It is dense in its entity, or in its partition, and begins again at 0 after the last
    /// one.
    #[inline]
    pub(super) fn next(&mut self, utc: Timestamp, properties: &Properties, by_id: bool) -> Number {
        self.order += 1;
        self.last_enqueued = self.last_enqueued.max(utc);
        let sequence = match &mut self.kind {
            Kind::Plain(last) => {
                *last = last.next();
                *last
            }
            Kind::Partitioned(partitions) => partitions.next(properties, by_id),
        };
        Number { sequence, order: self.order, enqueued: self.last_enqueued }
    }
}

#[cfg(feature = "durable")]
impl Numbers {
    pub(super) fn record(&self) -> CounterRecord {
        let last = match &self.kind {
            Kind::Plain(last) => LastNumber::Plain(*last),
            Kind::Partitioned(partitions) => LastNumber::Partitioned { last: partitions.last, next: partitions.next },
        };
        CounterRecord { order: self.order, last_enqueued: self.last_enqueued, last }
    }

    /// Restores the counters; `false` if they are those of another kind of entity.
    pub(super) fn restore(&mut self, record: &CounterRecord) -> bool {
        (self.order, self.last_enqueued) = (record.order, record.last_enqueued);
        match (&mut self.kind, &record.last) {
            (Kind::Plain(last), LastNumber::Plain(number)) => *last = *number,
            (Kind::Partitioned(partitions), LastNumber::Partitioned { last, next }) => {
                (partitions.last, partitions.next) = (*last, *next);
            }
            _ => return false,
        }
        true
    }
}

impl Partitions {
    fn next(&mut self, properties: &Properties, by_id: bool) -> SequenceNumber {
        let partition = if let Some(key) = key_of(properties, by_id) {
            u16::try_from(fnv_1a(key.as_bytes()) % u64::from(PARTITIONS)).unwrap_or(0)
        } else {
            let after = (self.next + 1) % PARTITIONS;
            std::mem::replace(&mut self.next, after)
        };
        let last = &mut self.last[usize::from(partition)];
        *last = (*last + 1) & ((1 << PARTITION_SHIFT) - 1);
        SequenceNumber::new(u64::from(partition) << PARTITION_SHIFT | *last)
    }
}

/// Returns the text that chooses the partition.
fn key_of(properties: &Properties, by_id: bool) -> Option<&str> {
    let id = properties.message_id().filter(|_| by_id);
    properties.session_id().or(properties.partition_key()).or(id)
}

/// Returns the partition that a number names.
pub(super) fn partition_of(sequence: SequenceNumber) -> u16 {
    u16::try_from(sequence.get() >> PARTITION_SHIFT).unwrap_or(0)
}

/// Computes the Fowler-Noll-Vo hash of 64 bits. It is the same in every process and version, as a partition has to
/// be.
fn fnv_1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Returns the key that a batch or a transaction on a partitioned entity must share.
pub(crate) fn common_key(properties: &Properties) -> Option<&str> {
    properties.session_id().or(properties.partition_key())
}

impl Entry {
    pub(super) fn partition_id(&self) -> Option<i16> {
        i16::try_from(partition_of(self.sequence)).ok()
    }
}

#[cfg(test)]
mod tests {
    use consign_core::{Disposition, Message, administration::QueueSettings, message::Stored};

    use super::{
        super::{Arrival, Effects, Now, Part, Peeked, Source, Store, StoreId},
        *,
    };
    use crate::Quirks;

    fn next(numbers: &mut Numbers, properties: &Properties) -> u64 {
        numbers.next(Timestamp::EPOCH, properties, false).sequence.get()
    }

    /// Rules: Q-05.
    #[test]
    fn after_the_last_number_comes_0() {
        let mut numbers = Numbers::plain();
        numbers.kind = Kind::Plain(SequenceNumber::new(u64::MAX - 1));
        let given: Vec<_> = (0..3).map(|_| next(&mut numbers, &Properties::new())).collect();
        assert_eq!(given, [u64::MAX, 0, 1]);
    }

    /// Rules: Q-05.
    #[test]
    fn after_the_last_number_of_a_partition_comes_its_0() {
        let mut numbers = Numbers::partitioned();
        let mut properties = Properties::new();
        properties.set_session_id("s").unwrap();
        let first = next(&mut numbers, &properties);
        let Kind::Partitioned(partitions) = &mut numbers.kind else { panic!("partitioned") };
        let partition = usize::try_from(first >> PARTITION_SHIFT).unwrap();
        partitions.last[partition] = (1 << PARTITION_SHIFT) - 2;
        let given: Vec<_> = (0..3).map(|_| next(&mut numbers, &properties)).collect();
        let base = first & !((1 << PARTITION_SHIFT) - 1);
        assert_eq!(given, [base + (1 << PARTITION_SHIFT) - 1, base, base + 1]);
    }

    /// Rules: Q-05.
    /// Receives are in the order of acceptance and peeks in that of numbers, also beyond the last one.
    #[test]
    fn a_store_goes_on_behind_the_last_number() {
        let now = Now { ticks: 0, utc: Timestamp::EPOCH };
        let mut fx = Effects::default();
        let mut store = Store::new(StoreId { serial: 1, index: 0 }, QueueSettings::default(), now, Quirks::default());
        store.numbers.kind = Kind::Plain(SequenceNumber::new(u64::MAX - 2));
        for _ in 0..4 {
            let arrival = Arrival::new(Stored::new(Message::new("")));
            let number = store.number(now, &arrival.message);
            store.insert(now, arrival, number, &mut fx);
        }
        let main = Source::Part(Part::Main);
        let number = |message: &Message| message.received().unwrap().sequence_number.get();
        let peek = |store: &Store, from| -> Vec<u64> {
            let peeked = store.peek(main, SequenceNumber::new(from), 10);
            let here = |peeked: &Peeked| match peeked {
                Peeked::Here(message) => number(message),
                #[cfg(feature = "durable")]
                Peeked::Away { .. } => panic!("it is in memory"),
            };
            peeked.iter().map(here).collect()
        };
        assert_eq!(peek(&store, 0), [0, 1, u64::MAX - 1, u64::MAX]);
        assert_eq!(peek(&store, 1), [1, u64::MAX - 1, u64::MAX]);
        let mut received = Vec::new();
        store.receive(now, main, 10, &mut fx, |locked| received.push(locked));
        assert!(received.iter().map(|locked| number(&locked.message)).eq([u64::MAX - 1, u64::MAX, 0, 1]));
        assert_eq!(peek(&store, 0), [0, 1, u64::MAX - 1, u64::MAX]);
        for locked in received {
            store.settle(now, locked.key, locked.lock, &Disposition::DEFER, &mut fx).unwrap();
        }
        let numbers = [0, u64::MAX].map(SequenceNumber::new);
        assert_eq!(store.receive_deferred(now, main, &numbers, u64::MAX, &mut fx).unwrap().len(), 2);
        assert_eq!(peek(&store, u64::MAX), [u64::MAX]);
    }

    #[test]
    fn the_hash_is_the_published_one() {
        assert_eq!(fnv_1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv_1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv_1a(b"foobar"), 0x8594_4171_f739_67e8);
    }
}
