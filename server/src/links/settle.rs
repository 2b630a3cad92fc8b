//! Settlements of messages that a client received.

use consign_amqp::{
    engine::{Connection as Engine, DeliveryId, DeliveryList, LinkId},
    mapping,
    types::{Accepted, DeliveryState, Modified, Rejected, Released, TransactionalState},
    value::Map,
};
use consign_broker::{Acknowledged, QueueLease};
use consign_core::{
    Disposition,
    message::ApplicationProperties,
    settlement::{Changes, DeadLetter, DeadLetterReason},
    transport::{CompleteAllError, Lease, SettleError},
};

use crate::{
    connection::{Client, Done},
    errors::{Failure, IntoState},
};

/// What an outcome requests.
#[derive(Debug, PartialEq)]
pub(crate) enum Settlement {
    By(Disposition),
    Release,
}

impl Settlement {
    /// Reads an outcome. None of a state that is no outcome.
    pub(crate) fn read(state: &DeliveryState) -> Result<Option<Self>, Failure> {
        Ok(Some(match state {
            DeliveryState::Accepted(_) => Self::By(Disposition::Complete),
            DeliveryState::Released(_) => Self::Release,
            DeliveryState::Modified(Modified { undeliverable_here, message_annotations, .. }) => {
                let changes = changes(message_annotations.as_ref())?;
                Self::By(if *undeliverable_here { Disposition::Defer(changes) } else { Disposition::Abandon(changes) })
            }
            DeliveryState::Rejected(rejected) => Self::By(Disposition::DeadLetter(Box::new(dead_letter(rejected)?))),
            DeliveryState::Received(_) | DeliveryState::Declared(_) | DeliveryState::Transactional(_) => {
                return Ok(None);
            }
        }))
    }

    /// Returns the refusal of the broker, if it would refuse this.
    pub(crate) fn check(&self, lease: &QueueLease) -> Result<(), SettleError> {
        match self {
            Self::By(disposition) => lease.check(disposition),
            Self::Release => Ok(()),
        }
    }

    /// Settles a lease. The broker has done it when this returns.
    pub(crate) fn settle(self, lease: QueueLease) -> Acknowledged<(), SettleError> {
        match self {
            Self::By(disposition) => lease.settle(disposition),
            Self::Release => lease.release(),
        }
    }
}

/// Reads properties to replace or add, of an outcome or a request.
pub(crate) fn changes(properties: Option<&Map>) -> Result<Changes, Failure> {
    let mut changed = ApplicationProperties::new();
    for (name, value) in properties.into_iter().flat_map(|map| &map.0) {
        let name = name.as_str().ok_or_else(|| Failure::argument("the name of a property is a string"))?;
        changed.insert(name, mapping::property_from_amqp(name, value.clone())?);
    }
    Ok(changed.into())
}

/// The condition by which a client dead-letters a message, and its keys.
const DEAD_LETTER: &str = "com.microsoft:dead-letter";

fn dead_letter(rejected: &Rejected) -> Result<DeadLetter, Failure> {
    let Some(error) = &rejected.error else {
        return Ok(DeadLetter::new(DeadLetterReason::Application("".into()), ""));
    };
    let info = error.info.clone().unwrap_or_default();
    let text = |key| info.get(key).and_then(|text| text.as_str()).map(str::to_owned);
    let by_condition = || (error.condition != DEAD_LETTER).then(|| error.condition.to_string());
    let reason = text(DeadLetter::REASON).or_else(by_condition).unwrap_or_default();
    let by_error = || error.description.as_ref().map(|text| text.as_str().to_owned());
    let by_error = || (error.condition != DEAD_LETTER).then(by_error).flatten();
    let description = text(DeadLetter::DESCRIPTION).or_else(by_error).unwrap_or_default();
    let is_other =
        |key: &consign_amqp::value::Value| !matches!(key.as_str(), Some(DeadLetter::REASON | DeadLetter::DESCRIPTION));
    let others: Map = info.0.into_iter().filter(|(key, _)| is_other(key)).collect();
    let mut dead_letter = DeadLetter::new(DeadLetterReason::Application(reason.into()), description);
    dead_letter.changes = changes(Some(&others))?;
    Ok(dead_letter)
}

impl Client {
    /// The client has reported the state of deliveries.
    pub(crate) fn disposition(
        &mut self,
        engine: &mut Engine,
        deliveries: &DeliveryList,
        state: Option<&DeliveryState>,
        settled: bool,
    ) {
        let mut rest = deliveries.iter().peekable();
        while let Some((link, first)) = rest.next() {
            let mut of_link = vec![first];
            while let Some((_, next)) = rest.next_if(|(next, _)| *next == link) {
                of_link.push(next);
            }
            self.settle(engine, link, of_link, state, settled);
        }
    }

    fn settle(
        &mut self,
        engine: &mut Engine,
        link: LinkId,
        deliveries: Vec<DeliveryId>,
        state: Option<&DeliveryState>,
        settled: bool,
    ) {
        self.touch(link);
        // A delivery that is settled without an outcome was not processed.
        let state = match state {
            None | Some(DeliveryState::Received(_) | DeliveryState::Declared(_)) if settled => {
                &DeliveryState::Released(Released {})
            }
            None | Some(DeliveryState::Received(_) | DeliveryState::Declared(_)) => return,
            Some(state) => state,
        };
        if let DeliveryState::Transactional(transactional) = state {
            return self.settle_in_transaction(engine, link, deliveries, transactional, settled);
        }
        let settlement = match Settlement::read(state) {
            Ok(Some(settlement)) => settlement,
            Ok(None) => return,
            Err(failure) => {
                // The engine forgets the deliveries, as they are answered.
                for id in &deliveries {
                    self.set_aside(link, *id);
                }
                let done = Done::Settled { link, deliveries, settled, state: failure.rejected() };
                return self.done(engine, done);
            }
        };
        let answer = answer(state);
        if settlement == Settlement::By(Disposition::Complete) && deliveries.len() > 1 {
            return self.complete_all(engine, link, deliveries, settled);
        }
        let mut settlement = Some(settlement);
        let last = deliveries.len() - 1;
        for (nth, id) in deliveries.into_iter().enumerate() {
            let settlement = if nth == last { settlement.take() } else { settlement.as_ref().map(Settlement::again) };
            let Some(settlement) = settlement else { return };
            let lease = self.take_lease(link, id, &settlement);
            let answer = answer.clone();
            let done = move |state| Done::Settled { link, deliveries: vec![id], settled, state };
            match lease {
                Ok(lease) => self.call(engine, settlement.settle(lease), move |outcome| {
                    done(match outcome {
                        Ok(()) => answer,
                        Err(error) => Failure::from(error).rejected(),
                    })
                }),
                Err(failure) => self.done(engine, done(failure.rejected())),
            }
        }
    }

    /// Completes several deliveries at once.
    fn complete_all(&mut self, engine: &mut Engine, link: LinkId, deliveries: Vec<DeliveryId>, settled: bool) {
        let (mut leases, mut of_leases) = (Vec::with_capacity(deliveries.len()), Vec::with_capacity(deliveries.len()));
        // Checked until one is accepted: an entity that is disabled refuses all.
        let mut is_refused = true;
        for id in deliveries {
            let lease = if is_refused {
                self.take_lease(link, id, &Settlement::By(Disposition::Complete))
            } else {
                self.take_lock(link, id).map(|(_, lock)| lock.lease)
            };
            match lease {
                Ok(lease) => {
                    is_refused = false;
                    leases.push(lease);
                    of_leases.push(id);
                }
                Err(failure) => {
                    let done = Done::Settled { link, deliveries: vec![id], settled, state: failure.rejected() };
                    self.done(engine, done);
                }
            }
        }
        if leases.is_empty() {
            return;
        }
        // The answers of a disk come together. One that failed is answered apart.
        let all = QueueLease::complete_all(&mut leases);
        self.call(engine, all, move |outcome: Result<(), CompleteAllError>| {
            let failed = outcome.err().map(CompleteAllError::into_failures).unwrap_or_default();
            Done::Completed { link, deliveries: of_leases, settled, failed }
        });
    }

    /// Answers deliveries that were completed at once.
    pub(crate) fn completed(
        &mut self,
        engine: &mut Engine,
        link: LinkId,
        mut deliveries: Vec<DeliveryId>,
        settled: bool,
        mut failed: Vec<(usize, SettleError)>,
    ) {
        failed.sort_by_key(|(nth, _)| *nth);
        for (nth, error) in failed.into_iter().rev() {
            if nth < deliveries.len() {
                let id = deliveries.remove(nth);
                let state = Failure::from(error).rejected();
                self.done(engine, Done::Settled { link, deliveries: vec![id], settled, state });
            }
        }
        self.done(engine, Done::Settled { link, deliveries, settled, state: Accepted {}.into() });
    }

    fn settle_in_transaction(
        &mut self,
        engine: &mut Engine,
        link: LinkId,
        deliveries: Vec<DeliveryId>,
        transactional: &TransactionalState,
        settled: bool,
    ) {
        let txn_id = &transactional.txn_id;
        let outcome = transactional.outcome.as_deref().cloned().unwrap_or(DeliveryState::Accepted(Accepted {}));
        for id in deliveries {
            let state = match self.enlist(link, id, txn_id, &outcome) {
                Ok(()) => {
                    let outcome = Some(Box::new(answer(&outcome)));
                    let state = TransactionalState { txn_id: txn_id.clone(), outcome };
                    DeliveryState::Transactional(Box::new(state))
                }
                Err(failure) => {
                    self.transactions.fail(Some(txn_id));
                    failure.rejected()
                }
            };
            self.done(engine, Done::Settled { link, deliveries: vec![id], settled, state });
        }
    }
}

impl Settlement {
    /// The same settlement of another delivery.
    fn again(&self) -> Self {
        match self {
            Self::By(disposition) => Self::By(disposition.clone()),
            Self::Release => Self::Release,
        }
    }
}

/// The answer to an outcome that took effect: one of the same kind. A `rejected` without an error confirms a dead letter.
fn answer(state: &DeliveryState) -> DeliveryState {
    match state {
        DeliveryState::Rejected(_) => Rejected { error: None }.into_state(),
        DeliveryState::Modified(modified) => {
            DeliveryState::Modified(Modified { message_annotations: None, ..modified.clone() })
        }
        state => state.clone(),
    }
}

#[cfg(test)]
mod tests {
    use consign_amqp::{
        types::Error,
        value::{Symbol, Value},
    };

    use super::*;

    fn rejected(condition: &str, info: Map) -> DeliveryState {
        let condition = Symbol::try_from(condition).unwrap();
        let error = Error { condition, description: Some("text".into()), info: Some(info) };
        Rejected { error: Some(error) }.into_state()
    }

    fn read(state: &DeliveryState) -> Settlement {
        Settlement::read(state).unwrap().unwrap()
    }

    /// Rules, C-08.
    #[test]
    fn an_outcome_is_a_settlement() {
        assert_eq!(read(&Accepted {}.into()), Settlement::By(Disposition::Complete));
        assert_eq!(read(&Released {}.into()), Settlement::Release);
        let mut map = Map::default();
        map.push(Symbol::from_static("tries"), 2_i32);
        let modified = |undeliverable_here| {
            DeliveryState::Modified(Modified {
                delivery_failed: true,
                undeliverable_here,
                message_annotations: Some(map.clone()),
            })
        };
        let changes = changes(Some(&map)).unwrap();
        assert_eq!(read(&modified(false)), Settlement::By(Disposition::Abandon(changes.clone())));
        assert_eq!(read(&modified(true)), Settlement::By(Disposition::Defer(changes)));
        let received = DeliveryState::Received(consign_amqp::types::Received::default());
        assert_eq!(Settlement::read(&received).unwrap(), None);
    }

    /// The keys are symbols, or strings as some clients write them.
    /// Rules: A-23.
    #[test]
    fn rejected_has_the_reason_and_the_description_of_a_dead_letter() {
        for key in [|text| Value::from(Symbol::from_static(text)), |text: &'static str| Value::from(text)] {
            let info = Map(vec![
                (key("DeadLetterReason"), "why".into()),
                (key("DeadLetterErrorDescription"), "because".into()),
                (key("other"), 1_i32.into()),
            ]);
            let Settlement::By(Disposition::DeadLetter(dead)) = read(&rejected(DEAD_LETTER, info)) else { panic!() };
            assert_eq!((dead.reason.as_str(), &*dead.description), ("why", "because"));
            let properties = dead.changes.properties().unwrap();
            assert_eq!((properties.len(), properties.get("other").is_some()), (1, true));
        }
    }

    /// Rules: A-24.
    #[test]
    fn rejected_with_another_condition_has_it_as_the_reason() {
        let Settlement::By(Disposition::DeadLetter(dead)) = read(&rejected("amqp:internal-error", Map::default()))
        else {
            panic!()
        };
        assert_eq!((dead.reason.as_str(), &*dead.description), ("amqp:internal-error", "text"));
    }

    #[test]
    fn a_dead_letter_is_confirmed_by_rejected_without_an_error() {
        assert_eq!(answer(&rejected(DEAD_LETTER, Map::default())), Rejected { error: None }.into_state());
    }
}
