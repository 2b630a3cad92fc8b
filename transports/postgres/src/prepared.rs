//! Messages for an insert.

use bytes::Bytes;
use consign_core::{
    Message,
    message::random_id::random_uuid_text,
    settlement::DeadLetter,
    time::Timestamp,
    transport::{ErrorKind, SendError},
};
use tokio_postgres::types::Type;

use crate::{
    codec,
    database::{Connection, Parameter},
    failure::Failure,
    schema::Schema,
};

/// A message for an insert.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    pub(crate) properties: String,
    pub(crate) body: Bytes,
    pub(crate) size: i32,
    id: Vec<u8>,
    session: Option<Vec<u8>>,
    pub(crate) at: Option<i64>,
    pub(crate) ttl: Option<i64>,
}

impl Prepared {
    /// Prepares a new message. The facts of its receipt are left out, and so are those of its dead-lettering.
    pub(crate) fn new(message: Message, at: Option<Timestamp>) -> Result<Self, SendError> {
        let mut message = message.without_received();
        if let Some(at) = at {
            message.properties_mut().set_scheduled_enqueue_time(at);
        }
        DeadLetter::remove_from(&mut message);
        message.check()?;
        Self::of(message)
    }

    /// Prepares a message that is forwarded unchanged.
    pub(crate) fn of(mut message: Message) -> Result<Self, SendError> {
        let size = i32::try_from(message.size())
            .map_err(|_| SendError::new(ErrorKind::MessageSizeExceeded).with_detail("a message has less than 2 GiB"))?;
        if message.message_id().is_none() {
            message.properties_mut().stamp_message_id(random_uuid_text())?;
        }
        let codec::Written { properties, body } = codec::write(&message)?;
        let millis = |duration: std::time::Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Ok(Self {
            properties,
            body,
            size,
            id: message.message_id().unwrap_or_default().as_bytes().to_vec(),
            session: message.session_id().map(|id| id.as_bytes().to_vec()),
            // Earlier times have passed, and the server has none before 4713 BC.
            at: message.scheduled_enqueue_time().filter(|at| *at > Timestamp::EPOCH).map(Timestamp::as_millis),
            // Beyond that it never expires.
            ttl: message.time_to_live().map(millis).filter(|&ttl| ttl < Timestamp::MAX.as_millis()),
        })
    }

    /// Removes the scheduled time.
    pub(crate) fn now(mut self) -> Self {
        self.at = None;
        self
    }

    pub(crate) fn into_parts(self) -> (String, Bytes, i32, Option<Vec<u8>>, Option<i64>) {
        (self.properties, self.body, self.size, self.session, self.ttl)
    }
}

/// The origin of a forwarded message.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Origin<'o> {
    pub(crate) number: i64,
    pub(crate) hops: i16,
    pub(crate) source: Option<&'o str>,
}

/// The row of a message that was sent; of a duplicate, that of the scheduled message that it repeats, if there is one.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sent {
    New(i64),
    Duplicate(Option<i64>),
}

/// Inserts messages: all of them, or an error and none. `has_window` is whether the entity may detect duplicates.
pub(crate) async fn insert<C: Connection>(
    client: &C,
    schema: &Schema,
    (entity, has_window): (i64, bool),
    messages: &[&Prepared],
    origin: Origin<'_>,
) -> Result<Vec<Sent>, Failure> {
    let sql =
        format!("SELECT id, ids, firsts FROM {}.send($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)", schema.identifier);
    let properties: Vec<&str> = messages.iter().map(|message| message.properties.as_str()).collect();
    let bodies: Vec<&[u8]> = messages.iter().map(|message| &*message.body).collect();
    let sizes: Vec<i32> = messages.iter().map(|message| message.size).collect();
    let ids = some(messages.iter().map(|message| has_window.then_some(message.id.as_slice())));
    let sessions = some(messages.iter().map(|message| message.session.as_deref()));
    let ats = some(messages.iter().map(|message| message.at));
    let ttls = some(messages.iter().map(|message| message.ttl));
    let parameters: [Parameter<'_>; 11] = [
        (&entity, Type::INT8),
        (&origin.hops, Type::INT2),
        (&origin.number, Type::INT8),
        (&origin.source, Type::TEXT),
        (&properties, Type::TEXT_ARRAY),
        (&bodies, Type::BYTEA_ARRAY),
        (&sizes, Type::INT4_ARRAY),
        (&ids, Type::BYTEA_ARRAY),
        (&sessions, Type::BYTEA_ARRAY),
        (&ats, Type::INT8_ARRAY),
        (&ttls, Type::INT8_ARRAY),
    ];
    let rows = client.rows(&sql, &parameters).await?;
    let Some(row) = rows.first() else { return Ok(Vec::new()) };
    if let Some(first) = row.try_get::<_, Option<i64>>(0)? {
        return Ok((first..).take(messages.len()).map(Sent::New).collect());
    }
    let ids: Option<Vec<Option<i64>>> = row.try_get(1)?;
    let firsts: Option<Vec<Option<i64>>> = row.try_get(2)?;
    let at = |all: &Option<Vec<Option<i64>>>, index: usize| all.as_ref()?.get(index).copied().flatten();
    let sent = (0..messages.len()).map(|index| match at(&ids, index) {
        Some(id) => Sent::New(id),
        None => Sent::Duplicate(at(&firsts, index)),
    });
    Ok(sent.collect())
}

/// Returns the values, if there is one.
fn some<T>(values: impl Iterator<Item = Option<T>>) -> Option<Vec<Option<T>>> {
    let values: Vec<Option<T>> = values.collect();
    values.iter().any(Option::is_some).then_some(values)
}
