use std::{
    convert::Infallible,
    future::Ready,
    marker::PhantomData,
    task::{Context, Poll},
    time::Duration,
};

use consign::{
    time::Timestamp,
    transport::{Delivery, Lease, ReceiveError, Receiver, Session, SettleError},
};

/// The session type of a backend without sessions. It has no values.
#[derive(Debug)]
pub struct NoSession<L>(Infallible, PhantomData<fn() -> L>);

impl<L: Lease> Receiver for NoSession<L> {
    type Lease = L;

    fn poll_receive(
        &mut self,
        _: &mut Context<'_>,
        _: usize,
        _: &mut Vec<Delivery<L>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        match self.0 {}
    }
}

impl<L: Lease> Session for NoSession<L> {
    type Renew = Ready<Result<Timestamp, SettleError>>;
    type Close = Ready<Result<(), SettleError>>;

    fn session_id(&self) -> &str {
        match self.0 {}
    }

    fn lock_duration(&self) -> Duration {
        match self.0 {}
    }

    fn renew(&self) -> Self::Renew {
        match self.0 {}
    }

    fn close(self) -> Self::Close {
        match self.0 {}
    }
}
