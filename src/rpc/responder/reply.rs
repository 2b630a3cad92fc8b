use std::{error::Error, sync::Arc, time::Duration};

use bytes::Bytes;
use tower::ServiceExt;

use super::{ReplySenders, address::Addresses, recorded::Record, senders::Senders, stats::ResponderStats};
use crate::{
    Disposition, Message,
    message::{EntityPath, InvalidArgument, MessageBody, Properties, Received, TraceContext, random_id::random_id},
    middleware::{
        circuit_breaker::Probe,
        dedup::{StoreError, Unhandled},
    },
    rpc::{Correlate, Fault},
    settlement::{Changes, DeadLetterReason, cause_of},
    time::{Clock, Timestamp},
    transport::{Capability, ErrorKind, Escaped, SendError, Unsupported, deadline::Unanswered, log_limit},
};

/// How replies are made and sent.
pub(super) struct Replying<P: ReplySenders> {
    pub(super) senders: Senders<P>,
    pub(super) addresses: Addresses,
    pub(super) correlate: Correlate,
    pub(super) is_strict: bool,
    pub(super) subject: Option<Arc<str>>,
    pub(super) fault_body: Option<FaultBody>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) recorded: Option<Arc<dyn Record>>,
    /// How long a store or a broker may take to answer.
    pub(super) operation: Duration,
    pub(super) stats: ResponderStats,
}

/// The ContentType of faults, and what writes their bodies.
pub(super) struct FaultBody {
    pub(super) content_type: String,
    pub(super) write: Arc<dyn Fn(&Fault) -> Bytes + Send + Sync>,
}

/// A reply lives for this long at least, so that clocks that differ by less lose none. A late one does no harm.
const LEAST_TIME: Duration = Duration::from_secs(1);

/// Removes the time to live of a reply that was refused because its transport has none. Returns whether it is to be sent again.
#[cold]
pub(super) fn drops_time_to_live(reply: &mut Message, error: &SendError) -> bool {
    let is_refused = reply.time_to_live().is_some() && lacks_time_to_live(error);
    if is_refused {
        reply.properties_mut().clear_time_to_live();
    }
    is_refused
}

/// Whether an error, or one of its causes, is that of a transport without a time to live.
fn lacks_time_to_live(error: &(dyn Error + 'static)) -> bool {
    let lacks = error.downcast_ref::<Unsupported>().is_some_and(|lacks| lacks.capability() == Capability::TimeToLive);
    lacks || error.source().is_some_and(lacks_time_to_live)
}

/// Until when the requester waits, if the request says it in the property [`Properties::TIMEOUT`], and it is known from when
/// that counts.
fn deadline(request: &Message) -> Result<Option<Timestamp>, InvalidArgument> {
    let timeout = request.timeout()?;
    let enqueued = request.received().and_then(Received::known_enqueued_time);
    Ok(timeout.zip(enqueued).map(|(timeout, enqueued)| enqueued.saturating_add(timeout)))
}

impl<P: ReplySenders> Replying<P> {
    /// Where the reply to `request` goes; or what becomes of a request that cannot be answered.
    pub(super) fn address(&self, request: &Message) -> Result<Option<EntityPath>, Disposition> {
        let address = self.addresses.of(request).inspect_err(|_| self.stats.count_not_allowed())?;
        if self.is_strict && address.is_none() {
            return Err(Disposition::dead_letter(DeadLetterReason::MissingReplyTo, "the request has no ReplyTo"));
        }
        if (self.is_strict || address.is_some()) && !self.has_correlation(request) {
            return Err(self.without_id(request));
        }
        Ok(address)
    }

    #[cold]
    fn without_id(&self, request: &Message) -> Disposition {
        let stamped = if request.is_message_id_stamped() { " (the broker has made the MessageId)" } else { "" };
        let expected = self.correlate.expected();
        let why = format!("the sender of the request must set {expected}, which the reply names{stamped}");
        Disposition::dead_letter(DeadLetterReason::MissingProperty, why)
    }

    /// Whether there is a [`correlation`](Self::correlation). Most requests have a token, whose text is not read for this.
    #[inline]
    fn has_correlation(&self, request: &Message) -> bool {
        let is_by_message_id = matches!(self.correlate, Correlate::MessageIdOrCorrelationId | Correlate::MessageId);
        let has_own = request.properties().has_message_id() && !request.is_message_id_stamped();
        is_by_message_id && has_own || self.correlation(request).is_some()
    }

    #[inline]
    fn correlation<'r>(&self, request: &'r Message) -> Option<&'r str> {
        let message_id = || request.original_message_id().filter(|_| !request.is_message_id_stamped());
        let correlation_id = || request.correlation_id().filter(|id| !id.is_empty());
        match self.correlate {
            Correlate::MessageIdOrCorrelationId => message_id().or_else(correlation_id),
            Correlate::MessageId => message_id(),
            Correlate::CorrelationId => correlation_id(),
            Correlate::CorrelationIdOrMessageId => correlation_id().or_else(message_id),
        }
    }

    /// What becomes of a request that no handler may see, for its requester does not wait any more, or says wrongly how
    /// long it waits.
    #[inline]
    pub(super) fn refusal(&self, request: &Message) -> Option<Disposition> {
        if request.application_properties().is_empty() {
            return None;
        }
        match deadline(request) {
            Ok(None) => None,
            Ok(Some(deadline)) => {
                let now = self.clock.now().utc;
                (deadline <= now).then(|| self.expired(request, now.saturating_since(deadline)))
            }
            Err(invalid) => Some(Disposition::dead_letter(DeadLetterReason::InvalidProperty, invalid.to_string())),
        }
    }

    #[cold]
    fn expired(&self, request: &Message, by: Duration) -> Disposition {
        if let Some(suppressed) = log_limit("rpc", "RequestsExpired") {
            tracing::warn!(
                ?by,
                suppressed,
                "a request was past its deadline by the clock of this process: it is completed without a reply"
            );
        }
        self.stats.count_expired();
        Unhandled::mark(request);
        Probe::mark_unhandled(request);
        Disposition::Complete
    }

    /// The properties that every reply to `request` has.
    #[inline]
    pub(super) fn properties(&self, request: &Message) -> Properties {
        let mut properties = Properties::new();
        properties.set_message_token(random_id());
        let received = request.received();
        let has_properties = !request.application_properties().is_empty();
        let is_by_message_id = matches!(self.correlate, Correlate::MessageIdOrCorrelationId | Correlate::MessageId);
        let is_plain = is_by_message_id && !has_properties;
        if !(is_plain && properties.correlate_with_message_id(request.properties()))
            && let Some(id) = self.correlation(request)
        {
            properties.set_correlation_id(id.to_owned());
        }
        if let Some(subject) = &self.subject {
            properties.set_shared_subject(Arc::clone(subject));
        }
        if has_properties {
            TraceContext::carry(request.properties(), &mut properties);
        }
        if let Some(session) = request.reply_to_session_id() {
            // It was checked when the request was made, or read from the wire; a reply without it is refused.
            let _ = properties.set_session_id(session.to_owned());
        }
        if let Some(received) = received.filter(|_| request.time_to_live().is_some()) {
            let timeout = if has_properties { deadline(request).ok().flatten() } else { None };
            let until = timeout.unwrap_or(Timestamp::MAX).min(received.expires_at);
            let left = until.saturating_since(self.clock.now().utc);
            let _ = properties.set_time_to_live(left.max(LEAST_TIME));
        }
        properties
    }

    /// The reply that says why there is none.
    pub(super) fn fault(&self, request: &Message, fault: &Fault) -> Message {
        let mut properties = self.properties(request);
        fault.write(&mut properties);
        let body = self.fault_body.as_ref().map_or_else(Bytes::new, |make| {
            properties.set_content_type(make.content_type.clone());
            (make.write)(fault)
        });
        Message::from_parts(properties, MessageBody::from(body))
    }

    /// Sends a reply by a new sender: one that was kept may lead to an entity that is gone, and a new one to one in its place.
    pub(super) async fn send_anew(&self, address: &EntityPath, mut reply: Message) -> Result<(), SendError> {
        loop {
            let sent = self.senders.make(address)?.sender.oneshot(reply.clone()).await;
            match sent.map_err(Into::into) {
                Err(error) if drops_time_to_live(&mut reply, &error) => {}
                sent => return sent,
            }
        }
    }

    /// The request is handled, and its id is committed.
    #[cold]
    pub(super) fn not_recorded(&self, error: &StoreError) {
        if let Some(suppressed) = log_limit("rpc", "RepliesNotRecorded") {
            let cause = cause_of(error);
            tracing::warn!(error = %Escaped(&cause), suppressed, "a reply was not recorded: a duplicate of its request gets no reply");
        }
        self.stats.count_record_failed();
    }

    #[cold]
    pub(super) fn not_replayed(&self, error: &StoreError) {
        if let Some(suppressed) = log_limit("rpc", "RepliesNotRead") {
            let cause = cause_of(error);
            tracing::warn!(error = %Escaped(&cause), suppressed, "a recorded reply was not read: the duplicate request is abandoned");
        }
        self.stats.count_record_failed();
    }

    /// No broker keeps the request of this reply, so only a log line has the reason.
    #[cold]
    pub(super) fn log_undelivered(reply_to: &str, error: &SendError) {
        if let Some(suppressed) = log_limit("rpc", "RepliesUndelivered") {
            tracing::warn!(
                reply_to = %Escaped(reply_to),
                error = %Escaped(&cause_of(error)),
                suppressed,
                "a reply could not be sent to the address in ReplyTo"
            );
        }
    }

    /// What becomes of a request whose reply was not accepted in time.
    #[cold]
    pub(super) fn unanswered(&self, request: &Message, unanswered: Unanswered) -> Disposition {
        tracing::warn!(error = %unanswered, "the broker did not accept a reply in time: the request is abandoned");
        self.refused(request, &unanswered.into())
    }

    /// What becomes of a request whose reply was refused.
    #[cold]
    pub(super) fn refused(&self, request: &Message, error: &SendError) -> Disposition {
        self.stats.count_undelivered();
        if error.is_retryable() {
            return Disposition::Abandon(Changes::because(format!("the reply was refused: {}", cause_of(error))));
        }
        match error.kind() {
            // The requester has gone, and its queue with it; or its address is not one of this transport.
            ErrorKind::EntityNotFound => {
                Self::log_undelivered(request.reply_to().unwrap_or_default(), error);
                Disposition::Complete
            }
            _ if error.is_session_required() && request.reply_to_session_id().is_none() => Disposition::dead_letter(
                DeadLetterReason::MissingReplyToSessionId,
                "the entity in ReplyTo requires a session, and the request names none",
            ),
            _ => Disposition::dead_letter(DeadLetterReason::ReplyRejected, error.to_string()),
        }
    }
}
