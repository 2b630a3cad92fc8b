//! Declaring an entity: it exists afterwards as a whole, whichever process has created which part of it.
//!
//! A queue and a subscription are two streams with consumers. The one beside it is created first, and its description is the
//! record of the entity: a process that finds it there goes on with that record, and creates the same as its creator would.

use std::time::Duration;

use async_nats::jetstream::ErrorCode;
use consign_core::{
    administration::EntitySettings,
    message::EntityPath,
    transport::{ErrorKind, ManageError},
};
use serde_json::{Value as Json, json};
use tokio::time::{Instant, sleep};

use super::convert::{Own, settings};
use crate::{
    connection::Inner,
    entities::{Entity, StreamInfo, dead_consumer, main_config, own_path, stream_config},
    error::Fault,
    feed,
    rules::Stored as Rules,
    settings::{Kind, Limits, Stored},
    source::Beside,
    topic::feed_config,
};

/// The longest pause while another process creates or deletes the entity.
const PAUSE: Duration = Duration::from_millis(50);
/// How long a process that deletes an entity takes from its first stream to the second one. A half that is older has been left
/// by one that died, or by one that deleted while another created.
const DELETION: Duration = Duration::from_millis(250);
/// The server fails to create the files of a stream or a consumer, as while it removes those of the former one.
const NO_STORE: [&str; 2] = ["nats:10012", "nats:10049"];

/// What is declared.
struct Declared<'a> {
    path: &'a EntityPath,
    stored: Stored,
    limits: Limits,
    settings: EntitySettings,
    /// The topic of a subscription.
    topic: Option<Entity>,
}

/// How an attempt to declare an entity ends.
enum Attempt {
    Done,
    /// Another process creates or deletes the entity at the same time.
    Again,
    /// The entity with this id has lost the stream beside it.
    Half(String),
}

impl Inner {
    pub(super) async fn declare(&self, path: &EntityPath, own: &Own) -> Result<(), ManageError> {
        if !matches!(own, Own::Subscription(_)) {
            own_path(path.as_str())?;
        }
        let (started, mut pause) = (Instant::now(), Duration::from_millis(2));
        let mut half: Option<(String, Instant)> = None;
        let mut last = None;
        while started.elapsed() < self.timeout {
            let declared = self.declared(path, own).await?;
            let left = half.as_ref().filter(|(_, since)| since.elapsed() > DELETION);
            match self.declare_once(&declared, left.map(|(id, _)| id.as_str())).await {
                Ok(Attempt::Done) => return Ok(()),
                Ok(Attempt::Half(id)) if half.as_ref().is_some_and(|(known, _)| *known == id) => {}
                Ok(Attempt::Half(id)) => half = Some((id, Instant::now())),
                Ok(Attempt::Again) => {}
                Err(error) if error.condition().is_some_and(|code| NO_STORE.contains(&code)) => last = Some(error),
                Err(error) => return Err(error),
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE);
        }
        Err(last.unwrap_or_else(|| {
            let why = format!("other processes create and delete {path} all the time");
            ManageError::new(ErrorKind::ServiceBusy).with_detail(why)
        }))
    }

    async fn declared<'a>(&self, path: &'a EntityPath, own: &Own) -> Result<Declared<'a>, ManageError> {
        let (stored, limits, topic) = match own {
            Own::Queue(own) => (own.stored(path), own.limits(), None),
            Own::Topic(own) => (own.stored(path), own.limits(), None),
            Own::Subscription(own) => {
                let (topic, _) = super::subscription(path)?;
                let topic = self.topic(&EntityPath::new(topic)?).await?;
                let limits = Limits::none(topic.config.num_replicas.max(1));
                (own.stored(path, topic.settings.id.clone()), limits, Some(topic))
            }
        };
        let settings = settings(&stored, limits.duplicate_detection);
        Ok(Declared { path, stored, limits, settings, topic })
    }

    /// Declares the entity. If it has the id `left`, the stream beside it is created again.
    async fn declare_once(&self, declared: &Declared<'_>, left: Option<&str>) -> Result<Attempt, ManageError> {
        let record = match self.entity(declared.path).await {
            Ok(entity) => {
                declared.check(&entity.settings, entity.duplicate_detection())?;
                entity.settings
            }
            Err(fault) if fault.kind == ErrorKind::EntityNotFound => match self.begin(declared).await? {
                Some(record) => record,
                None => return Ok(Attempt::Again),
            },
            Err(fault) => return Err(fault.into()),
        };
        if record.kind == Kind::Topic {
            return Ok(Attempt::Done);
        }
        match self.complete(declared, &record, left).await {
            // It was deleted meanwhile, or its topic was.
            Err(fault) if fault.kind == ErrorKind::EntityNotFound || fault.is_no_responders() => Ok(Attempt::Again),
            completed => Ok(completed?),
        }
    }

    /// Creates the streams of an entity that does not exist, and returns its record. `None` if another process was faster.
    async fn begin(&self, declared: &Declared<'_>) -> Result<Option<Stored>, ManageError> {
        let Declared { path, stored, limits, .. } = declared;
        let (stream, root) = self.name(path.as_str())?;
        if stored.kind == Kind::Topic {
            let config = stream_config(&stream, &[format!("{root}.m")], "interest", limits, stored);
            return match self.create_stream(&stream, &config).await {
                Err(fault) if is_taken(&fault) => Ok(None),
                created => Ok(created.map(|_| Some(stored.clone()))?),
            };
        }
        let beside = Beside::new(&stream, &root);
        let (record, is_new) = match self.create_beside(&beside, stored, limits.replicas).await {
            Ok(()) => (stored.clone(), true),
            Err(fault) if is_taken(&fault) => match self.record(&beside.stream).await? {
                None => return Ok(None),
                Some(record) => {
                    let window = record.detects_duplicates.then(|| limits.duplicate_detection.unwrap_or_default());
                    declared.check(&record, window)?;
                    (record, false)
                }
            },
            Err(fault) => return Err(fault.into()),
        };
        let (main, _) = main_config(&stream, &root, &record, limits);
        let created = self.create_stream(&stream, &main).await;
        if is_new && created.as_ref().is_err_and(|fault| fault.code.is_some()) {
            let _ = self.delete_stream(&beside.stream).await;
        }
        match created {
            Err(fault) if is_taken(&fault) => Ok(None),
            created => Ok(created.map(|_| Some(record))?),
        }
    }

    /// Creates the consumers and the rules of a queue or a subscription that are missing.
    async fn complete(&self, declared: &Declared<'_>, record: &Stored, left: Option<&str>) -> Result<Attempt, Fault> {
        let Declared { path, limits, topic, .. } = declared;
        let (stream, root) = self.name(path.as_str())?;
        let beside = Beside::new(&stream, &root);
        match self.record(&beside.stream).await? {
            Some(beside) if beside.id == record.id => {}
            None if left == Some(&record.id) => self.create_beside(&beside, record, limits.replicas).await?,
            None => return Ok(Attempt::Half(record.id.clone())),
            Some(_) => return Ok(Attempt::Again),
        }
        let (name, config) = dead_consumer(&beside, record);
        self.ensure_consumer(&beside.stream, name, &config).await?;
        if let (_, Some((name, config))) = main_config(&stream, &root, record, limits) {
            self.ensure_consumer(&stream, name, &config).await?;
        }
        if let Some(topic) = topic {
            match Rules::first(self, &beside).await {
                Err(fault) if fault.kind == ErrorKind::AlreadyExists => {}
                written => written?,
            }
            let (_, name) = super::subscription(path)?;
            self.ensure_consumer(&topic.stream, &feed::consumer(name), &feed_config(name)).await?;
        }
        let is_same = self.entity(path).await?.settings.id == record.id;
        Ok(if is_same { Attempt::Done } else { Attempt::Again })
    }

    /// Creates a consumer that does not exist. One that exists is not changed.
    async fn ensure_consumer(&self, stream: &str, name: &str, config: &Json) -> Result<(), Fault> {
        match self.request::<Json>(&format!("CONSUMER.INFO.{stream}.{name}"), &json!({})).await {
            Err(fault) if fault.is_gone() => self.create_consumer(stream, name, config).await,
            found => found.map(drop),
        }
    }

    /// Returns the record in the description of a stream. `None` without the stream.
    async fn record(&self, stream: &str) -> Result<Option<Stored>, Fault> {
        let info = match self.request::<StreamInfo>(&format!("STREAM.INFO.{stream}"), &json!({})).await {
            Err(fault) if fault.is_gone() => return Ok(None),
            info => info?,
        };
        let unreadable =
            |_| Fault::new(ErrorKind::InvalidOperation, format!("{stream} is the stream of another program"));
        serde_json::from_str(&info.config.description).map(Some).map_err(unreadable)
    }
}

impl Declared<'_> {
    fn check(&self, stored: &Stored, duplicate_detection: Option<Duration>) -> Result<(), ManageError> {
        settings(stored, duplicate_detection).check_declared(self.path, &self.settings)
    }
}

/// Returns whether another stream has the name. If another one has a subject, the entity cannot be created.
fn is_taken(fault: &Fault) -> bool {
    fault.kind == ErrorKind::AlreadyExists && fault.code != Some(ErrorCode::STREAM_SUBJECT_OVERLAP)
}
