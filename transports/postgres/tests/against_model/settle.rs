//! Deliveries are settled, released and renewed.

use std::collections::BTreeMap;

use consign::{
    Disposition,
    message::PropertyValue,
    settlement::{Changes, DeadLetter, DeadLetterReason},
    time::Timestamp,
    transport::{ErrorKind, Lease},
};
use consign_postgres::PostgresLease;

use crate::{
    driver::{Driver, Held},
    model::Settle,
};

fn disposition(settle: &Settle) -> Disposition {
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

/// The error for the lease of a session.
pub(crate) fn told(outcome: Result<(), ErrorKind>, in_session: bool) -> Result<(), ErrorKind> {
    outcome.map_err(|kind| match kind {
        ErrorKind::MessageLockLost if in_session => ErrorKind::SessionLockLost,
        kind => kind,
    })
}

impl Driver {
    /// Any delivery, whether its lock still holds or not; more often a new one.
    fn any_held(&mut self) -> Option<usize> {
        let count = self.held.len();
        let first = if self.one_in(3) { 0 } else { count.saturating_sub(12) };
        (count > 0).then(|| self.rng.usize(first..count))
    }

    fn changes(&mut self) -> BTreeMap<String, PropertyValue> {
        let mut changes = BTreeMap::new();
        if self.rng.bool() {
            changes.insert("mark".into(), PropertyValue::U64(self.rng.u64(0..1_000)));
        }
        changes
    }

    fn any_settle(&mut self) -> Settle {
        match self.rng.u32(0..6) {
            0..2 => Settle::Abandon(self.changes()),
            2..4 => Settle::Defer(self.changes()),
            4 => Settle::Complete,
            _ => {
                let description = if self.rng.bool() { "for a reason" } else { "" };
                let changes = self.changes();
                Settle::DeadLetter { reason: "asked".into(), description: description.into(), changes }
            }
        }
    }

    async fn settle_held(&mut self, held: Held, settle: Settle) {
        let settled = held.delivery.lease.settle(disposition(&settle)).await.map_err(|error| error.kind());
        let expected = self.model.settle(held.entity, held.lock, settle.clone());
        assert_eq!(settled, told(expected, held.in_session), "{settle:?}");
    }

    pub(crate) async fn complete(&mut self) {
        let Some(at) = self.any_held() else { return };
        let held = self.held.swap_remove(at);
        self.settle_held(held, Settle::Complete).await;
    }

    /// By one statement, where they are of no session.
    pub(crate) async fn complete_several(&mut self) {
        let count = self.rng.usize(1..10).min(self.held.len());
        let several: Vec<Held> = self.held.drain(self.held.len() - count..).collect();
        let (in_sessions, several): (Vec<_>, Vec<_>) = several.into_iter().partition(|held| held.in_session);
        self.held.extend(in_sessions);
        let mut expected = Vec::new();
        for held in &several {
            expected.push(self.model.settle(held.entity, held.lock, Settle::Complete));
        }
        let mut leases: Vec<PostgresLease> = several.into_iter().map(|held| held.delivery.lease).collect();
        let mut settled = vec![Ok(()); expected.len()];
        if let Err(error) = PostgresLease::complete_all(&mut leases).await {
            for (index, error) in error.failures() {
                settled[index] = Err(error.kind());
            }
        }
        assert_eq!(settled, expected);
    }

    pub(crate) async fn settle_any(&mut self) {
        let Some(at) = self.any_held() else { return };
        let (held, settle) = (self.held.swap_remove(at), self.any_settle());
        self.settle_held(held, settle).await;
    }

    /// In a transaction of the application, which is rolled back now and then. Others settle meanwhile.
    pub(crate) async fn settle_in_transaction(&mut self) {
        if self.held.len() < 2 {
            return;
        }
        let Some(at) = self.any_held() else { return };
        let (held, settle) = (self.held.swap_remove(at), self.any_settle());
        let mut client = self.postgres.pool().get().await.unwrap();
        let transaction = client.transaction().await.unwrap();
        let settled = held.delivery.lease.settle_in(&transaction, disposition(&settle)).await;
        let settled = settled.map_err(|error| error.kind());
        if self.one_in(3) {
            transaction.rollback().await.unwrap();
            return;
        }
        let other = self.any_held().map(|at| self.held.swap_remove(at));
        if let Some(other) = other {
            self.settle_held(other, Settle::Complete).await;
        }
        transaction.commit().await.unwrap();
        let expected = self.model.settle(held.entity, held.lock, settle.clone());
        assert_eq!(settled, told(expected, held.in_session), "{settle:?}");
    }

    pub(crate) async fn release(&mut self) {
        let Some(at) = self.any_held() else { return };
        let held = self.held.swap_remove(at);
        let released = held.delivery.lease.release().await.map_err(|error| error.kind());
        assert_eq!(released, told(self.model.release(held.entity, held.lock), held.in_session));
    }

    pub(crate) async fn renew(&mut self) {
        let Some(at) = self.any_held() else { return };
        let held = &self.held[at];
        let renewed = held.delivery.lease.renew().await.map(Timestamp::as_millis).map_err(|error| error.kind());
        // Messages of a session are never renewed, whether its lock holds or not.
        let expected =
            if held.in_session { Err(ErrorKind::InvalidOperation) } else { self.model.renew(held.entity, held.lock) };
        assert_eq!(renewed, expected);
    }

    pub(crate) async fn settle_stale(&mut self) {
        self.model.catch_up();
        let is_stale = |held: &Held| self.model.locked_by(held.lock).is_none();
        let Some(at) = self.held.iter().position(is_stale) else { return };
        let (held, settle) = (self.held.swap_remove(at), self.any_settle());
        self.settle_held(held, settle).await;
    }
}
