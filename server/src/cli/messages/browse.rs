//! Looking at messages without removing them.

use std::{
    io::{self, Write},
    time::Duration,
};

use consign::{
    Message,
    message::{EntityPath, SequenceNumber},
    transport::{
        Capability, DynTransport, Lease, PeekMessages, ReceiveError, ReceiveMode, Receiver, ReceiverExt, Transport,
    },
};

use crate::cli::failure::Failure;

/// How many messages are peeked at once.
const PAGE: usize = 100;
/// The most messages that are held where the transport cannot peek.
const MAX_HELD: usize = 16_384;
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

/// Calls `each` on the messages of a range, in order, and returns how many there were. Where the transport cannot peek, the
/// messages are received and released, which the standard error reports.
///
/// # Errors
///
/// `NotSupported` where that would count as a delivery and the range does not permit it.
pub(crate) async fn browse(
    transport: &DynTransport,
    range: &Range<'_>,
    each: &mut (dyn FnMut(Message) -> Result<(), Failure> + Send),
) -> Result<usize, Failure> {
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
    let received = receive(&mut receiver, range.max.unwrap_or(MAX_HELD).min(MAX_HELD), &mut held, each).await;
    receiver.stop();
    let count = held.len();
    let released = futures_util::future::join_all(held.into_iter().map(Lease::release)).await;
    received?;
    released.into_iter().collect::<Result<Vec<()>, _>>()?;
    Ok(count)
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
) -> Result<usize, Failure> {
    let (mut from, mut count) = (range.from, 0);
    loop {
        let room = range.max.map_or(PAGE, |max| (max - count).min(PAGE));
        if room == 0 {
            return Ok(count);
        }
        let messages = transport.peek(range.path, from, room).await?;
        let last = messages.iter().filter_map(Message::received).map(|received| received.sequence_number).max();
        for message in messages {
            each(message)?;
            count += 1;
        }
        match last.map(SequenceNumber::next) {
            Some(next) if next > from => from = next,
            // No message, or a transport whose numbers do not go on.
            _ => return Ok(count),
        }
    }
}

async fn receive<R: Receiver>(
    receiver: &mut R,
    max: usize,
    held: &mut Vec<R::Lease>,
    each: &mut (dyn FnMut(Message) -> Result<(), Failure> + Send),
) -> Result<(), Failure> {
    while held.len() < max {
        let batch = tokio::time::timeout(ARRIVAL, receiver.receive_batch(PAGE.min(max - held.len()))).await;
        let batch: Result<_, ReceiveError> = match batch {
            Ok(batch) => batch,
            Err(_) => return Ok(()),
        };
        for delivery in batch? {
            held.push(delivery.lease);
            each(delivery.message)?;
        }
    }
    Ok(())
}
