use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use consign_core::{
    message::{EntityPath, SequenceNumber},
    settlement::DeadLetterReason,
    time::Timestamp,
    transport::{BoxFuture, Capabilities, Delivery, EntityInfo, ErrorKind, Lease, ReceiveError, Receiver},
};
use futures_util::future::join_all;
use tokio::time::sleep;
use tokio_postgres::{Row, types::Type};
use uuid::Uuid;

use crate::{
    Inner, Postgres, PostgresLease,
    chores::{Job, Place},
    database::Parameter,
    dead_letter,
    entity::Entity,
    failure::Failure,
    fetch::{Call, Fetch, Locked},
    log,
    row::{COLUMN_COUNT, COLUMNS, Stored},
    settle::Token,
};

/// The source of messages.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) entity: Entity,
    pub(crate) part: i16,
    /// Whether messages are removed as they are delivered.
    pub(crate) deletes: bool,
    /// The session and its lock.
    pub(crate) session: Option<(Vec<u8>, Uuid)>,
}

pub(crate) type Deliveries = Vec<Delivery<PostgresLease>>;

impl Locked for Deliveries {
    fn give_back(self) -> BoxFuture<()> {
        // Each begins when it is called. What was received and deleted has nothing to release.
        let releases: Vec<_> = self.into_iter().map(|delivery| delivery.lease.release()).collect();
        Box::pin(async { drop(join_all(releases).await) })
    }
}

/// Receives from a queue, a subscription, or a dead-letter sub-queue.
///
/// A message is locked in the database when it is fetched, never ahead, and no more than the caller has requested. A dropped
/// receive releases the messages that it has locked, without counting the delivery.
///
/// When the connection is lost a receive fails as [`CommunicationProblem`](ErrorKind::CommunicationProblem) or
/// [`ServiceTimeout`](ErrorKind::ServiceTimeout), which is retryable: the next call connects again, after 25 ms at first and
/// 2 s at most.
///
/// # Errors
///
/// Besides these: [`EntityNotFound`](ErrorKind::EntityNotFound), [`EntityDisabled`](ErrorKind::EntityDisabled), and
/// [`InvalidOperation`](ErrorKind::InvalidOperation) on an entity that requires sessions.
pub struct PostgresReceiver {
    inner: Arc<Inner>,
    pub(crate) source: Arc<Source>,
    fetch: Fetch<Deliveries>,
    /// Messages that a caller had requested and then did not take, the oldest last.
    spare: Deliveries,
}

impl PostgresReceiver {
    pub(crate) fn new(inner: Arc<Inner>, source: Source) -> Self {
        Self { inner, source: Arc::new(source), fetch: Fetch::new(), spare: Vec::new() }
    }

    /// Returns the path of the entity.
    #[must_use]
    pub fn path(&self) -> EntityPath {
        match self.source.part {
            0 => self.source.entity.path.clone(),
            _ => self.source.entity.path.dead_letter(),
        }
    }
}

impl Receiver for PostgresReceiver {
    type Lease = PostgresLease;

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<PostgresLease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        let max = max.max(1);
        if self.spare.is_empty() {
            let (inner, source) = (&self.inner, &self.source);
            let fetched = self.fetch.poll(cx, |call| receive(Arc::clone(inner), Arc::clone(source), max, call));
            self.spare = ready!(fetched)?;
            self.spare.reverse();
        }
        let taken = self.spare.len().min(max);
        let rest = self.spare.len() - taken;
        out.extend(self.spare.drain(rest..).rev());
        Poll::Ready(Ok(taken))
    }

    fn stop(&mut self) {
        self.fetch.stop();
        if !self.spare.is_empty() {
            self.fetch.release(std::mem::take(&mut self.spare));
        }
    }

    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.fetch.poll_stopped(cx)
    }

    fn capabilities(&self) -> Capabilities {
        Postgres::CAPABILITIES
    }

    fn entity_info(&self) -> EntityInfo {
        let info = EntityInfo::new(self.path().as_str());
        match self.source.part {
            0 => info.with_max_delivery_count(self.source.entity.max_deliveries),
            _ => info,
        }
    }
}

impl Drop for PostgresReceiver {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for PostgresReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresReceiver").field("path", &self.path()).finish_non_exhaustive()
    }
}

/// The maximum of messages of one receive.
const BATCH: usize = 1_000;
/// A receive of this many bytes takes no further message.
const BATCH_BYTES: i64 = 16 << 20;

/// Receives 1 to `max` messages, waiting for the first, or none if the call is cancelled.
async fn receive(
    inner: Arc<Inner>,
    source: Arc<Source>,
    max: usize,
    call: Arc<Call<Deliveries>>,
) -> Result<Deliveries, ReceiveError> {
    let max = max.min(BATCH);
    while call.is_wanted() {
        let holder = inner.holder().await;
        // A locked delivery has a place for the job of its drop. While a receiver waits for a message, it
        // holds no place that another needs.
        let mut places = Vec::new();
        if !source.deletes {
            call.pause(async { places = inner.chores.places(max).await }).await;
            if places.is_empty() {
                if !call.is_wanted() {
                    break;
                }
                return Err(ReceiveError::new(ErrorKind::General).with_detail("the runtime is shutting down"));
            }
        }
        let max = if source.deletes { max } else { places.len() };
        let mut news = inner.hub.watch(source.entity.id);
        let fetched = fetch(&inner, &source, max, holder, &mut places).await?;
        if !fetched.deliveries.is_empty() {
            return Ok(fetched.deliveries);
        }
        if fetched.is_more {
            continue;
        }
        drop(places);
        let wait = fetched.wait.map_or(inner.options.poll, |due| due.min(inner.options.poll));
        call.pause(async {
            tokio::select! {
                _ = news.changed() => {}
                () = sleep(wait) => {}
            }
        })
        .await;
    }
    Ok(Vec::new())
}

/// Returns how long until something is due, from the microseconds that the database returns. Overdue work is locked by another
/// transaction, whose end is unknown.
pub(crate) fn until_due(micros: Option<i64>) -> Option<Duration> {
    let micros = u64::try_from(micros?).ok().filter(|micros| *micros > 0)?;
    Some(Duration::from_micros(micros) + Duration::from_millis(1))
}

/// The result of one statement.
struct Fetched {
    deliveries: Deliveries,
    /// When something becomes due.
    wait: Option<Duration>,
    /// Whether it is to be repeated at once.
    is_more: bool,
}

async fn fetch(
    inner: &Arc<Inner>,
    source: &Source,
    max: usize,
    holder: Option<i32>,
    places: &mut Vec<Place>,
) -> Result<Fetched, ReceiveError> {
    let lock = (!source.deletes).then(Uuid::new_v4);
    let max = i32::try_from(max).unwrap_or(i32::MAX);
    let (session, session_lock) = match &source.session {
        Some((session, lock)) => (Some(session), Some(lock)),
        None => (None, None),
    };
    let sql = inner.sql("SELECT *, {s}.ms({s}.now()) FROM {s}.receive($1, $2, $3, $4, $5, $6, $7, $8)");
    let parameters: [Parameter<'_>; 8] = [
        (&source.entity.id, Type::INT8),
        (&source.part, Type::INT2),
        (&max, Type::INT4),
        (&BATCH_BYTES, Type::INT8),
        (&holder, Type::INT4),
        (&lock, Type::UUID),
        (&session, Type::BYTEA),
        (&session_lock, Type::UUID),
    ];
    let rows = match inner.database.rows(&sql, &parameters).await {
        Ok(rows) => rows,
        Err(failure) => {
            lost(&failure, source.entity.id, holder, lock, places);
            return Err(failure.into());
        }
    };
    let Some((first, rows)) = rows.split_first() else {
        return Ok(Fetched { deliveries: Vec::new(), wait: None, is_more: false });
    };
    let unreadable = |error: tokio_postgres::Error| ReceiveError::from(Failure::from(error));
    let wait: Option<i64> = first.try_get(0).map_err(unreadable)?;
    let mut deliveries = deliveries(inner, source, lock, rows, 3, places).await.map_err(unreadable)?;
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

/// Messages that a receive may have locked whose answer is lost are released later, if they can be told from others.
fn lost(failure: &Failure, entity: i64, holder: Option<i32>, lock: Option<Uuid>, places: &mut Vec<Place>) {
    if failure.is_of_connection()
        && let (Some(holder), Some(token), Some(place)) = (holder, lock, places.pop())
    {
        place.send(Job::ReleaseAll { entity, holder, token });
    }
}

/// Returns how long a lock holds that was taken just before `now`. The entity may have been changed since its lookup: a renewal
/// by a longer duration would come too late.
fn lock_duration(known: Duration, until: Option<Timestamp>, now: Option<i64>) -> Duration {
    const ELAPSED: Duration = Duration::from_secs(1);
    let (Some(until), Some(now)) = (until, now) else { return known };
    let left = Duration::from_millis(u64::try_from(until.as_millis() - now).unwrap_or(0));
    if left + ELAPSED < known { left } else { known }
}

/// Returns the deliveries of rows, which have the time of the database after the columns of a message. An unreadable row is
/// dead-lettered with that reason.
async fn deliveries(
    inner: &Arc<Inner>,
    source: &Source,
    lock: Option<Uuid>,
    rows: &[Row],
    skip: usize,
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
                let duration = lock_duration(source.entity.lock, until, row.try_get(skip + COLUMN_COUNT)?);
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
    log::unreadable(source.entity.path.as_str(), id, why);
    let (reason, why) = (DeadLetterReason::DeserializationFailed.as_str(), dead_letter::text(why));
    let buried = async {
        let Some(lock) = lock else {
            let sql = inner.sql(
                "INSERT INTO {s}.messages (
                    entity, number, origin, enqueued, expires, failures, size, part, state, reason, description, properties,
                    body
                ) SELECT $1, $2, $3, {s}.now(), 'infinity', $4, octet_length($8), 1, CASE $5 WHEN 1 THEN 3 ELSE 1 END, $6,
                    $7, $9::json, $8",
            );
            let (number, origin, failures): (Option<i64>, i64, i32) =
                (row.try_get(skip + 1)?, row.try_get(skip + 2)?, row.try_get(skip + 6)?);
            let (properties, body): (&str, &[u8]) = (row.try_get(skip + 13)?, row.try_get(skip + 14)?);
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
            return inner.database.rows(&sql, &parameters).await;
        };
        let sql = inner.sql(
            "UPDATE {s}.messages SET part = 1, state = CASE WHEN part = 1 THEN 3 ELSE 1 END, token = NULL, holder = NULL,
                due = 'infinity', expires = 'infinity', session = NULL, reason = $3, description = $4
            WHERE id = $1 AND token = $2",
        );
        let parameters: [Parameter<'_>; 4] =
            [(&id, Type::INT8), (&lock, Type::UUID), (&reason, Type::TEXT), (&why, Type::TEXT)];
        inner.database.rows(&sql, &parameters).await
    };
    let buried: Result<Vec<Row>, Failure> = buried.await;
    if let Err(failure) = buried {
        log::not_set_aside(source.entity.path.as_str(), id, &failure);
    }
}

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
    let mut places = inner.chores.places(numbers.len()).await;
    if places.len() < numbers.len() {
        return Err(ReceiveError::new(ErrorKind::Throttled).with_detail("too many deliveries are unsettled"));
    }
    let (holder, lock) = (inner.holder().await, Uuid::new_v4());
    let (session, session_lock) = match &source.session {
        Some((session, lock)) => (Some(session), Some(lock)),
        None => (None, None),
    };
    let sql = inner.sql(&format!(
        "SELECT {COLUMNS}, {{s}}.ms({{s}}.now()) FROM {{s}}.receive_deferred($1, $2, $3, $4, $5, $6, $7) AS delivery"
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
    let mut asked = Asked { entity: source.entity.id, holder, lock, places: &mut places, is_answered: false };
    let answer = inner.database.rows(&sql, &parameters).await;
    asked.is_answered = answer.as_ref().is_ok() || !answer.as_ref().is_err_and(Failure::is_of_connection);
    drop(asked);
    let rows = answer?;
    deliveries(inner, source, Some(lock), &rows, 0, &mut places).await.map_err(|error| Failure::from(error).into())
}

/// Releases the messages that a call may have locked that was dropped, or whose answer is lost.
struct Asked<'p> {
    entity: i64,
    holder: Option<i32>,
    lock: Uuid,
    places: &'p mut Vec<Place>,
    is_answered: bool,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if !self.is_answered
            && let (Some(holder), Some(place)) = (self.holder, self.places.pop())
        {
            place.send(Job::ReleaseAll { entity: self.entity, holder, token: self.lock });
        }
    }
}
