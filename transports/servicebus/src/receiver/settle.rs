//! Settling one delivery: over its link, or by its lock token.

use std::{sync::Arc, time::Duration};

use consign_amqp::{
    client,
    engine::DeliveryId,
    types::{Accepted, DeliveryState, Error, Modified, Rejected, Released},
    value::{Map, Symbol},
};
use consign_core::{
    Disposition,
    message::{EntityPath, LockToken},
    settlement::DeadLetter,
    time::Timestamp,
    transport::{BoxFuture, ErrorKind, SettleError},
};
use tokio::runtime::Handle;

use super::source::Origin;
use crate::{
    core::Core,
    error::{Failure, has_ended},
    log,
    management::{self, Settled},
    retry::Effect,
    wire,
};

pub(crate) type Settling = BoxFuture<Result<(), SettleError>>;

/// The condition of a dead letter.
const DEAD_LETTER: Symbol = Symbol::from_static("com.microsoft:dead-letter");

pub(super) fn ready(result: Result<(), SettleError>) -> Settling {
    Box::pin(std::future::ready(result))
}

/// A delivery of a link.
pub(crate) struct OnLink {
    pub(crate) origin: Arc<Origin>,
    pub(crate) id: DeliveryId,
    /// None of a server that has another form of tags.
    pub(crate) token: Option<LockToken>,
    pub(crate) lock: Duration,
}

/// A message whose lock has a token and no link.
#[derive(Clone)]
pub(crate) struct ByToken {
    pub(crate) core: Arc<Core>,
    pub(crate) path: EntityPath,
    pub(crate) token: LockToken,
    pub(crate) session: Option<String>,
    pub(crate) link: Option<String>,
    pub(crate) lock: Duration,
    /// Whether it was received by its number, and stays deferred.
    pub(crate) is_deferred: bool,
}

/// The outcome that stands for a disposition.
pub(crate) fn outcome(disposition: &Disposition) -> DeliveryState {
    let modified = |changes, undeliverable_here| {
        let annotations = wire::changes(changes);
        Modified {
            undeliverable_here,
            message_annotations: (!annotations.is_empty()).then_some(annotations),
            ..Modified::default()
        }
    };
    match disposition {
        Disposition::Complete => Accepted {}.into(),
        Disposition::Abandon(changes) => modified(changes, false).into(),
        Disposition::Defer(changes) => modified(changes, true).into(),
        Disposition::DeadLetter(dead_letter) => {
            let mut info = Map::default();
            info.push(wire::key(DeadLetter::REASON), dead_letter.reason.as_str());
            info.push(wire::key(DeadLetter::DESCRIPTION), &*dead_letter.description);
            info.0.extend(wire::changes(&dead_letter.changes).0);
            let error = Error { info: Some(info), ..Error::new(DEAD_LETTER, "") };
            Rejected { error: Some(error) }.into()
        }
    }
}

impl OnLink {
    pub(crate) fn in_session(&self) -> bool {
        self.origin.source.session.is_some()
    }

    pub(crate) fn lost(&self) -> SettleError {
        self.origin.lost()
    }

    pub(super) fn complete(self) -> Settling {
        self.settle(Disposition::Complete)
    }

    /// Reports an outcome. It begins within the call.
    pub(super) fn settle(self, disposition: Disposition) -> Settling {
        let state = outcome(&disposition);
        match self.origin.settler.begin_confirmed([self.id], &state) {
            Ok(confirmations) => self.confirmed(confirmations, state),
            Err(error) if has_ended(&error) => match self.by_token() {
                Some(by_token) => by_token.settle(disposition),
                None => ready(Err(self.lost())),
            },
            Err(error) => ready(Err(Failure::from(error).into())),
        }
    }

    /// A link that has ended has released the message, or its lock runs out.
    pub(super) fn release(self) -> Settling {
        let state = Released {}.into();
        match self.origin.settler.begin_confirmed([self.id], &state) {
            Ok(confirmations) => self.confirmed(confirmations, state),
            Err(_) => ready(Err(self.lost())),
        }
    }

    fn confirmed(self, confirmations: client::Confirmations, reported: DeliveryState) -> Settling {
        Box::pin(async move {
            confirmations.wait().await.pop().map_or(Ok(()), |answer| self.origin.confirmed(answer, &reported))
        })
    }

    /// Abandons the message without waiting for the server.
    pub(super) fn drop_it(self) {
        let abandoned = self.origin.settler.settle([self.id], &outcome(&Disposition::ABANDON));
        if abandoned.is_err()
            && let Some(by_token) = self.by_token()
        {
            by_token.drop_it();
        }
    }

    /// Returns the lock by its token, without the link. The lock of a session is lost with its link.
    pub(crate) fn by_token(&self) -> Option<ByToken> {
        if self.in_session() { None } else { self.as_token() }
    }

    /// Returns the lock by its token.
    pub(crate) fn as_token(&self) -> Option<ByToken> {
        let source = &self.origin.source;
        Some(ByToken {
            core: Arc::clone(&source.core),
            path: source.path.clone(),
            token: self.token?,
            session: source.session.as_ref().map(|session| session.id.clone()),
            link: Some(self.origin.name.clone()),
            lock: self.lock,
            is_deferred: false,
        })
    }
}

impl Origin {
    fn lost(&self) -> SettleError {
        self.lock_lost("the link that delivered the message has ended")
    }

    fn lock_lost(&self, detail: &'static str) -> SettleError {
        let kind = if self.source.session.is_some() { ErrorKind::SessionLockLost } else { ErrorKind::MessageLockLost };
        SettleError::new(kind).with_detail(detail)
    }

    /// Reads the server's answer to a settlement.
    pub(crate) fn confirmed(
        &self,
        answer: Result<Option<DeliveryState>, client::Error>,
        reported: &DeliveryState,
    ) -> Result<(), SettleError> {
        match answer {
            Ok(Some(DeliveryState::Rejected(rejected))) => match &rejected.error {
                // It confirms a dead letter.
                None => Ok(()),
                Some(error) if error.condition == DEAD_LETTER => Ok(()),
                error => {
                    let failure = Failure::rejected(error.as_ref());
                    Err(management::lock_lost(failure, self.source.session.is_some()).into())
                }
            },
            Ok(Some(state)) if state.is_return_instead_of(reported) => {
                Err(self.lock_lost("the server has taken the message back"))
            }
            Ok(_) => Ok(()),
            // The server had settled the delivery before.
            Err(client::Error::Detached(_)) if self.settler.ended().is_none() => Err(self.lost()),
            Err(error) => Err(Failure::unanswered(error).into()),
        }
    }
}

impl ByToken {
    pub(crate) fn settled(&self) -> Settled<'_> {
        Settled { token: self.token, session: self.session.as_deref(), link: self.link.as_deref() }
    }

    /// Settles in a task, so that it has begun when this returns.
    pub(crate) fn settle(self, disposition: Disposition) -> Settling {
        let Ok(runtime) = Handle::try_current() else {
            let detail = "settling by lock token needs a Tokio runtime";
            return ready(Err(SettleError::new(ErrorKind::InvalidOperation).with_detail(detail)));
        };
        let task = runtime.spawn(async move { self.settle_now(&disposition).await });
        Box::pin(async move {
            let ended = |_| SettleError::new(ErrorKind::General).with_detail("the task of the settlement has ended");
            Ok(task.await.map_err(ended)??)
        })
    }

    async fn settle_now(&self, disposition: &Disposition) -> Result<(), Failure> {
        // A settlement that had its effect would fail the second time.
        self.core
            .manage(&self.path, Effect::Once, |management| async move {
                management.update_disposition(self.settled(), disposition, None).await
            })
            .await
    }

    /// A deferred message stays deferred. Otherwise there is no operation for it, and the message is abandoned.
    pub(super) fn release(self) -> Settling {
        let disposition = if self.is_deferred { Disposition::DEFER } else { Disposition::ABANDON };
        self.settle(disposition)
    }

    pub(super) fn drop_it(self) {
        let path = self.path.clone();
        let Ok(runtime) = Handle::try_current() else {
            return log::warn(
                &path,
                "a message was dropped outside of the runtime: it is locked until its lock runs out",
            );
        };
        if self.core.is_closed() {
            return;
        }
        runtime.spawn(async move {
            if let Err(failure) = self.settle_now(&Disposition::ABANDON).await
                && !matches!(failure.kind(), ErrorKind::MessageLockLost | ErrorKind::SessionLockLost)
            {
                log::failed(&path, "a dropped message was not abandoned: its lock runs out", &failure);
            }
        });
    }

    pub(super) async fn renew(&self) -> Result<Timestamp, Failure> {
        self.core
            .manage(
                &self.path,
                Effect::Repeatable,
                |management| async move { management.renew_lock(self.settled()).await },
            )
            .await
    }
}

#[cfg(test)]
mod tests {
    use consign_amqp::value::Value;
    use consign_core::{message::ApplicationProperties, settlement::DeadLetterReason};

    use super::*;

    /// Rules.
    #[test]
    fn a_disposition_has_the_outcome_of_the_sdks() {
        assert_eq!(outcome(&Disposition::Complete), Accepted {}.into());
        let mut changes = ApplicationProperties::new();
        changes.insert("tries", 2_i32);
        let of = |disposition| match outcome(&disposition) {
            DeliveryState::Modified(modified) => modified,
            other => panic!("{other:?}"),
        };
        let abandoned = of(Disposition::Abandon(changes.clone().into()));
        assert!(!abandoned.undeliverable_here && !abandoned.delivery_failed);
        assert_eq!(abandoned.message_annotations.unwrap().get("tries"), Some(&Value::Int(2)));
        assert_eq!(of(Disposition::ABANDON).message_annotations, None);
        assert!(of(Disposition::DEFER).undeliverable_here);
        let mut dead_letter = DeadLetter::new(DeadLetterReason::Application("why".into()), "because");
        dead_letter.changes = changes.into();
        let DeliveryState::Rejected(rejected) = outcome(&Disposition::DeadLetter(Box::new(dead_letter))) else {
            panic!()
        };
        let error = rejected.error.unwrap();
        assert_eq!(error.condition.as_str(), "com.microsoft:dead-letter");
        let info = error.info.unwrap();
        assert_eq!(info.get("DeadLetterReason").and_then(Value::as_str), Some("why"));
        assert_eq!(info.get("DeadLetterErrorDescription").and_then(Value::as_str), Some("because"));
        assert_eq!(info.get("tries"), Some(&Value::Int(2)));
    }
}
