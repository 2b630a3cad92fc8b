//! What the engine does on its own and an operator should read. It is logged where no lock is held.

use std::time::Duration;

use consign_core::{message::EntityPath, transport::Escaped};

use super::{
    Entity,
    time::{Now, Ticks, ticks},
};

/// How long an entity says nothing more about what it has reported.
const PAUSE: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) enum Notice {
    /// The target of an entity has refused a message, or a dead letter.
    NotForwarded { from: EntityPath, target: Box<str>, refusal: Box<str>, is_dead_letter: bool },
    /// The target of a message that was sent via an entity is disabled.
    NotTransferred { via: EntityPath, target: EntityPath, refusal: Box<str> },
    /// Messages were forwarded as often as they may be.
    TooManyHops { from: EntityPath, target: Box<str> },
    /// A rule of a subscription has failed. Its message is a dead letter, or is not copied.
    RuleFailed { path: EntityPath, error: Box<str>, is_kept: bool },
    /// An entity was not used, and was removed with its messages. Those of a topic are those of its subscriptions too.
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
            Self::NotTransferred { via, target, refusal } => tracing::warn!(
                entity = %via, target_entity = %target, error = %refusal,
                "messages that were sent via the entity cannot be transferred, and are transfer dead letters"
            ),
            Self::TooManyHops { from, target } => tracing::warn!(
                entity = %from, target_entity = %target,
                "messages were forwarded too often, and are dead letters that are not forwarded"
            ),
            Self::RuleFailed { path, error, is_kept: true } => tracing::warn!(
                entity = %path, error = %Escaped(error),
                "a rule of the subscription failed: messages are dead-lettered"
            ),
            Self::RuleFailed { path, error, is_kept: false } => tracing::warn!(
                entity = %path, error = %Escaped(error),
                "a rule of the subscription failed: the copies that it would make are lost"
            ),
            Self::DeletedIdle { path, messages: messages @ 0 } => {
                tracing::info!(entity = %path, messages, "the entity was not used for auto_delete_on_idle, and is deleted");
            }
            Self::DeletedIdle { path, messages } => tracing::warn!(
                entity = %path, messages,
                "the entity was not used for auto_delete_on_idle, and is deleted with its messages"
            ),
        }
    }
}

/// What an entity reports.
#[derive(Clone, Copy)]
pub(super) enum Report {
    Refusal,
    Transfer,
    TooManyHops,
    FailedRule,
}

/// When an entity last reported each of them.
#[derive(Debug, Default)]
pub(super) struct LastSaid([Option<Ticks>; 4]);

impl Entity {
    /// Whether it is time to log this. Of each kind there is one line in a pause.
    pub(super) fn says(&mut self, what: Report, now: Now) -> bool {
        let last = &mut self.last_said.0[what as usize];
        let is_due = last.is_none_or(|last| now.ticks.saturating_sub(last) >= ticks(PAUSE));
        if is_due {
            *last = Some(now.ticks);
        }
        is_due
    }
}
