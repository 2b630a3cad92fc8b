use std::sync::Arc;

use consign_amqp::{
    engine::Connection as Engine,
    value::{Array, Binary, Map, Timestamp as WireTimestamp, Value, ValueType},
};
use consign_broker::SessionReceiver;
use consign_core::{
    time::Timestamp,
    transport::{ErrorKind, SettleError},
};

use super::queue;
use crate::{
    connection::Client,
    entities::Entity,
    errors::Failure,
    links::{Kind, Link, Source, leases::lock_lost},
    nodes::{
        ReplyTo, Request, Response,
        request::{Fields, wrong},
    },
};

/// The most sessions of a page.
const MAX_PAGE: usize = 4_096;

fn session_id(fields: Fields<'_>) -> Result<&str, Failure> {
    fields.text("session-id")?.ok_or_else(|| Failure::argument("the request has no 'session-id'"))
}

impl Client {
    /// Returns the session that a link of this connection holds.
    pub(super) fn session(&mut self, key: &Arc<str>, session: &str) -> Result<&mut SessionReceiver, Failure> {
        let link = self.sessions.get(&Self::session_key(key, session)).copied();
        let link = link.and_then(|link| self.links.get_mut(&link));
        match link {
            Some(Link { kind: Kind::Outgoing(link), .. }) => match &mut link.source {
                Source::Session(session) => Ok(session),
                Source::Queue(_) => Err(lock_lost(true)),
            },
            _ => Err(lock_lost(true)),
        }
    }

    /// Returns the session that the link which a request names holds. Another link of the connection may have accepted the session
    /// since.
    pub(super) fn session_of(
        &mut self,
        key: &Arc<str>,
        session: &str,
        request: &Request,
    ) -> Result<&mut SessionReceiver, Failure> {
        if let Some(name) = request.property("associated-link-name") {
            let holder = self.sessions.get(&Self::session_key(key, session)).and_then(|link| self.links.get(link));
            if holder.is_some_and(|holder| holder.name != name) {
                return Err(lock_lost(true));
            }
        }
        self.session(key, session)
    }

    /// `renew-session-lock`.
    pub(super) fn renew_session(&mut self, key: &Arc<str>, request: &Request) -> Result<Response, Failure> {
        let session = session_id(request.fields()?)?;
        let until = self.session_of(key, session, request)?.renew()?;
        let mut body = Map::default();
        body.push("expiration", WireTimestamp(until.as_millis()));
        Ok(Response::ok(body))
    }

    /// `get-session-state`.
    pub(super) fn session_state(&mut self, key: &Arc<str>, request: &Request) -> Result<Response, Failure> {
        let session = session_id(request.fields()?)?;
        let state = self.session_of(key, session, request)?.state()?;
        let mut body = Map::default();
        body.push("session-state", state.map(Binary));
        Ok(Response::ok(body))
    }

    /// `set-session-state`.
    pub(super) fn set_session_state(
        &mut self,
        engine: &mut Engine,
        key: &Arc<str>,
        request: &Request,
        to: ReplyTo,
    ) -> Result<Option<Response>, Failure> {
        let fields = request.fields()?;
        let session = session_id(fields)?;
        let state = match fields.get("session-state") {
            None => None,
            // It would keep the memory of the whole request.
            Some(Value::Binary(state)) => Some(bytes::Bytes::copy_from_slice(state)),
            Some(_) => return Err(wrong("session-state", "binary")),
        };
        let call = self.session_of(key, session, request)?.set_state(state);
        self.reply_with(engine, to, call, |outcome: Result<(), SettleError>| {
            outcome.map_err(Failure::from)?;
            Ok(Response::ok(Map::default()))
        });
        Ok(None)
    }
}

/// `get-message-sessions`: the sessions that have a message or a state, or those whose state was set after a time.
pub(super) fn list(entity: &Entity, request: &Request) -> Result<Response, Failure> {
    let fields = request.fields()?;
    let skip = fields.count("skip", usize::MAX)?.unwrap_or(0);
    let top = fields.count("top", MAX_PAGE)?.unwrap_or(MAX_PAGE);
    let queue = queue(entity)?;
    if !queue.settings()?.requires_session {
        let text = "The entity does not require sessions.";
        return Err(Failure::new(ErrorKind::InvalidOperation, text));
    }
    // The last instant of .NET stands for no time, as 9999-12-31 or rounded up to the next day.
    let updated_after = fields.timestamp("last-updated-time")?.filter(|after| *after < Timestamp::MAX);
    let sessions = match updated_after {
        Some(after) => queue.sessions_updated_after(after),
        None => queue.sessions(),
    };
    let page: Vec<Value> = sessions.into_iter().skip(skip).take(top).map(Value::from).collect();
    if page.is_empty() {
        return Ok(Response::no_content());
    }
    let mut body = Map::default();
    let next = i32::try_from(skip.saturating_add(page.len())).unwrap_or(i32::MAX);
    body.push("skip", next);
    let page = Array::new(ValueType::String, page).map_err(|error| Failure::argument(error.to_string()))?;
    body.push("sessions-ids", page);
    Ok(Response::ok(body))
}
