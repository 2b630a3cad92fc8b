use std::{sync::Arc, time::Duration};

use consign_core::{
    Disposition,
    message::LockToken,
    time::Timestamp,
    transport::{BoxFuture, CompleteAll, ErrorKind, Lease, SettleError},
};

use super::{
    complete_all::complete_all,
    settle::{self, ByToken, OnLink, Settling},
};
use crate::core::Core;

/// The right to settle one delivery, over the link that delivered it. When the link is lost, it settles by lock token, as long as
/// the server holds the lock.
///
/// A message of a session has no other lock than its session: it cannot be renewed by itself, and not settled without the link.
#[must_use = "a lease that is dropped abandons its message"]
pub struct ServiceBusLease(Right);

pub(crate) enum Right {
    Link(Box<OnLink>),
    Token(Box<ByToken>),
    /// The message was removed as it was delivered.
    Removed,
    /// The lease was used.
    Used,
}

impl ServiceBusLease {
    pub(crate) fn on_link(held: OnLink) -> Self {
        Self(Right::Link(Box::new(held)))
    }

    pub(crate) fn by_token(held: ByToken) -> Self {
        Self(Right::Token(Box::new(held)))
    }

    pub(crate) fn removed() -> Self {
        Self(Right::Removed)
    }

    /// Takes the right out of the lease, which settles nothing afterwards.
    pub(crate) fn take(&mut self) -> Right {
        let left = if matches!(self.0, Right::Removed) { Right::Removed } else { Right::Used };
        std::mem::replace(&mut self.0, left)
    }

    pub(crate) fn right(&self) -> &Right {
        &self.0
    }

    /// Whether it is of this transport.
    pub(crate) fn is_of(&self, core: &Arc<Core>) -> bool {
        match &self.0 {
            Right::Link(held) => Arc::ptr_eq(&held.origin.source.core, core),
            Right::Token(held) => Arc::ptr_eq(&held.core, core),
            Right::Removed | Right::Used => false,
        }
    }
}

pub(crate) fn removed() -> SettleError {
    SettleError::new(ErrorKind::InvalidOperation).with_detail("the message was removed when it was received")
}

fn of_session() -> SettleError {
    let detail = "a message of a session is locked by its session: renew the session";
    SettleError::new(ErrorKind::InvalidOperation).with_detail(detail)
}

impl Lease for ServiceBusLease {
    type Settle = BoxFuture<Result<(), SettleError>>;
    type Renew = BoxFuture<Result<Timestamp, SettleError>>;

    fn settle(mut self, disposition: Disposition) -> Settling {
        match self.take() {
            Right::Link(held) => held.settle(disposition),
            Right::Token(held) => held.settle(disposition),
            Right::Removed | Right::Used => settle::ready(Err(removed())),
        }
    }

    fn release(mut self) -> Settling {
        match self.take() {
            Right::Link(held) => held.release(),
            Right::Token(held) => held.release(),
            Right::Removed | Right::Used => settle::ready(Err(removed())),
        }
    }

    fn complete_all(batch: &mut Vec<Self>) -> CompleteAll<Settling> {
        complete_all(batch.drain(..).map(|mut lease| match lease.take() {
            Right::Link(held) => Ok(*held),
            Right::Token(held) => Err(held.settle(Disposition::Complete)),
            Right::Removed | Right::Used => Err(settle::ready(Err(removed()))),
        }))
    }

    fn completes_in_batches(&self) -> bool {
        matches!(self.0, Right::Link(_))
    }

    fn renew(&self) -> Self::Renew {
        let by_token = match &self.0 {
            Right::Link(held) if held.in_session() => return Box::pin(std::future::ready(Err(of_session()))),
            Right::Token(held) if held.session.is_some() => return Box::pin(std::future::ready(Err(of_session()))),
            Right::Link(held) => held.by_token(),
            Right::Token(held) => Some((**held).clone()),
            Right::Removed | Right::Used => return Box::pin(std::future::ready(Err(removed()))),
        };
        Box::pin(async move {
            let no_token = || SettleError::new(ErrorKind::NotSupported).with_detail("the server gave no lock token");
            Ok(by_token.ok_or_else(no_token)?.renew().await?)
        })
    }

    fn lock_duration(&self) -> Option<Duration> {
        match &self.0 {
            Right::Link(held) => Some(held.lock),
            Right::Token(held) => Some(held.lock),
            Right::Removed | Right::Used => None,
        }
    }

    fn lock_token(&self) -> Option<LockToken> {
        match &self.0 {
            Right::Link(held) => held.token,
            Right::Token(held) => Some(held.token),
            Right::Removed | Right::Used => None,
        }
    }
}

impl Drop for ServiceBusLease {
    fn drop(&mut self) {
        match self.take() {
            Right::Link(held) => held.drop_it(),
            Right::Token(held) => held.drop_it(),
            Right::Removed | Right::Used => {}
        }
    }
}

impl std::fmt::Debug for ServiceBusLease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServiceBusLease").field("is_locked", &self.must_settle()).finish_non_exhaustive()
    }
}
