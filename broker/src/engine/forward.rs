use std::ops::ControlFlow::{self, Break, Continue};

use consign_core::{
    settlement::DeadLetter,
    transport::{ErrorKind, SendError},
};

use super::{
    Engine, Notice, Part, Role, StoreId, entity_mut,
    notice::Report,
    store::{Arrival, KEPT},
    time::Now,
};

/// The maximum number of times that a message is forwarded.
const MAX_HOPS: u8 = 4;

/// Dead letters that are not offered, as their target has just refused one of this size. There may be very many, and
/// each is retried.
struct Stuck {
    from: StoreId,
    size: u64,
}

impl Engine {
    /// Forwards messages to their configured targets. A message that cannot be forwarded is dead-lettered in the
    /// entity that forwards it.
    #[cold]
    pub(super) fn hand_over(&mut self, now: Now) {
        let mut at = 0;
        let mut stuck = None;
        let mut is_held = false;
        while let Some(&(from, key)) = self.fx.note().leaving.get(at) {
            if stuck.as_ref().is_some_and(|stuck: &Stuck| stuck.from != from) {
                stuck = None;
            }
            if self.hand_one_over(now, from, key, &mut stuck).is_break() {
                is_held = true;
                break;
            }
            at += 1;
        }
        self.fx.note().leaving.drain(..at);
        if is_held {
            #[cfg(feature = "durable")]
            {
                self.is_held = true;
            }
            return;
        }
        if self.fx.note().leaving.capacity() > KEPT {
            self.fx.note().leaving = Vec::new();
        }
    }

    /// Forwards one message, or keeps it. Breaks if it waits for the disk, and so do all behind it.
    fn hand_one_over(&mut self, now: Now, from: StoreId, key: u32, stuck: &mut Option<Stuck>) -> ControlFlow<()> {
        let Some(entity) = entity_mut(&mut self.entities, from) else { return Continue(()) };
        let Some((part, mut arrival)) = entity.store.leaving(key, &mut self.fx) else { return Continue(()) };
        if part != Part::Main && stuck.as_ref().is_some_and(|stuck| arrival.size >= stuck.size) {
            #[cfg(feature = "durable")]
            entity.store.put_away(key, &mut self.fx);
            return Continue(());
        }
        if self.fx.check_unwritten(arrival.size).is_err() {
            return Break(());
        }
        let target = match part {
            Part::Main => &entity.forward_to,
            Part::DeadLetter | Part::TransferDeadLetter => {
                arrival.message.set_dead_letter_source(entity.path.as_str());
                &entity.forward_dead_letters_to
            }
        };
        let target = target.clone().unwrap_or_default();
        let refused = if arrival.hops >= MAX_HOPS {
            self.note_too_many_hops(now, from, &target);
            DeadLetter::max_transfer_hop_count_exceeded(MAX_HOPS, &target)
        } else {
            match self.offer(now, &target, &arrival) {
                Ok(target) => {
                    if let Some(entity) = entity_mut(&mut self.entities, from) {
                        entity.store.has_left(key, &mut self.fx);
                    }
                    arrival.hops += 1;
                    self.accept(now, target, arrival);
                    return Continue(());
                }
                // The copies of a topic are more than the message.
                Err(error) if error.kind() == ErrorKind::ServiceBusy => return Break(()),
                Err(error) => {
                    self.note_refusal(now, from, part, &target, &error);
                    if part != Part::Main {
                        let size = self.refused_from(&target, error.kind(), arrival.size);
                        *stuck = size.map(|size| Stuck { from, size }).or(stuck.take());
                    }
                    DeadLetter::forward_target_unavailable(&target, error)
                }
            }
        };
        if let Some(entity) = entity_mut(&mut self.entities, from) {
            entity.store.cannot_leave(now, key, refused, &mut self.fx);
        }
        Continue(())
    }

    fn note_refusal(&mut self, now: Now, from: StoreId, part: Part, target: &str, error: &SendError) {
        let Some(entity) = entity_mut(&mut self.entities, from) else { return };
        if !entity.says(Report::Refusal, now) {
            return;
        }
        self.fx.note().notices.push(Notice::NotForwarded {
            from: entity.path.clone(),
            target: target.into(),
            refusal: error.to_string().into(),
            is_dead_letter: part != Part::Main,
        });
    }

    fn note_too_many_hops(&mut self, now: Now, from: StoreId, target: &str) {
        let Some(entity) = entity_mut(&mut self.entities, from) else { return };
        if entity.says(Report::TooManyHops, now) {
            let (from, target) = (entity.path.clone(), target.into());
            self.fx.note().notices.push(Notice::TooManyHops { from, target });
        }
    }

    /// Returns the size from which a target refuses everything, if it has refused a message of this one.
    fn refused_from(&self, target: &str, refused: ErrorKind, size: u64) -> Option<u64> {
        match refused {
            ErrorKind::EntityNotFound | ErrorKind::EntityDisabled => Some(0),
            ErrorKind::QuotaExceeded | ErrorKind::MessageSizeExceeded => {
                let entity = self.entity(*self.names.get(target)?)?;
                // The copies of a topic, and the bytes that a duplicate adds, do not depend on the size alone.
                let is_plain = matches!(entity.role, Role::Queue);
                (is_plain && entity.store.settings().duplicate_detection.is_none()).then_some(size)
            }
            _ => None,
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
