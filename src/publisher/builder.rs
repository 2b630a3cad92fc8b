use std::{fmt, sync::Arc};

use consign_codecs::{CodecSet, Codecs};
use tower::ServiceBuilder;
use tower_layer::{Identity, Layer, Stack};
use tower_service::Service;

use super::{
    Publisher,
    stack::{SharedSender, Typed},
};
use crate::{
    Message,
    middleware::{
        in_flight::{InFlight, InFlightLayer},
        message_id::MessageIdLayer,
    },
    transport::{Batch, SendError, Sender},
};

/// Collects the layers of a [`Publisher`]. The first one is the outermost.
#[must_use = "a builder does nothing until `build` is called"]
pub struct PublisherBuilder<C, L = Identity> {
    codecs: Codecs<C>,
    layers: ServiceBuilder<L>,
    in_flight: usize,
}

impl<C: CodecSet> PublisherBuilder<C> {
    pub(super) fn new(codecs: Codecs<C>) -> Self {
        Self { codecs, layers: ServiceBuilder::new(), in_flight: InFlightLayer::DEFAULT }
    }
}

impl<C, L> PublisherBuilder<C, L> {
    /// Adds a layer, inside of those before. Its service takes a [`Message`] and a [`Batch`].
    pub fn layer<T>(self, layer: T) -> PublisherBuilder<C, Stack<T, L>> {
        let Self { codecs, layers, in_flight } = self;
        PublisherBuilder { codecs, layers: layers.layer(layer), in_flight }
    }

    /// Sets how many sends may be in flight at once: by default 100, at least 1. Further sends wait in their order.
    pub fn in_flight(mut self, sends: usize) -> Self {
        self.in_flight = sends;
        self
    }

    /// Returns the publisher, which sends by `sender`.
    pub fn build<X>(self, sender: X) -> Publisher<C>
    where
        X: Sender,
        L: Layer<InFlight<SharedSender<X>>>,
        L::Service: Service<Message, Response = (), Error: Into<SendError>, Future: Send + 'static>
            + Service<Batch, Response = (), Error: Into<SendError>, Future: Send + 'static>
            + Clone
            + Send
            + Sync
            + 'static,
    {
        let (in_flight, clock) = (InFlightLayer::new(self.in_flight), sender.clock());
        let service = self.layers.service(in_flight.layer(SharedSender::new(sender)));
        Publisher { codecs: self.codecs, stack: Arc::new(Typed(MessageIdLayer::new().layer(service))), clock }
    }
}

impl<C, L> fmt::Debug for PublisherBuilder<C, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PublisherBuilder").field("in_flight", &self.in_flight).finish_non_exhaustive()
    }
}
