use std::collections::BTreeMap;

use consign::message::SequenceNumber;

use super::{
    Driver, Held, Open,
    send::{message, timestamp},
    settle::disposition,
    world::Kind,
};
use crate::model::{Operation, Settle, Transaction};

impl Driver {
    /// A transaction that is open, or a new one. They are few, so that each gets several operations.
    fn any_transaction(&mut self) -> usize {
        if self.transactions.len() < 2 && (self.transactions.is_empty() || self.one_in(8)) {
            let (transaction, model) = (self.broker.transaction(), Transaction::default());
            self.transactions.push(Open { transaction, model, leases: Vec::new() });
        }
        self.rng.usize(0..self.transactions.len())
    }

    pub(super) fn send_in_transaction(&mut self) {
        self.add_send(false, false);
    }

    pub(super) fn schedule_in_transaction(&mut self) {
        self.add_send(true, false);
    }

    pub(super) fn send_via_in_transaction(&mut self) {
        self.add_send(false, true);
    }

    fn add_send(&mut self, has_time: bool, is_via: bool) {
        let which = self.any_transaction();
        let Some(target) = self.any_target_of(which, is_via) else { return };
        let via = if is_via {
            let about = self.about(which);
            self.any_handle(|handle| about.is_none_or(|about| about == handle.entity))
        } else {
            None
        };
        let mut content = self.content(target);
        if is_via && self.rng.bool() {
            content.via_key = Some(format!("k{}", self.rng.u32(0..2)));
        }
        let at = has_time.then(|| self.any_time());
        let mut sender = self.sender(target);
        if let Some(via) = via {
            sender = sender.via(&self.handles[via].transfer());
        }
        let open = &mut self.transactions[which];
        let added = match at {
            Some(at) => open.transaction.schedule(&sender, message(&content), timestamp(at)),
            None => open.transaction.send(&sender, message(&content)),
        };
        let to = self.handles[target].entity;
        let via = via.map(|via| self.handles[via].entity);
        let expected = self.model.add(&mut open.model, Operation::Send { to, via, content, at });
        assert_eq!(added.map_err(|error| error.kind()), expected);
    }

    /// What the transaction is about, so that most of its operations are allowed.
    fn about(&self, which: usize) -> Option<u32> {
        self.transactions[which].model.about()
    }

    fn any_target_of(&mut self, which: usize, is_via: bool) -> Option<usize> {
        let about = self.about(which).filter(|_| !is_via);
        let strays = self.one_in(6);
        self.any_handle(|handle| {
            handle.kind != Kind::Subscription && (strays || about.is_none_or(|about| about == handle.entity))
        })
    }

    pub(super) fn settle_in_transaction(&mut self) {
        let which = self.any_transaction();
        let Some(at) = self.any_held_of(which) else { return };
        let settle = if self.rng.bool() { Settle::Complete } else { self.any_settle() };
        let Held { entity, delivery, lock, in_session, .. } = self.held.swap_remove(at);
        let open = &mut self.transactions[which];
        let added = open.transaction.settle(delivery.lease, disposition(&settle)).map_err(|error| error.kind());
        let operation = Operation::Settle { entity, lock, in_session, settle };
        let expected = self.model.add(&mut open.model, operation);
        assert_eq!(added, expected);
        if added.is_ok() {
            open.leases.push((entity, lock, in_session));
        } else {
            // The lease was dropped.
            let _ = self.model.settle(entity, lock, Settle::Abandon(BTreeMap::default()));
        }
    }

    fn any_held_of(&mut self, which: usize) -> Option<usize> {
        let about = self.about(which);
        let subscriptions = about.map(|about| self.model.subscriptions(about)).unwrap_or_default();
        let fits = |held: &Held| about.is_none_or(|about| held.entity == about || subscriptions.contains(&held.entity));
        let fitting: Vec<usize> = (0..self.held.len()).filter(|&at| fits(&self.held[at])).collect();
        self.rng.choice(fitting).filter(|_| !self.one_in(8)).or_else(|| self.any_held())
    }

    pub(super) fn renew_in_transaction(&mut self) {
        let which = self.any_transaction();
        let Some(at) = self.any_held_of(which) else { return };
        let Held { entity, delivery, lock, in_session, .. } = &self.held[at];
        let open = &mut self.transactions[which];
        let added = open.transaction.renew(&delivery.lease).map_err(|error| error.kind());
        let operation = Operation::Renew { entity: *entity, lock: *lock, in_session: *in_session };
        assert_eq!(added, self.model.add(&mut open.model, operation));
    }

    pub(super) fn commit(&mut self) {
        if self.transactions.is_empty() {
            return;
        }
        let which = self.rng.usize(0..self.transactions.len());
        let Open { transaction, model, leases } = self.transactions.swap_remove(which);
        let committed = transaction.commit().wait();
        let expected = self.model.commit(model);
        match committed {
            Ok(committed) => {
                let numbers: Vec<_> = committed.scheduled.into_iter().map(SequenceNumber::get).collect();
                assert_eq!(Ok(numbers), expected);
            }
            Err(error) => {
                assert_eq!(Err(error.kind()), expected);
                self.give_back(error.into_leases(), leases);
            }
        }
    }

    pub(super) fn roll_back(&mut self) {
        if self.transactions.is_empty() {
            return;
        }
        let which = self.rng.usize(0..self.transactions.len());
        let Open { transaction, leases, .. } = self.transactions.swap_remove(which);
        self.give_back(transaction.rollback(), leases);
    }

    /// The leases of a transaction without an effect are as good as before. Here they are renewed, and then dropped.
    fn give_back(&mut self, returned: Vec<consign::broker::QueueLease>, leases: Vec<(u32, u64, bool)>) {
        use consign::transport::Lease;
        assert_eq!(returned.len(), leases.len());
        for (lease, (entity, lock, in_session)) in returned.into_iter().zip(leases) {
            let renewed = lease.renew().into_inner().map(drop).map_err(|error| error.kind());
            assert_eq!(renewed, super::settle::told(self.model.renew(entity, lock).map(drop), in_session));
            drop(lease);
            let _ = self.model.settle(entity, lock, Settle::Abandon(BTreeMap::default()));
        }
    }

    /// What it was to settle is abandoned.
    pub(super) fn drop_transaction(&mut self) {
        let Some(Open { transaction, leases, .. }) = self.transactions.pop() else { return };
        drop(transaction);
        for (entity, lock, _) in leases {
            let _ = self.model.settle(entity, lock, Settle::Abandon(BTreeMap::default()));
        }
    }
}
