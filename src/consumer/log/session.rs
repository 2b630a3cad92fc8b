//! The log lines about sessions.

use super::{Line, Log, TARGET};
use crate::{
    settlement::cause_of,
    transport::{EntityInfo, ErrorKind, ReceiveError, SettleError},
};

impl Log {
    /// Writes a line if the failure is that of a session among others, whose lock was lost. `false` if it is not: the consumer stops.
    #[cold]
    pub(in crate::consumer) fn session_lost(&mut self, info: &EntityInfo, error: &ReceiveError) -> bool {
        if self.session.is_none() || error.kind() != ErrorKind::SessionLockLost {
            return false;
        }
        let text = "the lock of a session was lost: its messages will be redelivered";
        self.write(info, None, &Line { error: Some(&cause_of(error)), ..Line::warn("LockLost", text) });
        true
    }

    #[cold]
    pub(in crate::consumer) fn session_not_closed(&mut self, info: &EntityInfo, error: &SettleError) {
        let text = "a session was not closed: it is free when its lock ends";
        self.write(info, None, &Line { error: Some(&cause_of(error)), ..Line::warn("SessionNotClosed", text) });
    }

    #[cold]
    pub(in crate::consumer) fn session_not_renewed(&mut self, info: &EntityInfo, error: &SettleError) {
        let text = "the lock of a session was not renewed: the session is closed";
        self.write(info, None, &Line { error: Some(&cause_of(error)), ..Line::warn("RenewalFailed", text) });
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
