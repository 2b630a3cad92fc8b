//! Completions that wait for each other share one statement.

use std::collections::HashSet;

use consign_core::transport::SettleError;
use futures_util::{StreamExt, stream};
use tokio::sync::{mpsc, oneshot};
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::{
    database::{Database, Parameter},
    failure::Failure,
    pending::Work,
    schema::Schema,
    settle::{Action, Token, settle},
};

/// A message to be completed, of no session, and the caller that waits for it.
pub(crate) struct Completion {
    pub(crate) token: Token,
    pub(crate) answer: oneshot::Sender<Result<(), SettleError>>,
    pub(crate) work: Work,
}

/// How many are completed together at most, and how many may wait for that.
const TOGETHER: usize = 1_024;
pub(crate) const WAITING: usize = 1_024;
/// Statements in flight.
const AT_ONCE: usize = 2;

/// Completes messages until all senders of requests are dropped.
pub(crate) async fn run(database: Database, schema: Schema, requests: mpsc::Receiver<Completion>) {
    let batches = stream::unfold(requests, |mut requests| async {
        let mut batch = Vec::new();
        (requests.recv_many(&mut batch, TOGETHER).await > 0).then_some((batch, requests))
    });
    batches.for_each_concurrent(AT_ONCE, |batch| complete(&database, &schema, batch)).await;
}

async fn complete(database: &Database, schema: &Schema, batch: Vec<Completion>) {
    let left = match together(database, schema, &batch).await {
        // Without a connection each of them would wait for one, or ask for one, in turn.
        Err(failure)
            if failure.is_of_connection() || matches!(failure, Failure::Pool(_) | Failure::NotConnected(_)) =>
        {
            let error = SettleError::from(failure);
            for request in batch {
                let detail = error.description().unwrap_or_default().to_owned();
                let one = SettleError::new(error.kind()).with_detail(detail).with_retryable(error.is_retryable());
                let _ = request.answer.send(Err(one));
            }
            return;
        }
        // One of them failed the statement, so they are completed one by one.
        Err(_) => batch.iter().map(|request| (request.token.id, request.token.lock)).collect(),
        Ok(left) => left,
    };
    for Completion { token, answer, work: _work } in batch {
        let outcome =
            if left.contains(&(token.id, token.lock)) { alone(database, schema, &token).await } else { Ok(()) };
        let _ = answer.send(outcome);
    }
}

/// Returns which of them are not completed.
async fn together(database: &Database, schema: &Schema, batch: &[Completion]) -> Result<HashSet<(i64, Uuid)>, Failure> {
    let sql = format!("SELECT id, token FROM {}.complete($1, $2)", schema.identifier);
    let ids: Vec<i64> = batch.iter().map(|request| request.token.id).collect();
    let tokens: Vec<Uuid> = batch.iter().map(|request| request.token.lock).collect();
    let parameters: [Parameter<'_>; 2] = [(&tokens, Type::UUID_ARRAY), (&ids, Type::INT8_ARRAY)];
    let rows = database.rows(&sql, &parameters).await?;
    Ok(rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect::<Result<_, tokio_postgres::Error>>()?)
}

/// Reports also why it is not completed.
pub(crate) async fn alone(database: &Database, schema: &Schema, token: &Token) -> Result<(), SettleError> {
    let settled =
        database.with(async |client| settle(&database.on(client), schema, token, &Action::complete()).await).await;
    settled?.into_result(token)
}
