use std::{fmt, future::Future, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, ToSocketAddrs},
    sync::Notify,
    time::{Instant, timeout, timeout_at},
};

use super::{Error, Options, Session, progress::Reached, routes::Routes};
use crate::{
    driver::{FAR, Shared},
    engine::{CommandError, Connection as Engine},
    types::{Begin, Open},
};

/// The client's end of a connection. Clones are handles of the same connection.
#[derive(Clone)]
pub struct Connection {
    pub(super) inner: Arc<Inner>,
}

/// Closes the connection when the last handle is dropped.
pub(super) struct Inner {
    pub(super) shared: Arc<Shared<Routes>>,
    pub(super) reached: Reached,
    timeout: Duration,
}

impl Connection {
    /// Connects over TCP, without TLS and with `TCP_NODELAY`, and opens a connection.
    ///
    /// # Errors
    /// The host cannot be reached, and those of [`Connection::open`].
    ///
    /// # Panics
    /// Panics if it is called outside of a Tokio runtime with I/O and time.
    pub async fn connect(address: impl ToSocketAddrs, options: Options) -> Result<Self, Error> {
        let connect = async {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            Ok(stream)
        };
        let stream = within(options.timeout, "connection", connect).await?.map_err(Error::Connect)?;
        Self::open(stream, options).await
    }

    /// Opens a connection on a stream, and waits until the server has opened it too.
    ///
    /// # Errors
    /// - [`Error::Closed`]: the server refused the credentials or the connection, or violated the protocol.
    /// - [`Error::TimedOut`]: the server did not answer.
    /// - [`Error::Command`]: the options do not fit into a frame.
    ///
    /// # Panics
    /// Panics if it is called outside of a Tokio runtime with time.
    pub async fn open<S>(stream: S, options: Options) -> Result<Self, Error>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (engine, open, timeout) = (options.engine.clone(), options.to_open(), options.timeout);
        let mut opened = Ok(());
        let shared = Shared::start(stream, Routes::default(), |now| {
            let mut connection = Engine::client(engine, now);
            opened = connection.open(open);
            connection
        });
        let this = Self { inner: Arc::new(Inner { shared, reached: Reached::default(), timeout }) };
        opened?;
        let changed = this.inner.shared.read(|_, routes| Arc::clone(&routes.changed));
        this.inner
            .wait("open", &changed, |_, routes| match &routes.closed {
                Some(reason) => Some(Err(Error::Closed(reason.clone()))),
                None => routes.opened.is_some().then_some(Ok(())),
            })
            .await?;
        Ok(this)
    }

    /// Begins a session, and waits until the server has begun it too.
    ///
    /// # Errors
    /// - [`Error::Ended`], [`Error::Closed`]: the server refused the session, or the connection is closed.
    /// - [`Error::TimedOut`]: the server did not answer.
    /// - [`Error::Command`]: too many sessions.
    pub async fn begin(&self) -> Result<Session, Error> {
        Session::begin(self, Begin::default()).await
    }

    /// Returns the open of the server.
    #[must_use]
    pub fn peer(&self) -> Arc<Open> {
        self.inner.shared.read(|_, routes| routes.opened.clone()).unwrap_or_default()
    }

    /// Returns whether the connection is closed or closing.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.inner.shared.read(|engine, _| !engine.is_open())
    }

    /// Waits until the connection is closed, and returns why.
    pub async fn closed(&self) -> Error {
        let changed = self.inner.shared.read(|_, routes| Arc::clone(&routes.changed));
        self.inner.wait_for_ever(&changed, |_, routes| routes.closed.clone().map(Error::Closed)).await
    }

    /// Closes the connection, and waits until the server has confirmed it. All of its sessions and links end.
    ///
    /// # Errors
    /// [`Error::Closed`] if it was closed before, or the server has reported an error.
    pub async fn close(self) -> Result<(), Error> {
        let outcome = self.inner.shared.command(|engine, _| engine.close(None));
        if let Err(error) = outcome
            && error != CommandError::Closed
        {
            return Err(error.into());
        }
        let closed = within(self.inner.timeout, "close", self.closed()).await?;
        match closed {
            Error::Closed(crate::engine::Reason::Local(None)) => Ok(()),
            error => Err(error),
        }
    }
}

impl Inner {
    /// Waits until `check` returns something. It is called again after each notice, and after [`Options::timeout`] no more.
    pub(super) async fn wait<T>(
        &self,
        waiting_for: &'static str,
        changed: &Notify,
        check: impl FnMut(&mut Engine, &mut Routes) -> Option<Result<T, Error>>,
    ) -> Result<T, Error> {
        self.wait_until(self.deadline(), waiting_for, changed, check).await
    }

    /// Waits like [`Inner::wait`], until a deadline.
    pub(super) async fn wait_until<T>(
        &self,
        deadline: Instant,
        waiting_for: &'static str,
        changed: &Notify,
        check: impl FnMut(&mut Engine, &mut Routes) -> Option<Result<T, Error>>,
    ) -> Result<T, Error> {
        self.until(deadline, waiting_for, self.wait_for_ever(changed, check)).await?
    }

    /// Returns when a call that begins now has to end.
    pub(super) fn deadline(&self) -> Instant {
        let now = Instant::now();
        now.checked_add(self.timeout).unwrap_or_else(|| now + FAR)
    }

    /// Ends a wait of a call at its deadline.
    pub(super) async fn until<T>(
        &self,
        deadline: Instant,
        waiting_for: &'static str,
        future: impl Future<Output = T>,
    ) -> Result<T, Error> {
        timeout_at(deadline, future).await.map_err(|_| Error::TimedOut { waiting_for, after: self.timeout })
    }

    async fn wait_for_ever<T>(
        &self,
        changed: &Notify,
        mut check: impl FnMut(&mut Engine, &mut Routes) -> Option<T>,
    ) -> T {
        loop {
            let mut notified = std::pin::pin!(changed.notified());
            // A notice between the check and the wait counts.
            notified.as_mut().enable();
            if let Some(result) = self.shared.command(&mut check) {
                return result;
            }
            notified.await;
        }
    }

    /// Ends a wait after [`Options::timeout`].
    pub(super) async fn within<T>(
        &self,
        waiting_for: &'static str,
        future: impl Future<Output = T>,
    ) -> Result<T, Error> {
        within(self.timeout, waiting_for, future).await
    }
}

async fn within<T>(after: Duration, waiting_for: &'static str, future: impl Future<Output = T>) -> Result<T, Error> {
    timeout(after, future).await.map_err(|_| Error::TimedOut { waiting_for, after })
}

impl Drop for Inner {
    fn drop(&mut self) {
        // A closed connection refuses it.
        let _ = self.shared.command(|engine, _| engine.close(None));
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("closed", &self.is_closed()).finish_non_exhaustive()
    }
}
