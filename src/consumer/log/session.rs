//! The log lines about sessions.

use std::sync::Arc;

use tracing::field::display;

use super::{Line, Log, TARGET};
use crate::{
    settlement::cause_of,
    transport::{EntityInfo, ErrorKind, Escaped, ReceiveError, SettleError},
};

impl Log {
    /// Sets the session of a part of a consumer.
    pub(in crate::consumer) fn set_session(&mut self, session: &Arc<str>) {
        self.session = Some(Arc::clone(session));
    }

    /// Writes a line if the failure is that of a session among others, whose lock was lost. `false` if it is not: the consumer stops.
    #[cold]
    pub(in crate::consumer) fn session_lost(&mut self, info: &EntityInfo, error: &ReceiveError) -> bool {
        let Some(session) = self.session.clone().filter(|_| error.kind() == ErrorKind::SessionLockLost) else {
            return false;
        };
        let reason = "LockLost";
        if let Some(entity) = self.admit(reason, info) {
            let (session, error) = (display(Escaped(&session)), cause_of(error));
            let error = display(Escaped(&error));
            tracing::warn!(target: TARGET, entity = &*entity, session_id = session, reason, error,
                "the lock of a session was lost: its messages will be redelivered");
        }
        true
    }

    #[cold]
    pub(in crate::consumer) fn session_not_closed(&mut self, info: &EntityInfo, error: &SettleError) {
        let text = "a session was not closed: it is free when its lock ends";
        self.write(info, None, &Line { error: Some(&cause_of(error)), ..Line::warn("SessionNotClosed", text) });
    }

    #[cold]
    pub(in crate::consumer) fn session_not_renewed(&mut self, info: &EntityInfo, session: &str, error: &SettleError) {
        let reason = "RenewalFailed";
        if let Some(entity) = self.admit(reason, info) {
            let (session, error) = (display(Escaped(session)), cause_of(error));
            let error = display(Escaped(&error));
            tracing::warn!(target: TARGET, entity = &*entity, session_id = session, reason, error,
                "the lock of a session was not renewed: the session is closed");
        }
    }

    /// The shutdown has ended while so many sessions were open.
    #[cold]
    pub(in crate::consumer) fn sessions_overdue(&mut self, info: &EntityInfo, sessions: usize) {
        let reason = "SessionNotClosed";
        if let Some(entity) = self.admit(reason, info) {
            tracing::warn!(target: TARGET, entity = &*entity, reason, sessions,
                "sessions were not closed before the shutdown ended: they are free when their locks end");
        }
    }
}
