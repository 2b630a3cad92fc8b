//! Messages that leave an entity: copies for subscriptions, and forwarded messages.
//!
//! They are numbered where they were sent, and stay there until a transaction stores them in their targets. The sending process
//! does that after the commit; if it cannot, another process does.

use std::{
    collections::{BTreeSet, HashMap, hash_map::Entry},
    sync::{Arc, Weak},
    time::Duration,
};

use consign_core::settlement::{DeadLetter, DeadLetterReason};
use deadpool_postgres::Transaction;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::{
    sync::{Mutex as AsyncMutex, MutexGuard},
    time::Instant,
};
use tokio_postgres::types::Type;

use crate::{
    Inner,
    copies::{copy, subscriptions},
    database::{Parameter, rows, within},
    failure::Failure,
    forward::{Done, From, MAX_HOPS, forward, stay},
    leaving::{Leaving, Pumped},
    log,
    quota::{self, Budget},
    row::{COLUMNS, Stored},
};

/// How many entities a message is in at most, one after the other. In each it may become a dead letter that is forwarded as
/// well.
const GENERATIONS: i16 = 2 * (MAX_HOPS + 1);
/// Messages of one transaction.
const BATCH: i64 = 100;

/// Updates an entity, and forwards its messages, and then those of its targets.
///
/// It ends when the messages that were there at its call are forwarded, however many others arrive meanwhile: their senders
/// forward these.
pub(crate) fn pump(inner: &Arc<Inner>, entity: i64) -> BoxFuture<'static, Result<(), Failure>> {
    let inner = Arc::clone(inner);
    Box::pin(async move {
        let mut entities = BTreeSet::from([entity]);
        for _ in 0..GENERATIONS {
            let mut next = BTreeSet::new();
            for entity in entities {
                let emptied = empty(&inner, entity, &mut next).await;
                inner.pumping.record(&inner, entity, emptied.as_ref().err());
                emptied?;
            }
            entities = next;
        }
        Ok(())
    })
}

/// As [`pump`], where the caller's own work is done whether messages are forwarded or not: the sweeper retries.
pub(crate) async fn try_pump(inner: &Arc<Inner>, entity: i64) {
    if let Err(failure) = pump(inner, entity).await {
        log::not_forwarded(entity, &failure);
    }
}

#[derive(Default)]
pub(crate) struct Running {
    /// One batch of an entity at a time, with others of the same remainder: two pumps would each fill the space of a target that
    /// both have summed up.
    turns: [AsyncMutex<()>; TURNS],
    /// Entities that a task pumps, and whether it is to repeat that.
    tasks: Mutex<HashMap<i64, bool>>,
    /// Entities that were not pumped: since when, and by how many attempts.
    failing: Mutex<HashMap<i64, (Instant, u32)>>,
}

const TURNS: usize = 32;

/// So many failures in a row are more than an interruption.
pub(crate) const ATTEMPTS: u32 = 3;

/// As [`try_pump`], beside the caller: one task, however often it is requested meanwhile.
pub(crate) fn pump_soon(inner: &Arc<Inner>, entity: i64) {
    match inner.pumping.tasks.lock().entry(entity) {
        Entry::Occupied(mut again) => {
            again.insert(true);
            return;
        }
        Entry::Vacant(first) => first.insert(false),
    };
    let mut task = Task { inner: Arc::downgrade(inner), entity, is_over: false };
    tokio::spawn(async move {
        while !task.is_over
            && let Some(inner) = task.inner.upgrade()
        {
            try_pump(&inner, entity).await;
            task.is_over = !inner.pumping.take_request(entity);
        }
    });
}

impl Running {
    /// Waits for one batch of another pump. One that is not polled keeps its turn, so there is a limit.
    async fn turn(&self, entity: i64, limit: Duration) -> Result<MutexGuard<'_, ()>, Failure> {
        let turn = usize::try_from(entity.unsigned_abs() % TURNS as u64).unwrap_or(0);
        within(limit, async { Ok(self.turns[turn].lock().await) }).await
    }

    /// Returns whether the entity is to be pumped once more. Otherwise it is removed.
    fn take_request(&self, entity: i64) -> bool {
        let mut all = self.tasks.lock();
        let is_requested = all.get_mut(&entity).is_some_and(std::mem::take);
        if !is_requested {
            all.remove(&entity);
        }
        is_requested
    }

    /// Logs an entity whose messages stay where they are for long. Failures that do not pass are logged each time.
    fn record(&self, inner: &Inner, entity: i64, failure: Option<&Failure>) {
        let mut failing = self.failing.lock();
        let Some(failure) = failure else {
            failing.remove(&entity);
            return;
        };
        let (since, attempts) = failing.entry(entity).or_insert_with(|| (Instant::now(), 0));
        *attempts = attempts.saturating_add(1);
        if failure.is_temporary() && *attempts >= ATTEMPTS && since.elapsed() >= inner.database.timeout {
            log::stalled(entity, *attempts, failure);
        }
    }
}

/// A task that pumps. Its runtime may end before it does.
struct Task {
    inner: Weak<Inner>,
    entity: i64,
    is_over: bool,
}

impl Drop for Task {
    fn drop(&mut self) {
        if let Some(inner) = self.inner.upgrade().filter(|_| !self.is_over) {
            inner.pumping.tasks.lock().remove(&self.entity);
        }
    }
}

/// Forwards the present messages of an entity, and adds to `next` the entities that are to forward then.
async fn empty(inner: &Arc<Inner>, entity: i64, next: &mut BTreeSet<i64>) -> Result<(), Failure> {
    let is_leaving = match inner.catch_up(entity).await {
        // It was deleted meanwhile.
        Err(failure) if failure.state() == Some("CN404") => false,
        caught_up => caught_up?,
    };
    if !is_leaving {
        return Ok(());
    }
    let (mut last, mut budget, mut kept) = (None, None, None);
    loop {
        let turn = match kept.take() {
            Some(turn) => turn,
            None => inner.pumping.turn(entity, inner.database.timeout).await?,
        };
        // Time is left for the commit. What was forwarded by then need not be forwarded again.
        let until = Instant::now() + inner.database.timeout / 2;
        let pumped = inner.database.with(async |client| {
            let mut transaction = client.transaction().await?;
            let pumped = pump_once(inner, &mut transaction, entity, last, until, budget).await?;
            transaction.commit().await?;
            Ok(pumped)
        });
        let pumped = pumped.await?;
        for target in pumped.targets {
            inner.arrived(target);
        }
        if pumped.died {
            inner.arrived(entity);
            next.insert(entity);
        }
        next.extend(pumped.next);
        if !pumped.is_more {
            return Ok(());
        }
        last = Some(pumped.last);
        if let Some(target) = pumped.not_summed {
            // No connection is held meanwhile.
            budget = Some(quota::sum_beside(inner, target).await);
            kept = Some(turn);
        } else {
            // Others come first.
            budget = None;
        }
    }
}

/// Forwards a batch of the messages up to number `last`, or of those that have a number now: at least one, and others `until`
/// that time, or up to one whose target is to be summed up. `budget` is that of a target that was summed up for the first.
async fn pump_once(
    inner: &Arc<Inner>,
    transaction: &mut Transaction<'_>,
    entity: i64,
    last: Option<i64>,
    until: Instant,
    mut budget: Option<Budget>,
) -> Result<Pumped, Failure> {
    let sql = inner.sql(
        "SELECT path, kind, forward_to, forward_dead_to, last FROM {s}.entities
        JOIN {s}.numbers ON entity = id WHERE id = $1",
    );
    let Some(row) = rows(transaction, &sql, &[(&entity, Type::INT8)]).await?.into_iter().next() else {
        return Ok(Pumped::default());
    };
    let from = From {
        path: row.try_get(0)?,
        is_topic: row.try_get::<_, i16>(1)? == 1,
        forward_to: row.try_get(2)?,
        forward_dead_to: row.try_get(3)?,
    };
    let last = match last {
        Some(last) => last,
        None => row.try_get(4)?,
    };
    let sql = inner.sql(&format!(
        "SELECT hops, {COLUMNS} FROM (
            SELECT m.hops, {{s}}.show(m, NULL) AS delivery FROM {{s}}.messages AS m
            WHERE m.entity = $1 AND m.state = 7 AND m.number <= $3 ORDER BY m.number LIMIT $2 FOR UPDATE OF m
        ) AS leaving"
    ));
    // From here on no other process forwards these: a later one waits for the first of them.
    let parameters: [Parameter<'_>; 3] = [(&entity, Type::INT8), (&BATCH, Type::INT8), (&last, Type::INT8)];
    let leaving = rows(transaction, &sql, &parameters).await?;
    let is_copied = from.is_topic && !leaving.is_empty();
    let subscriptions = if is_copied { subscriptions(inner, transaction, entity).await? } else { Vec::new() };
    let is_more = i64::try_from(leaving.len()).is_ok_and(|count| count == BATCH);
    let mut pumped = Pumped { is_more, last, ..Pumped::default() };
    let (mut left, mut back) = (Vec::new(), Vec::new());
    for (position, row) in leaving.iter().enumerate() {
        if position > 0 && Instant::now() >= until {
            pumped.is_more = true;
            break;
        }
        let hops: i16 = row.try_get(0)?;
        let Stored { id, part, message } = Stored::read(row, 1, false)?;
        if !from.is_topic && from.target(part).is_none() {
            // A transaction that was open when the entity stopped to forward has released it.
            back.push(id);
            continue;
        }
        let done = match &message {
            Ok(message) => {
                let leaving = Leaving { id, part, hops, message };
                if from.is_topic {
                    copy(inner, transaction, &leaving, &subscriptions, &mut pumped).await?;
                    Done::Left
                } else {
                    forward(inner, transaction, &from, &leaving, &mut budget, &mut pumped).await?
                }
            }
            Err(error) => {
                // No process can read it. A topic has no dead letters, so it is set aside there.
                log::unreadable(from.path.as_str(), id, &error.to_string());
                let reason = DeadLetterReason::DeserializationFailed;
                stay(inner, transaction, id, &DeadLetter::new(reason, error.to_string()), true).await?;
                Done::Stays
            }
        };
        match done {
            Done::Left => left.push(id),
            Done::Stays => {}
            Done::Waits(target) => {
                (pumped.is_more, pumped.not_summed) = (true, Some(target));
                break;
            }
        }
    }
    if !back.is_empty() {
        let sql = inner.sql("UPDATE {s}.messages SET state = 1 WHERE id = ANY ($1)");
        rows(transaction, &sql, &[(&back, Type::INT8_ARRAY)]).await?;
        pumped.targets.insert(entity);
    }
    let sql = inner.sql("DELETE FROM {s}.messages WHERE id = ANY ($1)");
    rows(transaction, &sql, &[(&left, Type::INT8_ARRAY)]).await?;
    Ok(pumped)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rules: K-336.
    #[tokio::test(start_paused = true)]
    async fn a_pump_that_is_not_polled_delays_others_by_the_time_limit() {
        const LIMIT: Duration = Duration::from_secs(10);
        let running = Running::default();
        let turn = running.turn(5, LIMIT).await.unwrap();
        let began = Instant::now();
        assert!(matches!(running.turn(5, LIMIT).await, Err(Failure::TooLate(_))));
        assert_eq!(began.elapsed(), LIMIT);
        drop(turn);
        drop(running.turn(5, LIMIT).await.unwrap());
    }
}
