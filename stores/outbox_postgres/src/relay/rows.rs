//! The rows of a table: read, deleted when they are sent, and marked when they are not.

use consign_core::{Message, message::EntityPath};
use tokio_postgres::{
    Client, Row,
    types::{ToSql, Type},
};

use super::{
    pauses::{Failure, Found, Step},
    reads::Reads,
};
use crate::{Outbox, OutboxError, encoding};

/// A message that waits.
#[derive(Debug)]
pub struct Waiting {
    pub(super) id: i64,
    pub(super) destination: String,
    pub(super) session: Option<String>,
    pub(super) message_id: String,
    pub(super) message: Vec<u8>,
    /// How often sending has failed.
    pub(super) attempts: i32,
    /// Whether it was sent, and its row could not be deleted.
    pub(super) is_sent: bool,
}

/// The result of a send, of the message of one row.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) id: i64,
    pub(super) destination: String,
    pub(super) session: Option<String>,
    pub(super) message_id: String,
    /// How often sending had failed before.
    pub(super) attempts: i32,
    pub(super) outcome: Outcome,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Sent,
    /// For good.
    Refused(String),
    /// It is sent again. `is_whole` if that is the failure of its destination, and not only of its session.
    Failed {
        error: String,
        is_whole: bool,
    },
}

impl Outcome {
    /// A failure is that of the destination.
    pub(super) fn of_destination(self) -> Self {
        match self {
            Self::Failed { error, .. } => Self::Failed { error, is_whole: true },
            other => other,
        }
    }
}

impl Report {
    pub(super) fn failure(&self, error: &str) -> Failure {
        let (message_id, attempts) = (self.message_id.clone(), self.attempts.saturating_add(1));
        Failure { row: self.id, message_id, attempts, error: error.to_owned() }
    }

    /// The result could not be recorded, because the row is locked: its session pauses.
    pub(super) fn locked(&mut self, is_whole: bool) {
        let error = match &self.outcome {
            Outcome::Sent => "it was sent, and its row is locked by another connection".to_owned(),
            Outcome::Refused(error) => {
                format!("it was refused, and its row is locked by another connection: {error}")
            }
            Outcome::Failed { .. } => return,
        };
        self.outcome = Outcome::Failed { error, is_whole };
    }
}

impl Waiting {
    pub(super) fn report(&self, outcome: Outcome) -> Report {
        let (destination, session) = (self.destination.clone(), self.session.clone());
        let (message_id, attempts) = (self.message_id.clone(), self.attempts);
        Report { id: self.id, destination, session, message_id, attempts, outcome }
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
        match (properties.session_id(), self.session.as_deref()) {
            // Its rows would have no order among those of the session.
            (Some(_), None) => Err("the column session is null, and the message has a SessionId".into()),
            (Some(id), Some(session)) if id != session => Err("the column session has another id".into()),
            (None, Some(session)) if !session.is_empty() => {
                properties.set_session_id(session.to_owned()).map_err(|error| error.to_string())?;
                Ok(message)
            }
            _ => Ok(message),
        }
    }
}

/// The MessageId of a row, as far as it can be one: a longer text is refused all the same, and another program may have written any.
pub(crate) const MESSAGE_ID: &str = "left(message_id, 129)";

/// How many bytes of a row are read. It needs no access to texts that are stored apart, except to the MessageId.
fn size() -> String {
    format!(
        "octet_length(message)::bigint + octet_length(destination) + coalesce(octet_length(session), 0) \
         + octet_length({MESSAGE_ID})"
    )
}

/// Returns the oldest rows: the first one, and others as far as the limits allow.
pub(super) async fn read_oldest(client: &Client, outbox: &Outbox, reads: &Reads) -> Result<Vec<Waiting>, OutboxError> {
    let sql = format!(
        "SELECT id, destination, session, {MESSAGE_ID}, message, attempts FROM (\
           SELECT *, sum(size) OVER (ORDER BY id) AS bytes FROM (\
             SELECT id, destination, session, message_id, message, attempts, {} AS size FROM {} WHERE refused IS NULL ORDER BY id LIMIT $1) oldest) summed \
         WHERE bytes <= $2 OR bytes = size ORDER BY id",
        size(),
        outbox.table.quoted()
    );
    let (rows, bytes) = (i64::try_from(reads.rows()).unwrap_or(i64::MAX), reads.bytes());
    let parameters: [(&(dyn ToSql + Sync), Type); 2] = [(&rows, Type::INT8), (&bytes, Type::INT8)];
    client.query_typed(&sql, &parameters).await?.iter().map(waiting).collect()
}

/// The name of a group in the index. A session and none differ, and the name is never empty.
const SESSION: &str = "coalesce('s' || session, 'n') COLLATE \"C\"";

/// Returns the next groups of a lap, by one look into the index for each of them, however many rows it has.
pub(super) async fn groups_after(client: &Client, outbox: &Outbox, step: &Step) -> Result<Vec<Found>, OutboxError> {
    let table = outbox.table.quoted();
    let next = |condition: &str| {
        format!(
            "(SELECT destination, coalesce('s' || session, 'n'), id FROM {table} WHERE refused IS NULL AND {condition} \
             ORDER BY destination COLLATE \"C\", {SESSION}, id LIMIT 1)"
        )
    };
    let session = next(&format!(
        "found.destination <> ALL($3) AND (destination COLLATE \"C\", {SESSION}) > (found.destination, found.session)"
    ));
    let destination = next("found.destination = ANY($3) AND destination COLLATE \"C\" > found.destination");
    let sql = format!(
        "WITH RECURSIVE found (step, destination, session, id) AS (\
           SELECT 0::bigint, $1::text, $2::text, 0::bigint UNION ALL \
           SELECT found.step + 1, next.* FROM found CROSS JOIN LATERAL ({session} UNION ALL {destination}) next \
           WHERE found.step < $4) \
         SELECT destination, session, id, (SELECT max(id) FROM {table}) FROM found WHERE step > 0 ORDER BY step"
    );
    let steps = i64::try_from(step.steps).unwrap_or(i64::MAX);
    let parameters: [(&(dyn ToSql + Sync), Type); 4] = [
        (&step.after.0, Type::TEXT),
        (&step.after.1, Type::TEXT),
        (&step.passing, Type::TEXT_ARRAY),
        (&steps, Type::INT8),
    ];
    let read = |row: Row| {
        let name = (row.try_get(0)?, row.try_get(1)?);
        Ok(Found { name, id: row.try_get(2)?, newest: row.try_get(3)?, rows: 0 })
    };
    client.query_typed(&sql, &parameters).await?.into_iter().map(read).collect()
}

/// Returns the first rows of groups, as far as `bytes` of messages allow: always the first row of the first group. The last groups may
/// be left out.
pub(super) async fn read_groups(
    client: &Client,
    outbox: &Outbox,
    groups: &[Found],
    bytes: i64,
) -> Result<Vec<Waiting>, OutboxError> {
    let sql = format!(
        "SELECT id, destination, session, {MESSAGE_ID}, message, attempts FROM (\
           SELECT rows.*, sum(size) OVER (ORDER BY place, id) AS bytes \
           FROM unnest($1::text[], $2::text[], $3::bigint[]) \
             WITH ORDINALITY AS groups (of_destination, of_session, most, place) \
           CROSS JOIN LATERAL (\
             SELECT id, destination, session, message_id, message, attempts, {} AS size FROM {} WHERE refused IS NULL \
             AND destination COLLATE \"C\" = of_destination AND {SESSION} = of_session ORDER BY id LIMIT most) rows) summed \
         WHERE bytes <= $4 OR bytes = size ORDER BY id",
        size(),
        outbox.table.quoted()
    );
    let most: Vec<_> = groups.iter().map(|found| i64::try_from(found.rows).unwrap_or(i64::MAX)).collect();
    let (destinations, sessions): (Vec<_>, Vec<_>) = groups.iter().map(|found| (&found.name.0, &found.name.1)).unzip();
    let parameters: [(&(dyn ToSql + Sync), Type); 4] = [
        (&destinations, Type::TEXT_ARRAY),
        (&sessions, Type::TEXT_ARRAY),
        (&most, Type::INT8_ARRAY),
        (&bytes, Type::INT8),
    ];
    client.query_typed(&sql, &parameters).await?.iter().map(waiting).collect()
}

fn waiting(row: &Row) -> Result<Waiting, OutboxError> {
    Ok(Waiting {
        id: row.try_get(0)?,
        destination: row.try_get(1)?,
        session: row.try_get(2)?,
        message_id: row.try_get(3)?,
        message: row.try_get(4)?,
        attempts: row.try_get(5)?,
        is_sent: false,
    })
}

/// Deletes the rows of sent messages, and marks the others. Returns the numbers of sent and refused rows that another connection has
/// locked: they stay as they are, because a wait would delay all destinations.
pub(super) async fn record(client: &Client, outbox: &Outbox, reports: &[Report]) -> Result<Vec<i64>, OutboxError> {
    let table = outbox.table.quoted();
    let sent: Vec<i64> =
        reports.iter().filter(|report| report.outcome == Outcome::Sent).map(|report| report.id).collect();
    let mut locked = Vec::new();
    if !sent.is_empty() {
        let sql = format!(
            "WITH deleted AS (DELETE FROM {table} WHERE id = ANY($1) \
               AND id IN (SELECT id FROM {table} WHERE id = ANY($1) FOR UPDATE SKIP LOCKED) RETURNING id) \
             SELECT id FROM {table} WHERE id = ANY($1) AND id NOT IN (SELECT id FROM deleted)"
        );
        locked.extend(ids(&client.query_typed(&sql, &[(&sent, Type::INT8_ARRAY)]).await?)?);
    }
    // The lock of a row may be the reason of its failure.
    let mark = |columns: &str| {
        format!(
            "UPDATE {table} t SET attempts = t.attempts + 1, error = left(failed.error, 4096){columns} \
             FROM unnest($1, $2) AS failed (id, error) WHERE t.id = failed.id \
             AND t.id IN (SELECT id FROM {table} WHERE id = ANY($1) FOR UPDATE SKIP LOCKED)"
        )
    };
    let failed = Marked::of(reports, |outcome| match outcome {
        Outcome::Failed { error, .. } => Some(error),
        Outcome::Sent | Outcome::Refused(_) => None,
    });
    if !failed.ids.is_empty() {
        client.query_typed(&mark(""), &failed.parameters()).await?;
    }
    let refused = Marked::of(reports, |outcome| match outcome {
        Outcome::Refused(error) => Some(error),
        Outcome::Sent | Outcome::Failed { .. } => None,
    });
    if refused.ids.is_empty() {
        return Ok(locked);
    }
    let sql = format!(
        "WITH marked AS ({} RETURNING t.id) \
         SELECT id FROM {table} WHERE id = ANY($1) AND id NOT IN (SELECT id FROM marked)",
        mark(", refused = clock_timestamp()")
    );
    locked.extend(ids(&client.query_typed(&sql, &refused.parameters()).await?)?);
    Ok(locked)
}

fn ids(rows: &[Row]) -> Result<Vec<i64>, tokio_postgres::Error> {
    rows.iter().map(|row| row.try_get(0)).collect()
}

/// The rows of messages that were not sent, and their errors.
struct Marked {
    ids: Vec<i64>,
    errors: Vec<String>,
}

impl Marked {
    fn of(reports: &[Report], error: impl Fn(&Outcome) -> Option<&String>) -> Self {
        // PostgreSQL has no zero byte in a text.
        let of = |report: &Report| error(&report.outcome).map(|error| (report.id, error.replace('\0', "")));
        let (ids, errors) = reports.iter().filter_map(of).unzip();
        Self { ids, errors }
    }

    fn parameters(&self) -> [(&(dyn ToSql + Sync), Type); 2] {
        [(&self.ids, Type::INT8_ARRAY), (&self.errors, Type::TEXT_ARRAY)]
    }
}
