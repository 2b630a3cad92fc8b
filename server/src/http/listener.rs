//! The connections of HTTP.

use std::{
    convert::Infallible,
    future::{Future, pending},
    io,
    pin::pin,
    sync::Arc,
    time::Duration,
};

use axum::{Router, extract::Request, response::Response};
use consign_amqp::stream::Stream;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
};
use tower_service::Service;

use super::{
    HttpOptions,
    connections::{Connections, Place},
    framing::{Framed, Framing},
    router::{router, routes_alone},
    stall::Stall,
    web_socket::{self, Upgrade},
};
use crate::{Server, listen::accept_each, log::warn_of, stop::Stop};

/// What the connections of a listener share.
struct Listener {
    /// None if there are routes alone.
    server: Option<Server>,
    options: HttpOptions,
    router: Router,
    connections: Arc<Connections>,
    stop: Stop,
}

impl Server {
    /// Serves HTTP/1.1 on the connections of a listener until [`Server::shutdown`] is called, and waits for them to close: messages, the
    /// administration of entities, and AMQP over WebSocket on the path `/$servicebus/websocket`.
    ///
    /// Requests that have begun are answered at the shutdown, within [`Timeouts::shutdown`](crate::Timeouts::shutdown). Then their
    /// connections are dropped.
    ///
    /// # Errors
    /// Those of [`Server::serve`].
    ///
    /// # Cancel safety
    /// Dropping the future closes the connections.
    pub async fn serve_http(&self, listener: TcpListener, options: HttpOptions) -> io::Result<()> {
        let router = router(self, &options);
        Listener::new(Some(self.clone()), options, router, self.stop()).accept(listener).await
    }
}

/// Serves the [`routes`](HttpOptions::routes) of options alone, such as those of a web page over another broker, until `shutdown` is
/// ready. The limits of the options apply, except `body_timeout`: a handler that reads a body limits its time.
///
/// Requests that have begun are answered at the shutdown, within `shutdown_timeout`. Then their connections are dropped.
///
/// # Errors
/// Those of [`Server::serve`].
///
/// # Cancel safety
/// Dropping the future closes the connections.
pub async fn serve_routes(
    listener: TcpListener,
    options: HttpOptions,
    shutdown: impl Future<Output = ()>,
    shutdown_timeout: Duration,
) -> io::Result<()> {
    let requested = watch::Sender::new(false);
    let router = routes_alone(&options);
    let shared = Listener::new(None, options, router, Stop::new(&requested, shutdown_timeout));
    let stopping = async {
        shutdown.await;
        requested.send_replace(true);
    };
    let (served, ()) = tokio::join!(shared.accept(listener), stopping);
    served
}

impl Listener {
    fn new(server: Option<Server>, options: HttpOptions, router: Router, stop: Stop) -> Arc<Self> {
        let connections = Connections::new(options.max_connections);
        Arc::new(Self { server, options, router, connections, stop })
    }

    async fn accept(self: Arc<Self>, listener: TcpListener) -> io::Result<()> {
        accept_each(listener, &self.stop, |stream| Arc::clone(&self).connection(stream)).await
    }

    async fn connection(self: Arc<Self>, stream: TcpStream) {
        let Some(place) = self.connections.enter() else {
            warn_of!("HttpConnectionLimit", "a connection of HTTP over the limit was closed");
            return;
        };
        let counted = self.server.as_ref().and_then(Server::count_connection);
        let upgrade = Upgrade::default();
        let accepted = tokio::select! {
            accepted = self.options.acceptor.accept(stream) => accepted,
            () = place.closed() => return,
            () = self.stop.requested() => return,
        };
        match accepted {
            Ok(stream) => self.requests(stream, upgrade.clone(), &place).await,
            // Anyone may connect and not go on: no operator has to act.
            Err(error) => tracing::debug!(error = &error as &dyn std::error::Error, "a handshake failed"),
        }
        drop((place, counted));
        if let Some(server) = &self.server
            && let Some(upgrade) = upgrade.take()
            && let Ok(upgraded) = upgrade.await
        {
            let stream = web_socket::options().upgraded(TokioIo::new(upgraded)).await;
            server.amqp(stream).await;
        }
    }

    /// Answers the requests of a connection until it is closed or upgraded.
    async fn requests(&self, stream: Stream, upgrade: Upgrade, place: &Place) {
        let framing = Framing::default();
        let service = service_fn(|mut request: Request<Incoming>| {
            request.extensions_mut().insert(upgrade.clone());
            request.extensions_mut().insert(framing.clone());
            request.extensions_mut().insert(place.clone());
            let in_progress = place.begin();
            let mut router = self.router.clone();
            async move {
                // Nothing is done for a connection that is closed in this moment.
                let Some(in_progress) = in_progress else { return pending().await };
                // A router is always ready.
                let answered: Result<Response, Infallible> = router.call(request).await;
                answered.map(|response| response.map(|body| in_progress.until_end_of(body)))
            }
        });
        let stream = Framed::new(stream, framing.clone(), upgrade.clone());
        let stream = Stall::new(stream, self.options.write_timeout, upgrade.clone()).place(place.clone());
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.options.header_timeout)
            .max_headers(self.options.max_headers)
            .max_buf_size(self.options.header_size())
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        let mut connection = pin!(connection);
        let served = tokio::select! {
            biased;
            () = place.closed() => return,
            served = connection.as_mut() => served,
            () = self.stop.requested() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = served {
            tracing::debug!(error = &error as &dyn std::error::Error, "a connection of HTTP failed");
        }
    }
}
