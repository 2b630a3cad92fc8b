use std::{fmt, future::Future, io, sync::Arc};

use consign_amqp::value::Str;
use consign_broker::Broker;
#[cfg(feature = "http")]
use tokio::sync::OwnedSemaphorePermit;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    sync::{Semaphore, watch},
};

use crate::{
    auth::{AllowAll, Authorizer},
    connection,
    limits::{Limits, Timeouts},
    listen::accept_each,
    locks::Locks,
    places::Places,
    shared::Shared,
    stop::Stop,
};

/// How many connections are told at a time that there are too many of those that have not authenticated. More are dropped.
const MAX_REFUSALS: usize = 64;

/// A server of one broker. Clones are handles to one server.
#[derive(Clone)]
pub struct Server {
    shared: Arc<Shared>,
}

/// Builds a [`Server`].
#[must_use]
pub struct Builder {
    broker: Option<Broker>,
    authorizer: Arc<dyn Authorizer>,
    limits: Limits,
    timeouts: Timeouts,
    create_entities: bool,
}

impl Server {
    /// Creates a builder, with the settings of a server for development.
    pub fn builder() -> Builder {
        Builder {
            broker: None,
            authorizer: Arc::new(AllowAll),
            limits: Limits::default(),
            timeouts: Timeouts::default(),
            create_entities: true,
        }
    }

    /// Serves the connections of a listener until [`Server::shutdown`] is called, and waits for them to close, at most
    /// [`Timeouts::shutdown`]. Several listeners may be served at a time.
    ///
    /// A connection that cannot be accepted, for example for want of a file descriptor, is logged as a warning.
    ///
    /// # Errors
    /// None: errors of the listener may pass, so that it is served on.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connections without a close frame.
    pub async fn serve(&self, listener: TcpListener) -> io::Result<()> {
        accept_each(listener, &self.stop(), |stream| self.amqp(stream)).await
    }

    /// Serves one connection on an accepted stream, such as one of TLS or a WebSocket, until it is closed. After
    /// [`Server::shutdown`] it is dropped if it does not close within [`Timeouts::shutdown`].
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection.
    pub fn serve_stream<S>(&self, stream: S) -> impl Future<Output = ()> + Send + use<S>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (connection, stop) = (self.amqp(stream), self.stop());
        async move {
            tokio::select! {
                () = connection => {}
                () = stop.is_over() => {}
            }
        }
    }

    /// Serves one connection until it is closed. Its task is aborted if it does not close in time.
    pub(crate) fn amqp<S>(&self, stream: S) -> impl Future<Output = ()> + Send + use<S>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let shared = Arc::clone(&self.shared);
        async move {
            let place = shared.places.enter();
            connection::serve(stream, place, &shared).await;
        }
    }

    /// Shuts the server down: no connection is accepted, and those that there are get a close frame with
    /// `amqp:connection:forced`. Returns when they are closed, at the latest after [`Timeouts::shutdown`]: those that are open
    /// then are dropped.
    ///
    /// A call that the broker has begun is answered before the close if it ends in that time.
    pub async fn shutdown(&self) {
        let shared = &self.shared;
        shared.shutdown.send_replace(true);
        let closed = tokio::time::timeout(shared.timeouts.shutdown, shared.places.empty());
        if closed.await.is_err() {
            tracing::warn!("connections did not close in time");
        }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Counts one more connection until the permit is dropped.
    #[cfg(feature = "http")]
    pub(crate) fn count_connection(&self) -> Option<OwnedSemaphorePermit> {
        self.shared.places.count()
    }

    /// What listeners and connections watch.
    pub(crate) fn stop(&self) -> Stop {
        Stop::new(&self.shared.shutdown, self.shared.timeouts.shutdown)
    }

    /// Returns the broker.
    #[must_use]
    pub fn broker(&self) -> &Broker {
        &self.shared.broker
    }

    /// Returns whether the server accepts connections and its broker accepts calls: not during a shutdown, nor after the disk
    /// of the broker has failed.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        !*self.shared.shutdown.borrow() && self.shared.broker.is_open()
    }

    /// Returns the number of connections, authenticated or not, and including those of HTTP.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.places.connections()
    }
}

impl Builder {
    /// Sets the broker to serve. By default it is a new one in memory.
    pub fn broker(mut self, broker: Broker) -> Self {
        self.broker = Some(broker);
        self
    }

    /// Sets who decides what clients may do. [`AllowAll`] by default.
    pub fn authorizer(mut self, authorizer: impl Authorizer) -> Self {
        self.authorizer = Arc::new(authorizer);
        self
    }

    /// Sets whether an entity that does not exist is created when a client attaches a link to it. True by default.
    ///
    /// An address is created as a queue; `topic/Subscriptions/name` as a topic and its subscription.
    pub fn create_entities(mut self, create: bool) -> Self {
        self.create_entities = create;
        self
    }

    /// Sets the limits.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the timeouts.
    pub fn timeouts(mut self, timeouts: Timeouts) -> Self {
        self.timeouts = timeouts;
        self
    }

    /// Creates the server. It serves nothing yet. Limits outside of their range are clamped to it.
    #[must_use]
    pub fn build(self) -> Server {
        let Self { broker, authorizer, mut limits, timeouts, create_entities } = self;
        limits.max_connections = limits.max_connections.clamp(1, Semaphore::MAX_PERMITS);
        limits.max_unauthenticated = limits.max_unauthenticated.max(1);
        limits.sender_credit = limits.sender_credit.max(1);
        let shared = Shared {
            broker: broker.unwrap_or_default(),
            authorizer,
            places: Places::new(&limits),
            refusals: Semaphore::new(MAX_REFUSALS),
            limits,
            timeouts,
            create_entities,
            container_id: Str::from(format!("consign-{}", uuid::Uuid::new_v4())),
            shutdown: watch::Sender::new(false),
            locks: Locks::default(),
        };
        Server { shared: Arc::new(shared) }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("connections", &self.connections()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("create_entities", &self.create_entities)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}
