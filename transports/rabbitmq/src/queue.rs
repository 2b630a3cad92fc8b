//! The queues of an entity: created, found and deleted.

use std::{sync::Arc, time::Duration};

use consign_core::{
    message::EntityPath,
    transport::{ErrorKind, ManageError},
};
use lapin::types::AMQPValue;
use uuid::Uuid;

use crate::{
    QueueSettings, RabbitMq,
    arguments::{arguments, quorum},
    client::Shared,
    error::Failure,
    reply_to::REPLIES,
    session,
    settings::check_path,
    stored::{self, Known},
    topic,
};

impl Shared {
    /// Creates the queues of a queue or a subscription. It changes nothing where they are.
    pub(crate) async fn create_queues(&self, path: &EntityPath, settings: &QueueSettings) -> Result<(), Failure> {
        let dead = path.dead_letter();
        self.declare_dead_letters(&dead).await?;
        if !settings.requires_session {
            return self.declare(path.as_str(), arguments(settings, &dead).into()).await;
        }
        session::declare(self, path, settings).await?;
        if path.subscription().is_some() {
            session::declare_exchange(self, path, settings.session_slots).await?;
        }
        Ok(())
    }

    /// Returns whether the entity exists, with these settings or without sessions.
    pub(crate) async fn exists(&self, path: &EntityPath, known: &Known) -> Result<bool, Failure> {
        match known {
            Known::Topic(_) => self.has_exchange(path.as_str()).await,
            Known::Queue(settings) if settings.requires_session => {
                let first = session::queue(path, 0, settings.session_slots);
                Ok(self.has_queue(&first).await? || self.has_queue(path.as_str()).await?)
            }
            Known::Queue(_) => self.has_queue(path.as_str()).await,
        }
    }

    /// Deletes a queue or a subscription. In another order a failure in between would leave queues that are never deleted: the
    /// settings have the number of slots.
    pub(crate) async fn delete_queues(&self, path: &EntityPath, settings: &QueueSettings) -> Result<(), Failure> {
        self.delete_queue(path.dead_letter().as_str()).await?;
        if settings.requires_session {
            session::delete(self, path, settings).await?;
        } else {
            self.delete_queue(path.as_str()).await?;
            self.forget_delays(path.as_str());
        }
        stored::delete(self, path).await?;
        self.entities.forget(path);
        Ok(())
    }
}

impl RabbitMq {
    /// Creates a queue and its dead-letter queue, both quorum queues. The queue's name is the path as it is written; the
    /// dead-letter queue has `/$deadletterqueue` behind it. A queue that requires sessions is a pair of queues for each of its
    /// slots instead, `/$slot-00-16` and `/$note-00-16` for the first of 16. The settings are stored on the server, for
    /// every client.
    ///
    /// Two clients that create a queue with the same settings at the same time both succeed, as AMQP 0-9-1 defines it.
    ///
    /// # Errors
    ///
    /// `AlreadyExists`; a path or settings that are not allowed.
    pub async fn create_queue(&self, path: &str, settings: QueueSettings) -> Result<(), ManageError> {
        let path = check_path(path)?;
        settings.check()?;
        self.create_entity(&path, &Known::Queue(Arc::new(settings))).await
    }

    /// Creates a queue for the replies to one requester, and returns its path. RabbitMQ deletes it with its messages when it had
    /// no consumer for `idle`, in whole milliseconds from 1 ms to 24 days: after the process of its receiver has crashed, or
    /// when its connection is not replaced within that time. It is a quorum queue without a dead-letter queue and without
    /// stored settings.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) for an `idle` out of range; those of the connection.
    pub async fn create_reply_queue(&self, idle: Duration) -> Result<String, ManageError> {
        let expires = i32::try_from(idle.as_millis()).ok().filter(|millis| *millis > 0);
        let Some(expires) = expires else {
            let detail = "the idle time of a reply queue is 1 ms to 24 days";
            return Err(ManageError::new(ErrorKind::InvalidArgument).with_detail(detail));
        };
        let path = format!("{REPLIES}{}", Uuid::new_v4());
        let mut arguments = quorum();
        arguments.insert("x-expires".into(), AMQPValue::LongInt(expires));
        self.0.declare(&path, arguments.into()).await?;
        self.register_queue(&path, QueueSettings::default())?;
        Ok(path)
    }

    /// Creates an entity that does not exist.
    pub(crate) async fn create_entity(&self, path: &EntityPath, known: &Known) -> Result<(), ManageError> {
        if path.is_sub_queue() {
            return Err(
                ManageError::new(ErrorKind::InvalidOperation).with_detail("a sub-queue is created with its queue")
            );
        }
        self.check_topic(path).await?;
        if self.0.exists(path, known).await? {
            return Err(ManageError::new(ErrorKind::AlreadyExists).with_detail(path.to_string()));
        }
        if !stored::store(&self.0, path, known).await? {
            let detail = format!("{path}: settings of another entity are stored; delete it");
            return Err(ManageError::new(ErrorKind::AlreadyExists).with_detail(detail));
        }
        self.complete(path, known).await
    }

    /// Creates an entity, or returns the settings of the one that exists.
    pub(crate) async fn declare_entity(&self, path: &EntityPath, known: &Known) -> Result<Known, ManageError> {
        if path.is_sub_queue() {
            return Err(
                ManageError::new(ErrorKind::InvalidOperation).with_detail("a sub-queue is created with its queue")
            );
        }
        if let Some(stored) = stored::read(&self.0, path).await? {
            return self.declared(path, stored).await;
        }
        self.check_topic(path).await?;
        let is_there = self.0.exists(path, known).await?;
        // Another process may have created it meanwhile.
        if is_there && let Some(stored) = stored::read(&self.0, path).await? {
            return self.declared(path, stored).await;
        }
        if is_there {
            // RabbitMQ compares the arguments of its queues.
            self.create_parts(path, known).await.map_err(|failure| match failure.kind() {
                ErrorKind::InvalidOperation => {
                    ManageError::new(ErrorKind::AlreadyExists).with_detail(failure.to_string())
                }
                _ => failure.into(),
            })?;
        }
        if !stored::store(&self.0, path, known).await? {
            let gone = || Failure::new(ErrorKind::ServiceBusy, "the entity was deleted meanwhile");
            let stored = stored::read(&self.0, path).await?.ok_or_else(gone)?;
            return self.declared(path, stored).await;
        }
        self.complete(path, known).await?;
        Ok(known.clone())
    }

    /// An entity whose settings are stored. If its creation was interrupted it is completed.
    async fn declared(&self, path: &EntityPath, stored: Known) -> Result<Known, ManageError> {
        if self.0.exists(path, &stored).await? {
            self.0.entities.keep(path, stored.clone());
        } else {
            self.check_topic(path).await?;
            self.complete(path, &stored).await?;
        }
        Ok(stored)
    }

    async fn complete(&self, path: &EntityPath, known: &Known) -> Result<(), ManageError> {
        self.create_parts(path, known).await?;
        if path.subscription().is_some() {
            topic::bind_default(&self.0, path, known).await?;
        }
        self.0.entities.keep(path, known.clone());
        Ok(())
    }

    async fn create_parts(&self, path: &EntityPath, known: &Known) -> Result<(), Failure> {
        match known {
            Known::Queue(settings) => self.0.create_queues(path, settings).await,
            Known::Topic(_) => topic::declare(&self.0, path).await,
        }
    }

    /// The topic of a subscription must exist.
    async fn check_topic(&self, path: &EntityPath) -> Result<(), ManageError> {
        let Some((topic, _)) = path.subscription() else { return Ok(()) };
        if self.0.has_exchange(topic).await? {
            return Ok(());
        }
        Err(ManageError::new(ErrorKind::EntityNotFound).with_detail(topic.to_owned()))
    }

    /// Deletes a queue, a topic or a subscription, with its messages, its dead-letter queue and its settings; a topic with its
    /// subscriptions.
    ///
    /// # Errors
    ///
    /// `EntityNotFound`.
    pub async fn delete(&self, path: &str) -> Result<(), ManageError> {
        let path = check_path(path)?;
        if path.is_sub_queue() {
            return Err(
                ManageError::new(ErrorKind::InvalidOperation).with_detail("a sub-queue is deleted with its queue")
            );
        }
        self.0.entities.doubt(&path);
        // Stored settings are deleted also without the entity: its creation or its deletion was interrupted.
        let known = match stored::read(&self.0, &path).await? {
            Some(stored) => stored,
            None => self.0.entities.find(&self.0, &path).await?.known,
        };
        match known {
            Known::Topic(_) => topic::delete(&self.0, &path).await,
            Known::Queue(settings) => Ok(self.0.delete_queues(&path, &settings).await?),
        }
    }
}
