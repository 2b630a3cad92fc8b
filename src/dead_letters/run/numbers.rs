use std::collections::{HashMap, HashSet};

use crate::{
    Message,
    message::{Properties, SequenceNumber},
};

/// Numbers for the dead letters of a transport that has none: the order in which a run receives them. A dead letter that is
/// redelivered keeps its number.
#[derive(Default)]
pub(super) struct Numbers {
    last: u64,
    by_id: HashMap<Box<str>, SequenceNumber>,
    /// The first ids of what was met. A copy of it that is dead-lettered again during the run has the same.
    met: HashSet<Box<str>>,
}

impl Numbers {
    const MOST: usize = 16_384;

    /// Returns the number; `None` for a copy of a dead letter that the run has met before.
    pub(super) fn of(&mut self, message: &Message) -> Option<SequenceNumber> {
        let id = message.message_id();
        if let Some(&number) = id.and_then(|id| self.by_id.get(id)) {
            return Some(number);
        }
        let first =
            message.application_properties().get(Properties::ORIGINAL_MESSAGE_ID).and_then(|value| value.as_str());
        if first.is_some_and(|first| self.met.contains(first)) {
            return None;
        }
        self.last += 1;
        let number = SequenceNumber::new(self.last);
        if self.by_id.len() < Self::MOST
            && let Some(id) = id
        {
            self.by_id.insert(id.into(), number);
            self.met.insert(first.unwrap_or(id).into());
        }
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redelivery_keeps_its_number_and_a_copy_has_none() {
        let message = |id: &'static str| Message::builder().message_id(id);
        let copy_of = |first: &'static str, id| message(id).property(Properties::ORIGINAL_MESSAGE_ID, first).build("");
        let mut numbers = Numbers::default();
        let of = |numbers: &mut Numbers, message: Message| numbers.of(&message).map(SequenceNumber::get);
        assert_eq!(of(&mut numbers, message("a").build("").unwrap()), Some(1));
        assert_eq!(of(&mut numbers, copy_of("z", "b").unwrap()), Some(2));
        assert_eq!(of(&mut numbers, message("a").build("").unwrap()), Some(1));
        assert_eq!(of(&mut numbers, copy_of("a", "c").unwrap()), None);
        assert_eq!(of(&mut numbers, copy_of("z", "d").unwrap()), None);
        assert_eq!(of(&mut numbers, Message::new("")), Some(3));
        assert_eq!(of(&mut numbers, Message::new("")), Some(4));
    }
}
