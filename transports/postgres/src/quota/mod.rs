//! The sizes of entities.
//!
//! An exact count would lock a row of the entity in each send, and a transaction of a user would keep it locked. So a small
//! entity is summed up with each send, and a large one after as many bytes as may matter. Processes that send at the same time
//! may exceed the size of a large entity a little.
//!
//! A sum reads every message, and may take longer than a call is to take. So it has a task of its own, one at a time for each
//! entity, and a send that waits for it in vain uses the last sum.

mod sums;

use std::sync::Arc;

use consign_core::{
    administration::QueueSettings,
    transport::{ErrorKind, SendError},
};
use deadpool_postgres::{Object, Transaction};
use tokio::time::{Instant, timeout_at};
use tokio_postgres::types::Type;

pub(crate) use self::sums::Quota;
use self::sums::{Begun, Sum};
use crate::{
    Inner,
    database::{Connection, rows},
    failure::Failure,
    log,
};

/// Checks that an entity takes messages of so many bytes in all, by the connection that the caller has or by any. The inner error
/// is [`ErrorKind::QuotaExceeded`].
pub(crate) async fn check(
    inner: &Arc<Inner>,
    connection: &impl Connection,
    entity: i64,
    count: usize,
    bytes: u64,
) -> Result<Result<(), SendError>, Failure> {
    let bytes = stored(count, bytes);
    let known = inner.quota.known(entity);
    let (limit, fits) = match known.map(|known| (known, known.has_space(bytes))) {
        Some((known, Some(fits))) => (known.sum.limit, fits),
        Some((known, None)) if known.is_quick() => {
            let sum = sum_here(inner, connection, entity).await?;
            (sum.limit, bytes <= sum.free())
        }
        _ => {
            let budget = sum_beside(inner, entity).await;
            (budget.limit, bytes <= budget.free)
        }
    };
    if !fits {
        return Ok(Err(full(limit)));
    }
    inner.quota.add(entity, bytes);
    Ok(Ok(()))
}

/// Takes back what [`check`] has counted: the messages were not sent.
pub(crate) fn refused(inner: &Inner, entity: i64, count: usize, bytes: u64) {
    inner.quota.take_back(entity, stored(count, bytes));
}

/// What messages take with what is stored of each beside its size.
fn stored(count: usize, bytes: u64) -> u64 {
    bytes.saturating_add((count as u64).saturating_mul(QueueSettings::OVERHEAD))
}

fn full(limit: u64) -> SendError {
    SendError::new(ErrorKind::QuotaExceeded).with_detail(format!("the entity holds at most {limit} bytes"))
}

/// Whether an entity takes a message of a transaction.
pub(crate) enum Space {
    Free,
    Full(SendError),
    /// The entity is to be summed up first, by [`sum_beside`], when the transaction has ended.
    Unknown,
}

/// The free bytes of an entity that was summed up for a transaction.
pub(crate) struct Budget {
    entity: i64,
    limit: u64,
    free: u64,
    /// Whether a message was checked against it.
    is_used: bool,
}

/// As [`check`], for a message of a transaction that has a connection. It does not wait for another connection: all of them may be
/// those of transactions that wait. What the transaction has sent counts, which a sum on another connection would not have.
pub(crate) async fn check_in(
    inner: &Inner,
    transaction: &Transaction<'_>,
    entity: i64,
    bytes: u64,
    budget: &mut Option<Budget>,
) -> Result<Space, Failure> {
    let bytes = stored(1, bytes);
    let known = inner.quota.known(entity).map(|known| (known, known.has_space(bytes)));
    let (limit, fits) = match (budget.as_mut().filter(|budget| budget.entity == entity), known) {
        (Some(own), known) => match (own.take(bytes), known) {
            (Some(fits), _) => (own.limit, fits),
            (None, Some((known, Some(false)))) => (known.sum.limit, false),
            (None, _) => return Ok(Space::Unknown),
        },
        (None, Some((known, Some(fits)))) => (known.sum.limit, fits),
        (None, Some((known, None))) if known.is_quick() => {
            let sum = sum_here(inner, &**transaction, entity).await?;
            (sum.limit, bytes <= sum.free())
        }
        (None, _) => return Ok(Space::Unknown),
    };
    if !fits {
        return Ok(Space::Full(full(limit)));
    }
    inner.quota.add(entity, bytes);
    Ok(Space::Free)
}

impl Budget {
    /// Returns whether a message fits. `None` if that is unknown: it does not, and others have been checked since the sum.
    fn take(&mut self, bytes: u64) -> Option<bool> {
        let is_first = !std::mem::replace(&mut self.is_used, true);
        match self.free.checked_sub(bytes) {
            Some(left) => {
                self.free = left;
                Some(true)
            }
            None => is_first.then_some(false),
        }
    }
}

/// One without a limit is not summed up.
const SUM: &str = "SELECT CASE WHEN max_size < 9223372036854775807 THEN {s}.used(id) END, max_size
    FROM {s}.entities WHERE id = $1";

/// Reads a sum. An entity that is gone is not full.
fn read(row: Option<&tokio_postgres::Row>) -> Result<Option<Sum>, Failure> {
    let Some(row) = row else { return Ok(None) };
    let (used, limit): (Option<i64>, i64) = (row.try_get(0)?, row.try_get(1)?);
    let [used, limit] = [used.unwrap_or(0), limit].map(|bytes| u64::try_from(bytes).unwrap_or(0));
    Ok(Some(Sum { limit, used }))
}

/// Sums an entity up that takes little time.
async fn sum_here(inner: &Inner, connection: &impl Connection, entity: i64) -> Result<Sum, Failure> {
    let (began, changes) = (Instant::now(), inner.quota.changes(entity));
    let found = connection.rows(&inner.sql(SUM), &[(&entity, Type::INT8)]).await;
    let sum = found.and_then(|rows| read(rows.first()));
    inner.quota.keep(entity, &sum, None, began.elapsed(), changes);
    Ok(sum?.unwrap_or(Sum::NONE))
}

/// Has an entity summed up, waits for that a while, and returns its limit and its free bytes.
pub(crate) async fn sum_beside(inner: &Arc<Inner>, entity: i64) -> Budget {
    let (mut sum, until) = start(inner, entity);
    let summed = match timeout_at(until, sum.wait_for(Option::is_some)).await {
        Ok(Ok(sum)) => *sum,
        _ => None,
    };
    let (limit, free) = match (summed, inner.quota.known(entity)) {
        (Some(sum), _) => (sum.limit, sum.free()),
        (None, Some(known)) => (known.sum.limit, known.free()),
        (None, None) => {
            if !inner.is_closed() {
                log::not_checked(entity);
            }
            (u64::MAX, u64::MAX)
        }
    };
    Budget { entity, limit, free, is_used: false }
}

/// Returns the sum that is being taken, and how long to wait for it.
fn start(inner: &Arc<Inner>, entity: i64) -> (sums::Answer, Instant) {
    let Begun { answer, sum, at, until, changes } = match inner.quota.running(entity, inner.database.timeout / 4) {
        Ok(running) => return running,
        Err(begun) => begun,
    };
    let inner = Arc::clone(inner);
    tokio::spawn(async move {
        let mut limit = None;
        let sum = inner.database.with(async |client| sum_for_long(&inner, client, entity, &mut limit).await).await;
        inner.quota.keep(entity, &sum, limit, at.elapsed(), changes);
        match sum {
            Ok(sum) => drop(answer.send(Some(sum.unwrap_or(Sum::NONE)))),
            Err(failure) if !inner.is_closed() => log::not_summed(entity, &failure),
            Err(_) => {}
        }
    });
    (sum, until)
}

/// Reads the limit before, which takes no time. The server ends the statement when its answer is not waited for any more.
async fn sum_for_long(
    inner: &Inner,
    client: &mut Object,
    entity: i64,
    limit: &mut Option<u64>,
) -> Result<Option<Sum>, Failure> {
    let transaction = client.transaction().await?;
    let longest = inner.database.timeout.as_millis().max(1);
    transaction.batch_execute(&format!("SET LOCAL statement_timeout = {longest}")).await?;
    let of = inner.sql("SELECT max_size FROM {s}.entities WHERE id = $1");
    let found: Option<i64> =
        rows(&transaction, &of, &[(&entity, Type::INT8)]).await?.first().map(|row| row.try_get(0)).transpose()?;
    *limit = found.map(|limit| u64::try_from(limit).unwrap_or(0));
    let found = rows(&transaction, &inner.sql(SUM), &[(&entity, Type::INT8)]).await?;
    transaction.commit().await?;
    read(found.first())
}
