//! Listeners whose streams have handshakes before AMQP.

use std::{io, sync::Arc};

use consign_amqp::server::Acceptor;
use tokio::{net::TcpListener, sync::Semaphore};

use crate::Server;

/// How many connections of a listener may be in handshakes at a time. One more is dropped.
const MAX_HANDSHAKES: usize = 1_024;

impl Server {
    /// Serves the connections of a listener as [`Server::serve`] does, after the handshakes of an acceptor: TLS, WebSocket,
    /// or both.
    ///
    /// A connection whose handshakes fail is closed. There may be 1,024 connections in handshakes at a time.
    ///
    /// # Errors
    /// Those of [`Server::serve`].
    ///
    /// # Cancel safety
    /// Dropping the future closes the connections without a close frame.
    pub async fn serve_with(&self, listener: TcpListener, acceptor: Acceptor) -> io::Result<()> {
        let handshakes = Arc::new(Semaphore::new(MAX_HANDSHAKES));
        let serve = |stream| {
            let (server, acceptor, handshakes) = (self.clone(), acceptor.clone(), Arc::clone(&handshakes));
            async move {
                let Ok(permit) = handshakes.try_acquire() else {
                    tracing::warn!(limit = MAX_HANDSHAKES, "a connection was dropped: too many are in handshakes");
                    return;
                };
                let accepted = acceptor.accept(stream).await;
                drop(permit);
                match accepted {
                    Ok(stream) => server.serve_stream(stream).await,
                    // Anyone may connect and not go on: no operator has to act.
                    Err(error) => tracing::debug!(error = &error as &dyn std::error::Error, "a handshake failed"),
                }
            }
        };
        self.accept_each(listener, serve).await
    }
}
