//! The statement that locks messages.

use std::{sync::Arc, time::Duration};

use consign_core::{message::random_id::random_uuid, transport::ReceiveError};
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::{Deliveries, Source, deliveries::deliveries, until_due};
use crate::{
    Inner,
    chores::{Job, Place},
    database::Parameter,
    failure::Failure,
    row::instant,
};

/// A receive of this many bytes takes no further message.
const BATCH_BYTES: i64 = 16 << 20;

/// The result of one statement.
pub(super) struct Fetched {
    pub(super) deliveries: Deliveries,
    /// When something becomes due.
    pub(super) wait: Option<Duration>,
    /// Whether it is to be repeated at once.
    pub(super) is_more: bool,
}

/// Locks up to `max` messages, and does not wait for one.
pub(super) async fn lock(
    inner: &Arc<Inner>,
    source: &Source,
    max: usize,
    holder: i32,
    places: &mut Vec<Place>,
) -> Result<Fetched, ReceiveError> {
    let lock = (!source.deletes).then(|| Uuid::from_bytes(random_uuid()));
    let max = i32::try_from(max).unwrap_or(i32::MAX);
    let (session, session_lock) = match &source.session {
        Some((session, lock)) => (Some(session), Some(lock)),
        None => (None, None),
    };
    let sql = inner.sql("SELECT * FROM {s}.receive($1, $2, $3, $4, $5, $6, $7, $8)");
    let parameters: [Parameter<'_>; 8] = [
        (&source.entity.id, Type::INT8),
        (&source.part, Type::INT2),
        (&session_lock, Type::UUID),
        (&session, Type::BYTEA),
        (&lock, Type::UUID),
        (&max, Type::INT4),
        (&BATCH_BYTES, Type::INT8),
        (&holder, Type::INT4),
    ];
    let rows = match inner.database.rows(&sql, &parameters).await {
        Ok(rows) => rows,
        Err(failure) => {
            lost(&failure, source, holder, lock, places);
            return Err(failure.into());
        }
    };
    let Some((first, rows)) = rows.split_first() else {
        return Ok(Fetched { deliveries: Vec::new(), wait: None, is_more: false });
    };
    let unreadable = |error: tokio_postgres::Error| ReceiveError::from(Failure::from(error));
    let wait: Option<i64> = first.try_get(0).map_err(unreadable)?;
    let now = instant(first, 6).map_err(unreadable)?;
    let mut deliveries = deliveries(inner, source, lock, (rows, 3), now, places).await.map_err(unreadable)?;
    deliveries.sort_unstable_by_key(|delivery| delivery.message.received().map(|received| received.sequence_number));
    let is_leaving: bool = first.try_get(1).map_err(unreadable)?;
    let is_more: bool = first.try_get(2).map_err(unreadable)?;
    if is_leaving && deliveries.is_empty() {
        crate::pump::try_pump(inner, source.entity.id).await;
    } else if is_leaving {
        // The locks of what is delivered run meanwhile.
        crate::pump::pump_soon(inner, source.entity.id);
    }
    Ok(Fetched { is_more: deliveries.is_empty() && (is_more || !rows.is_empty()), deliveries, wait: until_due(wait) })
}

/// Messages that a receive may have locked whose answer is lost are released later.
fn lost(failure: &Failure, source: &Source, holder: i32, lock: Option<Uuid>, places: &mut Vec<Place>) {
    if failure.is_unanswered()
        && let (Some(token), Some(place)) = (lock, places.pop())
    {
        let (entity, unanswered) = (source.entity.id, source.entity.lock);
        place.send(Job::ReleaseAll { entity, holder, token, unanswered });
    }
}
