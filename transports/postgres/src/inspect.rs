//! Messages that no receiver holds: peek, count and remove them.

use consign_core::{
    Message,
    administration::Counts,
    message::{EntityPath, SequenceNumber},
    time::Timestamp,
    transport::{ManageError, ReceiveError},
};
use tokio_postgres::types::Type;

use crate::{
    Postgres,
    database::Parameter,
    entity::part_of,
    failure::{Failure, receive_error},
    peek::peek,
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
    /// [`EntityNotFound`](consign_core::transport::ErrorKind::EntityNotFound).
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
