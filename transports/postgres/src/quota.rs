//! The sizes of entities.
//!
//! An exact count would lock a row of the entity in each send, and a transaction of a user would keep it locked. So a small
//! entity is summed up with each send, and a large one after as many bytes as may matter. Processes that send at the same time
//! may exceed the size of a large entity a little.
//!
//! A sum reads every message, and may take longer than a call is to take. So it has a task of its own, one at a time for each
//! entity, and a send that waits for it in vain uses the last sum.

use std::{collections::HashMap, sync::Arc, time::Duration};

use consign_core::{
    administration::QueueSettings,
    transport::{ErrorKind, SendError},
};
use deadpool_postgres::Object;
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    time::{Instant, timeout_at},
};
use tokio_postgres::types::Type;

use crate::{
    Inner,
    database::{Connection, rows},
    failure::Failure,
    log,
};

/// Up to this size an entity is summed up each time.
const SMALL: u64 = 4 << 20;
/// How long a sum is valid.
const FRESH: Duration = Duration::from_secs(60);
/// How soon a large entity that was full is summed up again.
const FULL: Duration = Duration::from_secs(1);
/// A sum of a small and of a large entity that took no longer than this may be taken again at once.
const QUICK: [Duration; 2] = [Duration::from_secs(1), Duration::from_millis(100)];

#[derive(Default)]
pub(crate) struct Quota(Mutex<Sums>);

#[derive(Default)]
struct Sums {
    known: HashMap<i64, Known>,
    running: HashMap<i64, Running>,
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

/// The bytes that an entity may have, and has.
#[derive(Clone, Copy)]
struct Sum {
    limit: u64,
    used: u64,
}

impl Sum {
    /// Of an entity whose size does not matter.
    const NONE: Self = Self { limit: u64::MAX, used: 0 };

    fn is_small(self) -> bool {
        self.limit <= SMALL
    }

    fn free(self) -> u64 {
        self.limit.saturating_sub(self.used)
    }
}

#[derive(Clone, Copy)]
struct Known {
    /// The limit may have been changed since.
    sum: Sum,
    /// Bytes that this process has sent since.
    added: u64,
    at: Instant,
    /// How long the sum is valid.
    fresh: Duration,
    /// How long no other is taken.
    pause: Duration,
}

impl Known {
    fn new(sum: Sum, took: Duration) -> Self {
        let quick = QUICK[usize::from(!sum.is_small())];
        let pause = if took > quick { took * 2 } else { Duration::ZERO };
        Self { sum, added: 0, at: Instant::now(), fresh: FRESH, pause }
    }

    /// As before, because the entity could not be summed up for so long. What was sent meanwhile may have been received.
    fn not_summed(before: Option<Self>, took: Duration) -> Self {
        let sum = before.map_or(Sum::NONE, |known| known.sum);
        let pause = (took * 4).clamp(FULL, FRESH);
        Self { sum, added: 0, at: Instant::now(), fresh: pause, pause }
    }

    /// Returns whether the entity may take so many bytes; `None` if it is to be summed up.
    fn has_space(&self, bytes: u64) -> Option<bool> {
        let (free, age) = (self.sum.free(), self.at.elapsed());
        let is_large = !self.sum.is_small();
        if is_large && bytes > free && age < FULL {
            return Some(false);
        }
        // Others may be sending as well.
        if is_large && age < self.fresh && self.added.saturating_add(bytes) <= free / 8 {
            return Some(true);
        }
        (age < self.pause).then(|| self.may_have_space(bytes))
    }

    /// Returns whether it has, as far as this process knows.
    fn may_have_space(&self, bytes: u64) -> bool {
        self.added.saturating_add(bytes) <= self.sum.free()
    }

    /// Whether a call may well wait for the sum.
    fn is_quick(&self) -> bool {
        self.sum.is_small() && self.pause.is_zero()
    }
}

/// A task that sums an entity up.
struct Running {
    sum: watch::Receiver<Option<Sum>>,
    /// How long sends wait for it.
    until: Instant,
    changes: u64,
}

impl Running {
    /// Whether it will have a sum of the present settings. Its runtime may have ended.
    fn is_current(&self, changes: u64) -> bool {
        self.changes == changes && self.sum.borrow().is_none() && self.sum.has_changed().is_ok()
    }
}

/// Checks that an entity takes messages of so many bytes in all. The inner error is [`ErrorKind::QuotaExceeded`].
pub(crate) async fn check(
    inner: &Arc<Inner>,
    connection: &impl Connection,
    entity: i64,
    count: usize,
    bytes: u64,
) -> Result<Result<(), SendError>, Failure> {
    let bytes = bytes.saturating_add((count as u64).saturating_mul(QueueSettings::OVERHEAD));
    let known = inner.quota.0.lock().known.get(&entity).copied();
    let (limit, fits) = match known.map(|known| (known, known.has_space(bytes))) {
        Some((known, Some(fits))) => (known.sum.limit, fits),
        Some((known, None)) if known.is_quick() => {
            let sum = sum_here(inner, connection, entity).await?;
            (sum.limit, bytes <= sum.free())
        }
        _ => sum_beside(inner, entity, bytes).await,
    };
    if !fits {
        let detail = format!("the entity holds at most {limit} bytes");
        return Ok(Err(SendError::new(ErrorKind::QuotaExceeded).with_detail(detail)));
    }
    if let Some(known) = inner.quota.0.lock().known.get_mut(&entity) {
        known.added = known.added.saturating_add(bytes);
    }
    Ok(Ok(()))
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
    let (began, changes) = (Instant::now(), inner.quota.changes());
    let found = connection.rows(&inner.sql(SUM), &[(&entity, Type::INT8)]).await;
    let sum = found.and_then(|rows| read(rows.first()));
    inner.quota.keep(entity, &sum, began.elapsed(), changes);
    Ok(sum?.unwrap_or(Sum::NONE))
}

/// Has an entity summed up, waits for that a while, and returns its limit, and whether it may take so many bytes.
async fn sum_beside(inner: &Arc<Inner>, entity: i64, bytes: u64) -> (u64, bool) {
    let (mut sum, until) = start(inner, entity);
    let summed = match timeout_at(until, sum.wait_for(Option::is_some)).await {
        Ok(Ok(sum)) => *sum,
        _ => None,
    };
    let known = inner.quota.0.lock().known.get(&entity).copied();
    match (summed, known) {
        (Some(sum), _) => (sum.limit, bytes <= sum.free()),
        (None, Some(known)) => (known.sum.limit, known.may_have_space(bytes)),
        (None, None) => (u64::MAX, true),
    }
}

/// Returns the sum that is being taken, and how long to wait for it.
fn start(inner: &Arc<Inner>, entity: i64) -> (watch::Receiver<Option<Sum>>, Instant) {
    let mut sums = inner.quota.0.lock();
    let changes = sums.changes;
    if let Some(running) = sums.running.get(&entity).filter(|running| running.is_current(changes)) {
        return (running.sum.clone(), running.until);
    }
    sums.running.retain(|_, running| running.sum.has_changed().is_ok());
    let (answer, sum) = watch::channel(None);
    let began = Instant::now();
    let until = began + inner.database.timeout / 4;
    sums.running.insert(entity, Running { sum: sum.clone(), until, changes });
    drop(sums);
    let inner = Arc::clone(inner);
    tokio::spawn(async move {
        let sum = inner.database.with(async |client| sum_for_long(&inner, client, entity).await).await;
        inner.quota.keep(entity, &sum, began.elapsed(), changes);
        match sum {
            Ok(sum) => drop(answer.send(Some(sum.unwrap_or(Sum::NONE)))),
            Err(failure) if !inner.is_closed() => log::not_summed(entity, &failure),
            Err(_) => {}
        }
    });
    (sum, until)
}

/// The server ends the statement when its answer is not waited for any more.
async fn sum_for_long(inner: &Inner, client: &mut Object, entity: i64) -> Result<Option<Sum>, Failure> {
    let transaction = client.transaction().await?;
    let limit = inner.database.timeout.as_millis().max(1);
    transaction.batch_execute(&format!("SET LOCAL statement_timeout = {limit}")).await?;
    let found = rows(&transaction, &inner.sql(SUM), &[(&entity, Type::INT8)]).await?;
    transaction.commit().await?;
    read(found.first())
}

impl Quota {
    /// Records a sum that took so long, or that it failed.
    fn keep(&self, entity: i64, sum: &Result<Option<Sum>, Failure>, took: Duration, changes: u64) {
        let mut sums = self.0.lock();
        if sums.changes != changes {
            return;
        }
        if sums.known.len() > 10_000 {
            sums.known.clear();
        }
        let known = match sum {
            Ok(Some(sum)) => Known::new(*sum, took),
            Ok(None) => return,
            Err(_) => Known::not_summed(sums.known.get(&entity).copied(), took),
        };
        sums.known.insert(entity, known);
    }
}
