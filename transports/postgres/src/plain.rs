//! Sends that take the common path, as one statement without a function.

use std::ops::RangeInclusive;

use tokio_postgres::types::Type;

use crate::{
    Inner,
    database::{Parameter, Pooled},
    entity::Entity,
    failure::Failure,
    prepared::Prepared,
};

/// What the function `send` does for such messages. The call of a function in PL/pgSQL costs a send of one message more than the
/// rest does. It has no effect on an entity that does not accept them, or not by this path.
const SEND: &str = "
    WITH entity AS MATERIALIZED (
        SELECT e.id, {s}.next_id() AS first, {s}.now() AS enqueued, least($4, e.ttl_ms) AS ttl_ms FROM {s}.entities AS e
        WHERE e.id = $1 AND e.status NOT IN (1, 3) AND {s}.is_plain(e) AND e.window_ms IS NULL AND e.max_message_size >= $3
    ), batch AS (
        INSERT INTO {s}.batches (entity, id, count, size, due)
        SELECT id, first, $2, $3, coalesce(enqueued + ttl_ms * interval '1 millisecond', 'infinity') FROM entity
    )
    INSERT INTO {s}.plain (id, enqueued, size, ttl_ms, properties, body) ";

/// The rows of several messages, and the row of one, which needs no sets: they cost a seventh of the statement.
const SEVERAL: &str =
    "SELECT generate_series(first, first + $2 - 1), enqueued, unnest($5), ttl_ms, unnest($6), unnest($7) FROM entity";
const ONE: &str = "SELECT first, enqueued, $3, ttl_ms, $5, $6 FROM entity";

/// How many messages an id of `batches` may be that of.
const COUNTS: RangeInclusive<usize> = 1..=1_024;

/// Sends messages: all of them, or an error and none. `false` if they do not take the common path, and none is sent.
pub(crate) async fn send(
    client: &Pooled<'_>,
    inner: &Inner,
    entity: &Entity,
    messages: &[&Prepared],
) -> Result<bool, Failure> {
    let Some(first) = messages.first() else { return Ok(false) };
    let is_plain = |message: &&Prepared| message.at.is_none() && message.ttl == first.ttl;
    if entity.has_window
        || entity.requires_session
        || entity.forwards
        || !COUNTS.contains(&messages.len())
        || !messages.iter().all(is_plain)
    {
        return Ok(false);
    }
    let count = i32::try_from(messages.len()).unwrap_or(i32::MAX);
    let send = |rows| inner.sql(&[SEND, rows].concat());
    let stored = if let [message] = messages {
        let parameters: [Parameter<'_>; 6] = [
            (&entity.id, Type::INT8),
            (&count, Type::INT4),
            (&message.size, Type::INT4),
            (&message.ttl, Type::INT8),
            (&message.properties, Type::TEXT),
            (&&*message.body, Type::BYTEA),
        ];
        client.execute_prepared(&send(ONE), &parameters).await?
    } else {
        let sizes: Vec<i32> = messages.iter().map(|message| message.size).collect();
        let largest = sizes.iter().copied().fold(first.size, i32::max);
        let properties: Vec<&str> = messages.iter().map(|message| message.properties.as_str()).collect();
        let bodies: Vec<&[u8]> = messages.iter().map(|message| &*message.body).collect();
        let parameters: [Parameter<'_>; 7] = [
            (&entity.id, Type::INT8),
            (&count, Type::INT4),
            (&largest, Type::INT4),
            (&first.ttl, Type::INT8),
            (&sizes, Type::INT4_ARRAY),
            (&properties, Type::TEXT_ARRAY),
            (&bodies, Type::BYTEA_ARRAY),
        ];
        client.execute_prepared(&send(SEVERAL), &parameters).await?
    };
    Ok(stored.is_some_and(|stored| stored > 0))
}
