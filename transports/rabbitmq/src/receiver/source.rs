//! The source of a receiver: an entity, and its settings when they are found.

use std::{
    ops::Deref,
    sync::{
        Arc, LazyLock, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use consign_core::{
    message::EntityPath,
    transport::{EntityInfo, ErrorKind},
};

use crate::{
    client,
    dead_letters::foreign_queue,
    entities::{Found, Known},
    error::Failure,
    settings::QueueSettings,
};

/// How a receiver takes messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    PeekLock,
    ReceiveAndDelete,
}

/// The source of a receiver.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) path: EntityPath,
    pub(crate) mode: Mode,
    pub(crate) settings: Settings,
    /// Whether the routing key is the Subject of a message without one.
    pub(crate) subject_from_routing_key: bool,
    /// Whether a release counts for RabbitMQ, which drops or dead-letters the message after the last one.
    pub(crate) has_delivery_limit: Arc<AtomicBool>,
}

impl Source {
    /// Returns the entity for log lines. No number of deliveries of a dead letter is the last.
    pub(crate) fn info(&self) -> EntityInfo {
        let info = EntityInfo::new(self.path.as_str());
        if self.path.is_dead_letter() || !self.settings.is_found() {
            return info;
        }
        info.max_delivery_count(self.settings.max_delivery_count)
    }

    /// Finds the settings, if that was not done.
    pub(crate) async fn resolve(&self, client: &client::Shared) -> Result<(), Failure> {
        if !self.settings.is_found() {
            match client.entities.find(client, &self.path.parent()).await {
                Ok(Found { known: Known::Queue(settings), is_foreign }) => {
                    if is_foreign {
                        self.look(client).await?;
                    }
                    self.settings.set(settings);
                }
                Ok(Found { known: Known::Topic(_), .. }) => {
                    return Err(Failure::new(
                        ErrorKind::InvalidOperation,
                        "a topic is received from by its subscriptions",
                    ));
                }
                // Another program may have a queue of that name alone.
                Err(failure) if failure.kind() == ErrorKind::EntityNotFound && self.path.is_dead_letter() => {
                    self.look(client).await?;
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(())
    }

    /// Looks at a queue of another program. Its answers would close a channel that was wrapped.
    async fn look(&self, client: &client::Shared) -> Result<(), Failure> {
        if client.link.is_wrapped() {
            return Ok(());
        }
        let found = foreign_queue(client, self.path.as_str()).await?;
        if found.is_stream {
            let why = "the queue is a stream: messages of a stream are not settled";
            return Err(Failure::new(ErrorKind::NotSupported, why));
        }
        self.has_delivery_limit.store(found.has_delivery_limit, Ordering::Relaxed);
        Ok(())
    }

    /// Checks that messages are not received by session.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if self.settings.requires_session && !self.path.is_dead_letter() {
            return Err(Failure::new(ErrorKind::InvalidOperation, "the queue requires sessions"));
        }
        Ok(())
    }

    /// Checks that messages are received by session.
    pub(crate) fn check_sessions(&self) -> Result<(), Failure> {
        if !self.settings.requires_session || self.path.is_sub_queue() {
            return Err(Failure::new(ErrorKind::InvalidOperation, "the entity has no sessions"));
        }
        Ok(())
    }
}

/// The settings of a source: the defaults until they are found. They are found before the first message is received.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings(Arc<OnceLock<Arc<QueueSettings>>>);

static DEFAULTS: LazyLock<QueueSettings> = LazyLock::new(QueueSettings::default);

impl Settings {
    /// The settings of an entity or of the entity of a sub-queue, if the client has them.
    pub(crate) fn kept(client: &client::Shared, path: &EntityPath) -> Self {
        let settings = Self::default();
        // One of another program is looked at.
        if let Some(Found { known: Known::Queue(known), is_foreign: false }) = client.entities.get(&path.parent()) {
            settings.set(known);
        }
        settings
    }

    pub(crate) fn is_found(&self) -> bool {
        self.0.get().is_some()
    }

    fn set(&self, settings: Arc<QueueSettings>) {
        let _ = self.0.set(settings);
    }
}

impl Deref for Settings {
    type Target = QueueSettings;

    fn deref(&self) -> &QueueSettings {
        self.0.get().map_or(&DEFAULTS, |settings| settings)
    }
}
