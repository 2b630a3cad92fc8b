use std::time::Duration;

use consign_core::{
    Message,
    message::{MessageState, Received, SequenceNumber},
    settlement::{DeadLetter, DeadLetterReason},
    time::Timestamp,
};
use tokio_postgres::{
    Error, Row,
    types::{FromSql, Type},
};

use crate::codec::{self, Unreadable};

/// The columns of a message in a select, as fields of `delivery`.
pub(crate) const COLUMNS: &str = "(delivery).id, (delivery).number, (delivery).origin, (delivery).enqueued, \
    (delivery).expires, (delivery).locked_until, (delivery).failures, (delivery).part, (delivery).state, \
    (delivery).ttl_ms, (delivery).reason, (delivery).description, (delivery).source, (delivery).properties, \
    (delivery).body";

/// How many these are.
pub(crate) const COLUMN_COUNT: usize = 15;

/// A message of the database.
pub(crate) struct Stored {
    pub(crate) id: i64,
    pub(crate) part: i16,
    pub(crate) message: Result<Message, Unreadable>,
}

/// A point in time of the database. Infinity is the last one of the model.
struct Instant(Timestamp);

impl Instant {
    /// From 1970 to 2000.
    const EPOCH: i64 = 946_684_800_000;
    const LAST: i64 = 253_402_300_799_999;
}

impl<'r> FromSql<'r> for Instant {
    fn from_sql(_: &Type, raw: &'r [u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        let micros = i64::from_be_bytes(raw.try_into()?);
        Ok(Self(Timestamp::from_millis((micros.div_euclid(1_000) + Self::EPOCH).min(Self::LAST))))
    }

    fn accepts(of: &Type) -> bool {
        *of == Type::TIMESTAMPTZ
    }
}

/// Reads an instant of the database.
pub(crate) fn instant(row: &Row, column: usize) -> Result<Option<Timestamp>, Error> {
    Ok(row.try_get::<_, Option<Instant>>(column)?.map(|Instant(at)| at))
}

fn number(number: i64) -> SequenceNumber {
    SequenceNumber::new(number.cast_unsigned())
}

impl Stored {
    /// Reads a row with these columns, after `skip` others. `delivered` counts this delivery.
    pub(crate) fn read(row: &Row, skip: usize, delivered: bool) -> Result<Self, Error> {
        let (received, ttl) = (received(row, skip, delivered)?, row.try_get::<_, Option<i64>>(skip + 9)?);
        let message = codec::read(row.try_get(skip + 13)?, row.try_get(skip + 14)?);
        let message = message.and_then(|mut message| {
            if let Some(ttl) = ttl.and_then(|ttl| u64::try_from(ttl).ok()).map(Duration::from_millis)
                && message.time_to_live() != Some(ttl)
            {
                message.properties_mut().set_time_to_live(ttl)?;
            }
            Ok(message)
        });
        let message = match message {
            Ok(message) => Ok(marked(message, row, skip, received)?),
            Err(unreadable) => Err(unreadable),
        };
        Ok(Self { id: row.try_get(skip)?, part: row.try_get(skip + 7)?, message })
    }

    /// Reads a row whose properties cannot be read, so that it can be peeked: its body, and what the other columns say.
    pub(crate) fn bare(row: &Row, skip: usize) -> Result<Message, Error> {
        let body: Vec<u8> = row.try_get(skip + 14)?;
        marked(Message::new(body), row, skip, received(row, skip, false)?)
    }
}

/// What the broker says of a row. `delivered` counts this delivery.
fn received(row: &Row, skip: usize, delivered: bool) -> Result<Received, Error> {
    let (failures, part, state): (i32, i16, i16) =
        (row.try_get(skip + 6)?, row.try_get(skip + 7)?, row.try_get(skip + 8)?);
    let failures = u32::try_from(failures).unwrap_or(0);
    let Instant(enqueued) = row.try_get(skip + 3)?;
    let mut received = Received::new(
        number(row.try_get::<_, Option<i64>>(skip + 1)?.unwrap_or_default()),
        enqueued,
        if delivered { failures.saturating_add(1) } else { failures },
    );
    received.enqueued_sequence_number = number(row.try_get(skip + 2)?);
    received.expires_at = row.try_get::<_, Instant>(skip + 4)?.0;
    received.locked_until = row.try_get::<_, Option<Instant>>(skip + 5)?.map(|Instant(until)| until);
    received.dead_lettered = part == 1;
    received.state = match state {
        3 | 4 => MessageState::Deferred,
        5 => MessageState::Scheduled,
        _ => MessageState::Active,
    };
    if received.state == MessageState::Scheduled {
        // Its time to live begins when it is active.
        received.expires_at = Timestamp::MAX;
    }
    if delivered {
        received.state = MessageState::Active;
    }
    Ok(received)
}

/// Adds what the broker says of a row: why and where it was dead-lettered, and the facts of its receipt.
fn marked(mut message: Message, row: &Row, skip: usize, received: Received) -> Result<Message, Error> {
    let (reason, description, source): (Option<&str>, Option<&str>, Option<&str>) =
        (row.try_get(skip + 10)?, row.try_get(skip + 11)?, row.try_get(skip + 12)?);
    if let Some(reason) = reason {
        let reason = DeadLetterReason::Application(reason.to_owned().into());
        let mut dead_letter = DeadLetter::new(reason, description.unwrap_or_default().to_owned());
        // The database writes the texts beside the properties, whatever these have space for.
        dead_letter.fit(message.properties());
        dead_letter.write_to(message.properties_mut().application_properties_mut());
    }
    let message = message.with_received(received);
    Ok(match source {
        Some(source) => message.with_dead_letter_source(source),
        None => message,
    })
}
