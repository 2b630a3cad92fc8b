//! An attach that goes on while no caller receives.

use std::{
    sync::Arc,
    task::{Context, Poll, ready},
};

use consign_core::transport::ErrorKind;
use futures_util::FutureExt;
use tokio::task::JoinHandle;

use super::{live::Live, source::Source};
use crate::error::Failure;

/// A task that attaches a link, and ends when this is dropped. A future that is not polled would keep what other entities wait for.
pub(super) struct Attaching {
    task: JoinHandle<Result<Live, Failure>>,
    /// Whether a caller receives.
    is_wanted: bool,
}

impl Attaching {
    pub(super) fn new(source: Arc<Source>, attaches: u32) -> Self {
        let task = tokio::spawn(async move { source.attach_again(attaches).await });
        Self { task, is_wanted: true }
    }

    /// No caller receives any more.
    pub(super) fn stop(&mut self) {
        self.is_wanted = false;
    }

    /// Returns the link. None is a failure that is not news: no caller was receiving.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Live, Failure>>> {
        let was_wanted = std::mem::replace(&mut self.is_wanted, true);
        let ended = |_| Failure::new(ErrorKind::General, "the task of the attach has ended");
        let attached = ready!(self.task.poll_unpin(cx)).map_err(ended).and_then(|attached| attached);
        Poll::Ready((attached.is_ok() || was_wanted).then_some(attached))
    }
}

impl Drop for Attaching {
    fn drop(&mut self) {
        self.task.abort();
    }
}
