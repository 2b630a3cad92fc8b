//! A message is sent to the target that its entity forwards to, or stays.

use std::sync::Arc;

use consign_core::{
    settlement::DeadLetter,
    transport::{ErrorKind, SendError},
};
use deadpool_postgres::Transaction;
use tokio_postgres::types::Type;

use crate::{
    Inner,
    database::{Parameter, rows},
    dead_letter,
    failure::Failure,
    leaving::{Leaving, Pumped},
    log,
    prepared::{Origin, Prepared, insert},
    quota::{self, Budget, Space},
};

/// How often a message is forwarded at most.
pub(crate) const MAX_HOPS: i16 = 4;

/// The entity that messages are forwarded from.
pub(crate) struct From {
    pub(crate) path: String,
    pub(crate) is_topic: bool,
    pub(crate) forward_to: Option<String>,
    pub(crate) forward_dead_to: Option<String>,
}

impl From {
    /// Returns the target of the messages of a part.
    pub(crate) fn target(&self, part: i16) -> Option<&str> {
        let target = if part == 0 { &self.forward_to } else { &self.forward_dead_to };
        target.as_deref()
    }
}

/// What became of a message.
pub(crate) enum Done {
    Left,
    /// It is a dead letter of its entity.
    Stays,
    /// Its target, which has this id, is to be summed up first.
    Waits(i64),
}

/// Why a message is not forwarded.
enum Refused {
    /// The target does not take it now.
    Now(SendError),
    /// It cannot be stored again.
    ForGood(SendError),
    /// The target is to be summed up first.
    NotSummed(i64),
}

/// Forwards a message.
pub(crate) async fn forward(
    inner: &Arc<Inner>,
    transaction: &mut Transaction<'_>,
    from: &From,
    leaving: &Leaving<'_>,
    budget: &mut Option<Budget>,
    pumped: &mut Pumped,
) -> Result<Done, Failure> {
    let &Leaving { id, part, hops, .. } = leaving;
    let target = from.target(part).unwrap_or_default();
    if hops >= MAX_HOPS {
        log::too_many_hops(&from.path, target);
        let dead_letter = DeadLetter::max_transfer_hop_count_exceeded(MAX_HOPS.unsigned_abs(), target);
        stay(inner, transaction, id, &dead_letter, true).await?;
        pumped.died = true;
        return Ok(Done::Stays);
    }
    match offer(inner, transaction, from, leaving, budget).await? {
        Ok((target, forwards)) => {
            pumped.targets.insert(target);
            if forwards {
                pumped.next.insert(target);
            }
            Ok(Done::Left)
        }
        Err(Refused::Now(refused)) => {
            log::target_unavailable(&from.path, target, part, &refused);
            let dead_letter = DeadLetter::forward_target_unavailable(target, &refused);
            stay(inner, transaction, id, &dead_letter, false).await?;
            // A dead letter that stays is tried again later, and not at once.
            pumped.died |= part == 0;
            Ok(Done::Stays)
        }
        Err(Refused::NotSummed(target)) => Ok(Done::Waits(target)),
        Err(Refused::ForGood(refused)) => {
            log::not_stored(&from.path, target, id, &refused);
            stay(inner, transaction, id, &dead_letter::not_forwarded(target, &refused), true).await?;
            pumped.died = true;
            Ok(Done::Stays)
        }
    }
}

/// Sends a message to its target. The inner error is its refusal.
async fn offer(
    inner: &Arc<Inner>,
    transaction: &mut Transaction<'_>,
    from: &From,
    leaving: &Leaving<'_>,
    budget: &mut Option<Budget>,
) -> Result<Result<(i64, bool), Refused>, Failure> {
    let Leaving { part, hops, message, .. } = leaving;
    let sql = inner.sql("SELECT id, kind = 1 OR forward_to IS NOT NULL FROM {s}.entities WHERE key = $1");
    let found = rows(transaction, &sql, &[(&from.target(*part), Type::TEXT)]).await?;
    let Some(row) = found.first() else { return Ok(Err(Refused::Now(SendError::new(ErrorKind::EntityNotFound)))) };
    let (to, forwards): (i64, bool) = (row.try_get(0)?, row.try_get(1)?);
    let prepared = match Prepared::of((*message).clone()) {
        Ok(prepared) => prepared.now(),
        Err(refused) => return Ok(Err(Refused::ForGood(refused))),
    };
    let bytes = prepared.size.try_into().unwrap_or(0);
    match quota::check_in(inner, transaction, to, bytes, budget).await? {
        Space::Free => {}
        Space::Full(full) => return Ok(Err(Refused::Now(full))),
        Space::Unknown => return Ok(Err(Refused::NotSummed(to))),
    }
    let source = if *part == 1 { Some(from.path.as_str()) } else { message.dead_letter_source() };
    let origin = Origin { number: leaving.origin(), hops: hops + 1, source };
    let savepoint = transaction.transaction().await?;
    match insert(&*savepoint, &inner.schema, (to, true), &[&prepared], origin).await {
        Ok(_) => {
            savepoint.commit().await?;
            Ok(Ok((to, forwards)))
        }
        Err(failure) if failure.state().is_some_and(|state| state.starts_with("CN")) => {
            savepoint.rollback().await?;
            quota::refused(inner, to, 1, bytes);
            Ok(Err(Refused::Now(failure.into())))
        }
        Err(failure) => Err(failure),
    }
}

/// Keeps a message, as a dead letter that is forwarded later, or `stays`.
pub(crate) async fn stay(
    inner: &Arc<Inner>,
    transaction: &Transaction<'_>,
    id: i64,
    dead_letter: &DeadLetter,
    stays: bool,
) -> Result<(), Failure> {
    let (reason, description) = dead_letter::columns(dead_letter);
    let parameters: [Parameter<'_>; 4] =
        [(&id, Type::INT8), (&reason, Type::TEXT), (&description, Type::TEXT), (&stays, Type::BOOL)];
    rows(transaction, &inner.sql("SELECT {s}.stay($1, $2, $3, $4)"), &parameters).await.map(drop)
}
