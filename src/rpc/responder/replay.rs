use std::{
    convert::Infallible,
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

use tower_service::Service;

use super::{ReplySenders, reply::Replying};
use crate::{
    Disposition, Message,
    middleware::dedup::{StoreError, StoreErrorKind},
    settlement::Changes,
    transport::{BoxFuture, deadline::Timed},
};

/// Sends the recorded reply to a request again: the same body, ContentType and fault, to the reply address of this
/// request. It is the service that [`DedupLayer::on_duplicate`](crate::middleware::dedup::DedupLayer::on_duplicate)
/// passes duplicates to.
///
/// The request is completed when the broker has the reply, and at once if no reply is recorded or none is wanted. If
/// the store of replies fails it is abandoned, and redelivered. A refused reply has the same consequences as in a
/// [`Responder`](super::Responder). A sender that knows the id of a request gets its reply, as far as the reply address
/// is allowed.
#[doc(hidden)]
pub struct Replay<P: ReplySenders> {
    replying: Arc<Replying<P>>,
}

impl<P: ReplySenders> Replay<P> {
    pub(super) fn new(replying: Arc<Replying<P>>) -> Self {
        Self { replying }
    }
}

impl<P: ReplySenders> Service<Message> for Replay<P> {
    type Response = Disposition;
    type Error = Infallible;
    type Future = BoxFuture<Result<Disposition, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Message) -> Self::Future {
        let replying = Arc::clone(&self.replying);
        Box::pin(async move { Ok(replying.replay(&request).await) })
    }
}

impl<P: ReplySenders> Replying<P> {
    async fn replay(&self, request: &Message) -> Disposition {
        if let Some(refused) = self.refusal(request) {
            return refused;
        }
        let address = match self.address(request) {
            Ok(Some(address)) => address,
            Ok(None) => {
                self.stats.count_unwanted();
                return Disposition::Complete;
            }
            Err(disposition) => return disposition,
        };
        let recorded = match &self.recorded {
            Some(recorded) => Timed::new(Arc::clone(recorded).find(request), self.operation)
                .await
                .unwrap_or_else(|unanswered| Err(StoreError::new(StoreErrorKind::Unavailable).with_source(unanswered))),
            None => Ok(None),
        };
        let reply = match recorded {
            Ok(Some(recorded)) => recorded.into_message(self.properties(request)),
            Ok(None) => {
                self.stats.count_unrecorded();
                return Disposition::Complete;
            }
            Err(error) => {
                self.not_replayed(&error);
                return Disposition::Abandon(Changes::because("the store of recorded replies failed"));
            }
        };
        match Timed::new(Box::pin(self.send_anew(&address, reply)), self.operation).await {
            Ok(Ok(())) => {
                self.stats.count_replayed();
                Disposition::Complete
            }
            Ok(Err(error)) => self.refused(request, &error),
            Err(unanswered) => self.unanswered(request, unanswered),
        }
    }
}

impl<P: ReplySenders> Clone for Replay<P> {
    fn clone(&self) -> Self {
        Self { replying: Arc::clone(&self.replying) }
    }
}

impl<P: ReplySenders> fmt::Debug for Replay<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Replay")
    }
}
