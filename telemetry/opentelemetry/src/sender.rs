use std::{fmt, sync::Arc};

use consign::{
    Message,
    time::Clock,
    transport::{Batch, Sender},
};

use crate::send::{SendFuture, SendLayer};

/// A sender with the `send` span of a [`SendLayer`], for sends outside of a stack: the copies of delayed retries, and messages
/// that a run over dead letters resubmits.
///
/// ```
/// # use std::time::Duration;
/// # use consign::{broker::Broker, middleware::retry::{Backoff, DelayPolicy, RetryLayer}};
/// use consign_opentelemetry::Telemetry;
///
/// # fn main() -> Result<(), tower::BoxError> {
/// # let queue = Broker::new().create_queue("orders", Default::default())?;
/// let telemetry = Telemetry::builder("servicebus").build();
/// let copies = telemetry.sender("orders", queue.sender()?);
/// let retry = RetryLayer::new().delayed(DelayPolicy::new(copies, Backoff::exponential(Duration::from_secs(10)))?);
/// # drop(retry);
/// # Ok(())
/// # }
/// ```
///
/// The context of a message is as with the layer: a copy of a message of the current trace gets the context of its `send` span,
/// and one of another trace keeps its own.
#[derive(Clone)]
pub struct ObservedSender<X> {
    sender: X,
    layer: SendLayer,
}

impl<X> ObservedSender<X> {
    pub(crate) fn new(layer: SendLayer, sender: X) -> Self {
        Self { sender, layer }
    }
}

impl<X: Sender> Sender for ObservedSender<X> {
    type Send = SendFuture<X::Send>;

    fn send(&self, mut message: Message) -> Self::Send {
        let running = self.layer.begin(&mut message);
        let _current = running.enter();
        SendFuture::new(self.sender.send(message), running)
    }

    fn send_batch(&self, mut batch: Batch) -> Self::Send {
        let running = self.layer.begin(&mut batch);
        let _current = running.enter();
        SendFuture::new(self.sender.send_batch(batch), running)
    }

    fn capabilities(&self) -> consign::transport::Capabilities {
        self.sender.capabilities()
    }

    fn clock(&self) -> Option<Arc<dyn Clock>> {
        self.sender.clock()
    }
}

impl<X> fmt::Debug for ObservedSender<X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObservedSender").field("layer", &self.layer).finish_non_exhaustive()
    }
}
