//! The source of messages: a consumer of a stream.

use std::sync::Arc;

use consign_core::transport::{EntityInfo, ErrorKind};
use tokio::time::Instant;

use crate::{
    beside::Beside,
    connection::Inner,
    error::Fault,
    fan_out::FanOut,
    message_notes::Note,
    read::Origin,
    request_limits::RequestLimits,
    session_lock::SessionLock,
    settings::{Kind, Stored},
    wire,
};

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
    /// Whether the stream is that of another program, whose subjects have a meaning for its messages.
    pub(crate) is_wrapped: bool,
    pub(crate) request_limits: RequestLimits,
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

impl Place {
    /// Returns the subject of the note of a message.
    pub(crate) fn note(&self, beside: &Beside, number: impl std::fmt::Display) -> String {
        let root = beside.root();
        match self {
            Self::Main => format!("{root}.mark.main.{number}"),
            Self::DeadLetter => format!("{root}.mark.dead.{number}"),
            Self::Deferred(_) => format!("{root}.mark.deferred.{number}"),
            Self::Session(session_lock) => beside.mark_of_session(session_lock.id(), number),
        }
    }
}

impl Source {
    /// Returns why the consumer has no responder: either it is deleted, or the server does not serve yet.
    pub(crate) async fn why_no_answer(&self) -> Fault {
        let subject = format!("CONSUMER.INFO.{}.{}", self.stream, self.consumer);
        match self.inner.request::<serde_json::Value>(&subject, &serde_json::json!({})).await {
            Err(fault) if fault.is_gone() => match self.session_lock() {
                Some(_) => Fault::new(ErrorKind::SessionLockLost, "another receiver has the session"),
                None => fault,
            },
            _ => Fault::new(ErrorKind::ServiceBusy, "JetStream does not answer yet"),
        }
    }

    /// Returns an error if a request for messages of `asked_at` that has no answer can have none: the consumer is deleted, or the
    /// user may not request. Without a known cause, only if the previous request had no answer either.
    pub(crate) async fn why_request_is_lost(&self, asked_at: Instant, is_repeated: bool) -> Result<(), Fault> {
        let next = self.next();
        if let Some(refused) = self.inner.refusals.of(&next, asked_at) {
            return Err(refused);
        }
        let fault = self.why_no_answer().await;
        if fault.kind != ErrorKind::ServiceBusy {
            return Err(fault);
        }
        if !is_repeated {
            return Ok(());
        }
        let why = format!("requests for messages have no answer: is the user permitted to publish to …{next}?");
        Err(Fault::new(ErrorKind::ServiceBusy, why))
    }

    /// Waits until a subscription has its earlier messages.
    pub(crate) async fn catch_up(&self) -> Result<(), Fault> {
        match &self.fan_out {
            Some(fan_out) => fan_out.catch_up().await,
            None => Ok(()),
        }
    }

    /// Reads the note of a message, if it has one.
    pub(crate) async fn note(&self, number: u64) -> Result<Option<Note>, Fault> {
        let subject = self.place.note(&self.beside, number);
        let found = self.inner.last_at(&self.beside.stream, &subject).await?;
        Ok(found.map(|found| Note::read(&found.headers, &found.payload, found.sequence)))
    }

    /// Stores the note of a message in place of the previous one.
    pub(crate) async fn store_note(&self, note: &mut Note, number: u64) -> Result<(), Fault> {
        note.store(&self.inner, &self.place.note(&self.beside, number)).await
    }

    /// Returns the names of the stream and the consumer.
    pub(crate) fn names(&self) -> (&str, &str) {
        (&self.stream, &self.consumer)
    }

    /// Returns the subject of requests for messages, without the prefix.
    pub(crate) fn next(&self) -> String {
        format!("CONSUMER.MSG.NEXT.{}.{}", self.stream, self.consumer)
    }

    /// Returns the subject of the messages of a session.
    pub(crate) fn session_subject(&self, id: &str) -> String {
        format!("{}.{}", self.subjects.trim_end_matches(".*"), wire::token(id))
    }

    /// Returns which facts of its original the message at this subject has in headers.
    pub(crate) fn origin<'a>(&self, subject: &'a str) -> Origin<'a> {
        match self.place {
            Place::DeadLetter | Place::Deferred(_) => Origin::Beside,
            Place::Main | Place::Session(_) if self.is_wrapped => Origin::Subject(subject),
            Place::Main | Place::Session(_) if self.settings.kind == Kind::Subscription => Origin::Topic,
            Place::Main | Place::Session(_) => Origin::Itself,
        }
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
        EntityInfo::new(path.as_str()).max_delivery_count(self.settings.max_delivery_count)
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
            is_wrapped: self.is_wrapped,
            // The consumer is one of this transport.
            request_limits: RequestLimits::NONE,
        })
    }
}
