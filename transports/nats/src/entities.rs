//! Entities: create, find and delete them.

use std::{sync::Arc, time::Duration};

use consign_core::{
    message::EntityPath,
    transport::{ErrorKind, ManageError, ReceiveError},
};
use serde::Deserialize;
use serde_json::{Value as Json, json};

use crate::{
    Nats, QueueSettings,
    beside::Beside,
    connection::Inner,
    copies,
    error::Fault,
    fan_out::FanOut,
    request_limits::RequestLimits,
    settings::{Kind, Limits, Stored},
    source::{Place, Source},
    wire::nanos,
};

/// How long the server waits beyond a lock before it redelivers: by then a settlement that was in time has arrived.
pub(crate) const GRACE: Duration = Duration::from_millis(250);

/// The consumer of a queue.
const QUEUE: &str = "q";
/// The consumer of dead letters.
const DEAD: &str = "dead";

#[derive(Deserialize)]
pub(crate) struct StreamInfo {
    pub(crate) config: StreamConfig,
}

#[derive(Deserialize)]
pub(crate) struct StreamConfig {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) description: String,
    #[serde(default)]
    pub(crate) num_replicas: usize,
    /// In nanoseconds.
    #[serde(default)]
    duplicate_window: u64,
}

/// An entity that exists.
pub(crate) struct Entity {
    pub(crate) stream: String,
    /// The prefix of its subjects.
    pub(crate) root: String,
    pub(crate) config: StreamConfig,
    pub(crate) settings: Stored,
}

impl Entity {
    /// Returns the window in which the entity detects duplicates.
    pub(crate) fn duplicate_detection(&self) -> Option<Duration> {
        self.settings.detects_duplicates.then(|| Duration::from_nanos(self.config.duplicate_window))
    }
}

impl Nats {
    /// Creates a queue.
    ///
    /// # Errors
    ///
    /// [`AlreadyExists`](ErrorKind::AlreadyExists); [`InvalidArgument`](ErrorKind::InvalidArgument) for a path or a setting
    /// that breaks a rule; [`InvalidOperation`](ErrorKind::InvalidOperation) for the path of a subscription or a sub-queue;
    /// [`QuotaExceeded`](ErrorKind::QuotaExceeded) where the account may have no further stream.
    pub async fn create_queue(&self, path: &str, settings: QueueSettings) -> Result<(), ManageError> {
        let path = own_path(path)?;
        settings.check()?;
        Ok(self.inner.create_entity(&path, &settings.stored(&path), &settings.limits()).await?)
    }

    /// Deletes a queue, a topic with its subscriptions, or a subscription, with their messages.
    /// [`EntityNotFound`](ErrorKind::EntityNotFound) if there is none; [`InvalidOperation`](ErrorKind::InvalidOperation) for
    /// a sub-queue.
    pub async fn delete(&self, path: &str) -> Result<(), ManageError> {
        let path = EntityPath::new(path)?;
        if path.is_sub_queue() {
            let why = "a sub-queue lives as long as its entity";
            return Err(ManageError::new(ErrorKind::InvalidOperation).with_detail(why));
        }
        if path.subscription().is_some() {
            self.inner.stop_copies(&path).await?;
        } else {
            for subscription in self.inner.subscriptions(&path).await? {
                let path = path.subscription_of(&subscription)?;
                self.inner.stop_copies(&path).await?;
                match self.inner.delete_streams(&path).await {
                    // Another process has begun to delete it.
                    Err(fault) if fault.kind == ErrorKind::EntityNotFound => {}
                    deleted => deleted?,
                }
            }
        }
        Ok(self.inner.delete_streams(&path).await?)
    }
}

impl Inner {
    /// Returns the stream of an entity, the prefix of its subjects, and its settings.
    pub(crate) async fn find(&self, path: &EntityPath) -> Result<(String, String, Stored), Fault> {
        let Entity { stream, root, settings, .. } = self.entity(path).await?;
        Ok((stream, root, settings))
    }

    /// Returns an entity with the configuration of its stream.
    pub(crate) async fn entity(&self, path: &EntityPath) -> Result<Entity, Fault> {
        let (stream, root) = self.name(path.parent().as_str())?;
        let info = self.request::<StreamInfo>(&format!("STREAM.INFO.{stream}"), &json!({})).await;
        let info = info.map_err(|fault| match fault.kind {
            ErrorKind::EntityNotFound => no_entity(path),
            _ => fault,
        })?;
        let settings: Stored = serde_json::from_str(&info.config.description).map_err(|_| {
            let why = format!("the stream {stream} was not made by this transport");
            Fault::new(ErrorKind::InvalidOperation, why)
        })?;
        if settings.consign != Stored::VERSION {
            let why = format!("{path} was made by a later version of this transport");
            return Err(Fault::new(ErrorKind::NotSupported, why));
        }
        Ok(Entity { stream, root, config: info.config, settings })
    }

    /// Returns the source of messages at a path.
    pub(crate) async fn source(self: &Arc<Self>, path: &EntityPath) -> Result<Arc<Source>, ReceiveError> {
        let (stream, root, settings) = self.find(path).await?;
        let beside = Beside::new(&stream, &root);
        let invalid = |why| Err(ReceiveError::new(ErrorKind::InvalidOperation).with_detail(why));
        if path.is_transfer_dead_letter() {
            return invalid("nothing is forwarded, so there is no transfer dead-letter sub-queue");
        }
        let fan_out = match settings.kind {
            Kind::Topic => return invalid("a topic gives no messages"),
            Kind::Subscription => Some(FanOut::of(self, path, &settings)?),
            Kind::Queue => None,
        };
        let subjects = if settings.requires_session { format!("{root}.s.*") } else { format!("{root}.m") };
        let (stream, consumer, place) = if path.is_dead_letter() {
            (beside.stream.clone(), DEAD.into(), Place::DeadLetter)
        } else {
            (stream, QUEUE.into(), Place::Main)
        };
        let inner = Arc::clone(self);
        Ok(Arc::new(Source {
            inner,
            settings,
            stream,
            consumer,
            subjects,
            beside,
            place,
            fan_out,
            is_wrapped: false,
            request_limits: RequestLimits::NONE,
        }))
    }

    /// Creates the streams of a queue or a subscription, or none of them.
    pub(crate) async fn create_entity(&self, path: &EntityPath, stored: &Stored, limits: &Limits) -> Result<(), Fault> {
        let (stream, root) = self.name(path.as_str())?;
        let (main, consumer) = main_config(&stream, &root, stored, limits);
        if let Err(fault) = self.create_beside(&Beside::new(&stream, &root), stored, limits.replicas).await {
            return Err(self.why_not_created(fault, &stream, &root).await);
        }
        if let Err(fault) = self.create_stream(&stream, &main).await {
            self.remove_beside(path, stored).await;
            return Err(self.why_not_created(fault, &stream, &root).await);
        }
        let Some((name, consumer)) = consumer else { return Ok(()) };
        let Err(fault) = self.create_consumer(&stream, name, &consumer).await else { return Ok(()) };
        let _ = self.delete_streams(path).await;
        Err(fault)
    }

    /// Returns the error of a stream that was refused: as `AlreadyExists` only if it is one of the entity itself.
    pub(crate) async fn why_not_created(&self, fault: Fault, stream: &str, root: &str) -> Fault {
        let is_taken = fault.kind == ErrorKind::AlreadyExists;
        if is_taken && matches!(self.has_other_stream(stream, root).await, Ok(true)) {
            return fault.of_other_stream();
        }
        fault
    }

    /// Returns whether a stream other than those of an entity has subjects of it.
    pub(crate) async fn has_other_stream(&self, stream: &str, root: &str) -> Result<bool, Fault> {
        #[derive(Deserialize)]
        struct Names {
            #[serde(default)]
            streams: Option<Vec<String>>,
        }
        let found = self.request::<Names>("STREAM.NAMES", &json!({ "subject": format!("{root}.>") })).await?;
        let beside = Beside::new(stream, root).stream;
        Ok(found.streams.iter().flatten().any(|name| name != stream && *name != beside))
    }

    /// Deletes the stream beside an entity whose own stream was refused: that one belongs to another, with its contents. If it
    /// has this id, a process that declares the entity has found the stream beside it, and has created it.
    pub(crate) async fn remove_beside(&self, path: &EntityPath, stored: &Stored) {
        let is_declared = self.entity(path).await.is_ok_and(|entity| entity.settings.id == stored.id);
        if !is_declared && let Ok((stream, root)) = self.name(path.as_str()) {
            let _ = self.delete_stream(&Beside::new(&stream, &root).stream).await;
        }
    }

    /// Deletes the stream beside an entity, and then that of the entity; one of them may be missing. In this order an entity
    /// that is being deleted does not look like one that is being created, which a process that declares it completes.
    pub(crate) async fn delete_streams(&self, path: &EntityPath) -> Result<(), Fault> {
        let (stream, root) = self.name(path.as_str())?;
        let beside = self.delete_stream(&Beside::new(&stream, &root).stream).await;
        let main = self.delete_stream(&stream).await;
        match (main, beside) {
            (Err(fault), Ok(())) | (Ok(()), Err(fault)) if fault.kind == ErrorKind::EntityNotFound => Ok(()),
            (main, beside) => main.and(beside),
        }
    }

    pub(crate) async fn create_beside(&self, beside: &Beside, stored: &Stored, replicas: usize) -> Result<(), Fault> {
        let limits = Limits::none(replicas);
        let mut config = stream_config(&beside.stream, &[beside.subjects()], "workqueue", &limits, stored);
        config["max_msgs_per_subject"] = json!(1);
        config["discard"] = json!("old");
        let is_new = self.create_stream(&beside.stream, &config).await?;
        let (name, dead) = dead_consumer(beside, stored);
        let created = self.create_consumer(&beside.stream, name, &dead).await;
        if created.is_err() && is_new {
            let _ = self.delete_stream(&beside.stream).await;
        }
        created
    }

    /// Creates a stream. Returns whether it is new: with the same settings it may exist.
    pub(crate) async fn create_stream(&self, name: &str, config: &Json) -> Result<bool, Fault> {
        #[derive(Deserialize)]
        struct Created {
            #[serde(default)]
            did_create: bool,
        }
        Ok(self.request::<Created>(&format!("STREAM.CREATE.{name}"), config).await?.did_create)
    }

    /// Returns when a stream was created, as a token that no other stream of that name has.
    pub(crate) async fn created(&self, stream: &str) -> Result<String, Fault> {
        #[derive(Deserialize)]
        struct Created {
            created: String,
        }
        let info = self.request::<Created>(&format!("STREAM.INFO.{stream}"), &json!({})).await?;
        Ok(info.created.chars().filter(char::is_ascii_alphanumeric).collect())
    }

    pub(crate) async fn delete_stream(&self, name: &str) -> Result<(), Fault> {
        self.request::<Json>(&format!("STREAM.DELETE.{name}"), &json!({})).await.map(drop)
    }

    pub(crate) async fn create_consumer(&self, stream: &str, name: &str, config: &Json) -> Result<(), Fault> {
        let subject = format!("CONSUMER.DURABLE.CREATE.{stream}.{name}");
        let created = self.request::<Json>(&subject, &json!({ "stream_name": stream, "config": config })).await;
        created.map(drop).map_err(Fault::of_new_consumer)
    }

    pub(crate) async fn delete_consumer(&self, stream: &str, name: &str) -> Result<(), Fault> {
        self.request::<Json>(&format!("CONSUMER.DELETE.{stream}.{name}"), &json!({})).await.map(drop)
    }
}

/// Returns the configuration of the stream of a queue or a subscription, and its consumer: sessions have consumers
/// of their own.
pub(crate) fn main_config(
    stream: &str,
    root: &str,
    stored: &Stored,
    limits: &Limits,
) -> (Json, Option<(&'static str, Json)>) {
    let mut subjects = vec![if stored.requires_session { format!("{root}.s.*") } else { format!("{root}.m") }];
    let mut filter = String::new();
    if stored.kind == Kind::Subscription {
        filter.clone_from(&subjects[0]);
        subjects.push(copies::numbered(root));
    }
    let consumer = (!stored.requires_session).then(|| (QUEUE, consumer_config(QUEUE, &filter, stored)));
    (stream_config(stream, &subjects, "workqueue", limits, stored), consumer)
}

/// Returns the consumer of the dead letters of an entity.
pub(crate) fn dead_consumer(beside: &Beside, stored: &Stored) -> (&'static str, Json) {
    (DEAD, consumer_config(DEAD, &beside.any_dead(), stored))
}

pub(crate) fn stream_config(
    name: &str,
    subjects: &[String],
    retention: &str,
    limits: &Limits,
    stored: &Stored,
) -> Json {
    // The server requires a window, and one that is no longer than the age.
    let default = limits.max_age.map_or(120_000_000_000, |age| nanos(age).min(120_000_000_000));
    json!({
        "name": name,
        "subjects": subjects,
        "retention": retention,
        "storage": "file",
        "discard": "new",
        "max_consumers": -1,
        "max_msgs": -1,
        "max_msgs_per_subject": -1,
        "max_bytes": limits.max_bytes.map_or(-1, |bytes| i64::try_from(bytes).unwrap_or(i64::MAX)),
        "max_age": limits.max_age.map_or(0, nanos),
        "max_msg_size": -1,
        "num_replicas": limits.replicas,
        "duplicate_window": limits.duplicate_detection.map_or(default, nanos),
        "allow_direct": true,
        "description": serde_json::to_string(stored).unwrap_or_default(),
    })
}

/// Returns the source of the dead letters of an entity.
pub(crate) fn dead(source: &Source) -> Arc<Source> {
    source.at(source.beside.stream.clone(), DEAD.into(), Place::DeadLetter)
}

pub(crate) fn consumer_config(name: &str, filter: &str, stored: &Stored) -> Json {
    let mut config = json!({
        "durable_name": name,
        "deliver_policy": "all",
        "ack_policy": "explicit",
        "ack_wait": nanos(stored.lock() + GRACE),
        "max_deliver": -1,
        "replay_policy": "instant",
        "max_ack_pending": -1,
        "max_waiting": 4_096,
    });
    if !filter.is_empty() {
        config["filter_subject"] = json!(filter);
    }
    config
}

/// Parses the path of an entity to be created: not a sub-queue and not a subscription.
pub(crate) fn own_path(path: &str) -> Result<EntityPath, ManageError> {
    let path = EntityPath::new(path)?;
    if path.is_sub_queue() || path.subscription().is_some() {
        let why = "a sub-queue comes with its entity, and a subscription with its topic";
        return Err(ManageError::new(ErrorKind::InvalidOperation).with_detail(why));
    }
    Ok(path)
}

fn no_entity(path: &EntityPath) -> Fault {
    Fault::new(ErrorKind::EntityNotFound, format!("there is no {path}"))
}
