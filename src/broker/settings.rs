use std::time::Duration;

use crate::message::{Field, InvalidArgument, Problem, limits};

/// The settings of a queue. [`Broker::create_queue`](super::Broker::create_queue) checks their ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueSettings {
    /// How long a lock holds: 5 s to 5 min, by default 60 s.
    pub lock_duration: Duration,
    /// How often a message is delivered at most before it is dead-lettered: at least 1, by default 10.
    pub max_delivery_count: u32,
    /// How long a message waits at most, whatever its sender says: at least 1 s, by default for ever.
    pub default_time_to_live: Option<Duration>,
    /// Whether an expired message is dead-lettered, and not removed. By default it is removed.
    pub dead_letter_on_expiration: bool,
    /// How many bytes the queue holds, dead letters included: at least 1 KiB, by default 1 GiB. A message counts its
    /// body, its properties and [`QueueSettings::OVERHEAD`] bytes, so that empty messages are bounded too.
    pub max_size: u64,
    /// Largest message, body and properties: 1 byte to 100 MiB, by default 256 KiB.
    pub max_message_size: usize,
}

impl QueueSettings {
    /// Bytes that every message counts for against [`QueueSettings::max_size`], beside its own.
    pub const OVERHEAD: u64 = 256;

    const MAX_MESSAGE_SIZE: usize = 100 << 20;

    /// Sets [`QueueSettings::lock_duration`].
    #[must_use]
    pub fn with_lock_duration(mut self, value: Duration) -> Self {
        self.lock_duration = value;
        self
    }

    /// Sets [`QueueSettings::max_delivery_count`].
    #[must_use]
    pub fn with_max_delivery_count(mut self, value: u32) -> Self {
        self.max_delivery_count = value;
        self
    }

    /// Sets [`QueueSettings::default_time_to_live`].
    #[must_use]
    pub fn with_default_time_to_live(mut self, value: Duration) -> Self {
        self.default_time_to_live = Some(value);
        self
    }

    /// Sets [`QueueSettings::dead_letter_on_expiration`].
    #[must_use]
    pub fn with_dead_letter_on_expiration(mut self, value: bool) -> Self {
        self.dead_letter_on_expiration = value;
        self
    }

    /// Sets [`QueueSettings::max_size`].
    #[must_use]
    pub fn with_max_size(mut self, value: u64) -> Self {
        self.max_size = value;
        self
    }

    /// Sets [`QueueSettings::max_message_size`].
    #[must_use]
    pub fn with_max_message_size(mut self, value: usize) -> Self {
        self.max_message_size = value;
        self
    }

    pub(super) fn check(&self) -> Result<(), InvalidArgument> {
        let lock = Duration::from_secs(5)..=Duration::from_secs(300);
        let rules = [
            ("lock_duration", lock.contains(&self.lock_duration)),
            ("max_delivery_count", self.max_delivery_count >= 1),
            ("default_time_to_live", self.default_time_to_live.is_none_or(|ttl| ttl >= Duration::from_secs(1))),
            ("max_size", self.max_size >= 1 << 10),
            ("max_message_size", (1..=Self::MAX_MESSAGE_SIZE).contains(&self.max_message_size)),
        ];
        match rules.into_iter().find(|(_, holds)| !holds) {
            Some((name, _)) => Err(InvalidArgument::new(Field::Setting(name), Problem::OutOfRange)),
            None => Ok(()),
        }
    }
}

impl Default for QueueSettings {
    fn default() -> Self {
        Self {
            lock_duration: Duration::from_secs(60),
            max_delivery_count: 10,
            default_time_to_live: None,
            dead_letter_on_expiration: false,
            max_size: 1 << 30,
            max_message_size: limits::MESSAGE_BYTES,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s_01_lock_duration_is_60_s_and_from_5_s_to_5_min() {
        assert_eq!(QueueSettings::default().lock_duration, Duration::from_secs(60));
        for (seconds, allowed) in [(4, false), (5, true), (300, true), (301, false)] {
            let settings = QueueSettings::default().with_lock_duration(Duration::from_secs(seconds));
            assert_eq!(settings.check().is_ok(), allowed, "{seconds}");
        }
    }

    #[test]
    fn s_02_max_delivery_count_is_10_and_at_least_1() {
        assert_eq!(QueueSettings::default().max_delivery_count, 10);
        let error = QueueSettings::default().with_max_delivery_count(0).check().unwrap_err();
        assert_eq!(error.field(), &Field::Setting("max_delivery_count"));
    }

    #[test]
    fn s_03_default_time_to_live_is_unlimited_and_at_least_1_s() {
        assert_eq!(QueueSettings::default().default_time_to_live, None);
        QueueSettings::default().with_default_time_to_live(Duration::from_millis(999)).check().unwrap_err();
    }

    #[test]
    fn s_04_expired_messages_are_removed_by_default() {
        assert!(!QueueSettings::default().dead_letter_on_expiration);
    }
}
