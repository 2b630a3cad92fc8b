use std::collections::HashMap;

use consign_core::message::EntityPath;
use lapin::types::ShortString;
use parking_lot::Mutex;

use crate::{publisher::Publication, receiver::delivered::Held, wire::history};

/// How many found exchanges are kept. They can be found again.
const MOST: usize = 4_096;

/// An exchange that takes dead letters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeadLetterExchange {
    pub(crate) exchange: ShortString,
    /// The routing key; without one, that of the message.
    pub(crate) routing_key: Option<ShortString>,
}

/// The exchanges of queues of other programs.
#[derive(Default)]
pub(crate) struct DeadLetterExchanges {
    /// Those that the program has registered.
    registered: Mutex<HashMap<String, DeadLetterExchange>>,
    /// Those that the server has named.
    found: Mutex<HashMap<String, DeadLetterExchange>>,
}

impl DeadLetterExchanges {
    pub(crate) fn register(&self, path: &EntityPath, exchange: DeadLetterExchange) {
        self.registered.lock().insert(path.as_str().to_owned(), exchange);
    }

    /// Returns the exchange of a queue, if it was registered or found before.
    pub(crate) fn get(&self, path: &EntityPath) -> Option<DeadLetterExchange> {
        let registered = self.registered.lock().get(path.as_str()).cloned();
        registered.or_else(|| self.found.lock().get(path.as_str()).cloned())
    }

    pub(super) fn keep(&self, path: &EntityPath, exchange: DeadLetterExchange) {
        let mut found = self.found.lock();
        if found.len() >= MOST {
            found.clear();
        }
        found.insert(path.as_str().to_owned(), exchange);
    }

    /// Forgets an exchange that the server has named, because it does not take messages any more.
    pub(crate) fn doubt(&self, path: &EntityPath) {
        self.found.lock().remove(path.as_str());
    }
}

impl DeadLetterExchange {
    /// Addresses the copy of a delivery. The queues behind the exchange may bring it back, and their program counts by its
    /// history how often.
    pub(crate) fn address(&self, copy: &mut Publication, held: &Held, delays: &str, queue: &str) {
        copy.exchange = self.exchange.clone();
        copy.key = self.routing_key.as_ref().unwrap_or(&held.routing_key).clone();
        history::keep(&held.raw, &mut copy.properties, Some(delays), queue);
    }
}
