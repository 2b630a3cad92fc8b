//! Listeners: each connection has a task of its own.

use std::{future::Future, io, sync::Arc, time::Duration};

use consign_amqp::server::Acceptor;
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

use crate::{Server, connection, stop::Stop};

/// How long to wait after a failed accept, such as one for want of a file descriptor.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves each stream of a listener in a task of its own. At the stop no more are accepted, and tasks that do not end in time are
/// aborted.
pub(crate) async fn accept_each<F>(listener: TcpListener, stop: &Stop, serve: impl Fn(TcpStream) -> F) -> io::Result<()>
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.requested() => break,
            Some(ended) = connections.join_next() => {
                if let Err(error) = ended {
                    tracing::warn!(%error, "the task of a connection has failed");
                }
                continue;
            }
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                // Without it the connection is slower, not wrong.
                let _ = stream.set_nodelay(true);
                connections.spawn(serve(stream));
            }
            Err(error) => {
                tracing::warn!(%error, "a connection was not accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    let closed = async { while connections.join_next().await.is_some() {} };
    // A client need not read, nor confirm a close.
    let _ = tokio::time::timeout(stop.limit(), closed).await;
    connections.shutdown().await;
    Ok(())
}

impl Server {
    /// Serves the connections of a listener as [`Server::serve`] does, after the handshakes of an acceptor: TLS, WebSocket,
    /// or both.
    ///
    /// A connection whose handshakes fail is closed. One in handshakes counts toward
    /// [`Limits::max_unauthenticated`](crate::Limits::max_unauthenticated), and is closed at the shutdown.
    ///
    /// # Errors
    /// Those of [`Server::serve`].
    ///
    /// # Cancel safety
    /// Dropping the future closes the connections without a close frame.
    pub async fn serve_with(&self, listener: TcpListener, acceptor: Acceptor) -> io::Result<()> {
        let stop = self.stop();
        let serve = |stream| {
            let (shared, acceptor, stop) = (Arc::clone(self.shared()), acceptor.clone(), stop.clone());
            async move {
                let place = shared.places.enter();
                let evicted = place.evicted();
                let accepted = tokio::select! {
                    accepted = acceptor.accept(stream) => accepted,
                    () = evicted.notified() => return,
                    () = stop.requested() => return,
                };
                match accepted {
                    Ok(stream) => connection::serve(stream, place, &shared).await,
                    // Anyone may connect and not go on: no operator has to act.
                    Err(error) => tracing::debug!(error = &error as &dyn std::error::Error, "a handshake failed"),
                }
            }
        };
        accept_each(listener, &stop, serve).await
    }
}
