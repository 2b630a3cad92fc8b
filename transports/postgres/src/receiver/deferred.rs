//! Deferred messages, which are received by their sequence numbers.

use std::{sync::Arc, time::Duration};

use consign_core::{
    message::SequenceNumber,
    transport::{ErrorKind, ReceiveError},
};
use tokio::time::timeout;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::{Deliveries, Source, deliveries::deliveries};
use crate::{
    Inner,
    chores::{Job, Place},
    database::Parameter,
    failure::Failure,
    row::{COLUMN_COUNT, COLUMNS, instant},
};

/// Locks deferred messages: all of them, or none.
pub(crate) async fn receive_deferred(
    inner: &Arc<Inner>,
    source: &Source,
    numbers: &[SequenceNumber],
) -> Result<Deliveries, ReceiveError> {
    if numbers.is_empty() {
        return Ok(Vec::new());
    }
    let numbers: Vec<i64> = numbers.iter().map(|number| number.get().cast_signed()).collect();
    let places = timeout(inner.database.timeout, inner.chores.places(numbers.len())).await;
    let mut places = places.unwrap_or_default();
    if places.len() < numbers.len() {
        return Err(ReceiveError::new(ErrorKind::Throttled).with_detail("too many deliveries are unsettled"));
    }
    let (holder, lock) = (inner.lock_holder().await, Uuid::new_v4());
    let (session, session_lock) = match &source.session {
        Some((session, lock)) => (Some(session), Some(lock)),
        None => (None, None),
    };
    let sql = inner.sql(&format!(
        "SELECT {COLUMNS}, {{s}}.now() FROM {{s}}.receive_deferred($1, $2, $3, $4, $5, $6, $7) AS delivery"
    ));
    let parameters: [Parameter<'_>; 7] = [
        (&source.entity.id, Type::INT8),
        (&source.part, Type::INT2),
        (&numbers, Type::INT8_ARRAY),
        (&holder, Type::INT4),
        (&lock, Type::UUID),
        (&session, Type::BYTEA),
        (&session_lock, Type::UUID),
    ];
    let (entity, unanswered) = (source.entity.id, source.entity.lock);
    let mut asked = Asked { entity, unanswered, holder, lock, places: &mut places, is_answered: false };
    let answer = inner.database.rows(&sql, &parameters).await;
    asked.is_answered = answer.as_ref().is_ok() || !answer.as_ref().is_err_and(Failure::is_unanswered);
    drop(asked);
    let rows = answer?;
    let unreadable = |error: tokio_postgres::Error| ReceiveError::from(Failure::from(error));
    let now = rows.first().map(|row| instant(row, COLUMN_COUNT)).transpose().map_err(unreadable)?.flatten();
    deliveries(inner, source, Some(lock), (&rows, 0), now, &mut places).await.map_err(unreadable)
}

/// Releases the messages that a call may have locked that was dropped, or whose answer is lost.
struct Asked<'p> {
    entity: i64,
    unanswered: Duration,
    holder: i32,
    lock: Uuid,
    places: &'p mut Vec<Place>,
    is_answered: bool,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if !self.is_answered
            && let Some(place) = self.places.pop()
        {
            let (entity, holder, token, unanswered) = (self.entity, self.holder, self.lock, self.unanswered);
            place.send(Job::ReleaseAll { entity, holder, token, unanswered });
        }
    }
}
