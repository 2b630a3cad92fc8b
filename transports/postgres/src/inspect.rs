//! Messages that no receiver holds: peek, count and remove them.

use std::sync::Arc;

use consign_core::{
    Message,
    administration::Counts,
    message::{EntityPath, SequenceNumber},
    time::Timestamp,
    transport::{ErrorKind, ManageError, ReceiveError},
};
use tokio_postgres::types::Type;

use crate::{
    Inner, Postgres,
    database::Parameter,
    failure::Failure,
    postgres::receive_error,
    row::{COLUMNS, Stored},
};

impl Postgres {
    /// Returns up to `max` messages from sequence number `from` on, in order, without locking or counting. For a topic it
    /// returns scheduled messages.
    pub async fn peek(&self, path: &str, from: SequenceNumber, max: usize) -> Result<Vec<Message>, ReceiveError> {
        let (entity, part) = self.part(&EntityPath::new(path)?).await.map_err(receive_error)?;
        peek(&self.inner, entity, part, from, max, None).await
    }

    /// Returns how many messages there are, by state, and the bytes of the entity. It reads every message once. A topic has
    /// scheduled messages only, and the bytes of its subscriptions.
    ///
    /// # Errors
    ///
    /// [`EntityNotFound`](ErrorKind::EntityNotFound).
    pub async fn counts(&self, path: &str) -> Result<Counts, ManageError> {
        let (entity, asked) = self.part(&EntityPath::new(path)?).await?;
        if self.inner.catch_up(entity).await? {
            crate::pump::try_pump(&self.inner, entity).await;
        }
        let sql = self.inner.sql("SELECT part, state, count FROM {s}.counts($1)");
        let mut counts = Counts::default();
        let used: Option<i64> = self.inner.value("SELECT {s}.used($1)", &[(&entity, Type::INT8)]).await?;
        counts.size = u64::try_from(used.unwrap_or(0)).unwrap_or(0);
        for row in self.inner.database.rows(&sql, &[(&entity, Type::INT8)]).await? {
            let read = || Ok::<_, tokio_postgres::Error>((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?));
            let (part, state, count): (i16, i16, i64) = read().map_err(Failure::from)?;
            let count = usize::try_from(count).unwrap_or(0);
            if part != asked {
                counts.dead_lettered += count;
                continue;
            }
            *match state {
                2 | 4 => &mut counts.locked,
                3 => &mut counts.deferred,
                5 => &mut counts.scheduled,
                _ => &mut counts.active,
            } += count;
        }
        if asked == 1 {
            counts.dead_lettered = 0;
        }
        Ok(counts)
    }

    /// Removes up to `max` messages that are neither locked nor scheduled, the oldest first; with a time only those enqueued
    /// before it. Returns how many.
    pub async fn purge(
        &self,
        path: &str,
        max: usize,
        enqueued_before: Option<Timestamp>,
    ) -> Result<usize, ManageError> {
        let (entity, part) = self.part(&EntityPath::new(path)?).await?;
        let (max, before) = (i64::try_from(max).unwrap_or(i64::MAX), enqueued_before.map(Timestamp::as_millis));
        let parameters: [Parameter<'_>; 4] =
            [(&entity, Type::INT8), (&part, Type::INT2), (&max, Type::INT8), (&before, Type::INT8)];
        let removed: Option<i64> = self.inner.value("SELECT {s}.purge($1, $2, $3, $4)", &parameters).await?;
        Ok(usize::try_from(removed.unwrap_or(0)).unwrap_or(0))
    }

    async fn part(&self, path: &EntityPath) -> Result<(i64, i16), ManageError> {
        let part = part_of(path)?;
        Ok((self.inner.find(path).await?.id, part))
    }
}

/// Returns the code of a sub-queue in rows, and 0 for an entity.
pub(crate) fn part_of(path: &EntityPath) -> Result<i16, ManageError> {
    if path.is_transfer_dead_letter() {
        let refused = ManageError::new(ErrorKind::NotSupported);
        return Err(refused.with_detail("there is no transfer dead-letter sub-queue"));
    }
    Ok(i16::from(path.is_dead_letter()))
}

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
        messages.push(stored.message.map_err(|error| {
            ReceiveError::new(ErrorKind::Serialization).with_detail(format!("row {}: {error}", stored.id))
        })?);
    }
    if is_leaving {
        crate::pump::try_pump(inner, entity).await;
    }
    Ok(messages)
}
