use super::{
    Engine, StoreId, entity_mut,
    store::{Arrival, Part},
    time::Now,
};
use crate::{
    settlement::{DeadLetter, DeadLetterReason},
    transport::{ErrorKind, SendError},
};

/// How often a message is forwarded at most.
const MAX_HOPS: u8 = 4;

impl Engine {
    /// Hands messages to the entities that are configured to have them. What cannot be handed over is a dead letter of the
    /// entity that would have done it.
    #[cold]
    pub(super) fn hand_over(&mut self, now: Now) {
        let mut at = 0;
        while let Some(&(from, key)) = self.fx.leaving.get(at) {
            at += 1;
            self.hand_one_over(now, from, key);
        }
        self.fx.leaving.clear();
    }

    fn hand_one_over(&mut self, now: Now, from: StoreId, key: u32) {
        let Some(entity) = self.entity(from) else { return };
        let Some((part, mut arrival)) = entity.store.leaving(key) else { return };
        let target = match part {
            Part::Main => &entity.forward_to,
            Part::DeadLetter | Part::TransferDeadLetter => {
                arrival.message.set_dead_letter_source(entity.path.as_str());
                &entity.forward_dead_letters_to
            }
        };
        let target = target.clone().unwrap_or_default();
        let refused = if arrival.hops >= MAX_HOPS {
            DeadLetter::new(DeadLetterReason::MaxTransferHopCountExceeded, "")
        } else {
            match self.offer(now, &target, &arrival) {
                Ok(target) => {
                    if let Some(entity) = entity_mut(&mut self.entities, from) {
                        entity.store.has_left(key, &mut self.fx);
                    }
                    arrival.hops += 1;
                    self.accept(now, target, arrival);
                    return;
                }
                Err(error) => DeadLetter::new(DeadLetterReason::ForwardTargetUnavailable, error.to_string()),
            }
        };
        if let Some(entity) = entity_mut(&mut self.entities, from) {
            entity.store.cannot_leave(now, key, refused, &mut self.fx);
        }
    }

    /// Whether the entity of this name would accept a message now.
    fn offer(&mut self, now: Now, target: &str, arrival: &Arrival) -> Result<StoreId, SendError> {
        let target = self.names.get(target).copied();
        let target = target.ok_or_else(|| SendError::new(ErrorKind::EntityNotFound))?;
        self.check(now, target, arrival)?;
        Ok(target)
    }
}
