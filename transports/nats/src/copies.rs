//! The copies of a message of a topic for a subscription, and how they are stored there.

use async_nats::HeaderMap;
use bytes::Bytes;
use consign_core::{
    Message,
    settlement::{DeadLetter, DeadLetterReason},
};
use consign_rules::{Copies, RuleSet};

use crate::{
    beside::Beside,
    connection::Inner,
    dead_letter::{self, ROOM_FOR_REASON},
    error::Fault,
    read::{self, Facts, Origin},
    settings::Stored,
    wire::{self, name},
};

/// The place of a subscription.
pub(crate) struct Target {
    pub(crate) stream: String,
    pub(crate) root: String,
    pub(crate) beside: Beside,
    pub(crate) settings: Stored,
    /// The largest message that the server takes.
    pub(crate) max_payload: usize,
}

/// A copy for the subscription. Its id is the same in every process, so it is stored once however often it is made.
pub(crate) struct Copy {
    /// `None` if it does not fit.
    id: Option<String>,
    place: Place,
    headers: HeaderMap,
    payload: Bytes,
}

enum Place {
    At(String),
    DeadLetters,
}

/// Returns the subject where a dead letter that was never received gets its number: no consumer reads it.
pub(crate) fn numbered(root: &str) -> String {
    format!("{root}.n")
}

impl Target {
    /// Returns the copies of one message, in their order.
    pub(crate) fn copies_of(
        &self,
        rules: &RuleSet,
        message: &async_nats::Message,
        facts: Facts,
        topic: &str,
    ) -> Vec<Copy> {
        let headers = message.headers.as_ref();
        let read = read::read(Origin::Itself, headers, message.payload.clone(), facts.number, facts.stored, topic);
        let original = Original { target: self, message, facts, id: read.message.message_id().unwrap_or_default() };
        if let Some(malformed) = &read.malformed {
            return vec![original.dead("", &read.message, malformed.why())];
        }
        let copies = match rules.evaluate(&read.message) {
            Ok(copies) => copies,
            Err(failure) if self.settings.dead_letter_on_filter_error => {
                let reason = DeadLetterReason::Application(failure.reason().into());
                return vec![original.dead("", &read.message, DeadLetter::new(reason, failure.to_string()))];
            }
            Err(failure) => failure.into_copies(),
        };
        let plain = copies.plain.then(|| original.plain(&read.message));
        plain.into_iter().chain(copies.changed.iter().map(|changed| original.changed(changed))).collect()
    }

    fn subject(&self, message: &Message) -> Option<String> {
        match message.session_id() {
            Some(id) if self.settings.requires_session => Some(format!("{}.s.{}", self.root, wire::token(id))),
            None if self.settings.requires_session => None,
            _ => Some(format!("{}.m", self.root)),
        }
    }

    /// Stores a copy, unless it was stored before.
    pub(crate) async fn store(&self, inner: &Inner, copy: Copy) -> Result<(), Fault> {
        let Copy { id, place, mut headers, payload } = copy;
        let mut of_number = HeaderMap::new();
        if let Some(id) = id {
            of_number.insert(async_nats::header::NATS_MESSAGE_ID, &*id);
            headers.insert(async_nats::header::NATS_MESSAGE_ID, id);
        }
        match place {
            Place::At(subject) => {
                inner.publish(&subject, headers, payload).await?;
            }
            Place::DeadLetters => {
                let number = inner.publish(&numbered(&self.root), of_number, Bytes::new()).await?.seq;
                headers.insert(name::SEQUENCE_NUMBER, number.to_string());
                inner.publish(&self.beside.dead(number), headers, payload).await?;
                inner.remove(&self.stream, number).await?;
            }
        }
        Ok(())
    }
}

struct Original<'a> {
    target: &'a Target,
    message: &'a async_nats::Message,
    facts: Facts,
    /// The MessageId of all copies.
    id: &'a str,
}

impl Original<'_> {
    fn copy(&self, rule: &str, place: Place, mut headers: HeaderMap, payload: Bytes) -> Copy {
        headers.insert(name::ENQUEUED_TIME, self.facts.stored.as_millis().to_string());
        let topic = self.target.settings.topic.as_deref().unwrap_or_default();
        let id = format!("{topic}-{}{rule}", self.facts.number);
        let size = wire::size(&headers) + id.len() + wire::ROOM_FOR_OWN;
        if size > wire::MAX_HEADERS || size + payload.len() > self.target.max_payload {
            // A message of another client is at the size limit. Unchanged it fits.
            return Copy { id: None, place, headers: self.kept(), payload: self.message.payload.clone() };
        }
        Copy { id: Some(id), place, headers, payload }
    }

    fn kept(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        // Facts of an original that another client has written are not those of this one.
        let facts = [name::SEQUENCE_NUMBER, name::ENQUEUED_TIME, name::DELIVERY_COUNT];
        wire::keep(self.message.headers.as_ref(), &mut headers, |name| {
            !facts.iter().any(|fact| AsRef::<str>::as_ref(fact) == name)
        });
        headers
    }

    fn foreign(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        wire::foreign(self.message.headers.as_ref(), &mut headers);
        headers
    }

    fn plain(&self, message: &Message) -> Copy {
        let Some(subject) = self.target.subject(message) else { return self.without_session("", message) };
        let mut headers = self.kept();
        // `Nats-Msg-Id` is that of the copy.
        if headers.get(name::MESSAGE_ID).is_none() {
            headers.insert(name::MESSAGE_ID, &*wire::escape(self.id));
            // An id that the sender has not set.
            if message.is_message_id_stamped() {
                headers.insert(name::MESSAGE_ID_STAMPED, "1");
            }
        }
        self.copy("", Place::At(subject), headers, self.message.payload.clone())
    }

    fn changed(&self, message: &Message) -> Copy {
        let rule =
            message.application_properties().get(Copies::RULE_NAME).and_then(|name| name.as_str()).unwrap_or_default();
        let id = format!("-{}", wire::token(rule));
        let Some(subject) = self.target.subject(message) else { return self.without_session(&id, message) };
        let Ok((headers, payload)) = wire::encode_copy(message, &self.foreign()) else {
            let why = format!("the rule {rule:?} sets a value has a type that this transport does not support");
            let reason = DeadLetterReason::Application("RuleActionException".into());
            return self.dead(&id, message, DeadLetter::new(reason, why));
        };
        let max = self.max();
        let size = wire::size(&headers);
        if size + wire::ROOM_FOR_OWN > wire::MAX_HEADERS || size + payload.len() > max {
            let most = wire::MAX_HEADERS;
            let why = format!("the copy of the rule {rule:?} would exceed {max} bytes, or {most} bytes of headers");
            return self.dead(&id, message, DeadLetter::new(DeadLetterReason::HeaderSizeExceeded, why));
        }
        self.copy(&id, Place::At(subject), headers, payload)
    }

    fn without_session(&self, rule: &str, message: &Message) -> Copy {
        let why = "the subscription takes only messages with a session";
        self.dead(rule, message, DeadLetter::new(DeadLetterReason::SessionIdIsNull, why))
    }

    fn dead(&self, rule: &str, message: &Message, mut dead_letter: DeadLetter) -> Copy {
        dead_letter.fit(message.properties());
        let encoded = dead_letter::encode(message, &dead_letter, &self.foreign(), self.target.max_payload).ok();
        // A value may have a type that this transport does not support.
        let (headers, payload) = encoded.unwrap_or_else(|| (self.kept(), self.message.payload.clone()));
        self.copy(&format!("-dead{rule}"), Place::DeadLetters, headers, payload)
    }

    fn max(&self) -> usize {
        let max = self.target.max_payload;
        max.saturating_sub(ROOM_FOR_REASON.min(max / 8))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use consign_core::time::Timestamp;

    use super::*;
    use crate::settings::Kind;

    /// Returns what a subscription reads of the copy of a message with these headers.
    fn copied(headers: HeaderMap) -> Message {
        let target = Target {
            stream: "s".into(),
            root: "r".into(),
            beside: Beside::new("s", "r"),
            settings: Stored::new(Kind::Subscription, "prices/Subscriptions/all", Duration::from_secs(30), 10, false),
            max_payload: 1 << 20,
        };
        let facts = Facts { deliveries: 1, number: 7, delivered: 1, stored: Timestamp::from_millis(1) };
        let message = async_nats::Message {
            subject: "prices".into(),
            reply: None,
            payload: Bytes::from_static(b"a"),
            headers: Some(headers),
            status: None,
            description: None,
            length: 0,
        };
        let copies = target.copies_of(&RuleSet::default(), &message, facts, "prices");
        let [copy] = copies.try_into().ok().expect("one copy");
        wire::decode(Some(&copy.headers), copy.payload).expect("a message")
    }

    #[test]
    fn a_copy_has_the_mark_of_a_made_message_id() {
        let made = copied(HeaderMap::new());
        assert_eq!((made.message_id(), made.is_message_id_stamped()), (Some("prices-7"), true));
        let mut headers = HeaderMap::new();
        headers.insert(async_nats::header::NATS_MESSAGE_ID, "own");
        let own = copied(headers);
        assert_eq!((own.message_id(), own.is_message_id_stamped()), (Some("own"), false));
    }
}
