use std::collections::BTreeMap;

use consign::transport::{ErrorKind, SendError};

use super::{Content, Model, Part, Refused, Role, Settle, send::Arrival};

/// How long a transaction may take, from its first operation.
const LIMIT: u64 = 120_000;
const MAX_OPERATIONS: usize = 100;

#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Send { to: u32, via: Option<u32>, content: Content, at: Option<i64> },
    Settle { entity: u32, lock: u64, in_session: bool, settle: Settle },
    Renew { entity: u32, lock: u64, in_session: bool },
}

/// A send at the commit: to which entity, via which, which keeps it as a dead letter instead, what, and whether with a
/// time.
type Sending = (u32, Option<u32>, Option<u32>, Arrival, bool);

/// What is to happen together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Transaction {
    about: Option<u32>,
    key: Option<String>,
    begun: Option<u64>,
    pub(crate) operations: Vec<Operation>,
}

impl Transaction {
    pub(crate) fn about(&self) -> Option<u32> {
        self.about
    }

    fn is_over(&self, now: u64) -> bool {
        self.begun.is_some_and(|begun| now >= begun + LIMIT)
    }
}

impl Model {
    /// Adds an operation, of which nothing is to be seen yet. An entity that is due to be deleted is gone, as for any
    /// command: it has no partitions, and a subscription has no topic.
    pub(crate) fn add(&mut self, to: &mut Transaction, mut operation: Operation) -> Result<(), ErrorKind> {
        self.catch_up();
        if let Operation::Send { to: target, via, .. } = &mut operation {
            // A subscription hands nothing over: its topic does. And nothing is handed over to where it is.
            *via = via.map(|via| self.top_level(via)).filter(|via| via != target);
        }
        if to.is_over(self.now) {
            return Err(ErrorKind::Transaction);
        }
        if to.operations.len() >= MAX_OPERATIONS {
            return Err(ErrorKind::QuotaExceeded);
        }
        let about = self.top_level(match &operation {
            Operation::Send { to, via, .. } => via.unwrap_or(*to),
            Operation::Settle { entity, .. } | Operation::Renew { entity, .. } => *entity,
        });
        if to.about.is_some_and(|first| first != about) {
            return Err(ErrorKind::InvalidOperation);
        }
        if let Operation::Send { via, content, .. } = &operation
            && self.entities.get(&about).is_some_and(|entity| entity.settings.partitioned)
        {
            let common = content.session.clone().or(content.key.clone());
            let key = if via.is_some() { content.via_key.clone() } else { common };
            let key = key.ok_or(ErrorKind::InvalidOperation)?;
            if *to.key.get_or_insert(key.clone()) != key {
                return Err(ErrorKind::InvalidOperation);
            }
        }
        to.about = Some(about);
        to.begun.get_or_insert(self.now);
        to.operations.push(operation);
        Ok(())
    }

    /// For a subscription its topic: what a transaction is about, and whose limits hold.
    pub(super) fn top_level(&self, id: u32) -> u32 {
        match self.entities.get(&id).map(|entity| entity.role) {
            Some(Role::Subscription { topic }) => topic,
            _ => id,
        }
    }

    /// Does all of it, settlements first, or nothing. Answers with the numbers of what was scheduled.
    pub(crate) fn commit(&mut self, transaction: Transaction) -> Result<Vec<u64>, ErrorKind> {
        if transaction.is_over(self.now) {
            return Err(ErrorKind::Transaction);
        }
        self.catch_up();
        let mut sends = Vec::new();
        let mut settlements = Vec::new();
        for operation in transaction.operations {
            match operation {
                Operation::Send { to, via, content, at } => {
                    let is_refused = self.entities.get(&to).is_some_and(|entity| !entity.settings.takes_sends());
                    let keeper = via.filter(|_| is_refused);
                    sends.push((to, via, keeper, self.arrival(content, at), at.is_some()));
                }
                settlement => settlements.push(settlement),
            }
        }
        let freed = self.check_settlements(&settlements)?;
        self.check_sends(&sends, &freed).map_err(|refused| refused.kind)?;
        for settlement in settlements {
            match settlement {
                Operation::Settle { entity, lock, settle, .. } => {
                    self.touch(entity);
                    let key = self.locked_by(lock).unwrap();
                    self.apply(key, settle);
                }
                Operation::Renew { entity, lock, .. } => {
                    self.touch(entity);
                    let key = self.locked_by(lock).unwrap();
                    self.apply_renew(key);
                }
                Operation::Send { .. } => {}
            }
        }
        let mut numbers = Vec::new();
        for (to, _, keeper, arrival, is_scheduled) in sends {
            let number = match keeper {
                Some(via) => {
                    let (target, refused) = (&self.entity(to).path, SendError::new(ErrorKind::EntityDisabled));
                    let why = format!("The message could not be forwarded to {target}: {refused}");
                    self.insert_dead(via, Part::Transfer, arrival, "ForwardTargetUnavailable", &why)
                }
                None => self.accept(to, arrival),
            };
            numbers.extend(is_scheduled.then_some(number));
        }
        self.hand_over();
        Ok(numbers)
    }

    /// The bytes that the settlements free, by the entity whose quota they count against.
    fn check_settlements(&self, settlements: &[Operation]) -> Result<BTreeMap<u32, u64>, ErrorKind> {
        let mut freed = BTreeMap::new();
        for settlement in settlements {
            let (Operation::Settle { entity, lock, in_session, .. } | Operation::Renew { entity, lock, in_session }) =
                settlement
            else {
                continue;
            };
            let key = self.held(*entity, *lock).map_err(|kind| match kind {
                ErrorKind::MessageLockLost if *in_session => ErrorKind::SessionLockLost,
                kind => kind,
            })?;
            match settlement {
                Operation::Settle { settle: Settle::Complete, .. } => {
                    *freed.entry(self.top_level(*entity)).or_default() += self.messages[&key].size;
                }
                Operation::Settle { settle, .. } => self.check_settle(key, settle)?,
                _ => self.check_renew(key)?,
            }
        }
        Ok(freed)
    }

    fn check_sends(&mut self, sends: &[Sending], freed: &BTreeMap<u32, u64>) -> Result<(), Refused> {
        let mut by_entity = BTreeMap::<u32, (Vec<Arrival>, u64)>::new();
        for (to, via, keeper, arrival, _) in sends {
            if via.is_some_and(|via| !self.entities.contains_key(&via)) {
                return Err(ErrorKind::EntityNotFound.into());
            }
            match keeper {
                // It is a dead letter of the entity that it was sent via, whose limit for messages holds.
                Some(via) if arrival.size - 256 > self.entity(*via).settings.max_message_size => {
                    return Err(ErrorKind::MessageSizeExceeded.into());
                }
                Some(via) => by_entity.entry(*via).or_default().1 += arrival.size,
                None => by_entity.entry(*to).or_default().0.push(arrival.clone()),
            }
        }
        for (id, (arrivals, kept)) in by_entity {
            self.check(id, &arrivals, freed.get(&id).copied().unwrap_or(0), kept)?;
        }
        Ok(())
    }
}
