//! Ends statements whose answer is not waited for any more.
//!
//! The server does not notice that the connection is closed while the statement waits, as for a standby or for its storage. Each
//! such call would leave one more connection there.

use std::{fmt, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use tokio::time::timeout;
use tokio_postgres::{
    CancelToken, Socket,
    tls::{MakeTlsConnect, TlsConnect},
};

/// How long a request may take.
const LONGEST: Duration = Duration::from_secs(5);

/// Sends requests to cancel statements, with the TLS of their connections.
#[derive(Clone)]
pub struct Canceller(Arc<dyn Fn(CancelToken) -> BoxFuture<'static, ()> + Send + Sync>);

impl Canceller {
    /// Creates a canceller that connects with this TLS.
    pub fn new<T>(tls: T) -> Self
    where
        T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
        T::Stream: Send + Sync + 'static,
        T::TlsConnect: Send + Sync,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        Self(Arc::new(move |token| {
            let tls = tls.clone();
            Box::pin(async move {
                // Without it the statement ends as the server decides.
                let _ = timeout(LONGEST, token.cancel_query(tls)).await;
            })
        }))
    }

    /// Cancels in the background what a connection executes. It must be called within a runtime.
    pub fn cancel(&self, token: CancelToken) {
        tokio::spawn((self.0)(token));
    }
}

impl fmt::Debug for Canceller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Canceller").finish_non_exhaustive()
    }
}
