use std::time::Duration;

use super::{
    control::Control,
    health::Health,
    log::Log,
    slot::caught,
    stats::Stats,
    undeliverable::{Fate, NotSettled, Undeliverable},
};
use crate::{Message, transport::Receiver};

/// The settings of one run, and where it reports what happens.
pub(super) struct Options {
    pub(super) concurrency: usize,
    pub(super) prefetch: usize,
    pub(super) renewal: Duration,
    pub(super) drain: Duration,
    pub(super) max_held: usize,
    pub(super) operation: Duration,
    /// How long nothing is received after a refused settlement, at most.
    pub(super) longest_refusal: Duration,
    pub(super) stats: Stats,
    pub(super) health: Health,
    pub(super) control: Control,
    pub(super) undeliverable: Option<Box<dyn FnMut(Undeliverable) + Send>>,
    pub(super) log: Log,
}

impl Options {
    /// Sets how many messages are handled at once.
    pub(super) fn set_concurrency(&mut self, messages: usize) {
        self.concurrency = messages;
        self.control.configure(messages, &self.health);
    }

    /// Has another control.
    pub(super) fn set_control(&mut self, control: &Control) {
        self.control = control.clone();
        self.control.configure(self.concurrency, &self.health);
    }

    /// Passes a message to the sink. A panic of it is caught.
    #[cold]
    pub(super) fn undeliverable(&mut self, receiver: &impl Receiver, message: &Message, not: NotSettled, fate: Fate) {
        self.stats.count_undeliverable();
        let info = receiver.entity_info();
        let error = match &not {
            NotSettled::DeadLetter(letter) => Some(&*letter.description),
            NotSettled::Otherwise(changes) => changes.cause(),
        };
        let text = match &self.undeliverable {
            Some(_) => "a message cannot be dead-lettered: it is passed to on_undeliverable",
            None => fate.text(),
        };
        self.log.undeliverable(&info, message, error, text);
        let Some(sink) = &mut self.undeliverable else { return };
        let dead_letter = match not {
            NotSettled::DeadLetter(letter) => Some(letter),
            NotSettled::Otherwise(_) => None,
        };
        let undeliverable = Undeliverable { message: message.clone(), dead_letter };
        if caught(|| sink(undeliverable)).is_none() {
            self.log.sink_panicked(&info, Some(message));
        }
    }
}
