//! What the engine does on its own and an operator should read. It is logged where no lock is held.

use std::time::Duration;

use consign_core::message::EntityPath;

use super::{
    Entity,
    time::{Now, Ticks, ticks},
};

/// How long an entity that cannot forward says nothing more about it.
const PAUSE: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) enum Notice {
    /// The target of an entity has refused a message, or a dead letter.
    NotForwarded { from: EntityPath, target: Box<str>, refusal: Box<str>, is_dead_letter: bool },
    /// An entity was not used, and was removed with the messages.
    DeletedIdle { path: EntityPath, messages: usize },
}

impl Notice {
    #[cold]
    pub(super) fn log(&self) {
        match self {
            Self::NotForwarded { from, target, refusal, is_dead_letter: false } => tracing::warn!(
                entity = %from, target_entity = %target, error = %refusal,
                "messages cannot be forwarded, and are dead-lettered"
            ),
            Self::NotForwarded { from, target, refusal, is_dead_letter: true } => tracing::warn!(
                entity = %from, target_entity = %target, error = %refusal,
                "dead letters cannot be forwarded, and stay until the target accepts them"
            ),
            Self::DeletedIdle { path, messages } => {
                tracing::info!(entity = %path, messages, "the entity was not used for auto_delete_on_idle, and is deleted");
            }
        }
    }
}

/// When an entity last said that it cannot forward.
#[derive(Debug, Default)]
pub(super) struct LastSaid(Option<Ticks>);

impl Entity {
    /// Whether a refusal of a target is to be logged.
    pub(super) fn says_refused(&mut self, now: Now) -> bool {
        let LastSaid(last) = &mut self.last_said;
        let is_due = last.is_none_or(|last| now.ticks.saturating_sub(last) >= ticks(PAUSE));
        if is_due {
            *last = Some(now.ticks);
        }
        is_due
    }
}
