use std::collections::BTreeMap;

use consign_core::{
    Message,
    message::{SequenceNumber, Stored},
    settlement::DeadLetter,
    transport::{ErrorKind, SendError},
};

use super::{
    Engine, Notice, Part, Role, StoreId,
    check::{check_message, gone},
    entity_mut,
    load::{Balance, Incoming},
    notice::Report,
    store::{Arrival, Number, Refused, Settlement, common_key},
    time::Now,
};

/// The operations of a transaction: the settlements first, then the sends in order.
#[derive(Debug, Default)]
pub(crate) struct Operations {
    pub(crate) settlements: Vec<PlannedSettlement>,
    pub(crate) sends: Vec<PlannedSend>,
}

#[derive(Debug)]
pub(crate) struct PlannedSettlement {
    pub(crate) store: StoreId,
    pub(crate) key: u32,
    pub(crate) lock: u64,
    pub(crate) settlement: Settlement,
    pub(crate) in_session: bool,
}

/// A send to `to`, transferred by `via` if that is another entity.
#[derive(Debug)]
pub(crate) struct PlannedSend {
    pub(crate) to: StoreId,
    pub(crate) via: Option<StoreId>,
    pub(crate) arrival: Arrival,
    pub(crate) is_scheduled: bool,
    /// The number that the message has if it is scheduled.
    pub(crate) reserved: Option<Number>,
}

impl Operations {
    pub(crate) fn len(&self) -> usize {
        self.settlements.len() + self.sends.len()
    }
}

/// Why a transaction had no effect.
#[derive(Debug)]
pub(crate) enum Rejected {
    /// The refusal of a send, and its index.
    Send(SendError, usize),
    Settle(Refused),
}

impl Engine {
    /// Returns the entity of a transaction that works on this one: for a subscription its topic.
    pub(crate) fn top_level(&self, id: StoreId) -> StoreId {
        match self.entity(id).map(|entity| &entity.role) {
            Some(Role::Subscription(subscription)) => subscription.topic,
            _ => id,
        }
    }

    /// Assigns a number of an entity to a message that may be accepted later. If it is not, the number is not used.
    pub(crate) fn reserve(&mut self, now: Now, id: StoreId, message: &Stored) -> Option<Number> {
        self.advance(now);
        let entity = entity_mut(&mut self.entities, id)?;
        // A store that is opened again must not assign the number once more.
        entity.store.counters_changed(&mut self.fx);
        Some(entity.store.number(now, message))
    }

    /// Commits all operations, or none. Returns the numbers of the sends that have a time. Unused values stay in
    /// `operations`, to be dropped where no lock is held.
    pub(crate) fn commit(&mut self, now: Now, operations: &mut Operations) -> Result<Vec<SequenceNumber>, Rejected> {
        self.advance(now);
        self.check_plan(now, operations)?;
        for settlement in &operations.settlements {
            self.apply(now, settlement);
        }
        let mut numbers = Vec::new();
        for send in operations.sends.drain(..) {
            let is_scheduled = send.is_scheduled;
            let number = self.deliver(now, send);
            numbers.extend(is_scheduled.then_some(number));
        }
        self.finish(now);
        Ok(numbers)
    }

    /// Returns the entity that transfers a message, and keeps it as a dead letter if the target is disabled.
    fn keeper(&self, send: &PlannedSend) -> Option<StoreId> {
        send.via.filter(|_| self.entity(send.to).is_some_and(|to| !to.store.settings().status.allows_send()))
    }

    fn check_plan(&mut self, now: Now, plan: &Operations) -> Result<(), Rejected> {
        let mut balances: BTreeMap<StoreId, Balance> = BTreeMap::new();
        let mut settled = 0_u64;
        for PlannedSettlement { store, key, lock, settlement, in_session } in &plan.settlements {
            let entity = self.entity(*store).ok_or(Refused::LockLost);
            let checked = entity.and_then(|entity| entity.store.check_settlement(now, *key, *lock, settlement));
            let (freed, written) = checked.map_err(|refused| match refused {
                Refused::LockLost if *in_session => Rejected::Settle(Refused::SessionLockLost),
                refused => Rejected::Settle(refused),
            })?;
            balances.entry(self.top_level(*store)).or_default().freed += freed;
            settled = settled.saturating_add(written);
        }
        self.fx.check_settlement(settled).map_err(Rejected::Settle)?;
        self.check_disk(plan.sends.iter().map(|send| &send.arrival)).map_err(|error| Rejected::Send(error, 0))?;
        let mut by_entity: BTreeMap<StoreId, (usize, Vec<Incoming<'_>>)> = BTreeMap::new();
        for (at, send) in plan.sends.iter().enumerate() {
            let PlannedSend { to, via, arrival, reserved, .. } = send;
            if via.is_some_and(|via| self.entity(via).is_none()) {
                return Err(Rejected::Send(gone(), at));
            }
            let keeper = self.keeper(send).and_then(|via| self.entity(via));
            let Some(keeper) = keeper.map(|entity| &entity.store) else {
                let incoming = reserved.map_or(Incoming::Sent(arrival), |_| Incoming::Reserved(arrival));
                by_entity.entry(*to).or_insert((at, Vec::new())).1.push(incoming);
                continue;
            };
            check_message(keeper.settings(), arrival).map_err(|error| Rejected::Send(error, at))?;
            balances.entry(keeper.id()).or_default().kept += arrival.size;
            by_entity.entry(keeper.id()).or_insert((at, Vec::new())).1.push(Incoming::Kept(arrival));
        }
        let mut bytes = settled;
        for (id, (first, messages)) in &by_entity {
            let balance = balances.get(id).copied().unwrap_or_default();
            let checked = self.check_all(now, *id, messages.iter().copied(), balance);
            bytes = bytes.saturating_add(checked.map_err(|error| Rejected::Send(error, *first))?);
        }
        if self.check_together(bytes).is_ok() {
            return Ok(());
        }
        // Without estimates.
        bytes = settled;
        for (id, (first, messages)) in &by_entity {
            let balance = balances.get(id).copied().unwrap_or_default();
            let checked = self.check_exactly(now, *id, messages.iter().copied(), balance);
            bytes = bytes.saturating_add(checked.map_err(|error| Rejected::Send(error, *first))?);
        }
        self.check_together(bytes).map_err(|error| Rejected::Send(error, 0))
    }

    /// Applies a settlement. It was checked before, so nothing here is refused.
    fn apply(&mut self, now: Now, planned: &PlannedSettlement) {
        let PlannedSettlement { store, key, lock, ref settlement, .. } = *planned;
        let Some(entity) = entity_mut(&mut self.entities, store) else { return };
        let (store, fx) = (&mut entity.store, &mut self.fx);
        store.touch(now);
        let done = match settlement {
            Settlement::By(disposition) => store.settle(now, key, lock, disposition, fx).map(|removed| {
                fx.note().dropped.extend(removed);
            }),
            Settlement::Renew => store.renew(now, key, lock, fx).map(drop),
        };
        debug_assert!(done.is_ok(), "{done:?}");
    }

    fn deliver(&mut self, now: Now, send: PlannedSend) -> SequenceNumber {
        let keeper = self.keeper(&send);
        let PlannedSend { to, arrival, reserved, .. } = send;
        let Some(via) = keeper else { return self.accept_as(now, to, arrival, reserved) };
        let Some(target) = self.entity(to).map(|entity| entity.path.clone()) else { return SequenceNumber::new(0) };
        let Some(entity) = entity_mut(&mut self.entities, via) else { return SequenceNumber::new(0) };
        let refusal = SendError::new(ErrorKind::EntityDisabled);
        let dead_letter = DeadLetter::forward_target_unavailable(target.as_str(), &refusal);
        if entity.says(Report::Transfer, now) {
            let (via, refusal) = (entity.path.clone(), refusal.to_string().into());
            self.fx.note().notices.push(Notice::NotTransferred { via, target, refusal });
        }
        let number = entity.store.number(now, &arrival.message);
        entity.store.insert_dead(Part::TransferDeadLetter, arrival, number, dead_letter, &mut self.fx);
        number.sequence
    }

    /// Returns the key that the messages of a transaction on a partitioned entity must share: that of this message.
    pub(crate) fn partition_key(&self, id: StoreId, message: &Message, via: bool) -> Result<Option<String>, SendError> {
        if !self.entity(id).is_some_and(|entity| entity.store.settings().partitioned) {
            return Ok(None);
        }
        let key = if via { message.transaction_partition_key() } else { common_key(message.properties()) };
        if let Some(key) = key {
            return Ok(Some(key.to_owned()));
        }
        let detail = "a message of a transaction on a partitioned entity has a key";
        Err(SendError::new(ErrorKind::InvalidOperation).with_detail(detail))
    }
}
