use std::time::Duration;

use super::{Metadata, Status, setters};
use crate::{
    message::{EntityPath, Field, InvalidArgument, Problem, limits},
    transport::{ErrorKind, ManageError},
};

/// The settings of a queue. Creating a queue [checks](Self::check) their ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueSettings {
    /// How long a lock holds: 5 s to 5 min, by default 60 s.
    pub lock_duration: Duration,
    /// The maximum number of deliveries of a message before it is dead-lettered: at least 1, by default 10.
    pub max_delivery_count: u32,
    /// The maximum time that a message waits, whatever its sender sets: at least 1 s, by default unlimited.
    pub default_time_to_live: Option<Duration>,
    /// Whether an expired message is dead-lettered. By default it is removed.
    pub dead_letter_on_expiration: bool,
    /// The size of the queue in bytes, dead letters included: at least 1 KiB, by default 1 GiB. A message counts its
    /// body, its properties and [`QueueSettings::OVERHEAD`] bytes, so that empty messages are bounded too.
    pub max_size: u64,
    /// The largest message, body and properties: 1 byte to 100 MiB, by default 256 KiB.
    pub max_message_size: usize,
    /// Whether the queue requires sessions; fixed when it is created.
    pub requires_session: bool,
    /// How long a MessageId is remembered after its first message: 20 s to 7 d; 10 min is usual. By default
    /// duplicates are not detected. Whether they are is fixed when the queue is created.
    pub duplicate_detection: Option<Duration>,
    /// The maximum number of ids that are remembered; beyond that sends are refused. At least 1, by default
    /// 1,000,000.
    pub max_duplicate_ids: usize,
    /// Whether the queue has 16 partitions, each with sequence numbers of its own; fixed when it is created.
    pub partitioned: bool,
    /// The entity to which every message is forwarded at once. It exists, it is not this one, and this one has no
    /// sessions.
    pub forward_to: Option<String>,
    /// The entity to which dead letters are forwarded. It exists, and it is not this one.
    pub forward_dead_letters_to: Option<String>,
    /// The time without a send, a receive, a settlement, a peek or an update after which the queue is deleted: at
    /// least 5 min, by default never. The embedded broker counts from its opening again. A queue with [`QueueSettings::forward_to`] is not deleted.
    pub auto_delete_on_idle: Option<Duration>,
    /// The directions that are open.
    pub status: Status,
    /// What clients set and read again.
    pub metadata: Metadata,
}

impl QueueSettings {
    /// The bytes that every message, and every state of a session, counts against [`QueueSettings::max_size`],
    /// besides its own.
    pub const OVERHEAD: u64 = 256;

    /// The largest [`max_message_size`](Self::max_message_size): 100 MiB.
    pub const MAX_MESSAGE_SIZE: usize = 100 << 20;

    setters! {
        lock_duration: Duration;
        max_delivery_count: u32;
        default_time_to_live: Duration => Some;
        dead_letter_on_expiration: bool;
        max_size: u64;
        max_message_size: usize;
        requires_session: bool;
        duplicate_detection: Duration => Some;
        max_duplicate_ids: usize;
        partitioned: bool;
        auto_delete_on_idle: Duration => Some;
        status: Status;
        metadata: Metadata;
    }

    /// Sets `forward_to`.
    #[must_use]
    pub fn forward_to(mut self, path: impl Into<String>) -> Self {
        self.forward_to = Some(path.into());
        self
    }

    /// Sets `forward_dead_letters_to`.
    #[must_use]
    pub fn forward_dead_letters_to(mut self, path: impl Into<String>) -> Self {
        self.forward_dead_letters_to = Some(path.into());
        self
    }

    /// Returns the settings of the emulator that Azure Service Bus is tested with: 3 deliveries, and messages that live
    /// an hour at most. If duplicates are detected, its window is 20 s. Source: the emulator's configuration schema.
    #[must_use]
    pub fn emulator() -> Self {
        let hour = Duration::from_secs(3_600);
        Self { max_delivery_count: 3, default_time_to_live: Some(hour), ..Self::default() }
    }

    /// Checks that `new` may replace these settings.
    ///
    /// # Errors
    ///
    /// [`InvalidOperation`](ErrorKind::InvalidOperation) names the first setting that differs although it is fixed when the
    /// entity is created: `requires_session`, `partitioned`, and whether duplicates are detected.
    pub fn check_fixed(&self, new: &Self) -> Result<(), ManageError> {
        let fixed = [
            ("requires_session", self.requires_session == new.requires_session),
            ("duplicate_detection", self.duplicate_detection.is_some() == new.duplicate_detection.is_some()),
            ("partitioned", self.partitioned == new.partitioned),
        ];
        match fixed.into_iter().find(|(_, same)| !same) {
            Some((name, _)) => {
                let detail = format!("{name} is fixed when the entity is created");
                Err(ManageError::new(ErrorKind::InvalidOperation).with_detail(detail))
            }
            None => Ok(()),
        }
    }

    /// Returns the name of the first setting that differs.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Option<&'static str> {
        let Self {
            lock_duration,
            max_delivery_count,
            default_time_to_live,
            dead_letter_on_expiration,
            max_size,
            max_message_size,
            requires_session,
            duplicate_detection,
            max_duplicate_ids,
            partitioned,
            forward_to,
            forward_dead_letters_to,
            auto_delete_on_idle,
            status,
            metadata,
        } = other;
        let is_same = [
            ("lock_duration", self.lock_duration == *lock_duration),
            ("max_delivery_count", self.max_delivery_count == *max_delivery_count),
            ("default_time_to_live", self.default_time_to_live == *default_time_to_live),
            ("dead_letter_on_expiration", self.dead_letter_on_expiration == *dead_letter_on_expiration),
            ("max_size", self.max_size == *max_size),
            ("max_message_size", self.max_message_size == *max_message_size),
            ("requires_session", self.requires_session == *requires_session),
            ("duplicate_detection", self.duplicate_detection == *duplicate_detection),
            ("max_duplicate_ids", self.max_duplicate_ids == *max_duplicate_ids),
            ("partitioned", self.partitioned == *partitioned),
            ("forward_to", is_same_path(self.forward_to.as_deref(), forward_to.as_deref())),
            (
                "forward_dead_letters_to",
                is_same_path(self.forward_dead_letters_to.as_deref(), forward_dead_letters_to.as_deref()),
            ),
            ("auto_delete_on_idle", self.auto_delete_on_idle == *auto_delete_on_idle),
            ("status", self.status == *status),
        ];
        let differs = is_same.into_iter().find(|(_, is_same)| !is_same).map(|(name, _)| name);
        differs.or_else(|| self.metadata.difference(metadata))
    }

    /// Checks the ranges.
    ///
    /// # Errors
    ///
    /// The first setting that is out of its range, with its name.
    pub fn check(&self) -> Result<(), InvalidArgument> {
        let lock = Duration::from_secs(5)..=Duration::from_secs(300);
        let windows = Duration::from_secs(20)..=Duration::from_secs(7 * 24 * 3_600);
        let rules = [
            ("lock_duration", lock.contains(&self.lock_duration), "5 s to 5 min"),
            ("max_delivery_count", self.max_delivery_count >= 1, "at least 1"),
            (
                "default_time_to_live",
                self.default_time_to_live.is_none_or(|ttl| ttl >= Duration::from_secs(1)),
                "at least 1 s",
            ),
            ("max_size", self.max_size >= 1 << 10, "at least 1 KiB"),
            ("max_message_size", (1..=Self::MAX_MESSAGE_SIZE).contains(&self.max_message_size), "1 byte to 100 MiB"),
            (
                "duplicate_detection",
                self.duplicate_detection.is_none_or(|window| windows.contains(&window)),
                "20 s to 7 d",
            ),
            ("max_duplicate_ids", self.max_duplicate_ids >= 1, "at least 1"),
            (
                "auto_delete_on_idle",
                self.auto_delete_on_idle.is_none_or(|idle| idle >= Duration::from_secs(300)),
                "at least 5 min",
            ),
        ];
        match rules.into_iter().find(|(_, holds, _)| !holds) {
            Some((name, _, expected)) => {
                Err(InvalidArgument::new(Field::Setting(name), Problem::OutOfRange { expected }))
            }
            None => self.metadata.check(),
        }
    }
}

/// Neither case nor a slash at an end matters in a path.
fn is_same_path(one: Option<&str>, other: Option<&str>) -> bool {
    let key = |path: &str| -> Box<str> {
        EntityPath::new(path).map_or_else(|_| path.to_lowercase().into(), |path| path.key())
    };
    one.map(key) == other.map(key)
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
            requires_session: false,
            duplicate_detection: None,
            max_duplicate_ids: 1_000_000,
            partitioned: false,
            forward_to: None,
            forward_dead_letters_to: None,
            auto_delete_on_idle: None,
            status: Status::Active,
            metadata: Metadata::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rules: S-01, S-02, S-03, S-06.
    #[test]
    fn an_error_names_the_range() {
        let none = QueueSettings::default;
        for (settings, expected) in [
            (none().lock_duration(Duration::ZERO), "lock_duration must be 5 s to 5 min"),
            (none().max_delivery_count(0), "max_delivery_count must be at least 1"),
            (none().default_time_to_live(Duration::ZERO), "default_time_to_live must be at least 1 s"),
            (none().max_size(0), "max_size must be at least 1 KiB"),
            (none().max_message_size(0), "max_message_size must be 1 byte to 100 MiB"),
            (none().duplicate_detection(Duration::ZERO), "duplicate_detection must be 20 s to 7 d"),
            (none().max_duplicate_ids(0), "max_duplicate_ids must be at least 1"),
            (none().auto_delete_on_idle(Duration::ZERO), "auto_delete_on_idle must be at least 5 min"),
        ] {
            assert_eq!(settings.check().unwrap_err().to_string(), expected);
        }
    }

    /// Rules: S-01.
    #[test]
    fn lock_duration_is_60_s_and_from_5_s_to_5_min() {
        assert_eq!(QueueSettings::default().lock_duration, Duration::from_secs(60));
        for (seconds, allowed) in [(4, false), (5, true), (300, true), (301, false)] {
            let settings = QueueSettings::default().lock_duration(Duration::from_secs(seconds));
            assert_eq!(settings.check().is_ok(), allowed, "{seconds}");
        }
    }

    /// Rules: S-02.
    #[test]
    fn max_delivery_count_is_10_and_at_least_1() {
        assert_eq!(QueueSettings::default().max_delivery_count, 10);
        let error = QueueSettings::default().max_delivery_count(0).check().unwrap_err();
        assert_eq!(error.field(), &Field::Setting("max_delivery_count"));
    }

    #[test]
    fn equal_paths_of_a_forwarding_target_are_no_difference() {
        let to = |path: &str| QueueSettings::default().forward_to(path).forward_dead_letters_to(path);
        assert_eq!(to("/Audit/").difference(&to("audit")), None);
        assert_eq!(to("audit").difference(&to("audits")), Some("forward_to"));
        assert_eq!(to("a//b").difference(&to("A//B")), None, "a path that is refused when the queue is created");
        assert_eq!(to("a//b").difference(&to("a/b")), Some("forward_to"));
    }

    /// Rules: S-03.
    #[test]
    fn default_time_to_live_is_unlimited_and_at_least_1_s() {
        assert_eq!(QueueSettings::default().default_time_to_live, None);
        QueueSettings::default().default_time_to_live(Duration::from_millis(999)).check().unwrap_err();
    }

    /// Rules: S-04.
    #[test]
    fn expired_messages_are_removed_by_default() {
        assert!(!QueueSettings::default().dead_letter_on_expiration);
    }

    /// Rules: S-12.
    #[test]
    fn the_profile_of_the_emulator_has_3_deliveries_and_an_hour_to_live() {
        let expected = QueueSettings::default().max_delivery_count(3).default_time_to_live(Duration::from_secs(3_600));
        assert_eq!(QueueSettings::emulator(), expected);
    }

    /// Rules: S-06.
    #[test]
    fn a_setting_that_is_fixed_cannot_be_replaced() {
        let none = QueueSettings::default();
        let window = |seconds| none.clone().duplicate_detection(Duration::from_secs(seconds));
        for (name, other) in [
            ("requires_session", none.clone().requires_session(true)),
            ("duplicate_detection", window(20)),
            ("partitioned", none.clone().partitioned(true)),
        ] {
            assert_eq!(other.check_fixed(&other).map_err(|error| error.to_string()), Ok(()), "{name}");
            for (one, other) in [(&none, &other), (&other, &none)] {
                let error = one.check_fixed(other).unwrap_err();
                let detail = format!("{name} is fixed when the entity is created");
                assert_eq!((error.kind(), error.description()), (ErrorKind::InvalidOperation, Some(&*detail)));
            }
        }
        window(20).check_fixed(&window(30).max_delivery_count(7)).unwrap();
    }
}
