//! Lists of messages, page by page.

use std::{cell::Cell, time::Duration};

use consign_core::{
    Message,
    message::{EntityPath, MessageState, SequenceNumber},
    transport::{
        Capability, Delivery, DynLease, ErrorKind, Lease, PeekMessages, ReceiveError, ReceiveMode, ReceiverExt,
        Transport,
    },
};

use super::{Shared, text};

/// Messages of one page.
pub(super) const PAGE: usize = 50;
/// Messages of one peek.
const PEEK: usize = 250;
/// Messages that a search looks at before it shows what it has found.
pub(super) const SEARCHED: usize = 10_000;
/// Messages that are received to be listed.
const RECEIVED: usize = 50;
/// How long to wait for a message that is received to be listed.
const WAIT: Duration = Duration::from_secs(1);

/// Messages of an entity, and where the next page begins.
#[derive(Default)]
pub(super) struct Listed {
    pub(super) messages: Vec<Message>,
    /// The number from which the next page begins. `None` at the end.
    pub(super) next: Option<SequenceNumber>,
    /// They were received and released, because the transport cannot peek.
    pub(super) were_received: bool,
    /// There may be more than those that were received.
    pub(super) is_cut: bool,
}

/// Which messages to list.
#[derive(Default)]
pub(super) struct Filter<'f> {
    /// A text in an id, the subject, the session, the ContentType, or the name or the value of a property.
    pub(super) text: &'f str,
    pub(super) state: Option<MessageState>,
}

impl Filter<'_> {
    fn is_all(&self) -> bool {
        self.text.is_empty() && self.state.is_none()
    }

    fn passes(&self, message: &Message) -> bool {
        let state = message.received().map(|received| received.state);
        if self.state.is_some_and(|wanted| state != Some(wanted)) {
            return false;
        }
        if self.text.is_empty() {
            return true;
        }
        let fields = [
            message.message_id(),
            message.correlation_id(),
            message.subject(),
            message.session_id(),
            message.content_type(),
            message.to(),
            message.reply_to(),
        ];
        let is_in = |text: &str| text.contains(self.text);
        fields.into_iter().flatten().any(is_in)
            || message
                .application_properties()
                .iter()
                .any(|(name, value)| is_in(name) || value.as_str().map_or_else(|| is_in(&text::value(value)), is_in))
    }
}

/// Lists a page of an entity from a number on.
pub(super) async fn list(
    shared: &Shared,
    path: &EntityPath,
    from: SequenceNumber,
    filter: &Filter<'_>,
) -> Result<Listed, ReceiveError> {
    if !shared.supports(Capability::Peek) {
        return received(shared, path, filter).await;
    }
    let mut listed = Listed::default();
    let mut next = from;
    let mut searched = 0;
    loop {
        // One more shows whether there is a next page.
        let max = if filter.is_all() { PAGE + 1 - listed.messages.len() } else { PEEK };
        let peeked = shared.transport.peek(path, next, max).await?;
        let Some(last) = peeked.iter().filter_map(number).max().filter(|last| *last >= next) else { return Ok(listed) };
        searched += peeked.len();
        for message in peeked {
            if !filter.passes(&message) {
                continue;
            }
            if listed.messages.len() == PAGE {
                listed.next = number(&message);
                return Ok(listed);
            }
            listed.messages.push(message);
        }
        next = last.next();
        if searched >= SEARCHED {
            listed.next = Some(next);
            return Ok(listed);
        }
        tokio::task::yield_now().await;
    }
}

/// Finds one message.
pub(super) async fn find(
    shared: &Shared,
    path: &EntityPath,
    wanted: SequenceNumber,
) -> Result<Option<Message>, ReceiveError> {
    let peeked = shared.transport.peek(path, wanted, 1).await?;
    Ok(peeked.into_iter().find(|message| number(message) == Some(wanted)))
}

pub(super) fn number(message: &Message) -> Option<SequenceNumber> {
    Some(message.received()?.sequence_number)
}

/// Receives messages, and releases them.
async fn received(shared: &Shared, path: &EntityPath, filter: &Filter<'_>) -> Result<Listed, ReceiveError> {
    if !shared.supports(Capability::Release) && !shared.consume {
        let detail = "the transport has neither peek nor release: listing counts a delivery of each message, and needs --consume";
        return Err(ReceiveError::new(ErrorKind::NotSupported).with_detail(detail));
    }
    let mut receiver = shared.transport.receiver(path, ReceiveMode::PeekLock).await?;
    let mut deliveries: Vec<Delivery<DynLease>> = Vec::new();
    let failed = Cell::new(None);
    while deliveries.len() < RECEIVED {
        match tokio::time::timeout(WAIT, receiver.receive_batch(RECEIVED - deliveries.len())).await {
            Ok(Ok(more)) => deliveries.extend(more),
            Ok(Err(error)) => {
                failed.set(Some(error));
                break;
            }
            Err(_) => break,
        }
    }
    let is_cut = deliveries.len() >= RECEIVED;
    let mut listed = Listed { were_received: true, is_cut, ..Listed::default() };
    for Delivery { message, lease } in deliveries {
        // A release that fails leaves a lock that runs out.
        let _ = lease.release().await;
        if filter.passes(&message) {
            listed.messages.push(message);
        }
    }
    receiver.stopped().await;
    match failed.take() {
        Some(error) if listed.messages.is_empty() => Err(error),
        _ => Ok(listed),
    }
}
