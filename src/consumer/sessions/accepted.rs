//! The sessions that a consumer has accepted, and which of them it closes.

use std::sync::{Arc, Weak};

use super::shared::Shared;
use crate::transport::Session;

/// The session that has had nothing to do for the longest time.
pub(super) fn spare<Q: Session>(accepted: &[Weak<Shared<Q>>]) -> Option<Arc<Shared<Q>>> {
    let all = accepted.iter().filter_map(Weak::upgrade);
    let spare = all.filter_map(|shared| Some((shared.spare_since()?, shared)));
    spare.min_by_key(|(since, _)| *since).map(|(_, shared)| shared)
}

/// How many sessions are not done.
pub(super) fn working<Q: Session>(accepted: &[Weak<Shared<Q>>]) -> usize {
    accepted.iter().filter_map(Weak::upgrade).filter(|shared| !shared.is_done()).count()
}

/// Closes sessions until at most `count` are not being closed: first those that have had nothing to do for the longest time.
pub(super) fn close_surplus<Q: Session>(accepted: &[Weak<Shared<Q>>], count: usize) {
    let open: Vec<_> = accepted.iter().filter_map(Weak::upgrade).filter(|shared| !shared.is_closing()).collect();
    let Some(surplus) = open.len().checked_sub(count).filter(|surplus| *surplus > 0) else { return };
    let mut open: Vec<_> = open.into_iter().map(|shared| (shared.spare_since(), shared)).collect();
    open.sort_by_key(|(since, _)| (since.is_none(), *since));
    open[..surplus].iter().for_each(|(_, shared)| shared.close_when_idle());
}
