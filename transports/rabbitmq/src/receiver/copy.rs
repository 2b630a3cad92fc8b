//! A delivery once more, in its queue or its dead-letter queue.

use consign::{
    message::{ApplicationProperties, Properties},
    settlement::{Changes, DeadLetter},
    time::Timestamp,
    transport::SendError,
};

use super::{delivered::Held, state::Source};
use crate::{
    publisher::{Publication, Route},
    wire::{self, Expiration, Stamp},
};

/// The copy that takes the place of an abandoned message, at the end of its queue. It has one more failure.
pub(super) fn abandoned(
    held: &Held,
    source: &Source,
    changes: Changes,
    now: Timestamp,
) -> Result<Publication, SendError> {
    let left = held.facts.expires_at.map(|at| at.saturating_since(now));
    copy(
        held,
        source.path.as_str(),
        held.facts.failed + 1,
        left.map_or(Expiration::Never, Expiration::In),
        changes.into_properties(),
    )
}

/// The copy that goes to the dead-letter queue.
pub(crate) fn dead(
    held: &Held,
    source: &Source,
    failed: u32,
    dead_letter: DeadLetter,
) -> Result<Publication, SendError> {
    let mut properties = dead_letter.changes.into_properties();
    properties.insert(Properties::DEAD_LETTER_REASON, dead_letter.reason.as_str());
    if !dead_letter.description.is_empty() {
        properties.insert(Properties::DEAD_LETTER_DESCRIPTION, &*dead_letter.description);
    }
    copy(held, source.path.dead_letter().as_str(), failed, Expiration::Never, properties)
}

fn copy(
    held: &Held,
    queue: &str,
    failed: u32,
    expiration: Expiration,
    changes: ApplicationProperties,
) -> Result<Publication, SendError> {
    let mut message = held.message.clone();
    if !changes.is_empty() {
        message.properties_mut().application_mut().merge(changes);
    }
    let stamp = Stamp {
        number: held.facts.number,
        enqueued: held.facts.enqueued,
        failed,
        time_to_live: None,
        mirrored: false,
        delayed_to: None,
        expiration,
    };
    let written = wire::again(&message, &stamp, &held.raw, held.payload.clone())?;
    Ok(Publication {
        exchange: "".into(),
        key: queue.into(),
        route: Route::Mandatory,
        properties: written.properties,
        payload: written.payload,
    })
}
