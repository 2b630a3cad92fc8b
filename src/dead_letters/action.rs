//! The operation on one dead letter.

use std::{
    fmt,
    future::{Future, Ready},
};

use tower::BoxError;

use super::{ActionError, Explained, MAX_HOPS, RESUBMIT_COUNT, Run};
use crate::{
    Message,
    message::{MessageBody, Properties, random_id::random_id},
    middleware::retry::RetryHistory,
    settlement::DeadLetter,
    transport::{SendError, Sender},
};

/// [`Resubmit`] or [`Purge`].
#[doc(hidden)]
pub trait Action: sealed::Sealed + Send + Sync {
    /// The future of a send.
    #[doc(hidden)]
    type Send: Future<Output = Result<(), SendError>> + Send + 'static;

    /// Sends what has to be accepted before the dead letter goes.
    #[doc(hidden)]
    fn begin(&self, dead: &Explained) -> Result<Option<Self::Send>, Refused>;
}

/// Why nothing is begun.
#[doc(hidden)]
#[derive(Debug)]
pub enum Refused {
    HopLimit,
    Failed(ActionError),
}

mod sealed {
    pub trait Sealed {}

    impl<S> Sealed for super::Resubmit<S> {}
    impl Sealed for super::Purge {}
}

/// Removes a dead letter.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Purge;

impl Action for Purge {
    type Send = Ready<Result<(), SendError>>;

    fn begin(&self, _: &Explained) -> Result<Option<Self::Send>, Refused> {
        Ok(None)
    }
}

/// Sends a copy of a dead letter, and removes it when the copy is accepted.
#[doc(hidden)]
pub struct Resubmit<S> {
    sender: S,
    changes: Vec<Change>,
}

type Change = Box<dyn Fn(&mut Properties, &mut MessageBody) -> Result<(), BoxError> + Send + Sync>;

impl<S: Sender> Resubmit<S> {
    pub(super) fn new(sender: S) -> Self {
        Self { sender, changes: Vec::new() }
    }

    /// The copy: as the message was sent, but for its id, the count, and what only a dead letter has.
    fn copy(&self, dead: &Explained) -> Result<Message, Refused> {
        copy_of(dead, |properties, body| self.changes.iter().try_for_each(|change| change(properties, body)))
    }
}

/// A copy of a dead letter with changes.
fn copy_of(
    dead: &Explained,
    change: impl FnOnce(&mut Properties, &mut MessageBody) -> Result<(), BoxError>,
) -> Result<Message, Refused> {
    let hops = dead.resubmit_count();
    if hops >= MAX_HOPS {
        return Err(Refused::HopLimit);
    }
    let (mut properties, mut body) = (dead.message().properties().clone(), dead.message().body().clone());
    let application = properties.application_properties_mut();
    // With its old failures counted, the copy would be given up at its first one.
    for name in [DeadLetter::REASON, DeadLetter::DESCRIPTION, DeadLetter::TRAIL, RetryHistory::PROPERTY] {
        application.remove(name);
    }
    change(&mut properties, &mut body).map_err(|error| Refused::Failed(ActionError::change(error)))?;
    properties.renew_message_token(random_id());
    let application = properties.application_properties_mut();
    application.insert(RESUBMIT_COUNT, hops + 1);
    if let Some(first) = dead.original_message_id() {
        application.insert(Properties::ORIGINAL_MESSAGE_ID, first);
    }
    Ok(Message::from_parts(properties, body))
}

impl Explained {
    /// Returns the copy that a resubmission sends, for a caller that sends it and removes the dead letter itself, for example in a
    /// [transaction](crate::transport::Transactions). `None` if it was resubmitted [`MAX_HOPS`] times already.
    #[must_use]
    pub fn resubmission(&self) -> Option<Message> {
        copy_of(self, |_, _| Ok(())).ok()
    }
}

impl<S: Sender> Action for Resubmit<S> {
    type Send = S::Send;

    fn begin(&self, dead: &Explained) -> Result<Option<S::Send>, Refused> {
        let copy = self.copy(dead)?;
        Ok(Some(self.sender.send(copy)))
    }
}

impl<Q, S> Run<'_, Q, Resubmit<S>> {
    /// Changes each copy before it is sent; several changes are made in the order in which they are given. On an error
    /// nothing is sent, and the dead letter stays. The copy's id, its first id and its count are not to be changed.
    pub fn edit(
        mut self,
        change: impl Fn(&mut Properties, &mut MessageBody) -> Result<(), BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.action.changes.push(Box::new(change));
        self
    }
}

impl<S> fmt::Debug for Resubmit<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resubmit").field("changes", &self.changes.len()).finish_non_exhaustive()
    }
}
