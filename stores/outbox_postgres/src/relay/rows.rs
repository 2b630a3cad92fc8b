//! The rows of a table: read, deleted when they are sent, and marked when they are not.

use consign_core::{Message, message::EntityPath};
use tokio_postgres::{
    Client,
    types::{ToSql, Type},
};

use super::pauses::Selection;
use crate::{Outbox, OutboxError, encoding};

/// How many bytes of messages are read at once. A batch that takes too long to arrive would be read again and again.
const MOST_BYTES: i64 = 8 << 20;

/// A message that waits.
#[derive(Debug)]
pub struct Waiting {
    pub(super) id: i64,
    pub(super) destination: String,
    pub(super) session: Option<String>,
    pub(super) message_id: String,
    pub(super) message: Vec<u8>,
}

/// The result of a send, of the message of one row.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) id: i64,
    pub(super) destination: String,
    pub(super) session: Option<String>,
    pub(super) message_id: String,
    pub(super) outcome: Outcome,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Sent,
    /// For good.
    Refused(String),
    /// It is sent again.
    Failed(String),
}

impl Waiting {
    pub(super) fn report(&self, outcome: Outcome) -> Report {
        let (destination, session) = (self.destination.clone(), self.session.clone());
        Report { id: self.id, destination, session, message_id: self.message_id.clone(), outcome }
    }

    /// The path of the destination. Another program may have written the row.
    pub(super) fn path(&self) -> Result<EntityPath, String> {
        EntityPath::new(&self.destination).map_err(|error| error.to_string())
    }

    /// The message, with the ids of the columns where it has none: each attempt has to have the same MessageId.
    pub(super) fn message(&self) -> Result<Message, String> {
        let mut message = encoding::decode(self.message.clone())?;
        let properties = message.properties_mut();
        match properties.message_id() {
            // A retry would not be recognised.
            None if self.message_id.is_empty() => {
                return Err("neither the column nor the message has a MessageId".into());
            }
            _ if self.message_id.is_empty() => {}
            Some(id) if id != self.message_id => return Err("the column message_id has another id".into()),
            Some(_) => {}
            None => drop(properties.set_message_id(self.message_id.clone()).map_err(|error| error.to_string())?),
        }
        match (properties.session_id(), &self.session) {
            (Some(id), Some(session)) if id != session => Err("the column session has another id".into()),
            (None, Some(session)) => {
                properties.set_session_id(session.clone()).map_err(|error| error.to_string())?;
                Ok(message)
            }
            _ => Ok(message),
        }
    }
}

/// Returns the oldest rows of some destinations: the first one, and others as far as [`MOST_BYTES`] allow. The number is how many
/// were found.
pub(super) async fn read(
    client: &Client,
    outbox: &Outbox,
    max: i64,
    selection: &Selection,
) -> Result<(Vec<Waiting>, usize), OutboxError> {
    let mut parameters: Vec<(&(dyn ToSql + Sync), Type)> =
        vec![(&selection.listed, Type::TEXT_ARRAY), (&max, Type::INT8), (&MOST_BYTES, Type::INT8)];
    let listed = if selection.is_only { "= ANY" } else { "<> ALL" };
    // Only where it is needed: PostgreSQL cannot estimate it, and might not use the index.
    let share = selection.share.as_ref().map_or("", |(seed, bits)| {
        parameters.extend([(seed as &(dyn ToSql + Sync), Type::INT8), (bits, Type::INT8)]);
        "AND (hashtextextended(destination, $4) & $5) = 0"
    });
    let sql = format!(
        "SELECT id, destination, session, message_id, message, found FROM (\
           SELECT *, sum(octet_length(message)) OVER (ORDER BY id) AS bytes, count(*) OVER () AS found FROM (\
             SELECT id, destination, session, message_id, message FROM {} WHERE refused IS NULL \
             AND destination {listed}($1) {share} ORDER BY id LIMIT $2) oldest) summed \
         WHERE bytes <= $3 OR bytes = octet_length(message) ORDER BY id",
        outbox.table.quoted()
    );
    let rows = client.query_typed(&sql, &parameters).await?;
    let found: i64 = rows.first().map_or(Ok(0), |row| row.try_get(5))?;
    let read = |row: tokio_postgres::Row| {
        Ok(Waiting {
            id: row.try_get(0)?,
            destination: row.try_get(1)?,
            session: row.try_get(2)?,
            message_id: row.try_get(3)?,
            message: row.try_get(4)?,
        })
    };
    let rows = rows.into_iter().map(read).collect::<Result<_, OutboxError>>()?;
    Ok((rows, usize::try_from(found).unwrap_or(usize::MAX)))
}

/// Deletes the rows of sent messages, and marks the others.
pub(super) async fn record(client: &Client, outbox: &Outbox, reports: &[Report]) -> Result<(), OutboxError> {
    let table = outbox.table.quoted();
    let sent: Vec<i64> =
        reports.iter().filter(|report| report.outcome == Outcome::Sent).map(|report| report.id).collect();
    if !sent.is_empty() {
        let sql = format!("DELETE FROM {table} WHERE id = ANY($1)");
        client.query_typed(&sql, &[(&sent, Type::INT8_ARRAY)]).await?;
    }
    for report in reports {
        let (error, is_refused) = match &report.outcome {
            Outcome::Sent => continue,
            Outcome::Refused(error) => (error, true),
            Outcome::Failed(error) => (error, false),
        };
        // A failure is not worth a wait: the lock of the row may be its reason.
        let row = if is_refused {
            "$1".to_owned()
        } else {
            format!("(SELECT id FROM {table} WHERE id = $1 FOR UPDATE SKIP LOCKED)")
        };
        let sql = format!(
            "UPDATE {table} SET attempts = attempts + 1, error = left($2, 4096), \
             refused = CASE WHEN $3 THEN clock_timestamp() ELSE refused END WHERE id = {row}"
        );
        // PostgreSQL has no zero byte in a text.
        let error = error.replace('\0', "");
        client.query_typed(&sql, &[(&report.id, Type::INT8), (&error, Type::TEXT), (&is_refused, Type::BOOL)]).await?;
    }
    Ok(())
}
