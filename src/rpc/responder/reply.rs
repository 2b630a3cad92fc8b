use std::{sync::Arc, time::Duration};

use super::{ReplySenders, address::Addresses, recorded::Record, senders::Senders, stats::ResponderStats};
use crate::{
    Disposition, Message,
    message::{Body, EntityPath, Properties, TraceContext, random_id::random_id},
    middleware::dedup::StoreError,
    rpc::{Correlate, Fault},
    settlement::DeadLetterReason,
    time::Clock,
    transport::{ErrorKind, SendError},
};

/// How replies are made and sent.
pub(super) struct Replying<P: ReplySenders> {
    pub(super) senders: Senders<P>,
    pub(super) addresses: Addresses,
    pub(super) correlate: Correlate,
    pub(super) is_strict: bool,
    pub(super) subject: Option<Arc<str>>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) recorded: Option<Arc<dyn Record>>,
    pub(super) stats: ResponderStats,
}

/// A reply lives for this long at least, so that clocks that differ by less lose none. A late one does no harm.
const LEAST_TIME: Duration = Duration::from_secs(1);

impl<P: ReplySenders> Replying<P> {
    /// Where the reply to `request` goes; or what becomes of a request that cannot be answered.
    pub(super) fn address(&self, request: &Message) -> Result<Option<EntityPath>, Disposition> {
        let address = self.addresses.of(request).inspect_err(|_| self.stats.count_not_allowed())?;
        if self.is_strict && address.is_none() {
            return Err(Disposition::dead_letter(DeadLetterReason::MissingReplyTo, "the request has no ReplyTo"));
        }
        if self.is_strict && self.correlation(request).is_none() {
            let missing = "the request has no id that its reply could name";
            return Err(Disposition::dead_letter(DeadLetterReason::MissingProperty, missing));
        }
        Ok(address)
    }

    fn correlation<'r>(&self, request: &'r Message) -> Option<&'r str> {
        match self.correlate {
            Correlate::MessageId => request.original_message_id(),
            Correlate::CorrelationId => request.correlation_id(),
            Correlate::CorrelationIdOrMessageId => request.correlation_id().or_else(|| request.original_message_id()),
        }
    }

    /// The properties that every reply to `request` has.
    #[inline]
    pub(super) fn properties(&self, request: &Message) -> Properties {
        let mut properties = Properties::new();
        properties.set_message_token(random_id());
        let received = request.received();
        let has_properties = !request.application().is_empty();
        let is_plain = self.correlate == Correlate::MessageId && !has_properties;
        if !(is_plain && properties.correlate_with_message_id(request)) {
            let id = self.correlation(request).map(str::to_owned);
            if let Some(id) = id.or_else(|| received.map(|received| received.sequence_number.get().to_string())) {
                properties.set_correlation_id(id);
            }
        }
        if let Some(subject) = &self.subject {
            properties.set_shared_subject(Arc::clone(subject));
        }
        if has_properties {
            TraceContext::carry(request, &mut properties);
        }
        if let Some(session) = request.reply_to_session_id() {
            // It was checked when the request was made, or read from the wire; a reply without it is refused.
            let _ = properties.set_session_id(session.to_owned());
        }
        if let Some(received) = received.filter(|_| request.time_to_live().is_some()) {
            let left = received.expires_at.saturating_since(self.clock.now().utc);
            let _ = properties.set_time_to_live(left.max(LEAST_TIME));
        }
        properties
    }

    /// The reply that says why there is none.
    pub(super) fn fault(&self, request: &Message, fault: &Fault) -> Message {
        let mut properties = self.properties(request);
        fault.write(&mut properties);
        Message::from_parts(properties, Body::from(Vec::new()))
    }

    #[cold]
    pub(super) fn not_recorded(&self, error: &StoreError) {
        tracing::warn!(%error, "the store of recorded replies failed");
        self.stats.count_record_failed();
    }

    /// What becomes of a request whose reply was refused.
    #[cold]
    pub(super) fn refused(&self, request: &Message, error: &SendError) -> Disposition {
        self.stats.count_undelivered();
        if error.is_retryable() {
            return Disposition::ABANDON;
        }
        match error.kind() {
            // The requester has gone, and its queue with it.
            ErrorKind::EntityNotFound => Disposition::Complete,
            ErrorKind::InvalidOperation if request.reply_to_session_id().is_none() => Disposition::dead_letter(
                DeadLetterReason::MissingReplyToSessionId,
                "the entity in ReplyTo requires a session, and the request names none",
            ),
            _ => Disposition::dead_letter(DeadLetterReason::ReplyRejected, error.to_string()),
        }
    }
}
