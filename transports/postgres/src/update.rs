//! New settings of an entity that exists.

use std::sync::Arc;

use consign_core::{administration::EntitySettings, message::EntityPath, transport::ManageError};
use deadpool_postgres::{Object, Transaction};
use tokio_postgres::types::Type;

use crate::{
    Inner,
    database::{Parameter, rows},
    entity::{key, missing},
    failure::Failure,
    manage::{check_forwards, check_path},
    pump,
    settings::Columns,
};

/// Replaces the settings of an entity, in one transaction.
pub(crate) async fn update(
    inner: &Arc<Inner>,
    path: &EntityPath,
    settings: &EntitySettings,
) -> Result<(), ManageError> {
    let new = Columns::new(settings)?;
    check_path(path, new.kind())?;
    check_forwards(inner, path, &new).await?;
    let changed = inner.database.with(async |client| change(inner, client, path, &new).await).await?;
    let (entity, is_leaving) = changed?;
    if is_leaving {
        pump::try_pump(inner, entity).await;
    }
    inner.quota.forget(entity);
    inner.hub.wake(entity);
    Ok(())
}

/// Returns the entity, and whether its messages may be forwarded.
async fn change(
    inner: &Inner,
    client: &mut Object,
    path: &EntityPath,
    new: &Columns,
) -> Result<Result<(i64, bool), ManageError>, Failure> {
    let transaction = client.transaction().await?;
    let find =
        inner.sql(&format!("SELECT id, {} FROM {{s}}.entities WHERE key = $1 FOR NO KEY UPDATE", Columns::NAMES));
    let found = rows(&transaction, &find, &[(&key(path), Type::TEXT)]).await?;
    let Some(row) = found.first() else { return Ok(Err(missing(path))) };
    let (entity, old): (i64, Columns) = (row.try_get(0)?, Columns::read(row, 1)?);
    if old.kind() != new.kind() {
        return Ok(Err(missing(path)));
    }
    if let Err(refused) = old.to_queue().check_fixed(&new.to_queue()) {
        return Ok(Err(refused));
    }
    // What is numbered meanwhile has the new settings, and what was numbered before is forwarded below.
    let numbers = inner.sql("SELECT FROM {s}.numbers WHERE entity = $1 FOR UPDATE");
    rows(&transaction, &numbers, &[(&entity, Type::INT8)]).await?;
    let replace = inner.sql(&format!(
        "UPDATE {{s}}.entities SET ({}) = ROW ($2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) WHERE id = $1",
        Columns::NAMES
    ));
    let mut parameters: Vec<Parameter<'_>> = vec![(&entity, Type::INT8)];
    parameters.extend(new.parameters());
    rows(&transaction, &replace, &parameters).await?;
    if old.lock_ms != new.lock_ms || old.forward_to != new.forward_to {
        release(inner, &transaction, entity).await?;
    }
    if old.forward_to.is_some() != new.forward_to.is_some() {
        forward(inner, &transaction, entity, 0, new.forward_to.is_some()).await?;
    }
    if old.forward_dead_to.is_some() != new.forward_dead_to.is_some() {
        forward(inner, &transaction, entity, 1, new.forward_dead_to.is_some()).await?;
    }
    // A process that misses it reads the settings within a minute.
    let changed = format!("SELECT pg_notify({}, '=' || $1)", inner.schema.channel_literal);
    rows(&transaction, &changed, &[(&entity.to_string(), Type::TEXT)]).await?;
    transaction.commit().await?;
    Ok(Ok((entity, new.forward_to.is_some() || new.forward_dead_to.is_some())))
}

/// Releases all locks without a count, except of messages that another transaction is about to settle.
async fn release(inner: &Inner, transaction: &Transaction<'_>, entity: i64) -> Result<(), Failure> {
    for sql in [
        "SELECT {s}.unshare(ARRAY(SELECT token FROM {s}.locks WHERE entity = $1))",
        // A receive that is under way has the row of its session until what it locks can be seen.
        "WITH held AS MATERIALIZED (
            SELECT session FROM {s}.sessions WHERE entity = $1 AND token IS NOT NULL ORDER BY session FOR UPDATE
        )
        SELECT {s}.unlock_session({s}.entity($1), session, {s}.now(), 0) FROM held WHERE NOT {s}.is_kept($1, session)",
        "SELECT {s}.unlock({s}.entity($1), ARRAY(
            SELECT id FROM {s}.messages
            WHERE entity = $1 AND state IN (2, 4) AND state > 0 AND due < 'infinity'
            ORDER BY number FOR UPDATE SKIP LOCKED
        ), {s}.now(), 0)",
    ] {
        rows(transaction, &inner.sql(sql), &[(&entity, Type::INT8)]).await?;
    }
    Ok(())
}

/// Has the messages of a part leave the entity, or stay.
async fn forward(
    inner: &Inner,
    transaction: &Transaction<'_>,
    entity: i64,
    part: i16,
    is_on: bool,
) -> Result<(), Failure> {
    let sql = if is_on {
        "UPDATE {s}.messages SET state = 7, due = CASE part WHEN 0 THEN expires ELSE 'infinity' END
        WHERE entity = $1 AND part = $2 AND state IN (1, 6) AND number IS NOT NULL AND NOT stays"
    } else {
        "UPDATE {s}.messages SET state = 1 WHERE entity = $1 AND part = $2 AND state = 7"
    };
    rows(transaction, &inner.sql(sql), &[(&entity, Type::INT8), (&part, Type::INT2)]).await.map(drop)
}
