//! The log lines of a consumer. Their target, their fields and their reasons are in `docs/operating.md`.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;
use tracing::field::{DisplayValue, display};

use super::why::{Why, first_line};
use crate::{
    Message,
    middleware::trace::{Escaped, outcome},
    settlement::{Changes, DeadLetterReason, cause_of},
    transport::{EntityInfo, ReceiveError, SettleError, admit, summaries},
};

/// The target of all lines.
const TARGET: &str = "consign::consumer";
/// Stands for a name that neither the consumer nor its receiver has.
const UNKNOWN: &str = "unknown";

/// What the lines of one consumer have in common.
pub(super) struct Log {
    entity: Option<Arc<str>>,
    /// When a summary of lines that were left out is due.
    due: Option<Instant>,
    /// A part of a consumer leaves the last summary to the whole.
    is_whole: bool,
}

impl Log {
    pub(super) fn new() -> Self {
        Self { entity: None, due: None, is_whole: true }
    }

    pub(super) fn set_entity(&mut self, name: &str) {
        self.entity = Some(Escaped(name).to_string().into());
    }

    /// For one session of a consumer.
    pub(super) fn of_part(&self) -> Self {
        Self { entity: self.entity.clone(), due: None, is_whole: false }
    }

    /// Writes the last summaries of all sessions when it is told the end.
    pub(super) fn to_finish(&self) -> Self {
        Self { entity: self.entity.clone(), due: Some(Instant::now()), is_whole: true }
    }

    pub(super) fn learn(&mut self, info: &EntityInfo) {
        self.entity(info);
    }

    #[inline]
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    fn entity(&mut self, info: &EntityInfo) -> Arc<str> {
        match (&self.entity, &info.name) {
            (Some(entity), _) => Arc::clone(entity),
            (None, None) => UNKNOWN.into(),
            (None, Some(name)) => {
                self.set_entity(name);
                self.entity.clone().unwrap_or_else(|| UNKNOWN.into())
            }
        }
    }

    /// The name of the entity, if a line of this kind may be written now.
    fn admit(&mut self, kind: &'static str, info: &EntityInfo) -> Option<Arc<str>> {
        let entity = self.entity(info);
        match admit(&entity, kind) {
            Ok(left_out) => {
                summarise(&entity, kind, left_out);
                Some(entity)
            }
            Err(due) => {
                self.due = Some(self.due.map_or(due, |before| before.min(due)));
                None
            }
        }
    }

    /// Writes the summaries that are due.
    #[cold]
    pub(super) fn summaries(&mut self) {
        self.write_summaries(false);
    }

    /// Writes all summaries.
    #[cold]
    pub(super) fn end(&mut self) {
        if self.due.is_some() {
            self.write_summaries(self.is_whole);
        }
    }

    fn write_summaries(&mut self, all: bool) {
        let entity = self.entity.clone().unwrap_or_else(|| UNKNOWN.into());
        self.due = summaries(&entity, all, |kind, left_out| summarise(&entity, kind, left_out));
    }
}

/// Says how many lines of a kind were not written.
fn summarise(entity: &str, reason: &'static str, left_out: u64) {
    const TEXT: &str = "more lines of this reason were left out";
    if left_out == 0 {
    } else if reason == Changes::HANDLER_FAILED {
        tracing::info!(target: TARGET, entity, reason, left_out, "{TEXT}");
    } else {
        tracing::warn!(target: TARGET, entity, reason, left_out, "{TEXT}");
    }
}

/// What a line has of its message.
struct About<'m> {
    id: Option<DisplayValue<Escaped<'m>>>,
    session: Option<DisplayValue<Escaped<'m>>>,
    number: Option<u64>,
    delivery: Option<u32>,
    max: Option<u32>,
}

impl<'m> About<'m> {
    fn of(message: Option<&'m Message>, info: &EntityInfo) -> Self {
        let received = message.and_then(Message::received);
        Self {
            id: message.and_then(|message| message.message_id()).map(|id| display(Escaped(id))),
            session: message.and_then(|message| message.session_id()).map(|id| display(Escaped(id))),
            number: received.map(|received| received.sequence_number.get()),
            delivery: received.map(|received| received.delivery_count),
            max: received.and(info.max_delivery_count).filter(|max| *max < u32::MAX),
        }
    }
}

macro_rules! line {
    ($level:ident, $log:expr, $info:expr, $message:expr, $kind:expr, $text:literal $(, $field:ident = $value:expr)*) => {
        if let Some(entity) = $log.admit($kind, $info) {
            let about = About::of($message, $info);
            tracing::$level!(
                target: TARGET,
                entity = &*entity,
                message_id = about.id,
                sequence_number = about.number,
                session_id = about.session,
                delivery_count = about.delivery,
                max_delivery_count = about.max,
                $($field = $value,)*
                $text
            );
        }
    };
}

impl Log {
    #[cold]
    pub(super) fn dead_lettered(&mut self, info: &EntityInfo, message: Option<&Message>, why: &Why) {
        let (reason, error) = (&*why.reason, display(Escaped(&why.error)));
        if why.is_last {
            line!(
                warn,
                self,
                info,
                message,
                why.kind,
                "the last delivery failed: the message was dead-lettered",
                reason = reason,
                error = error
            );
        } else {
            line!(warn, self, info, message, why.kind, "a message was dead-lettered", reason = reason, error = error);
        }
    }

    #[cold]
    pub(super) fn abandoned(&mut self, info: &EntityInfo, message: Option<&Message>, why: &Why) {
        let (reason, error) = (&*why.reason, display(Escaped(&why.error)));
        if why.kind == Changes::HANDLER_FAILED {
            line!(
                info,
                self,
                info,
                message,
                why.kind,
                "a delivery failed: the message is redelivered",
                reason = reason,
                error = error
            );
        } else {
            line!(
                warn,
                self,
                info,
                message,
                why.kind,
                "a delivery failed: the message is redelivered",
                reason = reason,
                error = error
            );
        }
    }

    /// The handler abandoned the last delivery and did not say why.
    #[cold]
    pub(super) fn abandoned_last(&mut self, info: &EntityInfo, message: Option<&Message>) {
        let reason = outcome::code_of(&DeadLetterReason::MaxDeliveryCountExceeded);
        line!(
            warn,
            self,
            info,
            message,
            reason,
            "the handler abandoned the last delivery: the broker dead-letters the message",
            reason = reason
        );
    }

    #[cold]
    pub(super) fn undeliverable(&mut self, info: &EntityInfo, message: &Message, error: Option<&str>, has_sink: bool) {
        let is_dead = message.received().is_some_and(|received| received.dead_lettered);
        let error = error.map(|error| display(Escaped(first_line(error))));
        let (reason, message) = ("Undeliverable", Some(message));
        match (has_sink, is_dead) {
            (true, _) => line!(
                warn,
                self,
                info,
                message,
                reason,
                "a message cannot be dead-lettered: it is given to on_undeliverable",
                reason = reason,
                error = error
            ),
            (false, true) => line!(
                warn,
                self,
                info,
                message,
                reason,
                "a dead letter failed again: it is deferred in the dead-letter queue",
                reason = reason,
                error = error
            ),
            (false, false) => line!(
                warn,
                self,
                info,
                message,
                reason,
                "a message was removed when it was received, and was not handled: it is lost",
                reason = reason,
                error = error
            ),
        }
    }

    #[cold]
    pub(super) fn sink_panicked(&mut self, info: &EntityInfo, message: Option<&Message>) {
        let reason = "UndeliverablePanicked";
        line!(warn, self, info, message, reason, "on_undeliverable panicked: the message is lost", reason = reason);
    }

    /// A settlement, or that of so many messages, has failed.
    #[cold]
    pub(super) fn settle_failed(
        &mut self,
        info: &EntityInfo,
        message: Option<&Message>,
        error: &SettleError,
        settling: &'static str,
        messages: Option<u64>,
        why: Option<&Why>,
    ) {
        let cause = cause_of(error);
        let (error, cause) = (display(Escaped(&cause)), why.map(|why| display(Escaped(&why.error))));
        let reason = "SettleFailed";
        line!(
            warn,
            self,
            info,
            message,
            reason,
            "a settlement failed: unless it had its effect, the message is redelivered when its lock has ended",
            reason = reason,
            error = error,
            settling = settling,
            cause = cause,
            messages = messages
        );
    }

    #[cold]
    pub(super) fn settled_too_late(
        &mut self,
        info: &EntityInfo,
        message: Option<&Message>,
        settling: &'static str,
        why: Option<&Why>,
    ) {
        let (reason, cause) = ("LockLost", why.map(|why| display(Escaped(&why.error))));
        line!(
            warn,
            self,
            info,
            message,
            reason,
            "the lock ended before the message was settled: the message is redelivered",
            reason = reason,
            settling = settling,
            cause = cause
        );
    }

    #[cold]
    pub(super) fn not_answered(&mut self, info: &EntityInfo, message: Option<&Message>, messages: Option<u64>) {
        let reason = "SettleFailed";
        line!(
            warn,
            self,
            info,
            message,
            reason,
            "a settlement was not answered: unless it had its effect, the message is redelivered when its lock has ended",
            reason = reason,
            messages = messages
        );
    }

    #[cold]
    pub(super) fn lock_lost(&mut self, info: &EntityInfo, message: Option<&Message>) {
        let reason = "LockLost";
        line!(
            warn,
            self,
            info,
            message,
            reason,
            "the lock ended while the handler ran: the handler was cancelled, and the message is redelivered",
            reason = reason
        );
    }

    /// The message was held outside of the slots.
    #[cold]
    pub(super) fn held_lost(&mut self, info: &EntityInfo, message: Option<&Message>) {
        let reason = "LockLost";
        line!(
            warn,
            self,
            info,
            message,
            reason,
            "the lock ended while the message was held: the message is redelivered",
            reason = reason
        );
    }

    #[cold]
    pub(super) fn not_renewed(&mut self, info: &EntityInfo, message: Option<&Message>, error: &SettleError) {
        let reason = "RenewalFailed";
        line!(
            warn,
            self,
            info,
            message,
            reason,
            "a lock was not renewed: the renewal is tried again until the lock ends",
            reason = reason,
            error = display(Escaped(&cause_of(error)))
        );
    }

    #[cold]
    pub(super) fn session_not_closed(&mut self, info: &EntityInfo, error: &SettleError) {
        let reason = "SessionNotClosed";
        line!(
            warn,
            self,
            info,
            None,
            reason,
            "a session was not closed: it is free when its lock has ended",
            reason = reason,
            error = display(Escaped(&cause_of(error)))
        );
    }

    #[cold]
    pub(super) fn session_not_renewed(&mut self, info: &EntityInfo, session: &str, error: &SettleError) {
        let reason = "RenewalFailed";
        if let Some(entity) = self.admit(reason, info) {
            let (session, error) = (display(Escaped(session)), cause_of(error));
            let error = display(Escaped(&error));
            tracing::warn!(target: TARGET, entity = &*entity, session_id = session, reason, error,
                "the lock of a session was not renewed: the session is closed");
        }
    }

    /// `pause` is how long the consumer waits; `None` if it stops.
    #[cold]
    pub(super) fn receive_failed(
        &mut self,
        info: &EntityInfo,
        what: Receiving,
        error: &ReceiveError,
        pause: Option<Duration>,
    ) {
        let (reason, cause) = (what.code(), cause_of(error));
        let error = display(Escaped(&cause));
        match pause {
            Some(pause) => line!(
                warn,
                self,
                info,
                None,
                reason,
                "receiving failed: the consumer tries again",
                reason = reason,
                error = error,
                retry_in_ms = millis(pause)
            ),
            None => line!(
                warn,
                self,
                info,
                None,
                reason,
                "receiving failed: the consumer stops",
                reason = reason,
                error = error
            ),
        }
    }

    #[cold]
    pub(super) fn receives_again(&mut self, info: &EntityInfo, failures: u32) {
        line!(info, self, info, None, "Received", "receiving works again", failures = failures);
    }

    #[cold]
    pub(super) fn stack_failed(&mut self, info: &EntityInfo, error: &(dyn std::error::Error + 'static)) {
        let reason = "StackFailed";
        line!(
            warn,
            self,
            info,
            None,
            reason,
            "the stack is not ready any more: the consumer stops",
            reason = reason,
            error = display(Escaped(&cause_of(error)))
        );
    }

    /// The drain timeout has passed while so many handlers ran.
    #[cold]
    pub(super) fn drain_timed_out(&mut self, info: &EntityInfo, handlers: usize) {
        let reason = "DrainTimeout";
        line!(
            warn,
            self,
            info,
            None,
            reason,
            "handlers still run after the drain timeout: they are cancelled, and their messages are redelivered",
            reason = reason,
            messages = handlers
        );
    }
}

/// What failed.
#[derive(Clone, Copy)]
pub(super) enum Receiving {
    Messages,
    Sessions,
}

impl Receiving {
    fn code(self) -> &'static str {
        match self {
            Self::Messages => "ReceiveFailed",
            Self::Sessions => "AcceptFailed",
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
