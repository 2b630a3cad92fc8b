//! Deliveries of locked rows.

use std::{sync::Arc, time::Duration};

use consign_core::{settlement::DeadLetterReason, time::Timestamp, transport::Delivery};
use tokio_postgres::{Row, types::Type};
use uuid::Uuid;

use super::{Deliveries, Source};
use crate::{
    Inner, PostgresLease, chores::Place, database::Parameter, dead_letter, failure::Failure, log, row::Stored,
    settle::Token,
};

/// Returns how long a lock holds that was taken just before `now`. The entity may have been changed since its lookup: a renewal
/// by a longer duration would come too late.
fn lock_duration(known: Duration, until: Option<Timestamp>, now: Option<Timestamp>) -> Duration {
    const ELAPSED: Duration = Duration::from_secs(1);
    let (Some(until), Some(now)) = (until, now) else { return known };
    let left = Duration::from_millis(u64::try_from(until.as_millis() - now.as_millis()).unwrap_or(0));
    if left + ELAPSED < known { left } else { known }
}

/// Returns the deliveries of rows that were locked just before `now`. An unreadable row is dead-lettered with that reason.
pub(super) async fn deliveries(
    inner: &Arc<Inner>,
    source: &Source,
    lock: Option<Uuid>,
    (rows, skip): (&[Row], usize),
    now: Option<Timestamp>,
    places: &mut Vec<Place>,
) -> Result<Deliveries, tokio_postgres::Error> {
    let mut deliveries = Vec::with_capacity(rows.len());
    for row in rows {
        let Stored { id, message, .. } = Stored::read(row, skip, true)?;
        let message = match message {
            Ok(message) => message,
            Err(error) => {
                bury(inner, source, id, lock, row, skip, &error.to_string()).await;
                continue;
            }
        };
        let session = source.session.as_ref().map(|(_, lock)| *lock);
        let lease = match (lock, places.pop()) {
            (Some(lock), Some(place)) => {
                let token = Token { entity: source.entity.id, id, lock, session };
                let until = message.received().filter(|_| session.is_none()).and_then(|received| received.locked_until);
                let duration = lock_duration(source.entity.lock, until, now);
                PostgresLease::new(Arc::clone(inner), token, place, message.clone(), duration)
            }
            _ => PostgresLease::deleted(Arc::clone(inner), message.clone()),
        };
        deliveries.push(Delivery { message, lease });
    }
    Ok(deliveries)
}

/// An unreadable row does no harm where it cannot be received. One that was removed as it was received is put there.
async fn bury(inner: &Arc<Inner>, source: &Source, id: i64, lock: Option<Uuid>, row: &Row, skip: usize, why: &str) {
    let entity = source.entity.path.as_str();
    log::unreadable(entity, id, why);
    let why = dead_letter::text(why);
    if let Some(lock) = lock {
        if let Err(failure) = bury_locked(inner, id, lock, &why).await {
            log::not_set_aside(entity, id, &failure);
        }
        return;
    }
    // Nothing else has it.
    let mut buried = bury_removed(inner, source, row, skip, &why).await;
    if buried.is_err() {
        buried = bury_removed(inner, source, row, skip, &why).await;
    }
    if let Err(failure) = buried {
        log::lost_unreadable(entity, id, &failure);
    }
}

async fn bury_locked(inner: &Inner, id: i64, lock: Uuid, why: &str) -> Result<(), Failure> {
    let own: [Parameter<'_>; 2] = [(&id, Type::INT8), (&lock, Type::UUID)];
    inner.database.rows(&inner.sql("SELECT {s}.pull($1, $2)"), &own).await?;
    let sql = inner.sql(
        "UPDATE {s}.messages SET part = 1, state = CASE WHEN part = 1 THEN 3 ELSE 1 END, token = NULL, holder = NULL,
            due = 'infinity', expires = 'infinity', session = NULL, reason = $3, description = $4
        WHERE id = $1 AND token = $2",
    );
    let reason = DeadLetterReason::DeserializationFailed.as_str();
    let parameters: [Parameter<'_>; 4] =
        [(&id, Type::INT8), (&lock, Type::UUID), (&reason, Type::TEXT), (&why, Type::TEXT)];
    inner.database.rows(&sql, &parameters).await.map(drop)
}

/// Stores it again, unless an attempt has whose answer was lost.
async fn bury_removed(inner: &Inner, source: &Source, row: &Row, skip: usize, why: &str) -> Result<(), Failure> {
    let sql = inner.sql(
        "INSERT INTO {s}.messages (
            entity, number, origin, enqueued, expires, failures, size, part, state, reason, description, properties, body
        ) SELECT $1, $2, $3, {s}.now(), 'infinity', $4, octet_length($8), 1, CASE $5 WHEN 1 THEN 3 ELSE 1 END, $6, $7, $9, $8
        WHERE NOT EXISTS (SELECT FROM {s}.messages WHERE entity = $1 AND part = 1 AND number = $2)",
    );
    let (number, origin, failures): (Option<i64>, i64, i32) =
        (row.try_get(skip + 1)?, row.try_get(skip + 2)?, row.try_get(skip + 6)?);
    let (properties, body): (&str, &[u8]) = (row.try_get(skip + 13)?, row.try_get(skip + 14)?);
    let reason = DeadLetterReason::DeserializationFailed.as_str();
    let parameters: [Parameter<'_>; 9] = [
        (&source.entity.id, Type::INT8),
        (&number, Type::INT8),
        (&origin, Type::INT8),
        (&failures, Type::INT4),
        (&source.part, Type::INT2),
        (&reason, Type::TEXT),
        (&why, Type::TEXT),
        (&body, Type::BYTEA),
        (&properties, Type::TEXT),
    ];
    inner.database.rows(&sql, &parameters).await.map(drop)
}

/// Returns how long until something is due, from the microseconds that the database returns. Overdue work is locked by another
/// transaction, whose end is unknown.
pub(crate) fn until_due(micros: Option<i64>) -> Option<Duration> {
    let micros = u64::try_from(micros?).ok().filter(|micros| *micros > 0)?;
    Some(Duration::from_micros(micros) + Duration::from_millis(1))
}
