//! Listeners whose streams have handshakes before AMQP.

use std::{io, sync::Arc};

use consign_amqp::server::Acceptor;
use tokio::net::TcpListener;

use crate::{Server, connection};

impl Server {
    /// Serves the connections of a listener as [`Server::serve`] does, after the handshakes of an acceptor: TLS, WebSocket,
    /// or both.
    ///
    /// A connection whose handshakes fail is closed. One in handshakes counts toward
    /// [`Limits::max_unauthenticated`](crate::Limits::max_unauthenticated).
    ///
    /// # Errors
    /// Those of [`Server::serve`].
    ///
    /// # Cancel safety
    /// Dropping the future closes the connections without a close frame.
    pub async fn serve_with(&self, listener: TcpListener, acceptor: Acceptor) -> io::Result<()> {
        let serve = |stream| {
            let (shared, acceptor) = (Arc::clone(self.shared()), acceptor.clone());
            async move {
                let place = shared.places.enter();
                let evicted = place.evicted();
                let accepted = tokio::select! {
                    accepted = acceptor.accept(stream) => accepted,
                    () = evicted.notified() => return,
                };
                match accepted {
                    Ok(stream) => connection::serve(stream, place, &shared).await,
                    // Anyone may connect and not go on: no operator has to act.
                    Err(error) => tracing::debug!(error = &error as &dyn std::error::Error, "a handshake failed"),
                }
            }
        };
        self.accept_each(listener, serve).await
    }
}
