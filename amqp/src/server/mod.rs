//! The server's end of a connection on a stream, feature `tokio`.
//!
//! [`Acceptor`] does the handshakes of TLS and WebSocket on a stream first.
//! [`Connection::accept`] starts a task that reads, writes and keeps time. The application handles the
//! [events](Connection::next_event) of the engine, and gives it commands:
//!
//! ```no_run
//! use consign_amqp::{
//!     engine::{Event, Options},
//!     server::Connection,
//!     types::{Accepted, Attach, Open, Role},
//! };
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
//! let (stream, _) = listener.accept().await?;
//! stream.set_nodelay(true)?;
//! let mut connection = Connection::accept(stream, Options::default());
//! while let Some(event) = connection.next_event().await {
//!     connection.command(|engine| match event {
//!         Event::Opened(_) => engine.open(Open { container_id: "broker".into(), ..Open::default() }),
//!         Event::AttachRequested { link, attach } => {
//!             let answer = Attach { source: attach.source, target: attach.target, ..Attach::default() };
//!             engine.accept(link, answer)?;
//!             if attach.role == Role::Sender { engine.credit(link, 100) } else { Ok(()) }
//!         }
//!         Event::Delivery(delivery) => {
//!             engine.settle(delivery.link, [delivery.id], Some(&Accepted {}.into()), true).map(drop)
//!         }
//!         _ => Ok(()),
//!     })?;
//! }
//! # Ok(())
//! # }
//! ```

mod acceptor;

use std::{
    fmt,
    future::poll_fn,
    pin::pin,
    sync::Arc,
    task::{Poll, Waker},
};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::Notify,
};

use crate::{
    driver::{Application, Shared},
    engine::{Connection as Engine, Event, Options},
};

pub use self::acceptor::Acceptor;

/// The server's end of a connection. Dropping it closes the connection.
pub struct Connection {
    commands: Commands,
    closed: bool,
}

/// Gives commands to the engine of a connection, from any task.
///
/// The connection stays open without it, and closes while there are some.
#[derive(Clone)]
pub struct Commands {
    shared: Arc<Shared<Events>>,
}

/// Events stay in the engine until they are taken: at its limit of events, it reads no further.
struct Events {
    waiting: Option<Waker>,
    /// Wakes the tasks that wait for output to be written.
    written: Arc<Notify>,
}

impl Application for Events {
    fn handle(&mut self, engine: &mut Engine) -> bool {
        if engine.has_event()
            && let Some(waiting) = self.waiting.take()
        {
            waiting.wake();
        }
        if engine.is_closed() {
            self.written.notify_waiters();
        }
        false
    }

    fn written(&mut self) {
        self.written.notify_waiters();
    }
}

impl Connection {
    /// Starts the server's end of a connection on an accepted stream.
    ///
    /// # Panics
    /// Panics if it is called outside of a Tokio runtime with time.
    pub fn accept<S>(stream: S, options: Options) -> Self
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let events = Events { waiting: None, written: Arc::default() };
        let shared = Shared::start(stream, events, |now| Engine::server(options, now));
        Self { commands: Commands { shared }, closed: false }
    }

    /// Waits for the next event. None follows [`Event::Closed`].
    ///
    /// Dropping the future loses no event.
    pub async fn next_event(&mut self) -> Option<Event> {
        if self.closed {
            return None;
        }
        let shared = &self.commands.shared;
        let (event, was_blocked) = poll_fn(|cx| {
            shared.read(|engine, events| {
                let was_blocked = engine.is_blocked();
                let Some(event) = engine.poll_event() else {
                    events.waiting = Some(cx.waker().clone());
                    return Poll::Pending;
                };
                Poll::Ready((event, was_blocked))
            })
        })
        .await;
        if was_blocked {
            // The task reads on if it waited for this.
            shared.command(|_, _| ());
        }
        self.closed = matches!(event, Event::Closed { .. });
        Some(event)
    }

    /// Gives commands to the engine. What they append to its output is written in one go.
    pub fn command<R>(&self, command: impl FnOnce(&mut Engine) -> R) -> R {
        self.commands.run(command)
    }

    /// Returns a handle that gives commands from other tasks.
    #[must_use]
    pub fn commands(&self) -> Commands {
        self.commands.clone()
    }
}

impl Commands {
    /// Gives commands to the engine. What they append to its output is written in one go.
    ///
    /// The connection waits while `command` runs: it should be short, and must not run a command itself.
    pub fn run<R>(&self, command: impl FnOnce(&mut Engine) -> R) -> R {
        self.shared.command(|engine, _| command(engine))
    }

    /// Waits until the engine takes deliveries again: its output is [full](Engine::is_output_full) no longer, or the connection is
    /// closed. No event reports this.
    pub async fn writable(&self) {
        let written = self.shared.read(|_, events| Arc::clone(&events.written));
        loop {
            let mut notified = pin!(written.notified());
            // A write between the check and the wait counts.
            notified.as_mut().enable();
            if self.shared.read(|engine, _| engine.is_closed() || !engine.is_output_full()) {
                return;
            }
            notified.await;
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // A closed connection refuses it.
        let _ = self.command(|engine| engine.close(None));
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("closed", &self.closed).finish_non_exhaustive()
    }
}

impl fmt::Debug for Commands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Commands").finish_non_exhaustive()
    }
}
