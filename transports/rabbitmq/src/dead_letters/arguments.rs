//! The arguments of a queue of another program. AMQP 0-9-1 cannot read them, but RabbitMQ refuses a declaration with other
//! arguments. Its answer has the name of the first one that differs, and its value in the queue.

use std::collections::BTreeMap;

use lapin::{
    options::QueueDeclareOptions,
    types::{AMQPValue, FieldTable, ShortString},
};

use super::exchanges::DeadLetterExchange;
use crate::{client::Shared, error::Failure, link::Leased};

const EXCHANGE: &str = "x-dead-letter-exchange";
const ROUTING_KEY: &str = "x-dead-letter-routing-key";
const TYPE: &str = "x-queue-type";
const LIMIT: &str = "x-delivery-limit";
/// More declarations than a queue has arguments.
const MOST: usize = 24;

/// A value in a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Current {
    None,
    Text(String),
    Number(i64),
    Truth(bool),
}

/// A declaration that the queue does not have, so that it is always refused. A type that is not allowed makes sure of that:
/// with it, RabbitMQ does not create a queue that was deleted meanwhile.
struct Probe {
    options: QueueDeclareOptions,
    arguments: BTreeMap<&'static str, AMQPValue>,
}

/// Why an argument cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unread {
    /// The server has cut its answer before the value.
    Cut {
        argument: &'static str,
        answer: String,
    },
    Other(String),
}

/// Returns the dead-letter exchange among the arguments of a queue, or why that cannot be read. An exchange alone is not
/// enough: without the routing key, a dead letter could go to another queue.
pub(super) async fn dead_letter_exchange(
    client: &Shared,
    queue: &str,
) -> Result<Result<Option<DeadLetterExchange>, Unread>, Failure> {
    let mut probe = Probe { options: QueueDeclareOptions::durable(), arguments: BTreeMap::new() };
    let exchange = match probe.read(client, queue, EXCHANGE).await? {
        Ok(Current::Text(exchange)) => exchange,
        Ok(_) => return Ok(Ok(None)),
        Err(why) => return Ok(Err(why)),
    };
    probe.set(EXCHANGE, Current::Text(exchange.clone()));
    let routing_key = match probe.read(client, queue, ROUTING_KEY).await? {
        Ok(Current::Text(key)) => Some(ShortString::from(key)),
        Ok(_) => None,
        Err(why) => return Ok(Err(why)),
    };
    Ok(Ok(Some(DeadLetterExchange { exchange: exchange.into(), routing_key })))
}

/// What a receiver has to know of a queue of another program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ForeignQueue {
    pub(crate) is_stream: bool,
    /// Whether RabbitMQ drops or dead-letters a message that was returned too often. A limit of a policy is not known.
    pub(crate) has_delivery_limit: bool,
}

/// Reads what a receiver has to know of a queue. What RabbitMQ cuts off its answer is taken as a limit.
pub(crate) async fn foreign_queue(client: &Shared, queue: &str) -> Result<ForeignQueue, Failure> {
    let mut probe = Probe { options: QueueDeclareOptions::durable(), arguments: BTreeMap::new() };
    let limited = ForeignQueue { has_delivery_limit: true, ..ForeignQueue::default() };
    let kind = match probe.read(client, queue, TYPE).await? {
        Ok(Current::Text(kind)) => kind,
        Err(Unread::Cut { .. }) => return Ok(limited),
        Ok(_) | Err(Unread::Other(_)) => return Ok(ForeignQueue::default()),
    };
    if kind != "quorum" {
        return Ok(ForeignQueue { is_stream: kind == "stream", ..ForeignQueue::default() });
    }
    probe.set(TYPE, Current::Text(kind));
    let has_delivery_limit = match probe.read(client, queue, LIMIT).await? {
        Ok(Current::Number(limit)) => limit >= 0,
        Ok(Current::None) => false,
        Ok(_) | Err(_) => true,
    };
    Ok(ForeignQueue { has_delivery_limit, ..ForeignQueue::default() })
}

impl Probe {
    /// Returns the value of one argument. Other arguments that differ are set as they are reported.
    async fn read(
        &mut self,
        client: &Shared,
        queue: &str,
        name: &'static str,
    ) -> Result<Result<Current, Unread>, Failure> {
        self.arguments.insert(name, AMQPValue::Boolean(true));
        for _ in 0..MOST {
            let arguments = self.arguments.iter().map(|(name, value)| (ShortString::from(*name), value.clone()));
            let arguments = FieldTable::from(arguments.collect::<BTreeMap<_, _>>());
            let declaring =
                async |leased: &Leased| leased.channel.queue_declare(queue.into(), self.options, arguments).await;
            let text = match client.manage("queue.declare", declaring).await {
                Ok(_) => return Ok(Err(Unread::Other("the server has accepted another declaration of it".into()))),
                Err(failure) if failure.is_refused_declaration() => failure.to_string(),
                // Nothing is known yet.
                Err(failure) if failure.kind().is_transient() => return Err(failure),
                Err(failure) => return Ok(Err(Unread::Other(failure.to_string()))),
            };
            match difference(&text) {
                Some((found, current)) if found == name => return Ok(Ok(current)),
                Some((found, current)) if self.take(found, &current) => {}
                None if is_cut(&text) => return Ok(Err(Unread::Cut { argument: name, answer: text })),
                _ => return Ok(Err(Unread::Other(text))),
            }
        }
        Ok(Err(Unread::Other("it has too many arguments".into())))
    }

    /// Sets an argument or a flag as the queue has it. Returns whether it is known.
    fn take(&mut self, name: &str, current: &Current) -> bool {
        const OTHERS: [&str; 20] = [
            "x-expires",
            "x-message-ttl",
            "x-dead-letter-strategy",
            "x-max-length",
            "x-max-length-bytes",
            "x-max-in-memory-length",
            "x-max-in-memory-bytes",
            "x-max-priority",
            "x-overflow",
            "x-queue-mode",
            "x-queue-version",
            "x-single-active-consumer",
            "x-quorum-initial-group-size",
            "x-queue-master-locator",
            "x-queue-leader-locator",
            "x-initial-cluster-size",
            "x-max-age",
            "x-stream-max-segment-size-bytes",
            "x-stream-filter-size-bytes",
            "x-quorum-target-group-size",
        ];
        match (name, current) {
            ("durable", Current::Truth(value)) => self.options.durable = *value,
            ("auto_delete", Current::Truth(value)) => self.options.auto_delete = *value,
            _ => {
                let known = OTHERS.into_iter().chain([EXCHANGE, ROUTING_KEY, TYPE, LIMIT]).find(|known| *known == name);
                let Some(name) = known else { return false };
                self.set(name, current.clone());
            }
        }
        true
    }

    fn set(&mut self, name: &'static str, current: Current) {
        match current {
            Current::None => self.arguments.remove(name),
            Current::Text(text) => self.arguments.insert(name, AMQPValue::LongString(text.into())),
            Current::Number(number) => self.arguments.insert(name, AMQPValue::LongLongInt(number)),
            Current::Truth(truth) => self.arguments.insert(name, AMQPValue::Boolean(truth)),
        };
    }
}

/// Returns whether an answer without a value begins like one with a value. The server cuts it to 255 bytes, so long names of the
/// queue, the virtual host and the exchange leave too few for the value.
fn is_cut(text: &str) -> bool {
    text.contains("inequivalent arg '") && difference(text).is_none()
}

/// Reads `inequivalent arg 'NAME' for queue ...: received ... but current is 'VALUE'`, or `the value 'VALUE' of type 'TYPE'`.
/// `None` for another text, and for one that the server has cut to 255 bytes.
fn difference(text: &str) -> Option<(&str, Current)> {
    let (_, rest) = text.split_once("inequivalent arg '")?;
    let (name, rest) = rest.split_once('\'')?;
    let (_, current) = rest.rsplit_once("but current is ")?;
    if current.starts_with("none") {
        return Some((name, Current::None));
    }
    let (value, kind) = match current.strip_prefix("the value '") {
        Some(typed) => {
            typed.rsplit_once("' of type '").and_then(|(value, kind)| Some((value, kind.split_once('\'')?.0)))?
        }
        None => (current.strip_prefix('\'')?.rsplit_once('\'')?.0, ""),
    };
    let current = match (name, kind, value) {
        (EXCHANGE | ROUTING_KEY, ..) | (_, "longstr", _) => Current::Text(value.to_owned()),
        (.., "true" | "false") => Current::Truth(value == "true"),
        _ => value.parse().map_or_else(|_| Current::Text(value.to_owned()), Current::Number),
    };
    Some((name, current))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rules: K-121.
    #[test]
    fn the_answer_of_a_refused_declaration_has_the_value() {
        let answer = |name: &str, current: &str| {
            format!("PRECONDITION_FAILED - inequivalent arg '{name}' for queue 'q' in vhost '/': received {current}")
        };
        let text = |text: &str| Current::Text(text.into());
        for (name, rest, current) in [
            (EXCHANGE, "the value 'true' of type 'bool' but current is the value 'dlx' of type 'longstr'", text("dlx")),
            (EXCHANGE, "the value 'true' of type 'bool' but current is the value '' of type 'longstr'", text("")),
            (EXCHANGE, "'true' but current is 'true'", text("true")),
            (EXCHANGE, "'true' but current is 'a 'quoted' name'", text("a 'quoted' name")),
            (EXCHANGE, "the value 'true' of type 'bool' but current is none", Current::None),
            ("x-queue-type", "none but current is 'quorum'", text("quorum")),
            ("x-expires", "none but current is the value '60000' of type 'signedint'", Current::Number(60_000)),
            ("durable", "'true' but current is 'false'", Current::Truth(false)),
        ] {
            assert_eq!(difference(&answer(name, rest)), Some((name, current)), "{rest}");
        }
        for other in [
            "",
            "none but current is the value 'dlx' of",
            "none",
            "'true' but current is 'dl",
            "none but current is the value '",
        ] {
            assert_eq!(difference(&answer(EXCHANGE, other)), None, "{other}");
            assert!(is_cut(&answer(EXCHANGE, other)), "{other}");
        }
        let other = "NOT_FOUND - no queue 'q' in vhost '/'";
        assert_eq!((difference(other), is_cut(other)), (None, false));
        assert!(!is_cut(&answer(EXCHANGE, "'true' but current is none")));
    }
}
