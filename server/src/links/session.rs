//! Links that receive the messages of a session.

use std::{sync::Arc, time::Duration};

use consign_amqp::{
    engine::{Connection as Engine, LinkId},
    types::Attach,
    value::{Described, Map, Symbol, Value},
};
use consign_broker::{Queue, SessionAcceptor, SessionReceiver};
use consign_core::{
    time::Timestamp,
    transport::{ErrorKind, ReceiveMode},
};
use tokio::sync::oneshot;

use super::{Cancel, Kind, Link, Outgoing, Source};
use crate::{
    connection::{Client, Done, LinkWake},
    errors::Failure,
};

const FILTER: &str = "com.microsoft:session-filter";
/// An option of the SDK for .NET.
const NON_EXCLUSIVE: &str = "com.microsoft:non-exclusive-session-filter";
const LOCKED_UNTIL: &str = "com.microsoft:locked-until-utc";
const TIMEOUT: &str = "com.microsoft:timeout";

/// How long a link waits for a session by default.
const DEFAULT_WAIT: Duration = Duration::from_secs(65);

/// The Unix epoch in ticks of .NET, and the ticks of a millisecond.
const EPOCH_TICKS: i64 = 621_355_968_000_000_000;
const TICKS: i64 = 10_000;

/// The session that a link is for.
#[derive(Debug, PartialEq)]
pub(crate) enum Wanted {
    Named(String),
    Next,
}

/// A link that waits for a session.
pub(crate) struct Accepting {
    attach: Attach,
    pub(super) entity: Arc<str>,
    mode: ReceiveMode,
    /// Whether the client has requested a drain meanwhile.
    pub(super) drain: bool,
    /// Ends the wait when this is dropped.
    cancel: Option<Cancel>,
}

impl Accepting {
    pub(super) fn new(attach: Attach, entity: Arc<str>, mode: ReceiveMode) -> Self {
        Self { attach, entity, mode, drain: false, cancel: None }
    }

    fn wait(&self) -> Duration {
        let timeout = self.attach.properties.as_ref().and_then(|properties| properties.get(TIMEOUT)?.as_integer());
        timeout.and_then(|millis| u64::try_from(millis).ok()).map_or(DEFAULT_WAIT, Duration::from_millis)
    }
}

/// Reads the session filter. None if there is none: the link is not for a session.
pub(super) fn wanted(filter: Option<&Map>) -> Result<Option<Wanted>, Failure> {
    if filter.is_some_and(|filter| filter.get(NON_EXCLUSIVE).is_some()) {
        return Err(Failure::new(
            ErrorKind::NotSupported,
            "A session has one receiver: it cannot be accepted by several.",
        ));
    }
    let Some(value) = filter.and_then(|filter| filter.get(FILTER)) else { return Ok(None) };
    let value = match value {
        Value::Described(described) => &described.value,
        plain => plain,
    };
    match value {
        Value::Null => Ok(Some(Wanted::Next)),
        Value::String(id) => Ok(Some(Wanted::Named(id.as_str().to_owned()))),
        _ => Err(Failure::argument("a session filter is a string, or null for the next session")),
    }
}

/// Returns the filter of a session alone, if there is one: others are not applied.
pub(super) fn filter(filter: &Map) -> Option<Map> {
    let (name, value) = filter.0.iter().find(|(name, _)| name.as_str() == Some(FILTER))?;
    Some(Map(vec![(name.clone(), value.clone())]))
}

/// Returns the id of the session in the form of the request: a client reads no other one.
fn answered(filter: Option<&Map>, id: &str) -> Value {
    match filter.and_then(|filter| filter.get(FILTER)) {
        Some(Value::Described(described)) => {
            let descriptor = described.descriptor.clone();
            Value::Described(Box::new(Described { descriptor, value: id.into() }))
        }
        _ => id.into(),
    }
}

/// Creates an acceptor of sessions in a mode.
pub(super) fn acceptor(queue: &Queue, mode: ReceiveMode) -> Result<SessionAcceptor, Failure> {
    let acceptor = queue.session_acceptor()?;
    Ok(match mode {
        ReceiveMode::PeekLock => acceptor,
        ReceiveMode::ReceiveAndDelete => acceptor.receive_and_delete(),
    })
}

/// Returns an instant in ticks of .NET.
fn ticks(at: Timestamp) -> i64 {
    at.as_millis().saturating_mul(TICKS).saturating_add(EPOCH_TICKS)
}

impl Client {
    /// Waits until a session is free. The link is answered then.
    pub(super) fn wait_for_session(&mut self, link: LinkId, mut acceptor: SessionAcceptor, mut accepting: Accepting) {
        let (cancel, cancelled) = oneshot::channel();
        let wait = accepting.wait();
        accepting.cancel = Some(cancel);
        let name = accepting.attach.name.to_owned_memory();
        self.add(link, name, Kind::Accepting(Box::new(accepting)));
        self.accepts.push(Box::pin(async move {
            let session = tokio::select! {
                biased;
                accepted = acceptor.accept_next_within(wait) => Some(accepted.map_err(|error| match error.kind() {
                    ErrorKind::ServiceTimeout => {
                        let text = format!("No session was free within {} milliseconds.", wait.as_millis());
                        Failure::new(ErrorKind::ServiceTimeout, text)
                    }
                    _ => error.into(),
                })),
                // It is dropped with the link.
                _ = cancelled => None,
            };
            Done::Accepted { link, session }
        }));
    }

    /// Answers a link that has waited for a session.
    pub(crate) fn accepted(
        &mut self,
        engine: &mut Engine,
        link: LinkId,
        session: Option<Result<SessionReceiver, Failure>>,
    ) {
        let waits = matches!(self.links.get(&link), Some(Link { kind: Kind::Accepting(_), .. }));
        if !waits {
            // A session that was locked meanwhile is free again when it is dropped.
            return;
        }
        let Some(Link { kind: Kind::Accepting(accepting), .. }) = self.links.remove(&link) else { return };
        self.check_alone();
        let Accepting { attach, entity, mode, drain, .. } = *accepting;
        match session {
            Some(Ok(session)) => {
                self.attach_session(engine, link, attach, entity, session, mode);
                if drain {
                    self.credit_changed(engine, link, drain);
                }
            }
            Some(Err(failure)) => {
                let _ = engine.refuse(link, failure.error());
            }
            None => {}
        }
    }

    pub(super) fn attach_session(
        &mut self,
        engine: &mut Engine,
        link: LinkId,
        mut attach: Attach,
        entity: Arc<str>,
        session: SessionReceiver,
        mode: ReceiveMode,
    ) {
        let id: Arc<str> = session.session_id().into();
        if let Some(source) = attach.source.as_deref_mut() {
            let value = answered(source.filter.as_ref(), &id);
            let mut filter = Map::default();
            filter.push(Symbol::from_static(FILTER), value);
            source.filter = Some(filter);
        }
        let mut properties = Map::default();
        properties.push(Symbol::from_static(LOCKED_UNTIL), ticks(session.locked_until()));
        let wake = LinkWake::new(link, self.wakes());
        let outgoing = Outgoing::new(Source::Session(session), mode, Arc::clone(&entity), Some(Arc::clone(&id)), wake);
        self.accept(engine, link, attach, None, properties, Kind::Outgoing(Box::new(outgoing)));
        if self.links.contains_key(&link) {
            self.sessions.insert((entity, id), link);
            self.pump(engine, link);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(value: Value) -> Map {
        Map(vec![(Symbol::from_static(FILTER).into(), value)])
    }

    /// Rules: G-50, G-51.
    #[test]
    fn a_filter_is_a_string_or_null_plain_or_described() {
        let described = |value| {
            let descriptor = 0x13_7000_000c_u64.into();
            Value::Described(Box::new(Described { descriptor, value }))
        };
        assert_eq!(wanted(None).unwrap(), None);
        assert_eq!(wanted(Some(&Map::default())).unwrap(), None);
        assert_eq!(wanted(Some(&filter(Value::Null))).unwrap(), Some(Wanted::Next));
        assert_eq!(wanted(Some(&filter(described(Value::Null)))).unwrap(), Some(Wanted::Next));
        for value in ["s".into(), described("s".into())] {
            assert_eq!(wanted(Some(&filter(value))).unwrap(), Some(Wanted::Named("s".into())));
        }
        assert_eq!(wanted(Some(&filter("".into()))).unwrap(), Some(Wanted::Named(String::new())));
        wanted(Some(&filter(1_i32.into()))).unwrap_err();
        let shared = Map(vec![(Symbol::from_static(NON_EXCLUSIVE).into(), "s".into())]);
        let refused = wanted(Some(&shared)).unwrap_err().error();
        assert_eq!(refused.condition.as_str(), "amqp:not-implemented");
    }

    /// Rules: G-52.
    #[test]
    fn locked_until_is_in_ticks_of_dotnet() {
        assert_eq!(ticks(Timestamp::EPOCH), 621_355_968_000_000_000);
        assert_eq!(ticks(Timestamp::from_millis(1_700_000_000_123)), 638_355_968_001_230_000);
    }
}
