//! The destination of dead letters of a queue that another program created, which has no dead-letter queue of this crate.

mod arguments;
pub(crate) mod exchanges;

use consign_core::{message::EntityPath, transport::ErrorKind};

pub(crate) use self::arguments::foreign_queue;
use self::{arguments::Unread, exchanges::DeadLetterExchange};
use crate::{client::Shared, error::Failure, log, reply_to::REPLIES, stored};

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
        Err(Unread::Other("it cannot be read on a channel that was wrapped".into()))
    } else {
        arguments::dead_letter_exchange(client, path.as_str()).await?
    };
    match found {
        Ok(Some(exchange)) => {
            log::dead_letter_exchange(path, exchange.exchange.as_str());
            client.dead_letters.keep(path, exchange.clone());
            Ok(Some(exchange))
        }
        Ok(None) => Err(none("it has none", SET_OR_REGISTER)),
        Err(Unread::Other(why)) => Err(none(&why, SET_OR_REGISTER)),
        Err(Unread::Cut { argument, answer }) => {
            let why =
                format!("the answer of RabbitMQ was cut before `{argument}`, because names are too long: {answer}");
            Err(none(&why, "Call RabbitMq::register_dead_letter_exchange"))
        }
    }
}

const SET_OR_REGISTER: &str =
    "Set `x-dead-letter-exchange` of the queue, or call RabbitMq::register_dead_letter_exchange";

fn none(why: &str, remedy: &str) -> Failure {
    let detail = format!(
        "the queue is of another program, and its dead-letter exchange is not known: {why}. {remedy}. The message is redelivered"
    );
    Failure::new(ErrorKind::InvalidOperation, detail)
}
