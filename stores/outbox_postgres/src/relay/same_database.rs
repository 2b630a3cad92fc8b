//! Sending to queues of `consign-postgres` in the database of the table: sent and deleted by one transaction.

use std::{collections::HashSet, error, time::Duration};

use consign_core::transport::{ErrorKind, SendError};
use consign_postgres::Postgres;
use tokio::time::timeout;
use tokio_postgres::{
    Client,
    error::{Severity, SqlState},
    types::{ToSql, Type},
};

use super::{
    Progress, RelayMode,
    connection::within,
    rows::{self, Outcome, Report, Waiting},
    senders::{groups, outcome},
};
use crate::{Outbox, OutboxError, OutboxErrorKind, error::described, log};

/// Sends in the transaction that deletes the rows, exactly once.
pub struct SameDatabase(Postgres);

impl SameDatabase {
    pub(super) fn new(postgres: Postgres) -> Self {
        Self(postgres)
    }

    /// Sends the messages of one destination, all or none. Returns the numbers of their rows: others may be gone.
    async fn send(
        &self,
        client: &mut Client,
        outbox: &Outbox,
        group: &[Waiting],
        limit: Duration,
    ) -> Result<Result<HashSet<i64>, SendError>, OutboxError> {
        let Some(first) = group.first() else { return Ok(Ok(HashSet::new())) };
        let sender = match self.0.sender(&first.destination).await {
            Ok(sender) => sender,
            Err(error) => return Ok(Err(error)),
        };
        let transaction = client.transaction().await?;
        let ids: Vec<i64> = group.iter().map(|row| row.id).collect();
        // The server ends a statement that waits for a lock, so the connection stays usable for other destinations.
        let limit = format!("SET LOCAL statement_timeout = {}", limit.as_millis());
        let sql = format!("DELETE FROM {} WHERE id = ANY($1) AND refused IS NULL RETURNING id", outbox.table.quoted());
        let parameters: [(&(dyn ToSql + Sync), Type); 1] = [(&ids, Type::INT8_ARRAY)];
        let deleting = transaction.query_typed(&sql, &parameters);
        let deleted = match tokio::try_join!(transaction.batch_execute(&limit), deleting) {
            Err(error) if is_of_statement(&error) => {
                transaction.rollback().await?;
                return Ok(Err(failed(error)));
            }
            deleted => deleted?.1,
        };
        let deleted = deleted.iter().map(|row| row.try_get(0)).collect::<Result<HashSet<i64>, _>>()?;
        // Each of them was decoded before.
        let messages = group.iter().filter(|row| deleted.contains(&row.id));
        let messages = messages.filter_map(|row| row.message().ok());
        match sender.send_in(&transaction, messages).await {
            Ok(()) => match transaction.commit().await {
                Err(error) if is_of_statement(&error) => Ok(Err(failed(error))),
                committed => {
                    committed?;
                    Ok(Ok(deleted))
                }
            },
            Err(error) => {
                transaction.rollback().await?;
                Ok(Err(error))
            }
        }
    }

    async fn send_and_record(
        &self,
        client: &mut Client,
        group: Vec<Waiting>,
        to: &mut Progress,
    ) -> Result<Step, OutboxError> {
        let limit = to.send_timeout;
        // Each statement has the limit. Beyond it the connection is given up with what runs on it, and the destination pauses, so
        // that the others are sent by the next one.
        let longest = limit.saturating_add(to.timeout);
        let Ok(sent) = timeout(longest, self.send(client, &to.outbox, &group, limit)).await else {
            let error = OutboxError::new(OutboxErrorKind::Database, format!("no answer within {longest:?}"));
            to.add(&first_report(&group, Outcome::Failed { error: error.to_string(), is_whole: true }));
            return Err(error);
        };
        let error = match sent? {
            Ok(deleted) => {
                let sent = group.iter().filter(|row| deleted.contains(&row.id));
                to.add(&sent.map(|row| row.report(Outcome::Sent)).collect::<Vec<_>>());
                return Ok(Step::Done);
            }
            Err(error) => error,
        };
        let outcome = outcome(&error).of_destination();
        let is_failed = matches!(outcome, Outcome::Failed { .. });
        // Of a full queue a part of them may fit, and a batch that is larger than the queue never would.
        if group.len() > 1 && (!is_failed || error.kind() == ErrorKind::QuotaExceeded) {
            return Ok(Step::Each(group));
        }
        for report in first_report(&group, outcome) {
            if !record(client, report, to).await? {
                return Ok(Step::Failed);
            }
        }
        Ok(if is_failed { Step::Failed } else { Step::Done })
    }
}

/// Returns whether the server refused a statement, and the connection is still usable.
fn is_of_statement(error: &tokio_postgres::Error) -> bool {
    // Class 08 is a lost connection, and 57P01 and the like the end of the server. 25006 is that of a server that is no longer the
    // primary, to which another connection may lead. 25P03 has ended the connection, as each fatal error.
    let ends = ["08", "57P", "25006", "25P03"];
    error.as_db_error().is_some_and(|error| {
        let is_fatal = matches!(error.parsed_severity(), Some(Severity::Fatal | Severity::Panic));
        !is_fatal && !ends.iter().any(|end| error.code().code().starts_with(end))
    })
}

/// Records that a message is refused, or has failed. Returns `false` if the server refuses that: the destination pauses, so that
/// the others are sent.
async fn record(client: &Client, report: Report, to: &mut Progress) -> Result<bool, OutboxError> {
    let mut report = [report];
    let is_failed = matches!(report, [Report { outcome: Outcome::Failed { .. }, .. }]);
    if is_failed {
        // The pause does not depend on the table.
        to.add(&report);
    }
    let error = match within(to.timeout, rows::record(client, &to.outbox, &report)).await {
        Ok(locked) => {
            if !locked.is_empty() {
                report[0].locked(true);
            }
            if !is_failed {
                to.add(&report);
            }
            return Ok(locked.is_empty());
        }
        Err(error) => error,
    };
    let source = error::Error::source(&error).and_then(|source| source.downcast_ref());
    let (is_statement, is_time) = (source.is_some_and(is_of_statement), source.is_none());
    if !is_failed && (is_statement || is_time) {
        let outcome = || Outcome::Failed { error: error.to_string(), is_whole: true };
        to.add(&report.map(|report| Report { outcome: outcome(), ..report }));
    }
    // After a timeout the statement still runs on the connection.
    if is_statement {
        log::not_recorded(&error);
        return Ok(false);
    }
    Err(error)
}

/// A lock that was not free in time, a deadlock, or the like: the destination pauses, and the others are sent.
fn failed(error: tokio_postgres::Error) -> SendError {
    let is_time = error.code() == Some(&SqlState::QUERY_CANCELED);
    let kind = if is_time { ErrorKind::ServiceTimeout } else { ErrorKind::ServiceBusy };
    let detail = error.as_db_error().map_or_else(String::new, described);
    SendError::new(kind).with_detail(detail).with_source(error)
}

/// What became of a group.
enum Step {
    /// Its rows are sent or refused.
    Done,
    /// One of its rows is refused, or all of them do not fit: each is sent alone.
    Each(Vec<Waiting>),
    /// It is sent again, before all later rows of its destination.
    Failed,
}

/// What happened to a group is reported of its first row.
fn first_report(group: &[Waiting], outcome: Outcome) -> Vec<Report> {
    group.first().map(|row| row.report(outcome)).into_iter().collect()
}

impl RelayMode for SameDatabase {
    async fn relay(&mut self, client: &mut Client, rows: Vec<Waiting>, to: &mut Progress) -> Result<(), OutboxError> {
        for group in groups(rows, false) {
            let (mut messages, mut others) = (Vec::with_capacity(group.len()), Vec::new());
            for row in group {
                match row.path().and_then(|_| row.message()) {
                    Ok(_) => messages.push(row),
                    Err(why) => others.push(row.report(Outcome::Refused(format!("the row is not a message: {why}")))),
                }
            }
            let mut are_recorded = true;
            for report in others {
                are_recorded = are_recorded && record(client, report, to).await?;
            }
            if !are_recorded {
                continue;
            }
            let Step::Each(each) = self.send_and_record(client, messages, to).await? else { continue };
            for row in each {
                // Its pause may have ended already.
                if let Step::Failed = self.send_and_record(client, vec![row], to).await? {
                    break;
                }
            }
        }
        Ok(())
    }
}
