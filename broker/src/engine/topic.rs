use consign_core::{
    Message,
    administration::QueueSettings,
    message::{Received, SequenceNumber, Stored, limits},
    settlement::{DeadLetter, DeadLetterReason},
    time::Timestamp,
};
use consign_rules::{Copies, RuleFailure};

use super::{
    Engine, Entity, Notice, Part, Role, StoreId, Subscription,
    accept::clamp,
    entity_mut,
    notice::Report,
    store::{Arrival, Number, Store},
    time::Now,
};

impl Engine {
    /// Copies a message of a topic to each subscription whose rules match it.
    pub(super) fn copy(&mut self, now: Now, id: StoreId, arrival: Arrival, number: Number) {
        let Some(Role::Topic(topic)) = self.entity(id).map(|entity| &entity.role) else { return };
        let subscriptions: Vec<StoreId> = topic.subscriptions.values().copied().collect();
        let origin = Some(arrival.origin.unwrap_or(number.sequence));
        let message = accepted(&arrival, number.sequence, number.enqueued);
        for id in subscriptions {
            let Some(Role::Subscription(subscription)) = self.entity(id).map(|entity| &entity.role) else { continue };
            let evaluated = subscription.rules.evaluate(&message);
            let is_kept = subscription.settings.dead_letter_on_filter_error;
            if let Err(failure) = &evaluated {
                self.note_failed_rule(now, id, failure, is_kept);
            }
            match or_the_others(evaluated, is_kept) {
                Ok(copies) => {
                    if copies.plain {
                        self.copy_to(now, id, Arrival { message: arrival.message.clone(), origin, ..arrival });
                    }
                    for copy in copies.changed {
                        let size = size_of_changed(&copy, &message, arrival.size);
                        let message = Stored::new(copy);
                        self.copy_to(now, id, Arrival { message, size, origin, ..arrival });
                    }
                }
                Err(failure) => {
                    let copy = Arrival { message: arrival.message.clone(), origin, ..arrival };
                    self.copy_dead(now, id, copy, failed(&failure));
                }
            }
        }
        // This reference may be the last one, and the user may own the body.
        self.fx.note().dropped.push(arrival.message);
    }

    /// Returns the bytes that the copies of a message count: a copy for each rule, with as many properties as it may
    /// have. It does not evaluate the rules, and is never too low.
    pub(super) fn most_bytes_of_copies(&self, id: StoreId, arrival: &Arrival) -> u64 {
        let most = arrival.size + limits::ALL_PROPERTIES_BYTES as u64;
        self.subscriptions_of(id).map(|(subscription, _)| most.saturating_mul(subscription.rules.len() as u64)).sum()
    }

    /// Returns the bytes that the copies of a message count which will have this number.
    pub(super) fn bytes_of_copies(&self, id: StoreId, arrival: &Arrival, number: Number) -> u64 {
        let Some(entity) = self.entity(id) else { return 0 };
        let mut stored = arrival.message.clone();
        clamp(&mut stored, entity.store.settings().default_time_to_live);
        let arrival = Arrival { message: stored, ..*arrival };
        let message = accepted(&arrival, number.sequence, number.enqueued);
        self.subscriptions_of(id).map(|(subscription, _)| size_of_copies(subscription, &message, arrival.size)).sum()
    }

    /// Returns the subscriptions of a topic.
    pub(super) fn subscriptions_of(&self, id: StoreId) -> impl Iterator<Item = (&Subscription, &Store)> {
        let ids = match self.entity(id).map(|entity| &entity.role) {
            Some(Role::Topic(topic)) => Some(topic.subscriptions.values()),
            _ => None,
        };
        ids.into_iter().flatten().filter_map(|id| match self.entity(*id)? {
            Entity { role: Role::Subscription(subscription), store, .. } => Some((&**subscription, store)),
            _ => None,
        })
    }

    #[cold]
    fn note_failed_rule(&mut self, now: Now, id: StoreId, failure: &RuleFailure, is_kept: bool) {
        let Some(entity) = entity_mut(&mut self.entities, id) else { return };
        if entity.says(Report::FailedRule, now) {
            let (path, error) = (entity.path.clone(), failure.to_string().into());
            self.fx.note().notices.push(Notice::RuleFailed { path, error, is_kept });
        }
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

/// Returns the message as rules see it.
fn accepted(arrival: &Arrival, sequence: SequenceNumber, enqueued: Timestamp) -> Message {
    let mut received = Received::new(sequence, enqueued, 0);
    if let Some(ttl) = arrival.message.properties().time_to_live() {
        received.expires_at = enqueued.saturating_add(ttl);
    }
    if arrival.hops > 0 {
        received.enqueued_sequence_number = arrival.origin.unwrap_or_default();
    }
    arrival.message.deliver(received)
}

/// Returns the copies of a message for a subscription, or why it is a dead letter.
fn copies(subscription: &Subscription, message: &Message) -> Result<Copies, RuleFailure> {
    or_the_others(subscription.rules.evaluate(message), subscription.settings.dead_letter_on_filter_error)
}

/// Returns the copies of the other rules if one has failed whose message is not dead-lettered.
fn or_the_others(evaluated: Result<Copies, RuleFailure>, is_kept: bool) -> Result<Copies, RuleFailure> {
    match evaluated {
        Err(failure) if !is_kept => Ok(failure.into_copies()),
        copies => copies,
    }
}

fn size_of_copies(subscription: &Subscription, message: &Message, size: u64) -> u64 {
    let Ok(copies) = copies(subscription, message) else { return size };
    let changed = copies.changed.iter().map(|copy| size_of_changed(copy, message, size));
    changed.sum::<u64>() + if copies.plain { size } else { 0 }
}

/// Returns the size of a changed copy: that of the message, with the change of the action. The id and the time to
/// live that the broker added do not count here either. An action that replaces such an id makes no message smaller than an empty
/// one.
fn size_of_changed(copy: &Message, message: &Message, size: u64) -> u64 {
    (size + copy.size() as u64).saturating_sub(message.size() as u64).max(QueueSettings::OVERHEAD)
}

fn failed(failure: &RuleFailure) -> DeadLetter {
    DeadLetter::new(DeadLetterReason::Application(failure.reason().into()), failure.to_string())
}
