//! Copies of the messages of a topic, for its subscriptions.

use std::{borrow::Cow, sync::Arc};

use consign_core::{
    Message,
    settlement::{DeadLetter, DeadLetterReason},
    transport::SendError,
};
use deadpool_postgres::Transaction;
use futures_util::future::try_join_all;
use tokio_postgres::types::Type;

use crate::{
    Inner,
    database::{Parameter, rows},
    dead_letter,
    failure::Failure,
    leaving::{Leaving, Pumped},
    log,
    prepared::Prepared,
    rules::Rules,
};

/// A subscription of a topic.
pub(crate) struct Subscription {
    id: i64,
    sessions: bool,
    dead_on_filter_error: bool,
    forwards: bool,
    rules: Arc<Rules>,
}

/// Returns all subscriptions of a topic.
pub(crate) async fn subscriptions(
    inner: &Arc<Inner>,
    transaction: &Transaction<'_>,
    topic: i64,
) -> Result<Vec<Subscription>, Failure> {
    let sql = inner.sql(
        "SELECT id, sessions, dead_on_filter_error, forward_to IS NOT NULL OR forward_dead_to IS NOT NULL, version
        FROM {s}.entities WHERE topic = $1 ORDER BY key",
    );
    let mut all = Vec::new();
    for row in rows(transaction, &sql, &[(&topic, Type::INT8)]).await? {
        let (id, version): (i64, i64) = (row.try_get(0)?, row.try_get(4)?);
        let rules = if let Some(rules) = inner.rules.get(id, version) {
            rules
        } else {
            let sql = inner.sql("SELECT key, rule::text FROM {s}.rules WHERE subscription = $1");
            let texts = rows(transaction, &sql, &[(&id, Type::INT8)]).await?;
            let texts = texts.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?)));
            inner.rules.put(id, version, &texts.collect::<Result<Vec<_>, tokio_postgres::Error>>()?)
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

/// How many subscriptions get their copies in one round trip, and up to how many bytes.
const AT_ONCE: usize = 32;
const AT_ONCE_BYTES: usize = 4 << 20;

/// Copies a message to the subscriptions whose rules match it. A subscription that cannot have its copies gets the message
/// unchanged, as a dead letter.
pub(crate) async fn copy(
    inner: &Arc<Inner>,
    transaction: &Transaction<'_>,
    leaving: &Leaving<'_>,
    subscriptions: &[Subscription],
    pumped: &mut Pumped,
) -> Result<(), Failure> {
    let at_once = (AT_ONCE_BYTES / leaving.message.size().max(1)).clamp(1, AT_ONCE);
    for subscriptions in subscriptions.chunks(at_once) {
        let mut copied = Vec::with_capacity(subscriptions.len());
        for subscription in subscriptions {
            copied.push(copy_to(inner, transaction, leaving, subscription));
        }
        for (subscription, has_copies) in subscriptions.iter().zip(try_join_all(copied).await?) {
            if has_copies {
                pumped.targets.insert(subscription.id);
            }
            if has_copies && subscription.forwards {
                pumped.next.insert(subscription.id);
            }
        }
    }
    Ok(())
}

/// Copies a message to a subscription, and returns whether its rules match it.
async fn copy_to(
    inner: &Arc<Inner>,
    transaction: &Transaction<'_>,
    leaving: &Leaving<'_>,
    subscription: &Subscription,
) -> Result<bool, Failure> {
    match subscription.copies_of(leaving.message) {
        Ok(copies) => {
            let has_copies = !copies.is_empty();
            for copy in copies {
                copy.insert(inner, transaction, leaving, subscription.id).await?;
            }
            Ok(has_copies)
        }
        Err(dead_letter) => {
            let (reason, description) = dead_letter::columns(&dead_letter);
            let parameters: [Parameter<'_>; 4] = [
                (&subscription.id, Type::INT8),
                (&leaving.id, Type::INT8),
                (&reason, Type::TEXT),
                (&description, Type::TEXT),
            ];
            rows(transaction, &inner.sql("SELECT {s}.copy_dead($1, $2, $3, $4)"), &parameters).await?;
            Ok(true)
        }
    }
}

impl Subscription {
    /// Returns the copies of a message, or why the subscription gets a dead letter instead.
    fn copies_of(&self, message: &Message) -> Result<Vec<Copy>, DeadLetter> {
        if let Some(why) = &self.rules.unreadable {
            let reason = DeadLetterReason::Application(Cow::Borrowed("FilterException"));
            return Err(DeadLetter::new(reason, why.clone()));
        }
        let copies = match self.rules.set.evaluate(message) {
            Ok(copies) => copies,
            Err(failure) if !self.dead_on_filter_error => failure.into_copies(),
            Err(failure) => {
                let reason = DeadLetterReason::Application(failure.reason().into());
                return Err(DeadLetter::new(reason, failure.to_string()));
            }
        };
        let plain = copies.plain.then(|| message.clone());
        let copies = plain.into_iter().chain(copies.changed).map(|copy| self.prepare(copy));
        copies.collect::<Result<_, SendError>>().map_err(|refused| {
            log::copy_not_stored(self.id, &refused);
            dead_letter::not_stored(&refused)
        })
    }

    fn prepare(&self, copy: Message) -> Result<Copy, SendError> {
        let has_no_session = self.sessions && copy.session_id().is_none();
        let dead = has_no_session.then(|| DeadLetter::new(DeadLetterReason::SessionIdIsNull, ""));
        Ok(Copy { prepared: Prepared::of(copy)?, dead })
    }
}

/// A copy, which may arrive as a dead letter.
struct Copy {
    prepared: Prepared,
    dead: Option<DeadLetter>,
}

impl Copy {
    async fn insert(
        self,
        inner: &Arc<Inner>,
        transaction: &Transaction<'_>,
        of: &Leaving<'_>,
        subscription: i64,
    ) -> Result<(), Failure> {
        let (properties, body, size, session, ttl) = self.prepared.into_parts();
        let (reason, description) = self.dead.as_ref().map(dead_letter::columns).unzip();
        let sql = inner.sql("SELECT {s}.copy($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)");
        let parameters: [Parameter<'_>; 11] = [
            (&subscription, Type::INT8),
            (&properties, Type::TEXT),
            (&&*body, Type::BYTEA),
            (&size, Type::INT4),
            (&session, Type::BYTEA),
            (&ttl, Type::INT8),
            (&of.origin(), Type::INT8),
            (&of.hops, Type::INT2),
            (&of.message.dead_letter_source(), Type::TEXT),
            (&reason, Type::TEXT),
            (&description.flatten(), Type::TEXT),
        ];
        rows(transaction, &sql, &parameters).await.map(drop)
    }
}
