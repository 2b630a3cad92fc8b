use std::{collections::HashSet, sync::Arc};

use consign_amqp::{
    engine::Connection as Engine,
    value::{Array, Binary, Map, Timestamp as WireTimestamp, ValueType},
};
use consign_core::{
    Disposition,
    message::LockToken,
    settlement::{Changes, DeadLetter, DeadLetterReason},
    transport::{ErrorKind, SettleError},
};
use futures_util::{FutureExt, future::BoxFuture};

use crate::{
    connection::Client,
    errors::Failure,
    links::{
        leases::lock_lost,
        settle::{Settlement, changes},
    },
    locks::Lock,
    nodes::{
        ReplyTo, Request, Response,
        request::{Fields, wrong},
    },
};

impl Client {
    /// `renew-lock`.
    pub(super) fn renew_locks(&mut self, key: &Arc<str>, request: &Request) -> Result<Response, Failure> {
        let tokens = request.fields()?.tokens("lock-tokens")?;
        let renewed = self.shared.locks.renew_all(&tokens, key).ok_or_else(|| lock_lost(false))??;
        let expirations = renewed.into_iter().map(|until| WireTimestamp(until.as_millis()).into()).collect();
        let expirations = Array::new(ValueType::Timestamp, expirations);
        let mut body = Map::default();
        body.push("expirations", expirations.map_err(|error| Failure::argument(error.to_string()))?);
        Ok(Response::ok(body))
    }

    /// `update-disposition`: settles by lock token, whichever link has delivered the message.
    pub(super) fn update_disposition(
        &mut self,
        engine: &mut Engine,
        key: &Arc<str>,
        request: &Request,
        to: ReplyTo,
    ) -> Result<Option<Response>, Failure> {
        let fields = request.fields()?;
        let tokens = fields.tokens("lock-tokens")?;
        if tokens.iter().collect::<HashSet<_>>().len() < tokens.len() {
            return Err(Failure::argument("a lock token is repeated"));
        }
        let status = fields.text("disposition-status")?;
        if status == Some("renewed") {
            return self.renew_locks(key, request).map(Some);
        }
        let disposition = disposition(status.unwrap_or_default(), fields)?;
        let session = fields.text("session-id")?;
        let settlement = Settlement::By(disposition.clone());
        // A transaction checks when it commits.
        let checked = request.txn_id.is_none().then_some(&settlement);
        if let Some(txn_id) = &request.txn_id {
            self.transactions.open(txn_id)?;
        }
        let locks = self.shared.locks.take_all(&tokens, key, session, checked);
        let locks = locks.ok_or_else(|| lock_lost(session.is_some()))??;
        for token in &tokens {
            self.fetched.remove(token);
        }
        if let Some(txn_id) = &request.txn_id {
            return self.enlist_all(tokens.into_iter().zip(locks), txn_id, &disposition).map(Some);
        }
        // The broker settles within the calls: what follows is that it is stored.
        let mut settling = Vec::with_capacity(locks.len());
        for lock in locks {
            settling.push(Settlement::By(disposition.clone()).settle(lock.lease));
        }
        let settling: BoxFuture<'static, Result<(), SettleError>> = async move {
            for settled in settling {
                settled.await?;
            }
            Ok(())
        }
        .boxed();
        self.reply_with(engine, to, settling, |outcome: Result<(), SettleError>| {
            outcome.map_err(Failure::from)?;
            Ok(Response::ok(Map::default()))
        });
        Ok(None)
    }
}

impl Client {
    /// Has a transaction settle locks. The locks of a request that it refuses are kept.
    fn enlist_all(
        &mut self,
        mut locks: impl Iterator<Item = (LockToken, Lock)>,
        txn_id: &Binary,
        disposition: &Disposition,
    ) -> Result<Response, Failure> {
        let refused =
            locks.by_ref().find_map(|lock| self.enlist_lock(lock, txn_id, Settlement::By(disposition.clone())).err());
        locks.for_each(|(token, lock)| self.hold(token, lock));
        refused.map_or_else(|| Ok(Response::ok(Map::default())), Err)
    }
}

fn disposition(status: &str, fields: Fields<'_>) -> Result<Disposition, Failure> {
    let changes: Changes = changes(fields.map("properties-to-modify")?)?;
    Ok(match status {
        "completed" => Disposition::Complete,
        "abandoned" => Disposition::Abandon(changes),
        // The first is the spelling of the service.
        "defered" | "deferred" => Disposition::Defer(changes),
        "suspended" => {
            let reason = fields.text("deadletter-reason")?.unwrap_or_default().to_owned();
            let description = fields.text("deadletter-description")?.unwrap_or_default().to_owned();
            let mut dead_letter = DeadLetter::new(DeadLetterReason::Application(reason.into()), description);
            dead_letter.changes = changes;
            Disposition::DeadLetter(Box::new(dead_letter))
        }
        "" => return Err(Failure::argument("the request has no 'disposition-status'")),
        _ => return Err(wrong("disposition-status", "completed, abandoned, defered, suspended or renewed")),
    })
}

/// A kind for messages that a client fetches.
pub(super) fn too_many(limit: usize) -> Failure {
    Failure::new(ErrorKind::QuotaExceeded, format!("A connection has at most {limit} fetched messages."))
}
