//! Entities by the settings of consign.

mod settings;

use consign_core::{
    administration::{Administration, Counts, Entity, EntitySettings},
    message::EntityPath,
    transport::{ErrorKind, ManageError},
};
use lapin::{options::QueueDeclareOptions, types::FieldTable};

use crate::{
    RabbitMq,
    client::Shared,
    error::Failure,
    link::Leased,
    session,
    settings::check_path,
    stored::{self, Known},
};

/// The error of a list that AMQP 0-9-1 does not have.
pub(crate) fn unlisted(what: &str) -> ManageError {
    ManageError::new(ErrorKind::NotSupported).with_detail(format!("AMQP 0-9-1 does not list {what}"))
}

fn missing(path: &EntityPath) -> ManageError {
    ManageError::new(ErrorKind::EntityNotFound).with_detail(path.to_string())
}

impl Administration for RabbitMq {
    async fn create(&self, path: &EntityPath, settings: &EntitySettings) -> Result<(), ManageError> {
        let path = check_path(path.as_str())?;
        let known = settings::to_known(&path, settings, self.0.link.options.session_slots)?;
        self.create_entity(&path, &known).await
    }

    async fn declare(&self, path: &EntityPath, settings: &EntitySettings) -> Result<(), ManageError> {
        let path = check_path(path.as_str())?;
        let known = settings::to_known(&path, settings, self.0.link.options.session_slots)?;
        let existing = self.declare_entity(&path, &known).await?;
        settings::from_known(&path, &existing).check_declared(&path, settings)
    }

    /// Returns `NotSupported`: the arguments of a queue are fixed when it is created.
    async fn update(&self, path: &EntityPath, _: &EntitySettings) -> Result<(), ManageError> {
        self.stored(path).await?;
        let detail = "the settings of an entity are fixed when it is created";
        Err(ManageError::new(ErrorKind::NotSupported).with_detail(detail))
    }

    async fn delete(&self, path: &EntityPath) -> Result<(), ManageError> {
        Self::delete(self, path.as_str()).await
    }

    async fn settings(&self, path: &EntityPath) -> Result<EntitySettings, ManageError> {
        let known = self.stored(path).await?;
        Ok(settings::from_known(path, &known))
    }

    /// Returns `NotSupported`.
    async fn list(&self) -> Result<Vec<Entity>, ManageError> {
        Err(unlisted("queues"))
    }

    /// Counts the messages that wait in the queues. RabbitMQ does not report messages that a receiver holds, and those that are
    /// scheduled are in other queues.
    async fn counts(&self, path: &EntityPath) -> Result<Counts, ManageError> {
        let path = check_path(path.as_str())?;
        let mut counts = Counts::default();
        if path.is_sub_queue() {
            counts.active = ready(&self.0, &[path.dead_letter().to_string()]).await?.ok_or_else(|| missing(&path))?;
            return Ok(counts);
        }
        let queues = match self.0.entities.find(&self.0, &path).await?.known {
            known @ Known::Topic(_) if !self.0.exists(&path, &known).await? => {
                self.0.entities.doubt(&path);
                return Err(missing(&path));
            }
            Known::Topic(_) => {
                let detail = "the messages of a topic are in its subscriptions";
                return Err(ManageError::new(ErrorKind::NotSupported).with_detail(detail));
            }
            Known::Queue(settings) if settings.requires_session => {
                (0..settings.session_slots).map(|slot| session::queue(&path, slot, settings.session_slots)).collect()
            }
            Known::Queue(_) => vec![path.to_string()],
        };
        let Some(active) = ready(&self.0, &queues).await? else {
            self.0.entities.doubt(&path);
            return Err(missing(&path));
        };
        counts.active = active;
        // A queue of another program may have none.
        counts.dead_lettered = ready(&self.0, &[path.dead_letter().to_string()]).await?.unwrap_or_default();
        Ok(counts)
    }
}

impl RabbitMq {
    /// Returns the settings that the server has.
    async fn stored(&self, path: &EntityPath) -> Result<Known, ManageError> {
        let path = check_path(path.as_str())?.parent();
        if let Some(known) = stored::read(&self.0, &path).await? {
            // Its creation or its deletion may have been interrupted.
            return if self.0.exists(&path, &known).await? { Ok(known) } else { Err(missing(&path)) };
        }
        let is_there = self.0.exists(&path, &Known::Queue(std::sync::Arc::default())).await?
            || self.0.exists(&path, &Known::Topic(None)).await?;
        if !is_there {
            return Err(missing(&path));
        }
        let detail = "another program created the entity: it has no settings on the server";
        Err(ManageError::new(ErrorKind::NotSupported).with_detail(detail))
    }
}

/// Counts the messages in queues; `None` if one does not exist.
async fn ready(shared: &Shared, queues: &[String]) -> Result<Option<usize>, Failure> {
    let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::durable() };
    let counting = async |leased: &Leased| {
        let mut count = 0_usize;
        for queue in queues {
            let name = queue.as_str().into();
            let counted = leased.channel.queue_declare(name, options, FieldTable::default()).await?;
            count += usize::try_from(counted.message_count()).unwrap_or(usize::MAX);
        }
        Ok(count)
    };
    match shared.manage("queue.declare", counting).await {
        Ok(count) => Ok(Some(count)),
        Err(failure) if failure.kind() == ErrorKind::EntityNotFound => Ok(None),
        Err(failure) => Err(failure),
    }
}
