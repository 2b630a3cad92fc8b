//! The coordinator, by which clients declare and discharge transactions.

use consign_amqp::{
    codec,
    engine::{Connection as Engine, Delivery, DeliveryId, LinkId},
    message::EncodedMessage,
    types::{Accepted, Declare, Declared, DeliveryState, Discharge, condition},
    value::Binary,
};
use consign_broker::{QueueLease, Transaction};
use consign_core::{
    message::LockToken,
    transport::{ErrorKind, Lease},
};
use tokio::time::Instant;

use crate::{
    connection::{Client, Done},
    errors::Failure,
    links::settle::Settlement,
    locks::Lock,
    messages::malformed,
    transactions::{Discharged, Kept, Open, size_of, unknown},
};

/// A request to the coordinator.
#[derive(Debug, PartialEq)]
enum Request {
    Declare,
    Discharge(Discharge),
}

impl Request {
    fn decode(payload: bytes::Bytes) -> Result<Self, Failure> {
        let message = EncodedMessage::split(payload).map_err(malformed)?;
        let Some(value) = message.value().map_err(malformed)? else {
            return Err(Failure::argument("a request to the coordinator is a value"));
        };
        let encoded = codec::encode(&value.0)?;
        if codec::decode::<Declare>(&encoded).is_ok() {
            return Ok(Self::Declare);
        }
        codec::decode::<Discharge>(&encoded).map(Self::Discharge).map_err(malformed)
    }
}

impl Client {
    /// Handles a request to the coordinator.
    pub(crate) fn coordinate(&mut self, engine: &mut Engine, delivery: Delivery) {
        let Delivery { link, id, settled, payload, .. } = delivery;
        let _ = engine.credit(link, self.shared.limits.sender_credit);
        let state = match Request::decode(payload.into_bytes()) {
            Ok(Request::Declare) => self.declare(link),
            Ok(Request::Discharge(discharge)) => match self.discharge(engine, link, id, settled, &discharge) {
                Ok(Some(state)) => Ok(state),
                // The broker's answer follows.
                Ok(None) => return,
                Err(failure) => Err(failure),
            },
            Err(failure) => Err(failure),
        };
        if !settled {
            let state = state.unwrap_or_else(Failure::rejected);
            // The link may be detached meanwhile.
            let _ = engine.settle(link, [id], Some(&state), true);
        }
    }

    fn declare(&mut self, link: LinkId) -> Result<DeliveryState, Failure> {
        let limit = self.shared.limits.max_transactions;
        if self.transactions.open.len() >= limit {
            let text = format!("A connection has at most {limit} transactions at a time.");
            return Err(Failure::new(ErrorKind::QuotaExceeded, text));
        }
        let id = Binary::from(uuid::Uuid::new_v4().as_bytes().to_vec());
        let open = Open {
            transaction: self.shared.broker.transaction(),
            link,
            until: Instant::now() + Transaction::TIMEOUT,
            locks: Vec::new(),
            bytes: 0,
            failed: false,
        };
        self.transactions.open.insert(id.clone(), open);
        self.times_changed();
        Ok(DeliveryState::Declared(Declared { txn_id: id }))
    }

    fn discharge(
        &mut self,
        engine: &mut Engine,
        link: LinkId,
        delivery: DeliveryId,
        settled: bool,
        discharge: &Discharge,
    ) -> Result<Option<DeliveryState>, Failure> {
        let open = self.transactions.open.remove(&discharge.txn_id).ok_or_else(unknown)?;
        if discharge.fail || open.failed {
            self.roll_back(open.transaction, open.locks);
            if discharge.fail {
                return Ok(Some(Accepted {}.into()));
            }
            let text = "An operation of the transaction was refused: it is rolled back.";
            return Err(Failure { condition: condition::TRANSACTION_ROLLBACK, status: 400, description: text.into() });
        }
        let locks = open.locks;
        self.call(engine, open.transaction.commit(), move |outcome| {
            Done::Discharged(Discharged { link, delivery, settled, locks, outcome })
        });
        Ok(None)
    }

    /// Answers a discharge.
    pub(crate) fn discharged(&mut self, engine: &mut Engine, discharged: Discharged) {
        let Discharged { link, delivery, settled, locks, outcome } = discharged;
        let state = match outcome {
            Ok(_) => Accepted {}.into(),
            Err(error) => {
                let kind = error.kind();
                let text = error.to_string();
                self.keep(error.into_leases(), locks);
                let mut failure = Failure::new(kind, text);
                if kind == ErrorKind::Transaction {
                    failure.condition = condition::TRANSACTION_TIMEOUT;
                }
                failure.rejected()
            }
        };
        if !settled {
            // The link may be detached meanwhile.
            let _ = engine.settle(link, [delivery], Some(&state), true);
        }
    }

    /// Has a transaction settle a delivery.
    pub(crate) fn enlist(
        &mut self,
        link: LinkId,
        id: DeliveryId,
        txn_id: &Binary,
        outcome: &DeliveryState,
    ) -> Result<(), Failure> {
        let settlement = match self.settlement_within(txn_id, outcome) {
            Ok(settlement) => settlement,
            Err(failure) => {
                // The engine forgets the delivery, as it is answered.
                self.set_aside(link, id);
                return Err(failure);
            }
        };
        let lock = self.take_lock(link, id)?;
        self.enlist_lock(lock, txn_id, settlement)
    }

    fn settlement_within(&mut self, txn_id: &Binary, outcome: &DeliveryState) -> Result<Settlement, Failure> {
        let settlement = Settlement::read(outcome)?.ok_or_else(|| Failure::argument("the state has no outcome"))?;
        self.transactions.open(txn_id)?;
        Ok(settlement)
    }

    /// Has a transaction settle a lock. It is kept if the transaction refuses it.
    pub(crate) fn enlist_lock(
        &mut self,
        (token, lock): (LockToken, Lock),
        txn_id: &Binary,
        settlement: Settlement,
    ) -> Result<(), Failure> {
        let Lock { lease, entity, session, until } = lock;
        let kept = Kept { entity, session, until };
        let Settlement::By(disposition) = settlement else {
            self.keep(vec![lease], vec![(token, kept)]);
            let text = "A transaction completes, abandons, defers or dead-letters a message.";
            return Err(Failure::new(ErrorKind::InvalidOperation, text));
        };
        let (bytes, max) = (size_of(&disposition), self.shared.limits.max_transaction_bytes);
        let open = match self.transactions.count(txn_id, bytes, max) {
            Ok(open) => open,
            Err(failure) => {
                self.keep(vec![lease], vec![(token, kept)]);
                return Err(failure);
            }
        };
        match open.transaction.settle(lease, disposition) {
            Ok(()) => {
                open.locks.push((token, kept));
                Ok(())
            }
            Err(error) => {
                let failure = Failure::new(error.kind(), error.to_string());
                self.keep(error.into_leases(), vec![(token, kept)]);
                Err(failure)
            }
        }
    }

    fn roll_back(&mut self, transaction: Transaction, locks: Vec<(LockToken, Kept)>) {
        self.keep(transaction.rollback(), locks);
    }

    /// Keeps the locks of a transaction that was rolled back: they hold until they run out.
    fn keep(&mut self, leases: Vec<QueueLease>, mut locks: Vec<(LockToken, Kept)>) {
        for lease in leases {
            let Some(token) = lease.lock_token() else { continue };
            let Some(nth) = locks.iter().position(|(of, _)| *of == token) else { continue };
            let (_, Kept { entity, session, until }) = locks.swap_remove(nth);
            self.hold(token, Lock { lease, entity, session, until });
        }
    }

    /// Rolls back the transactions of a control link that is detached.
    pub(crate) fn roll_back_all(&mut self, link: LinkId) {
        let of_link: Vec<_> = self.transactions.open.iter().filter(|(_, open)| open.link == link).collect();
        let ids: Vec<_> = of_link.into_iter().map(|(id, _)| id.clone()).collect();
        self.roll_back_each(ids);
    }

    /// Rolls back the transactions that have run out.
    pub(crate) fn expire_transactions(&mut self, now: Instant) {
        let expired = self.transactions.expired(now);
        self.roll_back_each(expired);
    }

    fn roll_back_each(&mut self, ids: Vec<Binary>) {
        for id in ids {
            if let Some(open) = self.transactions.open.remove(&id) {
                self.roll_back(open.transaction, open.locks);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use consign_amqp::message::{Body, Sections};

    use super::*;

    fn request(body: &impl codec::Encode) -> Result<Request, Failure> {
        let value = codec::decode(&codec::encode(body).unwrap()).unwrap();
        let sections = Sections { body: Body::Value(value), ..Sections::default() };
        Request::decode(codec::encode(&sections).unwrap())
    }

    #[test]
    fn the_coordinator_takes_declare_and_discharge() {
        assert_eq!(request(&Declare::default()).unwrap(), Request::Declare);
        let discharge = Discharge { txn_id: b"1".to_vec().into(), fail: true };
        assert_eq!(request(&discharge).unwrap(), Request::Discharge(discharge));
        request(&Accepted {}).unwrap_err();
        request(&consign_amqp::value::Value::Null).unwrap_err();
    }
}
