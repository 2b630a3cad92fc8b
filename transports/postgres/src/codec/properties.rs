use std::{borrow::Cow, collections::BTreeMap, time::Duration};

use bytes::Bytes;
use consign_core::{
    message::{PassThrough, Properties, PropertyValue, Value},
    time::Timestamp,
    wire::{
        self,
        json::{As, Tagged},
    },
};
use serde::{Deserialize, Serialize};

use super::{Unreadable, Unwritable, any, body::Shape};

type Text<'a> = Option<Cow<'a, str>>;
type Simple<'a> = As<Tagged, Cow<'a, PropertyValue>>;
type Any<'a> = As<Tagged, Cow<'a, Value>>;

/// The properties of a message in JSON. The names are those of the model, in snake case. Defaults are left out.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Head<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    message_id: Text<'a>,
    /// Whether the id was made here, because the sender set none.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    message_id_stamped: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Text<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    correlation_id: Text<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Text<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reply_to: Text<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Text<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_to_live_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reply_to_session_id: Text<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    partition_key: Text<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    transaction_partition_key: Text<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Text<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scheduled_enqueue_time: Option<i64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    application: BTreeMap<Cow<'a, str>, Simple<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rest: Option<Box<Rest<'a>>>,
    #[serde(skip_serializing_if = "Shape::is_bytes")]
    body: Shape,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Rest<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    user_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_encoding: Text<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group_sequence: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    creation_time: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    durable: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_acquirer: Option<bool>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    force_persistence: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    annotations: Vec<(Cow<'a, str>, Any<'a>)>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    footer: Vec<(Cow<'a, str>, Any<'a>)>,
}

pub(super) fn write(properties: &Properties, body: Shape) -> Result<String, Unwritable> {
    let ttl = properties.time_to_live().map(|ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
    let application = properties.application_properties().iter();
    let application = application.map(|(key, value)| (Cow::Borrowed(key), Simple::new(Cow::Borrowed(value))));
    let head = Head {
        message_id: properties.message_id().map(Cow::Borrowed),
        message_id_stamped: properties.is_message_id_stamped(),
        content_type: properties.content_type().map(Cow::Borrowed),
        correlation_id: properties.correlation_id().map(Cow::Borrowed),
        subject: properties.subject().map(Cow::Borrowed),
        reply_to: properties.reply_to().map(Cow::Borrowed),
        session_id: properties.session_id().map(Cow::Borrowed),
        time_to_live_ms: ttl,
        reply_to_session_id: properties.reply_to_session_id().map(Cow::Borrowed),
        partition_key: properties.partition_key().map(Cow::Borrowed),
        transaction_partition_key: properties.transaction_partition_key().map(Cow::Borrowed),
        to: properties.to().map(Cow::Borrowed),
        scheduled_enqueue_time: properties.scheduled_enqueue_time().map(Timestamp::as_millis),
        application: application.collect(),
        rest: properties.pass_through().map(Rest::of).transpose()?.map(Box::new),
        body,
    };
    // All of it has a form in JSON.
    serde_json::to_string(&head).map_err(|_| Unwritable::UnknownType)
}

pub(super) fn read(json: &str) -> Result<(Properties, Shape), Unreadable> {
    let head: Head<'_> = serde_json::from_str(json)?;
    let mut properties = Properties::new();
    let owned = |text: Cow<'_, str>| Cow::<'static, str>::Owned(text.into_owned());
    macro_rules! free {
        ($($name:ident => $set:ident),*) => {$(
            if let Some(value) = head.$name {
                properties.$set(owned(value));
            }
        )*};
    }
    macro_rules! checked {
        ($($name:ident => $set:ident),*) => {$(
            if let Some(value) = head.$name {
                properties.$set(owned(value))?;
            }
        )*};
    }
    free!(content_type => set_content_type, correlation_id => set_correlation_id, subject => set_subject,
        reply_to => set_reply_to, to => set_to);
    match head.message_id {
        Some(id) if head.message_id_stamped => drop(properties.stamp_message_id(owned(id))?),
        Some(id) => drop(properties.set_message_id(owned(id))?),
        None => {}
    }
    checked!(session_id => set_session_id, partition_key => set_partition_key,
        reply_to_session_id => set_reply_to_session_id, transaction_partition_key => set_transaction_partition_key);
    if let Some(ttl) = head.time_to_live_ms {
        properties.set_time_to_live(Duration::from_millis(ttl))?;
    }
    if let Some(at) = head.scheduled_enqueue_time {
        properties.set_scheduled_enqueue_time(Timestamp::from_millis(at));
    }
    for (key, value) in head.application {
        properties.application_properties_mut().insert(key.as_ref(), value.into_inner().into_owned());
    }
    if let Some(rest) = head.rest {
        rest.write_to(properties.pass_through_mut())?;
    }
    Ok((properties, head.body))
}

impl<'a> Rest<'a> {
    fn of(rest: &'a PassThrough) -> Result<Self, Unwritable> {
        let pairs = |pairs: &'a [(Cow<'static, str>, consign_core::message::Value)]| {
            let pairs = pairs.iter().map(|(key, value)| Ok((Cow::Borrowed(key.as_ref()), any(value)?)));
            pairs.collect::<Result<Vec<_>, Unwritable>>()
        };
        Ok(Self {
            user_id: rest.user_id.as_deref().map(wire::hex),
            content_encoding: rest.content_encoding.as_deref().map(Cow::Borrowed),
            group_sequence: rest.group_sequence,
            creation_time: rest.creation_time.map(Timestamp::as_millis),
            durable: rest.durable,
            priority: rest.priority,
            first_acquirer: rest.first_acquirer,
            force_persistence: rest.force_persistence,
            annotations: pairs(&rest.annotations)?,
            footer: pairs(&rest.footer)?,
        })
    }

    fn write_to(self, rest: &mut PassThrough) -> Result<(), Unreadable> {
        let pairs = |pairs: Vec<(Cow<'a, str>, Any<'a>)>| {
            let pairs = pairs.into_iter();
            pairs.map(|(key, value)| (Cow::Owned(key.into_owned()), value.into_inner().into_owned())).collect()
        };
        rest.user_id = self.user_id.as_deref().map(bytes).transpose()?;
        rest.content_encoding = self.content_encoding.map(|text| Cow::Owned(text.into_owned()));
        rest.group_sequence = self.group_sequence;
        rest.creation_time = self.creation_time.map(Timestamp::from_millis);
        rest.durable = self.durable;
        rest.priority = self.priority;
        rest.first_acquirer = self.first_acquirer;
        rest.force_persistence = self.force_persistence;
        rest.annotations = pairs(self.annotations);
        rest.footer = pairs(self.footer);
        Ok(())
    }
}

fn bytes(digits: &str) -> Result<Bytes, Unreadable> {
    wire::from_hex(digits).map(Bytes::from).ok_or(Unreadable::Hexadecimal)
}
