//! The destination of dead letters of a queue that another program created, which has no dead-letter queue of this crate.

mod arguments;

use std::collections::HashMap;

use consign_core::{message::EntityPath, transport::ErrorKind};
use lapin::types::ShortString;
use parking_lot::Mutex;

use crate::{client::Shared, error::Failure, log, publisher::Publication, reply_to::REPLIES, stored};

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

    fn keep(&self, path: &EntityPath, exchange: DeadLetterExchange) {
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
    /// Addresses a copy. `routing_key` is that of the message.
    pub(crate) fn address(&self, copy: &mut Publication, routing_key: &ShortString) {
        copy.exchange = self.exchange.clone();
        copy.key = self.routing_key.as_ref().unwrap_or(routing_key).clone();
    }
}

/// Returns the exchange for the dead letters of an entity whose dead-letter queue does not exist. `None` for an entity of this
/// crate, whose dead-letter queue may be created again.
///
/// # Errors
///
/// `InvalidOperation` if the queue is of another program and has no dead-letter exchange, or if that is not known.
pub(crate) async fn find(client: &Shared, path: &EntityPath) -> Result<Option<DeadLetterExchange>, Failure> {
    if path.as_str().starts_with(REPLIES) || stored::read(client, path).await?.is_some() {
        return Ok(None);
    }
    let found = if client.link.is_wrapped() {
        // The answer would close the channel of the program.
        Err(String::from("it cannot be read on a channel that was wrapped"))
    } else {
        arguments::dead_letter_exchange(client, path.as_str()).await?
    };
    match found {
        Ok(Some(exchange)) => {
            log::dead_letter_exchange(path, exchange.exchange.as_str());
            client.dead_letters.keep(path, exchange.clone());
            Ok(Some(exchange))
        }
        Ok(None) => Err(none("it has none")),
        Err(why) => Err(none(&why)),
    }
}

fn none(why: &str) -> Failure {
    let detail = format!(
        "the queue is of another program, and its dead-letter exchange is not known: {why}. Set `x-dead-letter-exchange` of the \
         queue, or call RabbitMq::register_dead_letter_exchange. The message is redelivered"
    );
    Failure::new(ErrorKind::InvalidOperation, detail)
}
