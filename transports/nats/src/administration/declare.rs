//! Declaring an entity: it exists afterwards as a whole, whichever process has created which part of it.
//!
//! A queue and a subscription are two streams with consumers. The one beside it is created first, and its description is the
//! record of the entity. The process that has created it creates the rest, and others wait. If that takes too long, one of them
//! goes on with the record, and creates the same as its creator would. They do not create it together: nats-server 2.9 shows a
//! stream before it is ready, and a consumer that is created by then delivers nothing.

use std::time::Duration;

use consign_core::{
    administration::EntitySettings,
    message::EntityPath,
    transport::{ErrorKind, ManageError},
};
use serde_json::{Value as Json, json};
use tokio::time::{Instant, sleep};

use super::convert::{Own, settings};
use crate::{
    beside::Beside,
    connection::Inner,
    entities::{Entity, StreamInfo, dead_consumer, main_config, own_path, stream_config},
    error::Fault,
    fan_out,
    rules::Stored as Rules,
    settings::{Kind, Limits, Stored},
    topic::feed_config,
};

/// The longest pause while another process creates or deletes the entity.
const PAUSE: Duration = Duration::from_millis(50);
/// How long a process takes at most from one step of a creation or a deletion to the next one. A part of an entity that is older
/// has been left by one that died, or by one that deleted while another created.
const STEP: Duration = Duration::from_millis(250);
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
    /// A part of the entity with this id is missing.
    Incomplete(String),
}

/// Which process has begun to create an entity.
enum Begun {
    /// This one, or it has taken over from another. With the record of the entity.
    Here(Stored),
    Elsewhere(Attempt),
}

impl Inner {
    pub(super) async fn declare(&self, path: &EntityPath, own: &Own) -> Result<(), ManageError> {
        if !matches!(own, Own::Subscription(_)) {
            own_path(path.as_str())?;
        }
        let (started, mut pause) = (Instant::now(), Duration::from_millis(2));
        let mut incomplete: Option<(String, Instant)> = None;
        let mut last = None;
        while started.elapsed() < self.timeout {
            let declared = self.declared(path, own).await?;
            let left = incomplete.as_ref().filter(|(_, since)| since.elapsed() > STEP);
            match self.declare_once(&declared, left.map(|(id, _)| id.as_str())).await {
                Ok(Attempt::Done) => return Ok(()),
                Ok(Attempt::Incomplete(id)) if incomplete.as_ref().is_some_and(|(known, _)| *known == id) => {}
                Ok(Attempt::Incomplete(id)) => incomplete = Some((id, Instant::now())),
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

    /// Declares the entity. If it has the id `left`, what is missing of it is created.
    async fn declare_once(&self, declared: &Declared<'_>, left: Option<&str>) -> Result<Attempt, ManageError> {
        let (record, is_new) = match self.entity(declared.path).await {
            Ok(entity) => {
                declared.check(&entity.settings, entity.duplicate_detection())?;
                (entity.settings, false)
            }
            Err(fault) if fault.kind == ErrorKind::EntityNotFound => match self.begin(declared, left).await? {
                Begun::Here(record) => (record, true),
                Begun::Elsewhere(attempt) => return Ok(attempt),
            },
            Err(fault) => return Err(fault.into()),
        };
        if record.kind == Kind::Topic {
            return Ok(Attempt::Done);
        }
        let completes = is_new || left == Some(&record.id);
        match self.complete(declared, &record, completes).await {
            // It was deleted meanwhile, or its topic was.
            Err(fault) if fault.kind == ErrorKind::EntityNotFound || fault.is_no_responders() => Ok(Attempt::Again),
            completed => Ok(completed?),
        }
    }

    /// Creates the streams of an entity that does not exist.
    async fn begin(&self, declared: &Declared<'_>, left: Option<&str>) -> Result<Begun, ManageError> {
        let Declared { path, stored, limits, .. } = declared;
        let (stream, root) = self.name(path.as_str())?;
        if stored.kind == Kind::Topic {
            let config = stream_config(&stream, &[format!("{root}.m")], "interest", limits, stored);
            return match self.create_stream(&stream, &config).await {
                Err(fault) => self.is_taken(fault, &stream, &root).await,
                Ok(_) => Ok(Begun::Here(stored.clone())),
            };
        }
        let beside = Beside::new(&stream, &root);
        let mut record = stored.clone();
        if let Err(fault) = self.create_beside(&beside, stored, limits.replicas).await {
            record = match self.record(&beside.stream).await? {
                Some(record) if fault.kind == ErrorKind::AlreadyExists => record,
                _ => return self.is_taken(fault, &stream, &root).await,
            };
            let window = record.detects_duplicates.then(|| limits.duplicate_detection.unwrap_or_default());
            declared.check(&record, window)?;
            if left != Some(&record.id) {
                return Ok(Begun::Elsewhere(Attempt::Incomplete(record.id)));
            }
        }
        let (main, _) = main_config(&stream, &root, &record, limits);
        let Err(fault) = self.create_stream(&stream, &main).await else { return Ok(Begun::Here(record)) };
        if record.id == stored.id {
            self.remove_beside(path, &record).await;
        }
        self.is_taken(fault, &stream, &root).await
    }

    /// Checks whether a queue or a subscription has its consumers and its rules, or creates those that are missing.
    async fn complete(&self, declared: &Declared<'_>, record: &Stored, completes: bool) -> Result<Attempt, Fault> {
        let Declared { path, limits, topic, .. } = declared;
        let (stream, root) = self.name(path.as_str())?;
        let beside = Beside::new(&stream, &root);
        let incomplete = || Ok(Attempt::Incomplete(record.id.clone()));
        match self.record(&beside.stream).await? {
            Some(beside) if beside.id == record.id => {}
            Some(_) => return Ok(Attempt::Again),
            None if completes => self.create_beside(&beside, record, limits.replicas).await?,
            None => return incomplete(),
        }
        let (name, config) = dead_consumer(&beside, record);
        if !self.has_consumer(&beside.stream, name, completes.then_some(&config)).await? {
            return incomplete();
        }
        if let (_, Some((name, config))) = main_config(&stream, &root, record, limits)
            && !self.has_consumer(&stream, name, completes.then_some(&config)).await?
        {
            return incomplete();
        }
        if let Some(topic) = topic {
            if completes {
                match Rules::first(self, &beside).await {
                    Err(fault) if fault.kind == ErrorKind::AlreadyExists => {}
                    written => written?,
                }
            }
            let (_, name) = super::subscription(path)?;
            let config = feed_config(name);
            if !self.has_consumer(&topic.stream, &fan_out::consumer(name), completes.then_some(&config)).await? {
                return incomplete();
            }
        }
        // A creator or a deletion may have removed a stream meanwhile.
        let is_same = |found: Option<Stored>| found.is_some_and(|found| found.id == record.id);
        let is_whole = is_same(self.record(&stream).await?) && is_same(self.record(&beside.stream).await?);
        Ok(if is_whole { Attempt::Done } else { Attempt::Again })
    }

    /// Returns whether a consumer exists. With a configuration it is created if it does not.
    async fn has_consumer(&self, stream: &str, name: &str, missing: Option<&Json>) -> Result<bool, Fault> {
        match self.request::<Json>(&format!("CONSUMER.INFO.{stream}.{name}"), &json!({})).await {
            Err(fault) if fault.is_gone() => match missing {
                Some(config) => self.create_consumer(stream, name, config).await.map(|()| true),
                None => Ok(false),
            },
            found => found.map(|_| true),
        }
    }

    /// Returns whether a stream was refused because another process was faster, or else the error. The server reports such a
    /// stream by its name, or by a subject that it has too. A stream of another program may have the subject as well.
    async fn is_taken(&self, fault: Fault, stream: &str, root: &str) -> Result<Begun, ManageError> {
        if fault.kind != ErrorKind::AlreadyExists {
            return Err(fault.into());
        }
        let is_other = self.has_other_stream(stream, root).await?;
        if is_other { Err(fault.of_other_stream().into()) } else { Ok(Begun::Elsewhere(Attempt::Again)) }
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
