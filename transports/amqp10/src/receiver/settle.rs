//! Settling one delivery.

use std::time::Duration;

use bytes::Bytes;
use consign_amqp::{
    client,
    engine::CommandError,
    mapping,
    types::{Accepted, DeliveryState, Error, Modified, Rejected, Released},
    value::{Map, Symbol},
};
use consign_core::{
    settlement::{Changes, DeadLetter},
    transport::{BoxFuture, ErrorKind, SettleError},
};
use tokio::runtime::Handle;

use super::{copy, held::Held, source::Origin};
use crate::{
    error::{Failure, has_ended},
    log,
    options::DeadLetters,
    sender::Amqp10Sender,
};

pub(super) type Settling = BoxFuture<Result<(), SettleError>>;

pub(super) fn lost() -> SettleError {
    SettleError::new(ErrorKind::MessageLockLost).with_detail("the link that delivered the message has ended")
}

pub(super) fn ready(result: Result<(), SettleError>) -> Settling {
    Box::pin(std::future::ready(result))
}

impl Held {
    /// Reports an outcome. It begins within the call.
    pub(super) fn finish(self, state: DeliveryState) -> Settling {
        let settler = &self.origin.settler;
        if !self.origin.source.core.options.confirms_settlements {
            return ready(match settler.settle([self.id], &state) {
                Ok(1..) => Ok(()),
                Ok(0) => Err(lost()),
                Err(error) => return self.finish_smaller(&state, error),
            });
        }
        let confirmations = match settler.begin_confirmed([self.id], &state) {
            Ok(confirmations) => confirmations,
            Err(error) => return self.finish_smaller(&state, error),
        };
        Box::pin(async move {
            confirmations.wait().await.pop().map_or(Ok(()), |answer| self.origin.confirmed(answer, &state))
        })
    }

    /// Reports a rejection without its properties where the peer takes no frame as large as that: the message would stay
    /// locked.
    fn finish_smaller(self, state: &DeliveryState, error: client::Error) -> Settling {
        if let (client::Error::Command(CommandError::FrameTooLarge { .. }), DeliveryState::Rejected(rejected)) =
            (&error, state)
            && let Some(why) = rejected.error.as_ref().filter(|why| why.info.is_some())
        {
            let error = Some(Error { info: None, ..why.clone() });
            return self.finish(Rejected { error }.into());
        }
        ready(Err(not_begun(error)))
    }

    pub(super) fn complete(self) -> Settling {
        self.finish(Accepted {}.into())
    }

    pub(super) fn release(self) -> Settling {
        self.finish(Released {}.into())
    }

    pub(super) fn abandon(self, changes: Changes) -> Settling {
        let source = &self.origin.source;
        // A dead-letter sub-queue does not count.
        if source.is_dead() {
            return self.release();
        }
        let permitted = changes.clone().into_permitted();
        if source.core.product().counts() && permitted.is_empty() {
            return self.finish(Modified { delivery_failed: true, ..Modified::default() }.into());
        }
        if copy::outgrows(&self, &changes) {
            return self.dead_letter(DeadLetter::header_size_exceeded());
        }
        let copy = copy::abandoned(&self, changes);
        let again = source.again().clone();
        self.replace_in_task(copy, again, NO_ENTITY)
    }

    /// Abandons the message if `counts`, and otherwise releases it, by a copy that the broker delivers after the delay.
    pub(super) fn delay(self, changes: Changes, delay: Duration, counts: bool) -> Settling {
        if copy::outgrows(&self, &changes) {
            return self.dead_letter(DeadLetter::header_size_exceeded());
        }
        let source = &self.origin.source;
        let due = source.core.now().saturating_add(delay);
        let copy = copy::delayed(&self, changes, self.failed.saturating_add(u32::from(counts)), due);
        let again = source.again().clone();
        self.replace_in_task(copy, again, NO_ENTITY)
    }

    pub(super) fn dead_letter(self, dead_letter: DeadLetter) -> Settling {
        let source = &self.origin.source;
        if source.core.options.dead_letters == DeadLetters::Reject {
            return self.finish(rejected(dead_letter));
        }
        let copy = copy::dead(&self, dead_letter);
        let dead_letters = source.dead_letters().clone();
        self.replace_in_task(copy, dead_letters, NO_DEAD_LETTERS)
    }

    /// Replaces the message in a task, so that it is not left locked when no caller waits.
    fn replace_in_task(self, copy: Result<Bytes, Failure>, sender: Amqp10Sender, missing: &'static str) -> Settling {
        let replacing = async move { self.replace(copy, &sender, missing).await };
        let Ok(runtime) = Handle::try_current() else {
            // It begins with the first poll.
            return Box::pin(replacing);
        };
        let task = runtime.spawn(replacing);
        Box::pin(async move {
            let ended = |_| SettleError::new(ErrorKind::General).with_detail("the task of the settlement has ended");
            task.await.map_err(ended)?
        })
    }

    /// Sends the copy, and accepts the original when the broker has accepted the copy: a failure in between leaves two messages,
    /// never none.
    async fn replace(
        self,
        copy: Result<Bytes, Failure>,
        sender: &Amqp10Sender,
        missing: &'static str,
    ) -> Result<(), SettleError> {
        // The broker delivers it again.
        if self.origin.settler.ended().is_some() {
            return Err(lost());
        }
        let Err(failure) = self.send(copy, sender).await else { return self.complete().await };
        let what = if failure.kind() == ErrorKind::EntityNotFound {
            missing
        } else {
            "the broker did not accept a copy of a message: the message is redelivered"
        };
        log::failed(sender.path(), what, &failure);
        // The error of the copy is the one to report.
        let _ = self.fail().await;
        Err(failure.into())
    }

    /// Sends a copy, and waits until the broker has accepted it.
    pub(super) async fn send(&self, copy: Result<Bytes, Failure>, sender: &Amqp10Sender) -> Result<(), Failure> {
        match tokio::time::timeout(self.origin.source.core.options.timeout, sender.send_encoded(copy?)).await {
            Ok(sent) => sent,
            Err(_) => Err(Failure::new(ErrorKind::ServiceTimeout, "the broker did not accept a copy in time")),
        }
    }

    /// Returns the message to the broker, which counts a failed delivery if it can.
    pub(super) fn fail(self) -> Settling {
        let source = &self.origin.source;
        if source.core.product().counts() && !source.is_dead() {
            return self.finish(Modified { delivery_failed: true, ..Modified::default() }.into());
        }
        self.release()
    }
}

/// What the log says of a copy whose address does not exist.
const NO_ENTITY: &str = "the address of the entity does not exist, or takes no copy of an abandoned message";
pub(super) const NO_DEAD_LETTERS: &str =
    "the address for dead letters does not exist: create it, or set the option dead_letter_address";

/// The outcome of a dead letter, for a broker that dead-letters itself.
pub(super) fn rejected(dead_letter: DeadLetter) -> DeliveryState {
    let mut properties = consign_core::message::ApplicationProperties::new();
    dead_letter.write_to(&mut properties);
    let info: Map = properties
        .iter()
        .map(|(name, value)| {
            (Symbol::try_from(name).map_or_else(|_| name.into(), Into::into), mapping::property_to_amqp(value))
        })
        .collect();
    let error = Error { info: Some(info), ..Error::new(DEAD_LETTER, "the application dead-lettered the message") };
    Rejected { error: Some(error) }.into()
}

/// The condition of a dead letter on Service Bus. Other brokers ignore it.
const DEAD_LETTER: Symbol = Symbol::from_static("com.microsoft:dead-letter");

fn not_begun(error: client::Error) -> SettleError {
    if has_ended(&error) { lost() } else { Failure::from(error).into() }
}

/// The error of a settlement that the broker refuses, with its reason.
fn refused(error: &Error) -> SettleError {
    let refused = SettleError::from_condition(error.condition.as_str().to_owned());
    refused.with_detail(Failure::rejected(Some(error)).to_string())
}

impl Origin {
    /// Reads the broker's answer to a settlement.
    pub(super) fn confirmed(
        &self,
        answer: Result<Option<DeliveryState>, client::Error>,
        reported: &DeliveryState,
    ) -> Result<(), SettleError> {
        match answer {
            Ok(Some(DeliveryState::Rejected(rejected))) if !matches!(reported, DeliveryState::Rejected(_)) => {
                Err(rejected.error.as_ref().map_or_else(lost, refused))
            }
            Ok(Some(state)) if state.is_return_instead_of(reported) => {
                Err(SettleError::new(ErrorKind::MessageLockLost).with_detail("the broker has taken the message back"))
            }
            Ok(_) => Ok(()),
            // The broker had settled the delivery before.
            Err(client::Error::Detached(_)) if self.settler.ended().is_none() => Err(lost()),
            Err(error) => Err(Failure::unanswered(error).into()),
        }
    }
}
