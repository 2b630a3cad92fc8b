use consign::transport::{ErrorKind, SendError};

use super::{Model, Part, Place, Refused, Stored, send::Arrival};

/// How often a message is forwarded at most.
const HOPS: u8 = 4;
/// After which time a dead letter that could not be forwarded is tried again.
pub(super) const RETRY: u64 = 10_000;

impl Model {
    /// Puts a message where receivers take it from, or where it leaves from.
    pub(super) fn make_ready(&mut self, key: u64) {
        self.message(key).place = Place::Ready;
        if self.target_of(&self.messages[&key]).is_some() {
            self.leaving.push_back(key);
        }
    }

    /// The path of the entity that a message leaves for.
    fn target_of(&self, stored: &Stored) -> Option<String> {
        let settings = &self.entity(stored.entity).settings;
        match stored.part {
            _ if stored.place != Place::Ready => None,
            Part::Main => settings.forward_to.clone(),
            Part::Dead => settings.forward_dead_to.clone().filter(|_| !stored.stays),
            Part::Transfer => None,
        }
    }

    /// Hands over what leaves, one after the other.
    pub(super) fn hand_over(&mut self) {
        while let Some(key) = self.leaving.pop_front() {
            let target = self.messages.get(&key).and_then(|stored| self.target_of(stored));
            if let Some(target) = target {
                self.hand_one_over(key, &target);
            }
        }
    }

    fn hand_one_over(&mut self, key: u64, target: &str) {
        let stored = self.messages[&key].clone();
        if stored.hops >= HOPS {
            self.message(key).stays = true;
            let why = format!("The message was forwarded 4 times, the maximum, and is not forwarded to {target}.");
            return self.cannot_leave(key, "MaxTransferHopCountExceeded", &why);
        }
        let Stored { content, identity, size, origin, hops, source, .. } = stored;
        let source = if stored.part == Part::Dead { Some(self.entity(stored.entity).path.clone()) } else { source };
        let arrival = Arrival { content, identity, size, origin: Some(origin), hops, source };
        match self.offer(target, &arrival) {
            Ok(target) => {
                self.remove(key);
                self.accept(target, Arrival { hops: hops + 1, ..arrival });
            }
            Err(Refused { kind, detail }) => {
                let mut why = SendError::new(kind);
                if !detail.is_empty() {
                    why = why.with_detail(detail);
                }
                let why = format!("The message could not be forwarded to {target}: {why}");
                self.cannot_leave(key, "ForwardTargetUnavailable", &why);
            }
        }
    }

    fn offer(&mut self, target: &str, arrival: &Arrival) -> Result<u32, Refused> {
        let target = self.find(target).ok_or(ErrorKind::EntityNotFound)?;
        self.check(target, std::slice::from_ref(arrival), 0, 0)?;
        Ok(target)
    }

    /// A message dies where it cannot leave from. A dead letter waits there, unless it died of its hops.
    fn cannot_leave(&mut self, key: u64, reason: &str, why: &str) {
        let stored = &self.messages[&key];
        let (entity, retry) = (stored.entity, self.now + RETRY);
        if stored.part == Part::Main {
            self.bury(key, reason, why, 0);
        } else if !stored.stays {
            self.entity_mut(entity).retry.get_or_insert(retry);
        }
    }

    /// Everything that can leave an entity does, in order.
    pub(super) fn let_leave(&mut self, id: u32) {
        self.entity_mut(id).retry = None;
        self.leaving = self.keys(|it| it.entity == id && self.target_of(it).is_some()).into();
    }
}
