//! Copies of a delivery, in its queue or its dead-letter queue.

use consign_core::{
    Message,
    settlement::{Changes, DeadLetter},
    time::Timestamp,
    transport::{ErrorKind, SendError},
};

use super::{delivered::Held, source::Source};
use crate::{
    publisher::{Publication, Route},
    wire::{self, Expiration, Stamp},
};

/// Returns the copy that replaces an abandoned message, at the end of its queue. It has one more failure.
pub(super) fn abandoned(
    held: &Held,
    source: &Source,
    changes: Changes,
    now: Timestamp,
    delays: &str,
) -> Result<Publication, SendError> {
    let left = held.facts.expires_at.map(|at| at.saturating_since(now));
    let expiration = left.map_or(Expiration::Never, Expiration::In);
    let mut copy = copy(held, &changed(held, changes), source.path.as_str(), held.facts.failed + 1, expiration)?;
    wire::history::keep(&held.raw, &mut copy.properties, Some(delays), source.path.as_str());
    Ok(copy)
}

/// Returns the copy that replaces a message which is redelivered after a delay. If it expires meanwhile, it does so when it is
/// due.
pub(super) fn delayed(held: &Held, source: &Source, changes: Changes, failed: u32) -> Result<Publication, SendError> {
    let queue = source.path.as_str();
    let stamp = Stamp { delayed_to: Some(queue.to_owned()), ..stamp(held, failed, Expiration::Never) };
    stamped(held, &changed(held, changes), queue, &stamp)
}

fn changed(held: &Held, changes: Changes) -> Message {
    let mut message = held.message.clone();
    let changes = changes.into_permitted();
    if !changes.is_empty() {
        message.properties_mut().application_properties_mut().merge(changes);
    }
    message
}

/// Returns whether the changes would make the properties of the message too large.
pub(crate) fn outgrows(held: &Held, changes: &Changes) -> bool {
    !changes.is_empty() && changed(held, changes.clone()).properties().check().is_err()
}

/// Returns the copy for the slot of its session.
pub(crate) fn moved(held: &Held, queue: &str, now: Timestamp) -> Result<Publication, SendError> {
    let left = held.facts.expires_at.map(|at| at.saturating_since(now));
    let expiration = left.map_or(Expiration::Never, Expiration::In);
    copy(held, &held.message, queue, held.facts.failed, expiration)
}

/// Returns the copy for the dead-letter queue. If the reason does not fit beside the properties, the copy has the reason
/// `HeaderSizeExceeded`, and the properties as the headers that they came as: it must not be redelivered without end.
pub(crate) fn dead(
    held: &Held,
    source: &Source,
    failed: u32,
    dead_letter: DeadLetter,
) -> Result<Publication, SendError> {
    const SMALLER: [usize; 4] = [40 << 10, 24 << 10, 8 << 10, 0];
    let copy_of = |mut message: Message, dead_letter: DeadLetter| {
        dead_letter.write_to(message.properties_mut().application_properties_mut());
        copy(held, &message, source.path.dead_letter().as_str(), failed, Expiration::Never)
    };
    copy_of(held.message.clone(), dead_letter).or_else(|refused| {
        if !matches!(refused.kind(), ErrorKind::InvalidArgument | ErrorKind::MessageSizeExceeded) {
            return Err(refused);
        }
        let smaller = SMALLER.into_iter().map(|bytes| {
            let mut smaller = held.message.clone();
            smaller.properties_mut().fit_within(bytes);
            smaller
        });
        smaller.flat_map(|smaller| copy_of(smaller, DeadLetter::header_size_exceeded())).next().ok_or(refused)
    })
}

fn copy(
    held: &Held,
    message: &Message,
    queue: &str,
    failed: u32,
    expiration: Expiration,
) -> Result<Publication, SendError> {
    stamped(held, message, queue, &stamp(held, failed, expiration))
}

fn stamp(held: &Held, failed: u32, expiration: Expiration) -> Stamp {
    Stamp {
        number: Some(held.facts.number),
        enqueued: Some(held.facts.enqueued),
        failed,
        time_to_live: None,
        mirrored: false,
        delayed_to: None,
        expiration,
    }
}

fn stamped(held: &Held, message: &Message, queue: &str, stamp: &Stamp) -> Result<Publication, SendError> {
    let written = wire::again(message, stamp, &held.raw, held.payload.clone())?;
    Ok(Publication {
        exchange: "".into(),
        key: queue.into(),
        route: Route::Mandatory,
        properties: written.properties,
        payload: written.payload,
    })
}
