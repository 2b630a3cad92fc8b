//! Messages that leave an entity: copies for subscriptions, and what is forwarded.
//!
//! They are numbered where they were sent, and stay there until they are where they belong, all in one transaction. Whoever
//! sent them does it, after the commit; if it cannot, the next one who looks.

use std::{collections::BTreeSet, sync::Arc};

use consign::{
    Message,
    rules::RuleSet,
    settlement::{DeadLetter, DeadLetterReason},
    transport::{ErrorKind, SendError},
};
use deadpool_postgres::Transaction;
use futures_util::future::BoxFuture;
use tokio_postgres::{Row, types::Type};

use crate::{
    Inner,
    database::{Parameter, rows},
    failure::Failure,
    prepared::{Origin, Prepared, insert},
    row::{COLUMNS, Stored},
};

/// How often a message is forwarded at most.
const MAX_HOPS: i16 = 4;
/// Messages of one transaction.
const BATCH: i64 = 100;

/// Hands on what is to leave an entity, and what then is to leave where that goes.
pub(crate) fn pump(inner: &Arc<Inner>, entity: i64) -> BoxFuture<'static, Result<(), Failure>> {
    let inner = Arc::clone(inner);
    Box::pin(async move {
        let mut entities = BTreeSet::from([entity]);
        // Messages go on at most so often, so this ends unless others keep sending.
        while let Some(entity) = entities.pop_first() {
            loop {
                let stepped = inner.database.rows(&inner.sql("SELECT {s}.step($1)"), &[(&entity, Type::INT8)]).await;
                match stepped {
                    // It was deleted meanwhile.
                    Err(failure) if failure.state() == Some("CN404") => break,
                    stepped => drop(stepped?),
                }
                let pumped = inner.database.with(async |client| {
                    let mut transaction = client.transaction().await?;
                    let pumped = pump_once(&inner, &mut transaction, entity).await?;
                    transaction.commit().await?;
                    Ok(pumped)
                });
                let pumped = match pumped.await {
                    // It was deleted meanwhile.
                    Err(failure) if failure.state() == Some("CN404") => break,
                    pumped => pumped?,
                };
                for target in pumped.targets {
                    inner.arrived(target);
                }
                if pumped.died {
                    inner.arrived(entity);
                    entities.insert(entity);
                }
                entities.extend(pumped.next);
                if !pumped.is_more {
                    break;
                }
            }
        }
        Ok(())
    })
}

#[derive(Default)]
struct Pumped {
    /// Where messages went to.
    targets: BTreeSet<i64>,
    /// Of these, those that hand them on.
    next: BTreeSet<i64>,
    /// Whether messages became dead letters, which may have to leave too.
    died: bool,
    is_more: bool,
}

/// The entity that messages leave.
struct From {
    path: String,
    is_topic: bool,
    forward_to: Option<String>,
    forward_dead_to: Option<String>,
}

/// A subscription of a topic.
struct Subscription {
    id: i64,
    sessions: bool,
    dead_on_filter_error: bool,
    forwards: bool,
    rules: Arc<RuleSet>,
}

async fn pump_once(inner: &Arc<Inner>, transaction: &mut Transaction<'_>, entity: i64) -> Result<Pumped, Failure> {
    let columns = "path, kind, forward_to, forward_dead_to";
    let sql = inner.sql(&format!("SELECT {columns} FROM {{s}}.entities WHERE id = $1"));
    let Some(row) = rows(&**transaction, &sql, &[(&entity, Type::INT8)]).await?.into_iter().next() else {
        return Ok(Pumped::default());
    };
    let from = From {
        path: row.try_get(0)?,
        is_topic: row.try_get::<_, i16>(1)? == 1,
        forward_to: row.try_get(2)?,
        forward_dead_to: row.try_get(3)?,
    };
    let sql = inner.sql(&format!(
        "SELECT hops, {COLUMNS} FROM (
            SELECT m.hops, {{s}}.show(m, NULL) AS delivery FROM {{s}}.messages AS m
            WHERE m.entity = $1 AND m.state = 7 ORDER BY m.number LIMIT $2 FOR UPDATE OF m
        ) AS leaving"
    ));
    // From here on nobody else hands these on: who comes later waits for the first of them.
    let leaving = rows(&**transaction, &sql, &[(&entity, Type::INT8), (&BATCH, Type::INT8)]).await?;
    let is_copied = from.is_topic && !leaving.is_empty();
    let subscriptions = if is_copied { subscriptions(inner, transaction, entity).await? } else { Vec::new() };
    let mut pumped =
        Pumped { is_more: i64::try_from(leaving.len()).is_ok_and(|count| count == BATCH), ..Pumped::default() };
    let mut left = Vec::new();
    for row in &leaving {
        let hops: i16 = row.try_get(0)?;
        let stored = Stored::read(row, 1, false)?;
        let id = stored.id;
        let has_left = match (&stored.message, from.is_topic) {
            (Ok(message), true) => {
                copy(inner, transaction, message, hops, &subscriptions, &mut pumped).await?;
                true
            }
            (Ok(message), false) => {
                let part = stored.part;
                forward(inner, transaction, &from, Leaving { id, part, hops, message }, &mut pumped).await?
            }
            (Err(error), _) => {
                // Nobody can do anything with it. A topic has no dead letters, so it is set aside there.
                tracing::error!(id, %error, "a message cannot be read");
                let reason = DeadLetterReason::DeserializationFailed;
                stay(inner, transaction, id, &DeadLetter::new(reason, error.to_string()), true).await?;
                false
            }
        };
        if has_left {
            left.push(id);
        }
    }
    let sql = inner.sql("DELETE FROM {s}.messages WHERE id = ANY ($1)");
    rows(&**transaction, &sql, &[(&left, Type::INT8_ARRAY)]).await?;
    Ok(pumped)
}

async fn subscriptions(
    inner: &Arc<Inner>,
    transaction: &Transaction<'_>,
    topic: i64,
) -> Result<Vec<Subscription>, Failure> {
    let sql = inner.sql(
        "SELECT id, sessions, dead_on_filter_error, forward_to IS NOT NULL OR forward_dead_to IS NOT NULL, version
        FROM {s}.entities WHERE topic = $1 ORDER BY key",
    );
    let mut all = Vec::new();
    for row in rows(&**transaction, &sql, &[(&topic, Type::INT8)]).await? {
        let (id, version): (i64, i64) = (row.try_get(0)?, row.try_get(4)?);
        let rules = if let Some(rules) = inner.rules.get(id, version) {
            rules
        } else {
            let sql = inner.sql("SELECT rule::text FROM {s}.rules WHERE subscription = $1");
            let texts = rows(&**transaction, &sql, &[(&id, Type::INT8)]).await?;
            let texts = texts.iter().map(|row: &Row| row.try_get(0)).collect::<Result<Vec<String>, _>>()?;
            inner.rules.put(id, version, &texts)
        };
        all.push(Subscription {
            id,
            sessions: row.try_get(1)?,
            dead_on_filter_error: row.try_get(2)?,
            forwards: row.try_get(3)?,
            rules,
        });
    }
    Ok(all)
}

/// Copies a message to the subscriptions whose rules want it.
async fn copy(
    inner: &Arc<Inner>,
    transaction: &Transaction<'_>,
    message: &Message,
    hops: i16,
    subscriptions: &[Subscription],
    pumped: &mut Pumped,
) -> Result<(), Failure> {
    let Some(received) = message.received().copied() else { return Ok(()) };
    let origin = match received.enqueued_sequence_number.get() {
        0 => received.sequence_number.get(),
        first => first,
    };
    for subscription in subscriptions {
        let copies = match subscription.rules.evaluate(message) {
            Err(failure) if !subscription.dead_on_filter_error => Ok(failure.into_copies()),
            copies => copies,
        };
        let mut all: Vec<(Message, Option<DeadLetter>)> = Vec::new();
        match copies {
            Ok(copies) => {
                all.extend(copies.plain.then(|| (message.clone(), None)));
                all.extend(copies.changed.into_iter().map(|copy| (copy, None)));
            }
            Err(failure) => {
                let reason = DeadLetterReason::Application(failure.reason().into());
                all.push((message.clone(), Some(DeadLetter::new(reason, failure.to_string()))));
            }
        }
        for (copy, dead) in all {
            let dead = dead.or_else(|| {
                let is_null = subscription.sessions && copy.session_id().is_none();
                is_null.then(|| DeadLetter::new(DeadLetterReason::SessionIdIsNull, ""))
            });
            // What could be read can be written.
            let Ok(prepared) = Prepared::of(copy) else { continue };
            let (properties, body, size, session, ttl) = prepared.into_parts();
            let reason = dead.as_ref().map(|dead| dead.reason.as_str());
            let description = dead.as_ref().map(|dead| &*dead.description).filter(|text| !text.is_empty());
            let sql = inner.sql("SELECT {s}.copy($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)");
            let parameters: [Parameter<'_>; 11] = [
                (&subscription.id, Type::INT8),
                (&properties, Type::TEXT),
                (&body, Type::BYTEA),
                (&size, Type::INT4),
                (&session, Type::BYTEA),
                (&ttl, Type::INT8),
                (&origin.cast_signed(), Type::INT8),
                (&hops, Type::INT2),
                (&message.dead_letter_source(), Type::TEXT),
                (&reason, Type::TEXT),
                (&description, Type::TEXT),
            ];
            rows(&**transaction, &sql, &parameters).await?;
            pumped.targets.insert(subscription.id);
            if subscription.forwards {
                pumped.next.insert(subscription.id);
            }
        }
    }
    Ok(())
}

struct Leaving<'m> {
    id: i64,
    part: i16,
    hops: i16,
    message: &'m Message,
}

/// Forwards a message. `false` if it stays, as a dead letter.
async fn forward(
    inner: &Arc<Inner>,
    transaction: &mut Transaction<'_>,
    from: &From,
    leaving: Leaving<'_>,
    pumped: &mut Pumped,
) -> Result<bool, Failure> {
    let Leaving { id, part, hops, message } = leaving;
    if hops >= MAX_HOPS {
        let dead_letter = DeadLetter::new(DeadLetterReason::MaxTransferHopCountExceeded, "");
        stay(inner, transaction, id, &dead_letter, true).await?;
        pumped.died = true;
        return Ok(false);
    }
    let target = if part == 0 { &from.forward_to } else { &from.forward_dead_to };
    match offer(inner, transaction, target.as_deref(), from, part, hops, message).await? {
        Ok((target, forwards)) => {
            pumped.targets.insert(target);
            if forwards {
                pumped.next.insert(target);
            }
            Ok(true)
        }
        Err(refused) => {
            let dead_letter = DeadLetter::new(DeadLetterReason::ForwardTargetUnavailable, refused.to_string());
            stay(inner, transaction, id, &dead_letter, false).await?;
            // A dead letter that stays is tried again later, and not at once.
            pumped.died = part == 0;
            Ok(false)
        }
    }
}

/// Sends a message to the entity of this name. The inner error is its refusal.
async fn offer(
    inner: &Arc<Inner>,
    transaction: &mut Transaction<'_>,
    target: Option<&str>,
    from: &From,
    part: i16,
    hops: i16,
    message: &Message,
) -> Result<Result<(i64, bool), SendError>, Failure> {
    let sql = inner.sql("SELECT id, kind = 1 OR forward_to IS NOT NULL FROM {s}.entities WHERE key = $1");
    let found = rows(&**transaction, &sql, &[(&target, Type::TEXT)]).await?;
    let Some(row) = found.first() else { return Ok(Err(SendError::new(ErrorKind::EntityNotFound))) };
    let (to, forwards): (i64, bool) = (row.try_get(0)?, row.try_get(1)?);
    let received = message.received().copied();
    let number = received.map_or(0, |received| match received.enqueued_sequence_number.get() {
        0 => received.sequence_number.get(),
        first => first,
    });
    let prepared = match Prepared::of(message.clone()) {
        Ok(prepared) => prepared.now(),
        Err(refused) => return Ok(Err(refused)),
    };
    let source = if part == 1 { Some(from.path.as_str()) } else { message.dead_letter_source() };
    let origin = Origin { number: number.cast_signed(), hops: hops + 1, source };
    let savepoint = transaction.transaction().await?;
    match insert(&*savepoint, &inner.schema, to, &[&prepared], origin).await {
        Ok(_) => {
            savepoint.commit().await?;
            Ok(Ok((to, forwards)))
        }
        Err(failure) if failure.state().is_some_and(|state| state.starts_with("CN")) => {
            savepoint.rollback().await?;
            Ok(Err(failure.into()))
        }
        Err(failure) => Err(failure),
    }
}

async fn stay(
    inner: &Arc<Inner>,
    transaction: &Transaction<'_>,
    id: i64,
    dead_letter: &DeadLetter,
    stays: bool,
) -> Result<(), Failure> {
    let (reason, description) = (dead_letter.reason.as_str(), &*dead_letter.description);
    let description = Some(description).filter(|text| !text.is_empty());
    let parameters: [Parameter<'_>; 4] =
        [(&id, Type::INT8), (&reason, Type::TEXT), (&description, Type::TEXT), (&stays, Type::BOOL)];
    rows(&**transaction, &inner.sql("SELECT {s}.stay($1, $2, $3, $4)"), &parameters).await.map(drop)
}
