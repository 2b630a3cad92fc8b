//! The log lines of a consumer. Their target, their fields and their reasons are in `docs/operating.md`.

mod session;

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;
use tracing::field::{DisplayValue, display};

use super::{
    cause::{Cause, first_line},
    undeliverable::Fate,
};
use crate::{
    Message,
    middleware::trace::outcome,
    settlement::{Changes, DeadLetterReason, cause_of},
    transport::{EntityInfo, Escaped, ReceiveError, SettleError, admit, summaries},
};

/// The target of all lines.
const TARGET: &str = "consign::consumer";
/// Stands for a name that neither the consumer nor its receiver has.
const UNKNOWN: &str = "unknown";

/// What the lines of one consumer have in common.
pub(super) struct Log {
    entity: Option<Arc<str>>,
    /// Of a part of a consumer: its session.
    session: Option<Arc<str>>,
    /// When a summary of suppressed lines is due.
    due: Option<Instant>,
    /// A part of a consumer leaves the last summary to the whole.
    is_whole: bool,
}

impl Log {
    pub(super) fn new() -> Self {
        Self { entity: None, session: None, due: None, is_whole: true }
    }

    pub(super) fn set_entity(&mut self, name: &str) {
        self.entity = Some(Escaped(name).to_string().into());
    }

    /// For one session of a consumer.
    pub(super) fn of_part(&self, session: Option<&Arc<str>>) -> Self {
        Self { entity: self.entity.clone(), session: session.cloned(), due: None, is_whole: false }
    }

    /// Writes the last summaries of all sessions when it is told the end.
    pub(super) fn to_finish(&self) -> Self {
        Self { entity: self.entity.clone(), session: None, due: Some(Instant::now()), is_whole: true }
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
        match admit(&entity, kind, summarise) {
            Ok(suppressed) => {
                summarise(&entity, kind, suppressed);
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
        self.due = summaries(&entity, all);
    }
}

/// The kind of [`Log::receives_again`].
const RECEIVED: &str = "Received";

/// Writes how many lines of a kind were suppressed, at their level.
fn summarise(entity: &str, reason: &'static str, suppressed: u64) {
    const TEXT: &str = "more lines with this entity and reason were suppressed";
    if suppressed == 0 {
    } else if reason == Changes::HANDLER_FAILED || reason == RECEIVED {
        tracing::info!(target: TARGET, entity, reason, suppressed, "{TEXT}");
    } else {
        tracing::warn!(target: TARGET, entity, reason, suppressed, "{TEXT}");
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
    /// `session` is that of a line without a message.
    fn of(message: Option<&'m Message>, session: Option<&'m str>, info: &EntityInfo) -> Self {
        let received = message.and_then(Message::received);
        let session = message.map_or(session, |message| message.session_id());
        Self {
            id: message.and_then(|message| message.message_id()).map(|id| display(Escaped(id))),
            session: session.map(|id| display(Escaped(id))),
            number: received.map(|received| received.sequence_number.get()),
            delivery: received.map(|received| received.delivery_count),
            max: received.and(info.max_delivery_count).filter(|max| *max < u32::MAX),
        }
    }
}

/// One line. What it does not have is not printed.
struct Line<'l> {
    text: &'static str,
    is_info: bool,
    /// What the rate is limited by, from a closed list.
    kind: &'static str,
    /// The `kind`, or the application's own reason. A good end has none.
    reason: Option<&'l str>,
    error: Option<&'l str>,
    settling: Option<&'static str>,
    delivery_error: Option<&'l str>,
    messages: Option<u64>,
    retry_in: Option<Duration>,
    failures: Option<u32>,
}

impl<'l> Line<'l> {
    fn warn(kind: &'static str, text: &'static str) -> Self {
        Self {
            text,
            is_info: false,
            kind,
            reason: Some(kind),
            error: None,
            settling: None,
            delivery_error: None,
            messages: None,
            retry_in: None,
            failures: None,
        }
    }

    fn of(cause: &'l Cause, text: &'static str) -> Self {
        Self { reason: Some(&cause.reason), error: Some(&cause.error), ..Self::warn(cause.kind, text) }
    }

    fn settling(self, settling: &'static str, cause: Option<&'l Cause>) -> Self {
        Self { settling: Some(settling), delivery_error: cause.map(|cause| &*cause.error), ..self }
    }
}

macro_rules! event {
    ($level:ident, $entity:expr, $about:expr, $line:expr) => {
        tracing::$level!(
            target: TARGET,
            entity = $entity,
            message_id = $about.id,
            sequence_number = $about.number,
            session_id = $about.session,
            delivery_count = $about.delivery,
            max_delivery_count = $about.max,
            reason = $line.reason,
            error = $line.error.map(|error| display(Escaped(error))),
            settling = $line.settling,
            delivery_error = $line.delivery_error.map(|error| display(Escaped(error))),
            messages = $line.messages,
            retry_in_ms = $line.retry_in.map(millis),
            failures = $line.failures,
            "{}",
            $line.text
        )
    };
}

impl Log {
    fn write(&mut self, info: &EntityInfo, message: Option<&Message>, line: &Line<'_>) {
        if let Some(entity) = self.admit(line.kind, info) {
            let session = self.session.clone();
            let about = About::of(message, session.as_deref(), info);
            if line.is_info {
                event!(info, &*entity, about, line);
            } else {
                event!(warn, &*entity, about, line);
            }
        }
    }

    #[cold]
    pub(super) fn dead_lettered(&mut self, info: &EntityInfo, message: Option<&Message>, cause: &Cause) {
        let text = if cause.is_last {
            "the last delivery failed: the message was dead-lettered"
        } else {
            "a message was dead-lettered"
        };
        self.write(info, message, &Line::of(cause, text));
    }

    #[cold]
    pub(super) fn abandoned(&mut self, info: &EntityInfo, message: Option<&Message>, cause: &Cause) {
        let line = Line::of(cause, "a delivery failed: the message will be redelivered");
        self.write(info, message, &Line { is_info: cause.kind == Changes::HANDLER_FAILED, ..line });
    }

    /// The handler abandoned the last delivery and did not say why.
    #[cold]
    pub(super) fn abandoned_last(&mut self, info: &EntityInfo, message: Option<&Message>) {
        let kind = outcome::code_of(&DeadLetterReason::MaxDeliveryCountExceeded);
        let text = "the handler abandoned the last delivery: the broker dead-letters the message";
        self.write(info, message, &Line::warn(kind, text));
    }

    #[cold]
    pub(super) fn undeliverable(&mut self, info: &EntityInfo, of: &Message, error: Option<&str>, text: &'static str) {
        self.write(info, Some(of), &Line { error: error.map(first_line), ..Line::warn("Undeliverable", text) });
    }

    /// It is written once for a message, not for each delivery.
    #[cold]
    pub(super) fn failed_again(&mut self, info: &EntityInfo, message: &Message, error: Option<&str>) {
        let line = Line::warn("DeadLetterFailed", Fate::Delayed.text());
        self.write(info, Some(message), &Line { error: error.map(first_line), ..line });
    }

    #[cold]
    pub(super) fn sink_panicked(&mut self, info: &EntityInfo, message: Option<&Message>) {
        let is_dead = message.and_then(Message::received).is_some_and(|received| received.dead_lettered);
        let text = if is_dead {
            "on_undeliverable panicked: the dead letter stays in its queue"
        } else {
            "on_undeliverable panicked: the message is lost"
        };
        self.write(info, message, &Line::warn("UndeliverablePanicked", text));
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
        cause: Option<&Cause>,
    ) {
        let text = "a settlement failed: if it did not take effect, the message will be redelivered when its lock ends";
        let line = Line::warn("SettleFailed", text).settling(settling, cause);
        self.write(info, message, &Line { error: Some(&cause_of(error)), messages, ..line });
    }

    #[cold]
    pub(super) fn settled_too_late(
        &mut self,
        info: &EntityInfo,
        message: Option<&Message>,
        settling: &'static str,
        cause: Option<&Cause>,
    ) {
        let text = "the lock ended before the message was settled: the message will be redelivered";
        self.write(info, message, &Line::warn("LockLost", text).settling(settling, cause));
    }

    #[cold]
    pub(super) fn not_answered(&mut self, info: &EntityInfo, message: Option<&Message>, messages: Option<u64>) {
        let text = "a settlement was not answered: if it did not take effect, the message will be redelivered when its lock ends";
        self.write(info, message, &Line { messages, ..Line::warn("SettleFailed", text) });
    }

    #[cold]
    pub(super) fn lock_lost(&mut self, info: &EntityInfo, message: Option<&Message>) {
        let text =
            "the lock ended while the handler ran: the handler was cancelled, and the message will be redelivered";
        self.write(info, message, &Line::warn("LockLost", text));
    }

    /// The message was held outside of the slots.
    #[cold]
    pub(super) fn held_lost(&mut self, info: &EntityInfo, message: Option<&Message>) {
        let text = "the lock ended while the message was held: the message will be redelivered";
        self.write(info, message, &Line::warn("LockLost", text));
    }

    #[cold]
    pub(super) fn not_renewed(&mut self, info: &EntityInfo, message: Option<&Message>, error: &SettleError) {
        let text = "a lock was not renewed: the renewal is tried again until the lock ends";
        self.write(info, message, &Line { error: Some(&cause_of(error)), ..Line::warn("RenewalFailed", text) });
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
        let text = match pause {
            Some(_) => "receiving failed: the consumer tries again",
            None => "receiving failed: the consumer stops",
        };
        let line = Line::warn(what.code(), text);
        self.write(info, None, &Line { error: Some(&cause_of(error)), retry_in: pause, ..line });
    }

    #[cold]
    pub(super) fn receives_again(&mut self, info: &EntityInfo, failures: u32) {
        let line = Line::warn(RECEIVED, "receiving works again");
        self.write(info, None, &Line { is_info: true, reason: None, failures: Some(failures), ..line });
    }

    #[cold]
    pub(super) fn stack_failed(&mut self, info: &EntityInfo, error: &(dyn std::error::Error + 'static)) {
        let line = Line::warn("StackFailed", "the stack failed to become ready: the consumer stops");
        self.write(info, None, &Line { error: Some(&cause_of(error)), ..line });
    }

    /// The drain timeout has passed while so many handlers ran.
    #[cold]
    pub(super) fn drain_timed_out(&mut self, info: &EntityInfo, handlers: usize) {
        let text =
            "handlers still run after the drain timeout: they are cancelled, and their deliveries count as failed";
        let messages = u64::try_from(handlers).ok();
        self.write(info, None, &Line { messages, ..Line::warn("DrainTimeout", text) });
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
