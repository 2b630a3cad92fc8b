//! Lists of messages, page by page.

use consign::dead_letters::UnderLocks;
use consign_core::{
    Message,
    administration::Administration,
    message::{EntityPath, MessageState, SequenceNumber},
    transport::{
        Capability, DynTransport, ErrorKind, PeekMessages, ReceiveError, ReceiveMode, Receiver, Transport,
        deadline::OPERATION_TIMEOUT,
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
    /// So many have arrived, and so many did the broker count before, if these are more.
    pub(super) fewer: Option<(usize, usize)>,
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
        return Err(counts("the transport has neither peek nor release"));
    }
    // A task goes on when the browser has gone: what was received is released, and in order.
    let listing = tokio::spawn(receive(shared.transport.clone(), path.clone(), shared.consume));
    let ended = listing.await.map_err(|error| ReceiveError::new(ErrorKind::General).with_source(error))?;
    let mut listed = ended?;
    listed.messages.retain(|message| filter.passes(message));
    Ok(listed)
}

fn counts(what: &str) -> ReceiveError {
    let detail = format!("{what}: listing counts a delivery of each message, and needs --consume");
    ReceiveError::new(ErrorKind::NotSupported).with_detail(detail)
}

/// Receives the first messages, and releases them.
async fn receive(transport: DynTransport, path: EntityPath, consume: bool) -> Result<Listed, ReceiveError> {
    // A broker that does not count them refuses it.
    let counted = transport.counts(&path).await.ok().map(|counts| counts.active.min(RECEIVED));
    let receiver = transport.receiver(&path, ReceiveMode::PeekLock).await?;
    // A queue may count what its transport does not count elsewhere.
    if !receiver.capabilities().supports(Capability::Release) && !consume {
        return Err(counts("the broker counts releases of this queue"));
    }
    let mut messages = Vec::new();
    let mut each = |message| {
        messages.push(message);
        RECEIVED.saturating_sub(messages.len())
    };
    let list = UnderLocks { operation: OPERATION_TIMEOUT, expected: counted };
    let ended = list.list(receiver, RECEIVED, std::future::pending(), &mut each).await;
    if let Err(error) = ended
        && messages.is_empty()
    {
        return Err(error);
    }
    let fewer = counted.filter(|counted| messages.len() < *counted).map(|counted| (messages.len(), counted));
    Ok(Listed { is_cut: messages.len() >= RECEIVED, messages, were_received: true, fewer, next: None })
}
