//! A message that leaves an entity, and the effects on others.

use std::collections::BTreeSet;

use consign_core::Message;

/// A message to be forwarded.
pub(crate) struct Leaving<'m> {
    pub(crate) id: i64,
    pub(crate) part: i16,
    pub(crate) hops: i16,
    pub(crate) message: &'m Message,
}

impl Leaving<'_> {
    /// Returns its first number.
    pub(crate) fn origin(&self) -> i64 {
        let number = self.message.received().map_or(0, |received| match received.enqueued_sequence_number.get() {
            0 => received.sequence_number.get(),
            first => first,
        });
        number.cast_signed()
    }
}

/// The result of a transaction that forwards messages.
#[derive(Default)]
pub(crate) struct Pumped {
    /// The targets of the messages.
    pub(crate) targets: BTreeSet<i64>,
    /// Those targets that forward as well.
    pub(crate) next: BTreeSet<i64>,
    /// Whether messages became dead letters, which may have to be forwarded too.
    pub(crate) died: bool,
    pub(crate) is_more: bool,
    /// The target to be summed up before the next message.
    pub(crate) not_summed: Option<i64>,
    /// The number of the last message at the time of the first transaction.
    pub(crate) last: i64,
}
