//! The receive loops of requesters, which end after the other parts.

use std::{
    future::{Future, ready},
    sync::Arc,
};

use futures_util::TryFutureExt;
use tower::BoxError;

use super::{Part, Supervisor, part};
use crate::{consumer::Health, rpc::Replies, transport::ReplySource};

impl Supervisor {
    /// Adds the receive loop of a requester. It cannot run twice: if it fails, it has failed for good, as a part that was
    /// added by [`once`](Self::once). If its source can be made again, use [`replies_from`](Self::replies_from).
    ///
    /// At the shutdown it is told to end when all parts that are not receive loops have ended, so that their handlers get the
    /// replies of calls that wait. Then it has at least [`ABORT_TIMEOUT`](Self::ABORT_TIMEOUT). If the others have not ended at the
    /// [drain timeout](Self::drain_timeout), it is aborted with them. A supervisor does not wait for the calls of tasks that are
    /// not parts.
    pub fn replies<R: ReplySource>(self, name: &str, replies: Replies<R>) -> Self {
        let run =
            move |part: Part| part::erased(replies.run_reported(part.shutdown(), move |health| part.report(health)));
        self.push_last(name, part::Run::Once(Some(Box::new(run))))
    }

    /// Adds the receive loop of a requester, as [`replies`](Self::replies) does, and restarts it if it fails. The requester
    /// stays; the [module](super#requesters) has what becomes of its calls.
    ///
    /// The first run receives from the source of `replies`. Each restart calls `make` and receives from what it returns, which may
    /// have another address. If that fails, the part has failed again.
    ///
    /// Requests go through the sender that the requester was built with. So a source whose sender belongs to it cannot be made
    /// again: RabbitMQ's direct replies, and an inbox of NATS whose requests go by its own sender. They end with the client only.
    pub fn replies_from<R, F, Fut, E>(self, name: &str, replies: Replies<R>, mut make: F) -> Self
    where
        R: ReplySource,
        F: FnMut() -> Fut + Send + 'static,
        Fut: Future<Output = Result<R, E>> + Send + 'static,
        E: Into<BoxError>,
    {
        let (first, again) = replies.into_again();
        let (mut first, again) = (Some(first), Arc::new(again));
        let closed = Arc::clone(&again);
        let run = move |part: Part| {
            let (shutdown, again, status) = (part.shutdown(), Arc::clone(&again), Arc::clone(&part.status));
            let report = move |health: &Health| {
                part.report(health);
                part.status.has_made();
            };
            match first.take() {
                Some(source) => part::erased(again.run(ready(Ok(source)), shutdown, report)),
                None if again.is_closed() => part::erased(ready(Ok::<_, BoxError>(()))),
                None => {
                    status.makes();
                    part::erased(again.run(make().err_into(), shutdown, report))
                }
            }
        };
        let mut this = self.push_last(name, part::Run::Again(Box::new(run)));
        if let Some(spec) = this.parts.last_mut() {
            spec.closed = Some(Box::new(move || Box::pin(Arc::clone(&closed).closed())));
        }
        this
    }

    /// Adds a part that ends after the others.
    fn push_last(mut self, name: &str, run: part::Run) -> Self {
        self.push(name, run);
        if let Some(spec) = self.parts.last_mut() {
            spec.ends_last = true;
        }
        self
    }
}
