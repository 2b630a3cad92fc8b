//! Sessions: their locks, their states, and their list.

use bytes::Bytes;
use consign_amqp::value::{Binary, List, Map, Timestamp as WireTimestamp, Value};
use consign_core::{time::Timestamp, transport::ErrorKind};

use super::{Management, missing};
use crate::{error::Failure, requests::Reply};

/// The sessions of a page.
pub(crate) const PAGE: u16 = 100;

/// Without a filter: the latest instant of .NET.
const NO_FILTER: i64 = 253_402_300_799_999;

fn of(session: &str) -> Map {
    let mut body = Map::default();
    body.push("session-id", session);
    body
}

fn lock_lost(failure: Failure) -> Failure {
    match failure.kind() {
        ErrorKind::MessageLockLost => failure.with_kind(ErrorKind::SessionLockLost),
        _ => failure,
    }
}

impl Management {
    /// Calls an operation of the holder of a session, which has accepted it with the link of that name.
    async fn call_of(&self, operation: &'static str, body: Map, link: &str) -> Result<Reply, Failure> {
        self.call_in(operation, body, Some(link), None).await.map_err(lock_lost)
    }

    /// Extends the lock of a session, and returns until when it holds.
    pub(crate) async fn renew_session(&self, session: &str, link: &str) -> Result<Timestamp, Failure> {
        let reply = self.call_of("com.microsoft:renew-session-lock", of(session), link).await?;
        match reply.body.get("expiration") {
            Some(Value::Timestamp(WireTimestamp(millis))) => Ok(Timestamp::from_millis(*millis)),
            _ => Err(missing("expiration")),
        }
    }

    pub(crate) async fn session_state(&self, session: &str, link: &str) -> Result<Option<Bytes>, Failure> {
        let reply = self.call_of("com.microsoft:get-session-state", of(session), link).await?;
        match reply.body.get("session-state") {
            Some(Value::Binary(state)) => Ok(Some(Bytes::copy_from_slice(state))),
            None | Some(Value::Null) => Ok(None),
            Some(_) => Err(missing("session-state")),
        }
    }

    pub(crate) async fn set_session_state(
        &self,
        session: &str,
        link: &str,
        state: Option<Bytes>,
    ) -> Result<(), Failure> {
        let mut body = of(session);
        body.push("session-state", state.map(Binary));
        self.call_of("com.microsoft:set-session-state", body, link).await?;
        Ok(())
    }

    /// Returns the sessions that have messages or a state, from the `skip`th on. Fewer than a page are the last ones.
    pub(crate) async fn sessions(&self, skip: usize) -> Result<Vec<String>, Failure> {
        let mut body = Map::default();
        body.push("last-updated-time", WireTimestamp(NO_FILTER));
        body.push("skip", i32::try_from(skip).unwrap_or(i32::MAX));
        body.push("top", i32::from(PAGE));
        let reply = self.call("com.microsoft:get-message-sessions", body).await?;
        if reply.status == 204 {
            return Ok(Vec::new());
        }
        let ids = match reply.body.get("sessions-ids") {
            Some(Value::Array(ids)) => &**ids,
            Some(Value::List(List(ids))) => ids,
            _ => return Err(missing("sessions-ids")),
        };
        ids.iter().map(|id| id.as_str().map(str::to_owned).ok_or_else(|| missing("sessions-ids"))).collect()
    }
}
