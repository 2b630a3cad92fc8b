//! What a settlement does in the database.

use std::time::Duration;

use consign_core::{
    Disposition, Message,
    message::{Properties, limits},
    settlement::DeadLetter,
    time::Timestamp,
    transport::{ErrorKind, SettleError},
};
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::{
    codec,
    database::{Connection, Parameter},
    failure::Failure,
    schema::Schema,
};

/// The lock of a delivery.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token {
    pub(crate) entity: i64,
    pub(crate) id: i64,
    pub(crate) lock: Uuid,
    /// The lock of its session.
    pub(crate) session: Option<Uuid>,
}

/// The effect of a settlement.
#[derive(Clone, Debug)]
pub(crate) struct Action {
    code: i16,
    /// Properties and size, if they change.
    changed: Option<(String, i32)>,
    delay: Option<Duration>,
}

impl Action {
    const COMPLETE: i16 = 0;
    const ABANDON: i16 = 1;
    const DEAD_LETTER: i16 = 2;
    const DEFER: i16 = 3;
    const RELEASE: i16 = 4;

    const fn plain(code: i16) -> Self {
        Self { code, changed: None, delay: None }
    }

    pub(crate) const fn complete() -> Self {
        Self::plain(Self::COMPLETE)
    }

    pub(crate) const fn abandon() -> Self {
        Self::plain(Self::ABANDON)
    }

    pub(crate) const fn release() -> Self {
        Self::plain(Self::RELEASE)
    }

    pub(crate) fn release_after(delay: Duration) -> Self {
        Self { delay: Some(delay), ..Self::release() }
    }

    /// Delays an abandoned message. A dead letter is not delayed.
    pub(crate) fn abandon_after(mut self, delay: Duration) -> Self {
        if self.code == Self::ABANDON {
            self.delay = Some(delay);
        }
        self
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.code == Self::COMPLETE
    }

    /// Returns the effect of a disposition on this message.
    pub(crate) fn of(disposition: Disposition, message: &Message, is_dead: bool) -> Result<Self, SettleError> {
        let changes = match disposition {
            Disposition::Complete => return Ok(Self::plain(Self::COMPLETE)),
            Disposition::Abandon(changes) => (Self::ABANDON, changes),
            Disposition::Defer(changes) => (Self::DEFER, changes),
            Disposition::DeadLetter(dead_letter) => {
                check_text(DeadLetter::REASON, dead_letter.reason.as_str())?;
                check_text(DeadLetter::DESCRIPTION, &dead_letter.description)?;
                return Self::bury(*dead_letter, message);
            }
        };
        let (code, changes) = changes;
        if changes.is_empty() {
            return Ok(Self::plain(code));
        }
        let mut properties = message.properties().clone();
        properties.application_properties_mut().merge(changes.into_permitted());
        if properties.check().is_ok() {
            return Self::changed(code, message, &properties);
        }
        if is_dead {
            // The properties of a dead letter exceed their limit: it stays unchanged.
            return Ok(Self::plain(Self::RELEASE));
        }
        Self::bury(DeadLetter::header_size_exceeded(), message)
    }

    fn bury(dead_letter: DeadLetter, message: &Message) -> Result<Self, SettleError> {
        let mark = |dead_letter: DeadLetter| {
            let mut properties = message.properties().clone();
            dead_letter.write_to(properties.application_properties_mut());
            properties
        };
        let is_plain = dead_letter.changes.is_empty() && dead_letter.description.is_empty();
        let mut properties = mark(dead_letter);
        if !is_plain && properties.check().is_err() {
            let mut dead_letter = DeadLetter::header_size_exceeded();
            dead_letter.fit(message.properties());
            properties = mark(dead_letter);
        }
        Self::changed(Self::DEAD_LETTER, message, &properties)
    }

    fn changed(code: i16, message: &Message, properties: &Properties) -> Result<Self, SettleError> {
        let size = i32::try_from(properties.size() + message.body().size()).unwrap_or(i32::MAX);
        let text = codec::write_properties(message, properties)
            .map_err(|error| SettleError::new(ErrorKind::Serialization).with_source(error))?;
        Ok(Self { code, changed: Some((text, size)), delay: None })
    }
}

fn check_text(name: &str, text: &str) -> Result<(), SettleError> {
    let limit = limits::DEAD_LETTER_TEXT;
    if text.encode_utf16().count() > limit {
        let detail = format!("{name} has more than {limit} UTF-16 code units");
        return Err(SettleError::new(ErrorKind::InvalidArgument).with_detail(detail));
    }
    Ok(())
}

/// The result of a settlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    Done,
    /// And messages wait to be forwarded.
    Leaving,
    Lost,
    AlreadyDead,
    Closed,
}

impl Settled {
    pub(crate) fn into_result(self, token: &Token) -> Result<(), SettleError> {
        match self {
            Self::Done | Self::Leaving => Ok(()),
            Self::Lost if token.session.is_some() => Err(SettleError::new(ErrorKind::SessionLockLost)),
            Self::Lost => Err(SettleError::new(ErrorKind::MessageLockLost)),
            Self::AlreadyDead => {
                Err(SettleError::new(ErrorKind::InvalidOperation).with_detail("the message is already a dead letter"))
            }
            Self::Closed => Err(SettleError::new(ErrorKind::EntityDisabled)),
        }
    }
}

/// Settles on a connection or in a transaction.
pub(crate) async fn settle<C: Connection>(
    client: &C,
    schema: &Schema,
    token: &Token,
    action: &Action,
) -> Result<Settled, Failure> {
    let sql = format!("SELECT {}.settle($1, $2, $3, $4, $5, $6, $7, $8)", schema.identifier);
    let (text, size) = match &action.changed {
        Some((text, size)) => (Some(text), Some(size)),
        None => (None, None),
    };
    // A sum with a time of the server is in its range.
    let longest = Timestamp::MAX.as_millis();
    let delay = action.delay.map(|delay| i64::try_from(delay.as_millis()).unwrap_or(longest).min(longest));
    let parameters: [Parameter<'_>; 8] = [
        (&token.entity, Type::INT8),
        (&token.id, Type::INT8),
        (&token.lock, Type::UUID),
        (&token.session, Type::UUID),
        (&action.code, Type::INT2),
        (&text, Type::TEXT),
        (&size, Type::INT4),
        (&delay, Type::INT8),
    ];
    let answer = client.rows(&sql, &parameters).await?;
    let code: i16 = answer.first().map(|row| row.try_get(0)).transpose()?.unwrap_or(2);
    Ok(match code {
        0 => Settled::Done,
        1 => Settled::Leaving,
        4 => Settled::AlreadyDead,
        5 => Settled::Closed,
        _ => Settled::Lost,
    })
}
