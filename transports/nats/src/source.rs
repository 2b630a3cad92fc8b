//! The source of messages: a consumer of a stream, and the stream beside it.

use std::sync::Arc;

use consign_core::transport::{EntityInfo, ErrorKind};

use crate::{connection::Inner, error::Fault, fan_out::FanOut, session::SessionLock, settings::Stored, wire};

/// A consumer that messages are pulled from.
pub(crate) struct Source {
    pub(crate) inner: Arc<Inner>,
    pub(crate) settings: Stored,
    pub(crate) stream: String,
    pub(crate) consumer: String,
    /// The subjects of the entity's messages in its stream.
    pub(crate) subjects: String,
    pub(crate) beside: Beside,
    pub(crate) place: Place,
    /// The fan-out of a subscription.
    pub(crate) fan_out: Option<FanOut>,
}

/// Which messages of an entity.
#[derive(Clone)]
pub(crate) enum Place {
    /// Those that can be received.
    Main,
    /// Dead letters.
    DeadLetter,
    /// The one that was deferred under this number.
    Deferred(u64),
    /// Those of a session that is held.
    Session(Arc<SessionLock>),
}

/// The stream beside an entity: dead letters, deferred messages, notes and sessions.
#[derive(Clone)]
pub(crate) struct Beside {
    pub(crate) stream: String,
    base: String,
    /// As `base`, unless the numbers of the entity may begin again with another stream of its name.
    root: String,
    incarnation: Option<String>,
}

impl Beside {
    pub(crate) fn new(stream: &str, root: &str) -> Self {
        let base = format!("{root}.x");
        Self { stream: format!("{stream}_x"), root: base.clone(), base, incarnation: None }
    }

    /// Returns the stream beside one that another client may delete and create again. Each of these has records of its own.
    pub(crate) fn of_incarnation(stream: &str, root: &str, incarnation: &str) -> Self {
        let beside = Self::new(stream, root);
        Self { root: format!("{}.{incarnation}", beside.base), incarnation: Some(incarnation.into()), ..beside }
    }

    /// Returns the id under which a dead letter is stored, once.
    pub(crate) fn dead_id(&self, number: u64) -> String {
        match &self.incarnation {
            Some(incarnation) => format!("dead-{incarnation}-{number}"),
            None => format!("dead-{number}"),
        }
    }

    pub(crate) fn root(&self) -> &str {
        &self.root
    }

    pub(crate) fn subjects(&self) -> String {
        format!("{}.>", self.base)
    }

    pub(crate) fn dead(&self, number: u64) -> String {
        match &self.incarnation {
            Some(incarnation) => format!("{}.dead.{incarnation}-{number}", self.base),
            None => format!("{}.dead.{number}", self.base),
        }
    }

    /// Returns the subject of all dead letters, those of former streams too.
    pub(crate) fn any_dead(&self) -> String {
        format!("{}.dead.*", self.base)
    }

    pub(crate) fn deferred(&self, number: impl std::fmt::Display) -> String {
        format!("{}.deferred.{number}", self.root)
    }

    pub(crate) fn rules(&self) -> String {
        format!("{}.rules", self.root)
    }

    pub(crate) fn clock(&self) -> String {
        format!("{}.clock", self.root)
    }

    pub(crate) fn session(&self, id: &str) -> String {
        format!("{}.session.{}", self.root, wire::token(id))
    }

    pub(crate) fn any_session(&self) -> String {
        format!("{}.session.*", self.root)
    }

    pub(crate) fn note(&self, place: &Place, number: impl std::fmt::Display) -> String {
        let root = &self.root;
        match place {
            Place::Main => format!("{root}.mark.main.{number}"),
            Place::DeadLetter => format!("{root}.mark.dead.{number}"),
            Place::Deferred(_) => format!("{root}.mark.deferred.{number}"),
            Place::Session(session_lock) => format!("{root}.mark.of.{}.{number}", wire::token(session_lock.id())),
        }
    }

    pub(crate) fn mark_of_session(&self, id: &str, number: impl std::fmt::Display) -> String {
        format!("{}.mark.of.{}.{number}", self.root, wire::token(id))
    }
}

impl Source {
    /// Returns why the consumer has no responder: either it is deleted, or the server does not serve yet.
    pub(crate) async fn why_nobody_answers(&self) -> Fault {
        let subject = format!("CONSUMER.INFO.{}.{}", self.stream, self.consumer);
        match self.inner.request::<serde_json::Value>(&subject, &serde_json::json!({})).await {
            Err(fault) if fault.is_gone() => match self.session_lock() {
                Some(_) => Fault::new(ErrorKind::SessionLockLost, "another receiver has the session"),
                None => fault,
            },
            _ => Fault::new(ErrorKind::ServiceBusy, "JetStream does not answer yet"),
        }
    }

    /// Waits until a subscription has its earlier messages.
    pub(crate) async fn catch_up(&self) -> Result<(), Fault> {
        match &self.fan_out {
            Some(fan_out) => fan_out.catch_up().await,
            None => Ok(()),
        }
    }

    /// Returns the subject of requests for messages, without the prefix.
    pub(crate) fn next(&self) -> String {
        format!("CONSUMER.MSG.NEXT.{}.{}", self.stream, self.consumer)
    }

    /// Returns the subject of the messages of a session.
    pub(crate) fn session_subject(&self, id: &str) -> String {
        format!("{}.{}", self.subjects.trim_end_matches(".*"), wire::token(id))
    }

    pub(crate) fn is_dead_letter(&self) -> bool {
        matches!(self.place, Place::DeadLetter)
    }

    /// Returns the entity for log lines. No number of deliveries of a dead letter is the last.
    pub(crate) fn info(&self) -> EntityInfo {
        let path = &self.settings.path;
        if self.is_dead_letter() {
            return EntityInfo::new(format!("{path}/$deadletterqueue"));
        }
        EntityInfo::new(path.as_str()).with_max_delivery_count(self.settings.max_delivery_count)
    }

    pub(crate) fn session_lock(&self) -> Option<&Arc<SessionLock>> {
        match &self.place {
            Place::Session(session_lock) => Some(session_lock),
            _ => None,
        }
    }

    /// Returns another consumer of the same entity.
    pub(crate) fn at(&self, stream: String, consumer: String, place: Place) -> Arc<Self> {
        Arc::new(Self {
            inner: Arc::clone(&self.inner),
            settings: self.settings.clone(),
            stream,
            consumer,
            subjects: self.subjects.clone(),
            beside: self.beside.clone(),
            place,
            fan_out: self.fan_out.clone(),
        })
    }
}
