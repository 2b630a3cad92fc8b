//! The operation on one dead letter.

use std::{
    fmt,
    future::{Future, Ready},
};

use tower::BoxError;

use super::{ActionError, Explained, MAX_HOPS, RESUBMIT_COUNT, ResubmitTo, Run, run::IdHash};
use crate::{
    Message,
    message::{MessageBody, Properties, random_id::random_id},
    middleware::{delivery_limit, retry::RetryHistory},
    settlement::DeadLetter,
    transport::{BoxFuture, SendError, Sender},
};

/// What a [`Run`](super::Run) does with a dead letter: resubmit it, or purge it.
pub trait Action<L>: sealed::Sealed + Send + Sync {
    /// The future of a send.
    #[doc(hidden)]
    type Send: Future<Output = Result<(), SendError>> + Send + 'static;

    /// Says how the dead letter is removed.
    #[doc(hidden)]
    fn begin(&self, dead: &Explained) -> Result<Step<Self::Send, L>, Refused>;
}

/// How a dead letter is removed.
#[doc(hidden)]
pub enum Step<F, L> {
    /// It is completed.
    Remove,
    /// It is completed when this send, of a copy with this id, was accepted.
    SendFirst(F, Option<IdHash>),
    /// It is completed together with a send.
    Together(Commit<L>),
}

impl<F, L> Step<F, L> {
    pub(super) fn send_first<S: Sender<Send = F>>(sender: &S, copy: Message) -> Self {
        let id = copy.message_id().map(IdHash::of);
        Self::SendFirst(sender.send(copy), id)
    }
}

type Commit<L> = Box<dyn FnOnce(L) -> BoxFuture<Result<(), NotCommitted<L>>> + Send>;

/// A copy and a removal that did not happen, with the lease if the dead letter is still locked. Whether they did is not known if the
/// kind of the error says so.
#[doc(hidden)]
#[derive(Debug)]
pub struct NotCommitted<L> {
    pub(super) error: ActionError,
    pub(super) lease: Option<L>,
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
    impl Sealed for super::ResubmitTo {}
    impl Sealed for super::Purge {}
}

/// Removes a dead letter.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Purge;

impl<L> Action<L> for Purge {
    type Send = Ready<Result<(), SendError>>;

    fn begin(&self, _: &Explained) -> Result<Step<Self::Send, L>, Refused> {
        Ok(Step::Remove)
    }
}

/// Sends a copy of a dead letter, and removes it when the copy is accepted.
#[doc(hidden)]
pub struct Resubmit<S> {
    sender: S,
    changes: Changes,
}

type Change = Box<dyn Fn(&mut Properties, &mut MessageBody) -> Result<(), BoxError> + Send + Sync>;

/// The changes of copies, in order.
#[doc(hidden)]
#[derive(Default)]
pub struct Changes(Vec<Change>);

impl Changes {
    /// The copy: as the message was sent, but for its id, the count, what only a dead letter has, and the changes.
    pub(super) fn copy(&self, dead: &Explained) -> Result<Message, Refused> {
        copy_of(dead, |properties, body| self.0.iter().try_for_each(|change| change(properties, body)))
    }
}

/// An action that sends copies.
#[doc(hidden)]
pub trait Copies: sealed::Sealed {
    #[doc(hidden)]
    fn changes(&mut self) -> &mut Changes;
}

impl<S> Copies for Resubmit<S> {
    fn changes(&mut self) -> &mut Changes {
        &mut self.changes
    }
}

impl<S: Sender> Resubmit<S> {
    pub(super) fn new(sender: S) -> Self {
        Self { sender, changes: Changes::default() }
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
    for name in [DeadLetter::REASON, DeadLetter::DESCRIPTION, DeadLetter::TRAIL] {
        application.remove(name);
    }
    // With its old failures counted, the copy would be given up at its first one.
    for name in [RetryHistory::PROPERTY, delivery_limit::COUNT] {
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

impl<S: Sender, L> Action<L> for Resubmit<S> {
    type Send = S::Send;

    fn begin(&self, dead: &Explained) -> Result<Step<S::Send, L>, Refused> {
        Ok(Step::send_first(&self.sender, self.changes.copy(dead)?))
    }
}

impl<Q, A: Copies> Run<'_, Q, A> {
    /// Changes each copy before it is sent; several changes are made in the order in which they are given. On an error
    /// nothing is sent, and the dead letter stays. The copy's id, its first id and its count are not to be changed.
    pub fn edit(
        mut self,
        change: impl Fn(&mut Properties, &mut MessageBody) -> Result<(), BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.action.changes().0.push(Box::new(change));
        self
    }
}

impl<F, L> fmt::Debug for Step<F, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Remove => "Remove",
            Self::SendFirst(..) => "SendFirst",
            Self::Together(_) => "Together",
        })
    }
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Changes").field(&self.0.len()).finish()
    }
}

impl<S> fmt::Debug for Resubmit<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resubmit").field("changes", &self.changes.0.len()).finish_non_exhaustive()
    }
}
