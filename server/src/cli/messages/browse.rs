//! Looking at messages without removing them.

use std::{
    io::{self, Write},
    time::Duration,
};

use consign::{
    Message,
    dead_letters::ListLimit,
    message::{EntityPath, SequenceNumber},
    transport::{
        Capability, DynTransport, ErrorKind, Lease, PeekMessages, ReceiveError, ReceiveMode, Receiver, ReceiverExt,
        Transport,
    },
};

use crate::cli::failure::{Exit, Failure};

/// How many messages are peeked at once.
const PAGE: usize = 100;
/// The most messages that are held where the transport cannot peek.
const MAX_HELD: usize = ListLimit::MAX;
/// How long a message may take to arrive, where the transport cannot peek.
const ARRIVAL: Duration = Duration::from_secs(1);

/// What to look at.
pub(crate) struct Range<'p> {
    pub(crate) path: &'p EntityPath,
    pub(crate) from: SequenceNumber,
    /// All, without it.
    pub(crate) max: Option<usize>,
    /// Whether a delivery may count, where the transport can neither peek nor release.
    pub(crate) consume: bool,
    /// Whether notes are JSON objects.
    pub(crate) json: bool,
}

/// Whether these were all messages. A command that needs all of them checks it when it has printed those that there are.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Listed {
    All,
    /// There are more than can be held where the transport cannot peek.
    Cut,
}

impl Listed {
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match self {
            Self::All => Ok(()),
            Self::Cut => {
                let text =
                    format!("there are more than {MAX_HELD} messages, and a transport without peek lists no more");
                Err(Failure::new(Exit::Partly, ErrorKind::NotSupported.code(), text))
            }
        }
    }
}

/// Calls `each` on the messages of a range, in order. Where the transport cannot peek, the messages are received and released,
/// which the standard error reports.
///
/// # Errors
///
/// `NotSupported` where that would count as a delivery and the range does not permit it.
pub(crate) async fn browse(
    transport: &DynTransport,
    range: &Range<'_>,
    each: &mut (dyn FnMut(Message) -> Result<(), Failure> + Send),
) -> Result<Listed, Failure> {
    let capabilities = transport.capabilities();
    if capabilities.supports(Capability::Peek) {
        return peek(transport, range, each).await;
    }
    if !capabilities.supports(Capability::Release) && !range.consume {
        return Err(Failure::not_supported(
            "the transport cannot peek, and a message that is received and released counts as a failed delivery: \
             permit that with --consume",
        ));
    }
    note(
        "the transport cannot peek: messages are received and released, and locked ones are not among them",
        range.json,
    );
    let mut receiver = transport.receiver(range.path, ReceiveMode::PeekLock).await?;
    let mut held = Vec::new();
    let received = receive(&mut receiver, range, &mut held, each).await;
    receiver.stop();
    let released = futures_util::future::join_all(held.into_iter().map(Lease::release)).await;
    let listed = received?;
    released.into_iter().collect::<Result<Vec<()>, _>>()?;
    Ok(listed)
}

/// Prints a note on the standard error.
fn note(text: &str, json: bool) {
    let line = if json { serde_json::json!({ "note": text }).to_string() } else { format!("note: {text}") };
    // A standard error that is closed leaves nowhere to report to.
    let _ = writeln!(io::stderr(), "{line}");
}

async fn peek(
    transport: &DynTransport,
    range: &Range<'_>,
    each: &mut (dyn FnMut(Message) -> Result<(), Failure> + Send),
) -> Result<Listed, Failure> {
    let (mut from, mut count) = (range.from, 0);
    loop {
        let wanted = range.max.map_or(PAGE, |max| (max - count).min(PAGE));
        if wanted == 0 {
            return Ok(Listed::All);
        }
        let messages = transport.peek(range.path, from, wanted).await?;
        let last = messages.iter().filter_map(Message::received).map(|received| received.sequence_number).max();
        for message in messages {
            each(message)?;
            count += 1;
        }
        match last.map(SequenceNumber::next) {
            Some(next) if next > from => from = next,
            // No message, or a transport whose numbers do not go on.
            _ => return Ok(Listed::All),
        }
    }
}

async fn receive<R: Receiver>(
    receiver: &mut R,
    range: &Range<'_>,
    held: &mut Vec<R::Lease>,
    each: &mut (dyn FnMut(Message) -> Result<(), Failure> + Send),
) -> Result<Listed, Failure> {
    let (max, mut count) = (range.max.unwrap_or(usize::MAX), 0);
    while count < max {
        // One more shows that these are not all.
        let wanted = PAGE.min(max - count).min(MAX_HELD + 1 - held.len());
        let batch = tokio::time::timeout(ARRIVAL, receiver.receive_batch(wanted)).await;
        let batch: Result<_, ReceiveError> = match batch {
            Ok(batch) => batch,
            Err(_) => return Ok(Listed::All),
        };
        for delivery in batch? {
            held.push(delivery.lease);
            if held.len() > MAX_HELD {
                return Ok(Listed::Cut);
            }
            let number = delivery.message.received().map(|received| received.sequence_number);
            if number.is_none_or(|number| number >= range.from) {
                each(delivery.message)?;
                count += 1;
            }
        }
    }
    Ok(Listed::All)
}
