//! Delays without head-of-line blocking: a chain of queues, each of which holds every message for the same time.
//!
//! A delay is a number of steps, and each of its binary digits has a level. A message passes through the queue of a level whose
//! digit is 1, and bypasses it otherwise. It waits there for the level's time and is dead-lettered to the next level. In one
//! queue all messages wait for the same time, so none waits behind a longer one. `NServiceBus` documents the idea for its
//! transport on RabbitMQ ("RabbitMQ transport: delayed delivery").

use std::{collections::HashMap, time::Duration};

use consign_core::transport::{ErrorKind, SendError};
use futures_util::future::try_join_all;
use lapin::{
    Channel, ExchangeKind,
    options::{ExchangeBindOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions},
    types::{AMQPValue, FieldTable, ShortString},
};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{
    arguments::{dead_lettering, quorum},
    error::Failure,
    link::{Leased, Link},
    wire::names,
};

/// Levels, of 64 ms to 2^31 ms: the next one would exceed RabbitMQ's timers.
const LEVELS: u32 = 26;
const STEP: Duration = Duration::from_millis(64);
/// For how long a binding is not declared again. Another client may delete its queue, and create it again without the binding.
const BOUND: Duration = Duration::from_secs(5);

/// The queues and exchanges of one prefix.
pub(crate) struct Delays {
    prefix: String,
    /// Queues that were bound to the end of the chain, and when.
    bound: Mutex<HashMap<String, Instant>>,
}

impl Delays {
    /// Returns the steps of a delay, rounded up: no message is early.
    pub(crate) fn steps(delay: Duration) -> Result<u32, SendError> {
        let steps = delay.as_millis().div_ceil(STEP.as_millis());
        match u32::try_from(steps) {
            Ok(steps) if steps < 1 << LEVELS => Ok(steps),
            _ => Err(SendError::new(ErrorKind::InvalidArgument).with_detail("a delay is at most 49 days")),
        }
    }

    /// Returns the steps of a delay, or the most that there are.
    pub(crate) fn steps_at_most(delay: Duration) -> u32 {
        Self::steps(delay).unwrap_or((1 << LEVELS) - 1)
    }

    /// Declares what is missing.
    pub(crate) async fn declare(link: &Link) -> Result<Self, Failure> {
        let prefix = link.options.delays.clone();
        let delays = Self { prefix, bound: Mutex::default() };
        let declaring = async |leased: &Leased| delays.declare_on(&leased.channel).await;
        link.manage("the queues of delays", declaring).await?;
        Ok(delays)
    }

    async fn declare_on(&self, channel: &Channel) -> lapin::Result<()> {
        let durable = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
        let none = FieldTable::default;
        let name = |name: &str| ShortString::from(name);
        let (end, lost) = (self.end(), self.lost());
        // Due messages whose queue does not exist any more are stored for the administrator of the broker.
        channel.exchange_declare(name(&lost), ExchangeKind::Fanout, durable, none()).await?;
        channel.queue_declare(name(&lost), QueueDeclareOptions::durable(), quorum().into()).await?;
        channel.queue_bind(name(&lost), name(&lost), name(""), QueueBindOptions::default(), none()).await?;
        let mut alternate = FieldTable::default();
        alternate.insert("alternate-exchange".into(), AMQPValue::LongString(lost.as_str().into()));
        channel.exchange_declare(name(&end), ExchangeKind::Headers, durable, alternate).await?;
        let exchanges = (0..LEVELS)
            .map(|level| channel.exchange_declare(self.level(level).into(), ExchangeKind::Topic, durable, none()));
        try_join_all(exchanges).await?;
        try_join_all((0..LEVELS).map(|level| self.declare_level(channel, level))).await?;
        Ok(())
    }

    async fn declare_level(&self, channel: &Channel, level: u32) -> lapin::Result<()> {
        let this = ShortString::from(self.level(level));
        let next = if level == 0 { self.end() } else { self.level(level - 1) };
        let mut arguments = quorum();
        arguments.extend(dead_lettering(&next, None));
        arguments.insert("x-overflow".into(), AMQPValue::LongString("reject-publish".into()));
        let time = i64::try_from(STEP.as_millis()).unwrap_or(i64::MAX) << level;
        arguments.insert("x-message-ttl".into(), AMQPValue::LongLongInt(time));
        channel.queue_declare(this.clone(), QueueDeclareOptions::durable(), arguments.into()).await?;
        // Keys have a word for each level, the highest first.
        let before = "*.".repeat((LEVELS - 1 - level) as usize);
        let through = format!("{before}1.#").into();
        let past = format!("{before}0.#").into();
        let none = FieldTable::default;
        channel.queue_bind(this.clone(), this.clone(), through, QueueBindOptions::default(), none()).await?;
        channel.exchange_bind(next.into(), this, past, ExchangeBindOptions::default(), none()).await
    }

    /// Routes messages from the end of the chain to a queue or an exchange.
    pub(crate) async fn route(&self, link: &Link, name: &str, is_exchange: bool) -> Result<(), Failure> {
        if self.is_bound(name) {
            return Ok(());
        }
        let mut headers = FieldTable::default();
        headers.insert("x-match".into(), AMQPValue::LongString("all".into()));
        headers.insert(names::DESTINATION.into(), AMQPValue::LongString(name.into()));
        let binding = async |leased: &Leased| {
            let (name, end) = (ShortString::from(name), ShortString::from(self.end()));
            let key = ShortString::default();
            if is_exchange {
                leased.channel.exchange_bind(name, end, key, ExchangeBindOptions::default(), headers).await
            } else {
                leased.channel.queue_bind(name, end, key, QueueBindOptions::default(), headers).await
            }
        };
        let now = Instant::now();
        let bound = link.manage("a binding for delays", binding).await;
        match bound {
            Ok(()) => drop(self.bound.lock().insert(name.to_owned(), now)),
            Err(_) => self.forget(name),
        }
        bound
    }

    /// Returns whether there is nothing to declare. When a while is over, one caller declares it again, and others do not wait.
    fn is_bound(&self, name: &str) -> bool {
        let mut bound = self.bound.lock();
        let Some(at) = bound.get_mut(name) else { return false };
        if at.elapsed() < BOUND {
            return true;
        }
        *at = Instant::now();
        false
    }

    pub(crate) fn forget(&self, name: &str) {
        self.bound.lock().remove(name);
    }

    /// The exchange and the key that a delay begins with.
    pub(crate) fn entry(&self, steps: u32) -> (ShortString, ShortString) {
        let digits: Vec<&str> =
            (0..LEVELS).rev().map(|level| if steps >> level & 1 == 1 { "1" } else { "0" }).collect();
        (self.level(LEVELS - 1).into(), digits.join(".").into())
    }

    fn level(&self, level: u32) -> String {
        format!("{}.level-{level:02}", self.prefix)
    }

    fn end(&self) -> String {
        format!("{}.due", self.prefix)
    }

    fn lost(&self) -> String {
        format!("{}.lost", self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delays() -> Delays {
        Delays { prefix: "d".into(), bound: Mutex::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_binding_is_declared_again_after_a_while() {
        let delays = delays();
        delays.bound.lock().insert("a".into(), Instant::now());
        tokio::time::advance(BOUND / 2).await;
        assert!(delays.is_bound("a") && !delays.is_bound("b"));
        tokio::time::advance(BOUND / 2).await;
        // By the first.
        assert!(!delays.is_bound("a") && delays.is_bound("a"));
        delays.forget("a");
        assert!(!delays.is_bound("a"));
    }

    #[test]
    fn a_delay_is_rounded_up_to_steps() {
        for (millis, steps) in [(1, 1), (64, 1), (65, 2), (6_400, 100)] {
            assert_eq!(Delays::steps(Duration::from_millis(millis)).unwrap(), steps);
        }
        let longest = STEP * ((1 << LEVELS) - 1);
        assert_eq!(Delays::steps(longest).unwrap(), (1 << LEVELS) - 1);
        let error = Delays::steps(longest + Duration::from_millis(1)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert_eq!(Delays::steps_at_most(Duration::MAX), (1 << LEVELS) - 1);
    }

    #[test]
    fn a_key_has_a_digit_for_each_level() {
        let (exchange, key) = delays().entry(0b101);
        assert_eq!(exchange.as_str(), "d.level-25");
        assert!(key.as_str().starts_with("0.0.") && key.as_str().ends_with(".0.1.0.1"), "{key}");
        assert_eq!(key.as_str().len(), 51);
    }
}
