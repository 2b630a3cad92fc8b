//! Locks by their tokens.

use consign_amqp::value::{Array, Binary, Map, Timestamp as WireTimestamp, Uuid, Value, ValueType};
use consign_core::{Disposition, message::LockToken, time::Timestamp, transport::ErrorKind};

use super::{Management, missing};
use crate::{error::Failure, wire};

/// Which message is settled, and where.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settled<'s> {
    pub(crate) token: LockToken,
    pub(crate) session: Option<&'s str>,
    /// The link that has delivered the message.
    pub(crate) link: Option<&'s str>,
}

impl Management {
    pub(crate) async fn update_disposition(
        &self,
        settled: Settled<'_>,
        disposition: &Disposition,
        txn_id: Option<Binary>,
    ) -> Result<(), Failure> {
        let mut body = Map::default();
        let (status, changes) = match disposition {
            Disposition::Complete => ("completed", None),
            Disposition::Abandon(changes) => ("abandoned", Some(changes)),
            // The spelling of the service.
            Disposition::Defer(changes) => ("defered", Some(changes)),
            Disposition::DeadLetter(dead_letter) => ("suspended", Some(&dead_letter.changes)),
        };
        body.push("disposition-status", status);
        body.push("lock-tokens", uuids(settled.token));
        if let Disposition::DeadLetter(dead_letter) = disposition {
            body.push("deadletter-reason", dead_letter.reason.as_str());
            body.push("deadletter-description", &*dead_letter.description);
        }
        if let Some(changes) = changes.map(wire::changes).filter(|changes| !changes.is_empty()) {
            body.push("properties-to-modify", changes);
        }
        if let Some(session) = settled.session {
            body.push("session-id", session);
        }
        let done = self.call_in("com.microsoft:update-disposition", body, settled.link, txn_id).await;
        done.map(drop).map_err(|failure| lock_lost(failure, settled.session.is_some()))
    }

    /// Extends a lock, and returns until when it holds.
    pub(crate) async fn renew_lock(&self, settled: Settled<'_>) -> Result<Timestamp, Failure> {
        let mut body = Map::default();
        body.push("lock-tokens", uuids(settled.token));
        let renewed = self.call_in("com.microsoft:renew-lock", body, settled.link, None).await;
        let reply = renewed.map_err(|failure| lock_lost(failure, false))?;
        match reply.body.get("expirations") {
            Some(Value::Array(expirations)) => match expirations.first() {
                Some(Value::Timestamp(WireTimestamp(millis))) => Ok(Timestamp::from_millis(*millis)),
                _ => Err(missing("expirations")),
            },
            _ => Err(missing("expirations")),
        }
    }
}

/// A lock that the server does not know is lost.
pub(crate) fn lock_lost(failure: Failure, in_session: bool) -> Failure {
    let kind = match failure.kind() {
        ErrorKind::MessageLockLost | ErrorKind::MessageNotFound => true,
        ErrorKind::EntityNotFound => failure.condition() == Some("amqp:not-found"),
        _ => false,
    };
    match (kind, in_session) {
        (false, _) => failure,
        (true, true) => failure.with_kind(ErrorKind::SessionLockLost),
        (true, false) => failure.with_kind(ErrorKind::MessageLockLost),
    }
}

fn uuids(token: LockToken) -> Value {
    let token = Value::from(Uuid(*token.as_bytes()));
    // It is a UUID.
    Array::new(ValueType::Uuid, vec![token]).map_or(Value::Null, Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rules: A-28.
    #[test]
    fn a_lock_that_the_server_does_not_know_is_lost() {
        for condition in ["amqp:not-found", "com.microsoft:message-lock-lost", "com.microsoft:message-not-found"] {
            let failure = Failure::reported(condition, None);
            assert_eq!(lock_lost(failure.clone(), false).kind(), ErrorKind::MessageLockLost, "{condition}");
            assert_eq!(lock_lost(failure, true).kind(), ErrorKind::SessionLockLost, "{condition}");
        }
        let busy = Failure::reported("com.microsoft:server-busy", None);
        assert_eq!(lock_lost(busy, false).kind(), ErrorKind::ServiceBusy);
    }
}
