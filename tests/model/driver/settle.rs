use std::collections::BTreeMap;

use consign::{
    Disposition,
    message::PropertyValue,
    settlement::{Changes, DeadLetter, DeadLetterReason},
    transport::{ErrorKind, Lease},
};

use super::{Driver, Held};
use crate::model::Settle;

/// What a settlement is for the broker.
pub(super) fn disposition(settle: &Settle) -> Disposition {
    let changes = |changes: &BTreeMap<String, PropertyValue>| -> Changes {
        let changes = changes.clone().into_iter();
        changes.collect::<consign::message::ApplicationProperties>().into()
    };
    match settle {
        Settle::Complete => Disposition::Complete,
        Settle::Abandon(its) => Disposition::Abandon(changes(its)),
        Settle::Defer(its) => Disposition::Defer(changes(its)),
        Settle::DeadLetter { reason, description, changes: its } => {
            let reason = DeadLetterReason::Application(reason.clone().into());
            let mut dead_letter = DeadLetter::new(reason, description.clone());
            dead_letter.changes = changes(its);
            Disposition::DeadLetter(Box::new(dead_letter))
        }
    }
}

/// As the holder of a lease in a session is told.
pub(super) fn told(outcome: Result<(), ErrorKind>, in_session: bool) -> Result<(), ErrorKind> {
    outcome.map_err(|kind| match kind {
        ErrorKind::MessageLockLost if in_session => ErrorKind::SessionLockLost,
        kind => kind,
    })
}

impl Driver {
    /// Any delivery, whether its lock still holds or not; more often a new one.
    pub(super) fn any_held(&mut self) -> Option<usize> {
        let count = self.held.len();
        let first = if self.one_in(3) { 0 } else { count.saturating_sub(4) };
        (count > 0).then(|| self.rng.usize(first..count))
    }

    pub(super) fn any_settle(&mut self) -> Settle {
        match self.rng.u32(0..7) {
            0..3 => Settle::Complete,
            3 => Settle::Abandon(self.changes()),
            4 => Settle::Defer(self.changes()),
            5 => Settle::Abandon(BTreeMap::new()),
            _ => self.any_dead_letter(),
        }
    }

    fn any_dead_letter(&mut self) -> Settle {
        let description = if self.rng.bool() { "for a reason" } else { "" };
        let changes = if self.rng.bool() { self.changes() } else { BTreeMap::new() };
        Settle::DeadLetter { reason: "asked".into(), description: description.into(), changes }
    }

    /// What an application changes; the reason of a dead letter it may not.
    fn changes(&mut self) -> BTreeMap<String, PropertyValue> {
        let mut changes = BTreeMap::new();
        if self.rng.u32(0..8) > 0 {
            changes.insert("mark".into(), PropertyValue::U64(self.rng.u64(0..1_000)));
        }
        if self.one_in(4) {
            changes.insert("colour".into(), "green".into());
        }
        if self.one_in(8) {
            changes.insert("DeadLetterReason".into(), "made up".into());
        }
        changes
    }

    fn settle(&mut self, settle: &Settle) {
        let Some(at) = self.any_held() else { return };
        let held = self.held.swap_remove(at);
        self.settle_held(held, settle);
    }

    pub(super) fn settle_held(&mut self, held: Held, settle: &Settle) {
        let settled = held.delivery.lease.settle(disposition(settle)).wait().map_err(|error| error.kind());
        let expected = self.model.settle(held.entity, held.lock, settle.clone());
        assert_eq!(settled, told(expected, held.in_session), "{settle:?} of {:?}", held.part);
    }

    pub(super) fn complete(&mut self) {
        self.settle(&Settle::Complete);
    }

    pub(super) fn abandon(&mut self) {
        self.settle(&Settle::Abandon(BTreeMap::new()));
    }

    pub(super) fn abandon_with_changes(&mut self) {
        let changes = self.changes();
        self.settle(&Settle::Abandon(changes));
    }

    pub(super) fn defer(&mut self) {
        self.settle(&Settle::Defer(BTreeMap::new()));
    }

    pub(super) fn defer_with_changes(&mut self) {
        let changes = self.changes();
        self.settle(&Settle::Defer(changes));
    }

    pub(super) fn dead_letter(&mut self) {
        let settle =
            Settle::DeadLetter { reason: "asked".into(), description: String::new(), changes: BTreeMap::new() };
        self.settle(&settle);
    }

    pub(super) fn dead_letter_with_changes(&mut self) {
        let settle = self.any_dead_letter();
        self.settle(&settle);
    }

    pub(super) fn release(&mut self) {
        let Some(at) = self.any_held() else { return };
        let held = self.held.swap_remove(at);
        let released = held.delivery.lease.release().wait().map_err(|error| error.kind());
        assert_eq!(released, told(self.model.release(held.entity, held.lock), held.in_session));
    }

    pub(super) fn renew(&mut self) {
        let Some(at) = self.any_held() else { return };
        let held = &self.held[at];
        let renewed = held.delivery.lease.renew().into_inner();
        let renewed = renewed.map(consign::time::Timestamp::as_millis).map_err(|error| error.kind());
        let expected = self.model.renew(held.entity, held.lock);
        let told = told(expected.map(drop), held.in_session);
        assert_eq!(renewed, expected.map_err(|_| told.unwrap_err()));
    }

    /// A lease of an earlier delivery has no power over a message that is locked anew, or was settled.
    pub(super) fn settle_stale(&mut self) {
        self.model.catch_up();
        let is_stale = |held: &Held| self.model.locked_by(held.lock).is_none();
        let Some(at) = self.held.iter().position(is_stale) else { return };
        let held = self.held.swap_remove(at);
        let settle = self.any_settle();
        self.settle_held(held, &settle);
    }

    pub(super) fn drop_delivery(&mut self) {
        let Some(at) = self.any_held() else { return };
        self.drop_held(at);
    }

    pub(super) fn drop_held(&mut self, at: usize) {
        let held = self.held.swap_remove(at);
        drop(held.delivery);
        let _ = self.model.settle(held.entity, held.lock, Settle::Abandon(BTreeMap::new()));
    }

    pub(super) fn lose_locks(&mut self) {
        let Some((at, part, queue)) = self.any_source() else { return };
        queue.lose_locks();
        self.model.lose_locks(self.handles[at].entity, part);
    }
}
