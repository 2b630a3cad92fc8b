//! The sizes of entities.
//!
//! An exact count would lock a row of the entity in each send, and a transaction of a user would keep it locked. So a small
//! entity is summed up with each send, and a large one after as many bytes as may matter. Processes that send at the same time
//! may exceed the size of a large entity a little.

use std::{collections::HashMap, time::Duration};

use consign_core::{
    administration::QueueSettings,
    transport::{ErrorKind, SendError},
};
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_postgres::types::Type;

use crate::{Inner, database::Connection, failure::Failure};

/// Up to this size an entity is summed up each time.
const SMALL: u64 = 4 << 20;
/// How long a sum is valid.
const FRESH: Duration = Duration::from_secs(60);
/// How soon a large entity that was full is summed up again.
const FULL: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(crate) struct Quota(Mutex<Sums>);

#[derive(Default)]
struct Sums {
    known: HashMap<i64, Known>,
    /// How often sizes were changed. A sum that began before a change is not kept.
    changes: u64,
}

impl Quota {
    /// Has an entity summed up by the next send, because its size was changed.
    pub(crate) fn forget(&self, entity: i64) {
        let mut sums = self.0.lock();
        sums.known.remove(&entity);
        sums.changes += 1;
    }

    /// Returns how often settings of entities were changed, or may have been.
    pub(crate) fn changes(&self) -> u64 {
        self.0.lock().changes
    }

    /// As [`forget`](Self::forget), for all entities: changes may have been missed.
    pub(crate) fn forget_all(&self) {
        let mut sums = self.0.lock();
        sums.known.clear();
        sums.changes += 1;
    }
}

#[derive(Clone, Copy)]
struct Known {
    /// The size of the entity, which may have been changed since its lookup.
    limit: u64,
    used: u64,
    /// Bytes that this process has sent since.
    added: u64,
    at: Instant,
}

impl Known {
    /// Returns whether the entity may take so many bytes; `None` if it is to be summed up.
    fn has_room(&self, bytes: u64) -> Option<bool> {
        let free = self.limit.saturating_sub(self.used);
        let age = self.at.elapsed();
        if bytes > free {
            return (age < FULL).then_some(false);
        }
        // Others may be sending as well.
        (age < FRESH && self.added.saturating_add(bytes) <= free / 8).then_some(true)
    }
}

/// Checks that an entity takes messages of so many bytes in all. The inner error is [`ErrorKind::QuotaExceeded`].
pub(crate) async fn check(
    inner: &Inner,
    connection: &impl Connection,
    entity: i64,
    count: usize,
    bytes: u64,
) -> Result<Result<(), SendError>, Failure> {
    let bytes = bytes.saturating_add((count as u64).saturating_mul(QueueSettings::OVERHEAD));
    let known = inner.quota.0.lock().known.get(&entity).copied().filter(|known| known.limit > SMALL);
    let (limit, fits) = match known.and_then(|known| Some((known.limit, known.has_room(bytes)?))) {
        Some(known) => known,
        None => sum_up(inner, connection, entity, bytes).await?,
    };
    if !fits {
        let detail = format!("the entity holds at most {limit} bytes");
        return Ok(Err(SendError::new(ErrorKind::QuotaExceeded).with_detail(detail)));
    }
    if let Some(known) = inner.quota.0.lock().known.get_mut(&entity) {
        known.added += bytes;
    }
    Ok(Ok(()))
}

/// Sums an entity up. Returns its size, and whether it takes so many bytes. One that is gone is not full.
async fn sum_up(inner: &Inner, connection: &impl Connection, entity: i64, bytes: u64) -> Result<(u64, bool), Failure> {
    let changes = inner.quota.0.lock().changes;
    let sql = inner.sql("SELECT {s}.used(id), max_size FROM {s}.entities WHERE id = $1");
    let found = connection.rows(&sql, &[(&entity, Type::INT8)]).await?;
    let Some(row) = found.first() else { return Ok((u64::MAX, true)) };
    let (used, limit): (Option<i64>, i64) = (row.try_get(0)?, row.try_get(1)?);
    let [used, limit] = [used.unwrap_or(0), limit].map(|bytes| u64::try_from(bytes).unwrap_or(0));
    let mut sums = inner.quota.0.lock();
    if sums.known.len() > 10_000 {
        sums.known.clear();
    }
    if sums.changes == changes {
        sums.known.insert(entity, Known { limit, used, added: 0, at: Instant::now() });
    }
    Ok((limit, used.saturating_add(bytes) <= limit))
}
