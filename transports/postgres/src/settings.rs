//! The settings of an entity as the columns of its row.

use std::time::Duration;

use consign_core::{
    administration::{
        EntityKind, EntitySettings, Metadata, QueueSettings, Status, SubscriptionSettings, TopicSettings,
    },
    message::{EntityPath, InvalidArgument},
    transport::{ErrorKind, ManageError},
};
use tokio_postgres::{Error, Row, types::Type};

use crate::{
    database::Parameter,
    entity::{key, kind_of},
};

/// From this time to live on, in milliseconds, a message never expires.
const FOREVER: i64 = 253_402_300_799_999;

/// The columns. Two settings that have the same columns are the same to this broker.
#[derive(Clone, Debug)]
pub(crate) struct Columns {
    kind: i16,
    status: i16,
    max_deliveries: i32,
    pub(crate) lock_ms: i64,
    ttl_ms: Option<i64>,
    window_ms: Option<i64>,
    max_size: i64,
    max_message_size: i64,
    dead_on_expiry: bool,
    dead_on_filter_error: bool,
    sessions: bool,
    pub(crate) forward_to: Option<String>,
    pub(crate) forward_dead_to: Option<String>,
}

impl Columns {
    /// The names, in the order of [`parameters`](Self::parameters).
    pub(crate) const NAMES: &str = "kind, status, max_deliveries, lock_ms, ttl_ms, window_ms, max_size, max_message_size, \
        dead_on_expiry, dead_on_filter_error, sessions, forward_to, forward_dead_to";

    /// Checks settings, and converts them.
    ///
    /// Errors: [`InvalidArgument`](ErrorKind::InvalidArgument) for a setting that is out of its range, and
    /// [`NotSupported`](ErrorKind::NotSupported) for one that this broker does not have.
    pub(crate) fn new(settings: &EntitySettings) -> Result<Self, ManageError> {
        settings.check()?;
        let (kind, of_queue, dead_on_filter_error) = match settings {
            EntitySettings::Queue(settings) => (0, settings.clone(), false),
            EntitySettings::Topic(settings) => (1, settings.to_queue(), false),
            EntitySettings::Subscription(settings) => (2, settings.to_queue(), settings.dead_letter_on_filter_error),
        };
        let unsupported = [
            ("partitioned", of_queue.partitioned),
            ("auto_delete_on_idle", of_queue.auto_delete_on_idle.is_some()),
            ("max_duplicate_ids", of_queue.max_duplicate_ids != QueueSettings::default().max_duplicate_ids),
        ];
        let unsupported = unsupported.into_iter().find(|(_, is_set)| *is_set).map(|(name, _)| name);
        if let Some(name) = unsupported.or_else(|| Metadata::default().difference(&of_queue.metadata)) {
            return Err(ManageError::new(ErrorKind::NotSupported).with_detail(name));
        }
        let max_deliveries = i32::try_from(of_queue.max_delivery_count).map_err(|_| {
            ManageError::new(ErrorKind::InvalidArgument).with_detail("max_delivery_count is out of range")
        })?;
        Ok(Self {
            kind,
            status: status_code(of_queue.status),
            max_deliveries,
            lock_ms: millis(of_queue.lock_duration),
            ttl_ms: of_queue.default_time_to_live.map(millis).filter(|&ttl| ttl < FOREVER),
            window_ms: of_queue.duplicate_detection.map(millis),
            max_size: bytes(of_queue.max_size),
            max_message_size: bytes(of_queue.max_message_size as u64),
            dead_on_expiry: of_queue.dead_letter_on_expiration,
            dead_on_filter_error,
            sessions: of_queue.requires_session,
            forward_to: target(of_queue.forward_to.as_deref())?,
            forward_dead_to: target(of_queue.forward_dead_letters_to.as_deref())?,
        })
    }

    /// Reads a row with these columns after `skip` others.
    pub(crate) fn read(row: &Row, skip: usize) -> Result<Self, Error> {
        Ok(Self {
            kind: row.try_get(skip)?,
            status: row.try_get(skip + 1)?,
            max_deliveries: row.try_get(skip + 2)?,
            lock_ms: row.try_get(skip + 3)?,
            ttl_ms: row.try_get(skip + 4)?,
            window_ms: row.try_get(skip + 5)?,
            max_size: row.try_get(skip + 6)?,
            max_message_size: row.try_get(skip + 7)?,
            dead_on_expiry: row.try_get(skip + 8)?,
            dead_on_filter_error: row.try_get(skip + 9)?,
            sessions: row.try_get(skip + 10)?,
            forward_to: row.try_get(skip + 11)?,
            forward_dead_to: row.try_get(skip + 12)?,
        })
    }

    pub(crate) fn kind(&self) -> EntityKind {
        kind_of(self.kind)
    }

    pub(crate) fn requires_session(&self) -> bool {
        self.sessions
    }

    /// The values, for an insert or an update.
    pub(crate) fn parameters(&self) -> [Parameter<'_>; 13] {
        [
            (&self.kind, Type::INT2),
            (&self.status, Type::INT2),
            (&self.max_deliveries, Type::INT4),
            (&self.lock_ms, Type::INT8),
            (&self.ttl_ms, Type::INT8),
            (&self.window_ms, Type::INT8),
            (&self.max_size, Type::INT8),
            (&self.max_message_size, Type::INT8),
            (&self.dead_on_expiry, Type::BOOL),
            (&self.dead_on_filter_error, Type::BOOL),
            (&self.sessions, Type::BOOL),
            (&self.forward_to, Type::TEXT),
            (&self.forward_dead_to, Type::TEXT),
        ]
    }

    /// Returns the settings. The paths of forwards are in lower case.
    pub(crate) fn to_settings(&self) -> EntitySettings {
        match self.kind() {
            EntityKind::Queue => self.to_queue().into(),
            EntityKind::Topic => {
                let (queue, mut settings) = (self.to_queue(), TopicSettings::default());
                settings.default_time_to_live = queue.default_time_to_live;
                settings.duplicate_detection = queue.duplicate_detection;
                settings.max_size = queue.max_size;
                settings.max_message_size = queue.max_message_size;
                settings.status = queue.status;
                settings.into()
            }
            EntityKind::Subscription => {
                let (queue, mut settings) = (self.to_queue(), SubscriptionSettings::default());
                settings.lock_duration = queue.lock_duration;
                settings.max_delivery_count = queue.max_delivery_count;
                settings.default_time_to_live = queue.default_time_to_live;
                settings.dead_letter_on_expiration = queue.dead_letter_on_expiration;
                settings.dead_letter_on_filter_error = self.dead_on_filter_error;
                settings.requires_session = queue.requires_session;
                settings.forward_to = queue.forward_to;
                settings.forward_dead_letters_to = queue.forward_dead_letters_to;
                settings.status = queue.status;
                settings.into()
            }
        }
    }

    /// Returns the settings in the form of a queue's.
    pub(crate) fn to_queue(&self) -> QueueSettings {
        let duration = |millis: i64| Duration::from_millis(millis.max(0).cast_unsigned());
        let mut settings = QueueSettings::default();
        settings.lock_duration = duration(self.lock_ms);
        settings.max_delivery_count = self.max_deliveries.max(0).cast_unsigned();
        settings.default_time_to_live = self.ttl_ms.map(duration);
        settings.dead_letter_on_expiration = self.dead_on_expiry;
        settings.max_size = match self.max_size {
            i64::MAX => u64::MAX,
            size => size.max(0).cast_unsigned(),
        };
        settings.max_message_size = usize::try_from(self.max_message_size).unwrap_or(usize::MAX);
        settings.requires_session = self.sessions;
        settings.duplicate_detection = self.window_ms.map(duration);
        settings.forward_to.clone_from(&self.forward_to);
        settings.forward_dead_letters_to.clone_from(&self.forward_dead_to);
        settings.status = status_of(self.status);
        settings
    }
}

/// Returns the key of the entity to which another one forwards.
fn target(path: Option<&str>) -> Result<Option<String>, InvalidArgument> {
    path.map(|path| EntityPath::new(path).map(|path| key(&path))).transpose()
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

fn bytes(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

pub(crate) fn status_code(status: Status) -> i16 {
    match status {
        Status::Active => 0,
        Status::Disabled => 1,
        Status::SendDisabled => 3,
        Status::ReceiveDisabled => 4,
    }
}

fn status_of(code: i16) -> Status {
    match code {
        0 => Status::Active,
        3 => Status::SendDisabled,
        4 => Status::ReceiveDisabled,
        _ => Status::Disabled,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every setting that the broker has, at another value than its default.
    fn changed() -> [EntitySettings; 3] {
        let second = Duration::from_secs(1);
        let queue = QueueSettings::default()
            .lock_duration(30 * second)
            .max_delivery_count(3)
            .default_time_to_live(3_600 * second)
            .dead_letter_on_expiration(true)
            .max_size(1 << 20)
            .max_message_size(1 << 10)
            .requires_session(true)
            .duplicate_detection(60 * second)
            .forward_to("one")
            .forward_dead_letters_to("two")
            .status(Status::SendDisabled);
        let topic = TopicSettings::default()
            .default_time_to_live(3_600 * second)
            .duplicate_detection(60 * second)
            .max_size(1 << 20)
            .max_message_size(1 << 10)
            .status(Status::ReceiveDisabled);
        let subscription = SubscriptionSettings::default()
            .lock_duration(30 * second)
            .max_delivery_count(3)
            .default_time_to_live(3_600 * second)
            .dead_letter_on_expiration(true)
            .dead_letter_on_filter_error(false)
            .requires_session(true)
            .forward_to("one")
            .forward_dead_letters_to("two")
            .status(Status::Disabled);
        [queue.into(), topic.into(), subscription.into()]
    }

    #[test]
    fn settings_are_read_as_they_were_written() {
        let defaults: [EntitySettings; 3] =
            [QueueSettings::default().into(), TopicSettings::default().into(), SubscriptionSettings::default().into()];
        for settings in changed().into_iter().chain(defaults) {
            assert_eq!(Columns::new(&settings).unwrap().to_settings(), settings);
        }
        let unlimited = QueueSettings::default().max_size(u64::MAX).into();
        assert_eq!(Columns::new(&unlimited).unwrap().to_settings(), unlimited);
    }

    #[test]
    fn a_setting_that_the_broker_does_not_have_is_refused_by_name() {
        let idle = Duration::from_secs(600);
        let queue = QueueSettings::default;
        for (settings, kind, name) in [
            (queue().partitioned(true).into(), ErrorKind::NotSupported, "partitioned"),
            (queue().auto_delete_on_idle(idle).into(), ErrorKind::NotSupported, "auto_delete_on_idle"),
            (queue().max_duplicate_ids(5).into(), ErrorKind::NotSupported, "max_duplicate_ids"),
            (TopicSettings::default().partitioned(true).into(), ErrorKind::NotSupported, "partitioned"),
            (
                SubscriptionSettings::default().auto_delete_on_idle(idle).into(),
                ErrorKind::NotSupported,
                "auto_delete_on_idle",
            ),
            (queue().max_delivery_count(0).into(), ErrorKind::InvalidArgument, "max_delivery_count"),
            (queue().max_delivery_count(u32::MAX).into(), ErrorKind::InvalidArgument, "max_delivery_count"),
        ] {
            let error: ManageError = Columns::new(&settings).unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().contains(name), "{error}");
        }
    }
}
