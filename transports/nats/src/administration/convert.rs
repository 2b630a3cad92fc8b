//! Settings of the model as those of this transport, and back.

use std::time::Duration;

use consign_core::{
    administration::{self as model, EntitySettings},
    transport::ManageError,
};

use crate::{
    QueueSettings, SubscriptionSettings, TopicSettings,
    settings::{Kind, Stored},
};

/// The settings of an entity that this transport has.
pub(super) enum Own {
    Queue(QueueSettings),
    Topic(TopicSettings),
    Subscription(SubscriptionSettings),
}

impl Own {
    /// Converts settings of the model.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) for one that is out of its range; [`NotSupported`](ErrorKind::NotSupported)
    /// for one that is not at its default, and that this transport does not have.
    pub(super) fn of(settings: &EntitySettings) -> Result<Self, ManageError> {
        settings.check()?;
        let (own, kept) = match settings {
            EntitySettings::Queue(settings) => queue(settings),
            EntitySettings::Topic(settings) => topic(settings),
            EntitySettings::Subscription(settings) => subscription(settings),
        };
        match kept.difference(settings) {
            None => Ok(own),
            Some(setting) => Err(model::unsupported_setting(setting)),
        }
    }
}

// Each of these returns its own settings, and the model's with all others at their defaults.

fn queue(settings: &model::QueueSettings) -> (Own, EntitySettings) {
    let mut kept = model::QueueSettings::default();
    kept.lock_duration = settings.lock_duration;
    kept.max_delivery_count = settings.max_delivery_count;
    kept.requires_session = settings.requires_session;
    kept.duplicate_detection = settings.duplicate_detection;
    let own = QueueSettings {
        lock_duration: kept.lock_duration,
        max_delivery_count: kept.max_delivery_count,
        requires_session: kept.requires_session,
        duplicate_detection: kept.duplicate_detection,
        ..QueueSettings::default()
    };
    (Own::Queue(own), kept.into())
}

fn topic(settings: &model::TopicSettings) -> (Own, EntitySettings) {
    let mut kept = model::TopicSettings::default();
    kept.duplicate_detection = settings.duplicate_detection;
    let own = TopicSettings { duplicate_detection: kept.duplicate_detection, ..TopicSettings::default() };
    (Own::Topic(own), kept.into())
}

fn subscription(settings: &model::SubscriptionSettings) -> (Own, EntitySettings) {
    let mut kept = model::SubscriptionSettings::default();
    kept.lock_duration = settings.lock_duration;
    kept.max_delivery_count = settings.max_delivery_count;
    kept.requires_session = settings.requires_session;
    kept.dead_letter_on_filter_error = settings.dead_letter_on_filter_error;
    let own = SubscriptionSettings {
        lock_duration: kept.lock_duration,
        max_delivery_count: kept.max_delivery_count,
        requires_session: kept.requires_session,
        dead_letter_on_filter_error: kept.dead_letter_on_filter_error,
    };
    (Own::Subscription(own), kept.into())
}

/// Returns the settings of a stored entity. The window of duplicates is in the configuration of its stream.
pub(super) fn settings(stored: &Stored, duplicate_detection: Option<Duration>) -> EntitySettings {
    match stored.kind {
        Kind::Queue => {
            let mut settings = model::QueueSettings::default();
            settings.lock_duration = stored.lock();
            settings.max_delivery_count = stored.max_delivery_count;
            settings.requires_session = stored.requires_session;
            settings.duplicate_detection = duplicate_detection;
            settings.into()
        }
        Kind::Topic => {
            let mut settings = model::TopicSettings::default();
            settings.duplicate_detection = duplicate_detection;
            settings.into()
        }
        Kind::Subscription => {
            let mut settings = model::SubscriptionSettings::default();
            settings.lock_duration = stored.lock();
            settings.max_delivery_count = stored.max_delivery_count;
            settings.requires_session = stored.requires_session;
            settings.dead_letter_on_filter_error = stored.dead_letter_on_filter_error;
            settings.into()
        }
    }
}
