use super::{
    Engine, Role, StoreId,
    accept::clamp,
    entity_mut,
    store::{Arrival, Number, Part},
    time::Now,
};
use crate::{
    message::{Received, Stored},
    rules::RuleFailure,
    settlement::{DeadLetter, DeadLetterReason},
};

impl Engine {
    /// Copies a message of a topic to each subscription whose rules want it.
    pub(super) fn copy(&mut self, now: Now, id: StoreId, arrival: Arrival, number: Number) {
        let Some(Role::Topic(topic)) = self.entity(id).map(|entity| &entity.role) else { return };
        let subscriptions: Vec<StoreId> = topic.subscriptions.values().copied().collect();
        let origin = Some(arrival.origin.unwrap_or(number.sequence));
        let message = arrival.message.deliver(Received::new(number.sequence, number.enqueued, 0));
        for id in subscriptions {
            let Some(Role::Subscription(subscription)) = self.entity(id).map(|entity| &entity.role) else { continue };
            let buries = subscription.settings.dead_letter_on_filter_error;
            let copies = match subscription.rules.evaluate(&message) {
                Err(failure) if !buries => Ok(failure.into_copies()),
                copies => copies,
            };
            match copies {
                Ok(copies) => {
                    if copies.plain {
                        self.copy_to(now, id, Arrival { message: arrival.message.clone(), origin, ..arrival });
                    }
                    for copy in copies.changed {
                        self.copy_to(
                            now,
                            id,
                            Arrival { origin, hops: arrival.hops, ..Arrival::new(Stored::new(copy)) },
                        );
                    }
                }
                Err(failure) => {
                    let copy = Arrival { message: arrival.message.clone(), origin, ..arrival };
                    self.copy_dead(now, id, copy, failed(&failure));
                }
            }
        }
        // The last reference may be this one, and the body the user's.
        self.fx.dropped.push(arrival.message);
    }

    fn copy_to(&mut self, now: Now, id: StoreId, mut arrival: Arrival) {
        let Some(entity) = entity_mut(&mut self.entities, id) else { return };
        let settings = entity.store.settings();
        clamp(&mut arrival.message, settings.default_time_to_live);
        if settings.requires_session && arrival.message.properties().session_id().is_none() {
            self.copy_dead(now, id, arrival, DeadLetter::new(DeadLetterReason::SessionIdIsNull, ""));
        } else {
            self.arrive(now, id, arrival);
        }
    }

    fn copy_dead(&mut self, now: Now, id: StoreId, arrival: Arrival, dead_letter: DeadLetter) {
        let Some(entity) = entity_mut(&mut self.entities, id) else { return };
        let number = entity.store.number(now, &arrival.message);
        entity.store.insert_dead(Part::DeadLetter, arrival, number, dead_letter, &mut self.fx);
    }
}

fn failed(failure: &RuleFailure) -> DeadLetter {
    DeadLetter::new(DeadLetterReason::Application(failure.reason().into()), failure.to_string())
}
