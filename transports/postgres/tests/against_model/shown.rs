//! What can be seen of a message.

use std::collections::BTreeMap;

use consign::{
    Message,
    message::{MessageState, PropertyValue},
    time::Timestamp,
};

use crate::model::{Part, Place, Stored};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Shown {
    pub(crate) sequence: u64,
    enqueued: i64,
    expires_at: i64,
    state: MessageState,
    dead: bool,
    deliveries: u32,
    pub(crate) locked_until: Option<i64>,
    body: String,
    /// `None` if the transport made it up.
    id: Option<String>,
    session: Option<String>,
    subject: Option<String>,
    ttl: Option<u64>,
    at: Option<i64>,
    application: BTreeMap<String, String>,
}

fn value(value: &PropertyValue) -> String {
    value.as_str().map_or_else(|| format!("{value:?}"), str::to_owned)
}

impl Shown {
    pub(crate) fn of_message(message: &Message) -> Self {
        let facts = message.received().unwrap();
        let text = |text: Option<&str>| text.map(str::to_owned);
        Self {
            sequence: facts.sequence_number.get(),
            enqueued: facts.enqueued_time.as_millis(),
            expires_at: facts.expires_at.as_millis(),
            state: facts.state,
            dead: facts.dead_lettered,
            deliveries: facts.delivery_count,
            locked_until: facts.locked_until.map(Timestamp::as_millis),
            body: std::str::from_utf8(message.payload().unwrap()).unwrap().to_owned(),
            id: text(message.message_id()).filter(|_| !message.is_message_id_stamped()),
            session: text(message.session_id()),
            subject: text(message.subject()),
            ttl: message.time_to_live().map(|ttl| u64::try_from(ttl.as_millis()).unwrap()),
            at: message.scheduled_enqueue_time().map(Timestamp::as_millis),
            application: message
                .application_properties()
                .iter()
                .map(|(key, its)| (key.to_owned(), value(its)))
                .collect(),
        }
    }

    pub(crate) fn of_model(stored: &Stored, deliveries: u32) -> Self {
        let content = stored.content.clone();
        Self {
            sequence: stored.sequence,
            enqueued: stored.enqueued,
            expires_at: stored.expires_at.unwrap_or(Timestamp::MAX.as_millis()),
            state: match stored.place {
                Place::Ready | Place::Locked => MessageState::Active,
                Place::Deferred | Place::DeferredLocked => MessageState::Deferred,
                Place::Scheduled => MessageState::Scheduled,
            },
            dead: stored.part != Part::Main,
            deliveries,
            locked_until: None,
            body: content.body,
            id: content.id,
            session: content.session,
            subject: content.subject,
            ttl: content.ttl,
            at: content.at,
            application: content.application.into_iter().map(|(key, its)| (key, value(&its))).collect(),
        }
    }

    /// As a message is delivered, whatever its state.
    pub(crate) fn delivered(mut self) -> Self {
        self.state = MessageState::Active;
        self
    }
}
