use std::collections::{HashMap, HashSet};

use siphasher::sip128::SipHasher13;

use super::super::Explained;
use crate::{
    Message,
    message::{Properties, SequenceNumber},
};

/// A MessageId, hashed: ids may be long.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IdHash(u128);

impl IdHash {
    pub(in crate::dead_letters) fn of(id: &str) -> Self {
        Self(SipHasher13::new().hash(id.as_bytes()).as_u128())
    }

    fn of_message(message: &Message) -> Option<Self> {
        message.message_id().map(Self::of)
    }
}

/// Numbers for the dead letters of a transport that has none: the order in which a run receives them. Different dead letters
/// may have one MessageId, so only one whose removal is in doubt is recognised by it, and keeps its number.
#[derive(Default)]
pub(super) struct Numbers {
    last: u64,
    in_hand: HashMap<SequenceNumber, IdHash>,
    in_doubt: HashMap<IdHash, Vec<SequenceNumber>>,
}

impl Numbers {
    pub(super) fn of(&mut self, message: &Message) -> SequenceNumber {
        let in_doubt = IdHash::of_message(message).and_then(|id| self.in_doubt.get_mut(&id)).and_then(Vec::pop);
        in_doubt.unwrap_or_else(|| {
            self.last += 1;
            SequenceNumber::new(self.last)
        })
    }

    pub(super) fn begun(&mut self, number: SequenceNumber, message: &Message) {
        if let Some(id) = IdHash::of_message(message) {
            self.in_hand.insert(number, id);
        }
    }

    pub(super) fn finished(&mut self, number: SequenceNumber, is_in_doubt: bool) {
        if let Some(id) = self.in_hand.remove(&number).filter(|_| is_in_doubt) {
            self.in_doubt.entry(id).or_default().push(number);
        }
    }
}

/// The copies that a run has sent, where no number says that they are behind its last dead letter.
#[derive(Default)]
pub(super) struct Sent {
    ids: HashSet<IdHash>,
    /// The number of resubmissions of the first copy with a first id.
    first_ids: HashMap<IdHash, u32>,
}

impl Sent {
    const MOST: usize = 16_384;

    pub(super) fn add(&mut self, copy: IdHash, dead: &Explained) {
        if self.ids.len() < Self::MOST {
            self.ids.insert(copy);
            let first = dead.original_message_id().map(IdHash::of);
            first.map(|first| self.first_ids.entry(first).or_insert(dead.resubmit_count() + 1));
        }
    }

    /// Returns whether it is a copy of this run.
    pub(super) fn has(&self, message: &Message) -> bool {
        IdHash::of_message(message).is_some_and(|id| self.ids.contains(&id))
    }

    /// Returns whether it may be a copy of a copy of this run, as of a delayed retry. An earlier run may have made it too.
    pub(super) fn may_have(&self, dead: &Explained) -> bool {
        let properties = dead.message().application_properties();
        let first = properties.get(Properties::ORIGINAL_MESSAGE_ID).and_then(|value| value.as_str());
        let sent = first.and_then(|first| self.first_ids.get(&IdHash::of(first)));
        sent.is_some_and(|hops| *hops <= dead.resubmit_count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{dead_letters::RESUBMIT_COUNT, time::Timestamp};

    #[test]
    fn one_in_doubt_keeps_its_number_and_all_others_are_numbered() {
        let message = |id: &'static str| Message::builder().message_id(id).build("").unwrap();
        let mut numbers = Numbers::default();
        let of = |numbers: &mut Numbers, message: Message| {
            let number = numbers.of(&message);
            numbers.begun(number, &message);
            number.get()
        };
        assert_eq!(of(&mut numbers, message("a")), 1);
        assert_eq!(of(&mut numbers, message("a")), 2);
        numbers.finished(SequenceNumber::new(1), true);
        numbers.finished(SequenceNumber::new(2), false);
        assert_eq!(of(&mut numbers, message("b")), 3);
        assert_eq!(of(&mut numbers, message("a")), 1);
        assert_eq!(of(&mut numbers, message("a")), 4);
        assert_eq!(of(&mut numbers, Message::new("")), 5);
        assert_eq!(of(&mut numbers, Message::new("")), 6);
    }

    #[test]
    fn copies_of_a_run_are_recognised() {
        let dead = |id: &'static str, first: &'static str, hops: u32| {
            let message = Message::builder().message_id(id).property(Properties::ORIGINAL_MESSAGE_ID, first);
            Explained::new(message.property(RESUBMIT_COUNT, hops).build("").unwrap(), Timestamp::EPOCH)
        };
        let mut sent = Sent::default();
        sent.add(IdHash::of("copy"), &dead("a", "first", 1));
        assert!(sent.has(dead("copy", "first", 2).message()) && !sent.has(dead("a", "first", 1).message()));
        assert!(sent.may_have(&dead("of a retry", "first", 2)) && sent.may_have(&dead("b", "first", 3)));
        assert!(!sent.may_have(&dead("b", "first", 1)) && !sent.may_have(&dead("b", "other", 2)));
        assert!(!sent.may_have(&Explained::new(Message::new(""), Timestamp::EPOCH)));
    }
}
