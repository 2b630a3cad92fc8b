//! Looking at messages without removing them.

use std::io::{self, Write};

use consign::{
    Message,
    administration::{Administration, EntitySettings},
    dead_letters::{Ended, ListLimit, UnderLocks},
    message::{EntityPath, SequenceNumber},
    transport::{
        Capability, DynTransport, ErrorKind, PeekMessages, ReceiveError, ReceiveMode, Receiver, Transport,
        deadline::OPERATION_TIMEOUT,
    },
};

use crate::cli::{
    failure::{Exit, Failure},
    interrupt::{Interrupt, interrupted},
};

/// How many messages are peeked at once.
const PAGE: usize = 100;
/// The most messages that are held where the transport cannot peek.
const MAX_HELD: usize = ListLimit::MAX;

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
    /// Fewer have arrived than the broker has counted.
    Fewer {
        arrived: usize,
        counted: usize,
    },
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
            Self::Fewer { arrived, counted } => {
                let text = format!(
                    "the broker counted {counted} messages, and {arrived} arrived: the others are late, or another receiver \
                     has them"
                );
                Err(Failure::new(Exit::Partly, ErrorKind::ServiceTimeout.code(), text))
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
    interrupt: &Interrupt,
    each: &mut (dyn FnMut(Message) -> Result<(), Failure> + Send),
) -> Result<Listed, Failure> {
    let capabilities = transport.capabilities();
    if capabilities.supports(Capability::Peek) {
        return interrupt.ends(peek(transport, range, each)).await;
    }
    if !capabilities.supports(Capability::Release) && !range.consume {
        return Err(needs_consume());
    }
    receive(transport, range, interrupt, each).await
}

fn needs_consume() -> Failure {
    Failure::not_supported(
        "the transport cannot peek, and a message that is received and released counts as a failed delivery: permit that \
         with --consume",
    )
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

async fn receive(
    transport: &DynTransport,
    range: &Range<'_>,
    interrupt: &Interrupt,
    each: &mut (dyn FnMut(Message) -> Result<(), Failure> + Send),
) -> Result<Listed, Failure> {
    let opened = async {
        // A broker that does not count them refuses it, and one that is not there fails the receive too.
        let counted = transport.counts(range.path).await.ok().map(|counts| counts.active);
        Ok((counted, transport.receiver(range.path, ReceiveMode::PeekLock).await))
    };
    let (counted, receiver) = interrupt.ends(opened).await?;
    let max = range.max.unwrap_or(usize::MAX);
    // One more shows that these are not all.
    let wanted = |count: usize, arrived: usize| (max - count).min(MAX_HELD + 1 - arrived);
    let (mut count, mut arrived, mut failed) = (0, 0, None);
    let mut each = |message: Message| {
        arrived += 1;
        if arrived > MAX_HELD {
            return 0;
        }
        if message.received().is_none_or(|received| received.sequence_number >= range.from) {
            if let Err(failure) = each(message) {
                failed = Some(failure);
                return 0;
            }
            count += 1;
        }
        wanted(count, arrived)
    };
    let list = UnderLocks { operation: OPERATION_TIMEOUT, expected: counted };
    let ended = match receiver {
        // A queue may count what its transport does not count elsewhere.
        Ok(receiver) if !receiver.capabilities().supports(Capability::Release) && !range.consume => {
            return Err(needs_consume());
        }
        Ok(receiver) => {
            note(
                "the transport cannot peek: messages are received and released, which may change their order, and locked ones \
                 are not among them",
                range.json,
            );
            list.list(receiver, wanted(0, 0), interrupt.wait(), &mut each).await
        }
        Err(error) => Err(error),
    };
    let ended = match ended {
        Err(error) if error.kind() == ErrorKind::InvalidOperation => return Err(refused(transport, range, error).await),
        ended => ended?,
    };
    match (failed, counted) {
        (Some(failure), _) => Err(failure),
        _ if interrupt.has_happened() => Err(interrupted()),
        _ if arrived > MAX_HELD => Ok(Listed::Cut),
        (None, Some(counted)) if ended == Ended::Silent && arrived < counted => Ok(Listed::Fewer { arrived, counted }),
        _ => Ok(Listed::All),
    }
}

/// The failure of a receive that the entity does not allow.
async fn refused(transport: &DynTransport, range: &Range<'_>, error: ReceiveError) -> Failure {
    match transport.settings(range.path).await {
        Ok(EntitySettings::Queue(settings)) if settings.requires_session => {}
        Ok(EntitySettings::Subscription(settings)) if settings.requires_session => {}
        _ => return error.into(),
    }
    Failure::not_supported(
        "the transport cannot peek, and a queue that requires sessions is only received session by session: \
         `consign receive --session` or `--next-session` with `--settle release`",
    )
}
