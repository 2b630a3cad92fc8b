//! Senders and receivers at the same time.

use std::{cell::Cell, convert::Infallible};

use futures_util::future::{Either, select, try_join, try_join_all};
use tokio::sync::Notify;

use crate::contestant::Error;

/// How many messages have not been completed.
pub(crate) struct Left {
    count: Cell<usize>,
    done: Notify,
}

impl Left {
    pub(crate) fn new(count: usize) -> Self {
        Self { count: Cell::new(count), done: Notify::new() }
    }

    /// Records one more as completed.
    pub(crate) fn take(&self) {
        self.count.set(self.count.get().saturating_sub(1));
        if self.count.get() == 0 {
            self.done.notify_one();
        }
    }
}

/// Waits until all is sent, and no message is left.
pub(crate) async fn exchange(
    sending: impl Iterator<Item = impl Future<Output = Result<(), Error>>>,
    receiving: impl Iterator<Item = impl Future<Output = Result<Infallible, Error>>>,
    left: &Left,
) -> Result<(), Error> {
    let receiving = async {
        let (receiving, done) = (std::pin::pin!(try_join_all(receiving)), std::pin::pin!(left.done.notified()));
        match select(receiving, done).await {
            Either::Left((ended, _)) => ended.map(drop),
            Either::Right(_) => Ok(()),
        }
    };
    try_join(try_join_all(sending), receiving).await.map(drop)
}
