//! Peeks messages, in an entity or a session.

use std::sync::Arc;

use consign_core::{Message, message::SequenceNumber, settlement::DeadLetterReason, transport::ReceiveError};
use tokio_postgres::types::Type;

use crate::{
    Inner,
    database::Parameter,
    failure::Failure,
    row::{COLUMNS, Stored},
};

/// Returns up to `max` messages from sequence number `from` on, of a session if one is given, and then forwards those that leave.
/// A row whose properties cannot be read is a message without them.
pub(crate) async fn peek(
    inner: &Arc<Inner>,
    entity: i64,
    part: i16,
    from: SequenceNumber,
    max: usize,
    session: Option<&Vec<u8>>,
) -> Result<Vec<Message>, ReceiveError> {
    let (from, max) = (i64::try_from(from.get()).unwrap_or(i64::MAX), i64::try_from(max).unwrap_or(i64::MAX));
    let sql = inner.sql(&format!("SELECT leaving, more, {COLUMNS} FROM {{s}}.peek($1, $2, $3, $4, $5)"));
    let parameters: [Parameter<'_>; 5] =
        [(&entity, Type::INT8), (&part, Type::INT2), (&from, Type::INT8), (&max, Type::INT8), (&session, Type::BYTEA)];
    let mut is_leaving = false;
    let rows = loop {
        let mut rows = inner.database.rows(&sql, &parameters).await?.into_iter();
        let Some(first) = rows.next() else { return Ok(Vec::new()) };
        is_leaving |= first.try_get::<_, bool>(0).map_err(Failure::from)?;
        // Matching messages may have no number yet.
        let is_more: bool = first.try_get(1).map_err(Failure::from)?;
        if !is_more || i64::try_from(rows.len()).is_ok_and(|count| count >= max) {
            break rows;
        }
    };
    let mut messages = Vec::with_capacity(rows.len());
    for row in rows {
        let stored = Stored::read(&row, 2, false).map_err(Failure::from)?;
        // One that cannot be read hides no other.
        let message = stored.message.or_else(|_| Stored::bare(&row, 2));
        messages.push(with_last_failure(message.map_err(Failure::from)?));
    }
    if is_leaving {
        crate::pump::try_pump(inner, entity).await;
    }
    Ok(messages)
}

/// Counts the delivery that dead-lettered a message, if it was the last one and so has failed. Its row has those before it.
fn with_last_failure(message: Message) -> Message {
    let is_last = message.dead_letter_reason() == DeadLetterReason::MaxDeliveryCountExceeded.code();
    match message.received() {
        Some(received) if received.dead_lettered && is_last => {
            let mut received = *received;
            received.delivery_count = received.delivery_count.saturating_add(1);
            message.with_received(received)
        }
        _ => message,
    }
}
