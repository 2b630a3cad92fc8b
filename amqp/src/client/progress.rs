//! How far a connection has come.

use std::sync::atomic::{AtomicU8, Ordering};

use super::{Connection, Error, Session};
use crate::engine::Reason;

/// What a connection was used for. A server that is about to stop may open a connection, and end it at its first session or link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// No session was begun.
    Opened,
    /// A session was begun, or is being begun, and no link was attached.
    Begun,
    /// A link was attached.
    Attached,
}

/// The progress of a connection.
#[derive(Default)]
pub(super) struct Reached(AtomicU8);

impl Reached {
    const BEGUN: u8 = 1;
    const ATTACHED: u8 = 2;

    pub(super) fn begun(&self) {
        self.0.fetch_max(Self::BEGUN, Ordering::Relaxed);
    }

    pub(super) fn attached(&self) {
        self.0.fetch_max(Self::ATTACHED, Ordering::Relaxed);
    }

    fn get(&self) -> Progress {
        match self.0.load(Ordering::Relaxed) {
            0 => Progress::Opened,
            Self::BEGUN => Progress::Begun,
            _ => Progress::Attached,
        }
    }
}

impl Connection {
    /// Returns what the connection was used for.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.inner.reached.get()
    }

    /// Begins a session like [`Connection::begin`], and closes the connection if the server does not answer, also if this future is
    /// dropped before that.
    ///
    /// # Errors
    /// Those of [`Connection::begin`].
    pub async fn begin_or_close(&self) -> Result<Session, Error> {
        let connection = self.clone();
        let beginning = tokio::spawn(async move {
            let begun = connection.begin().await;
            if let Err(Error::TimedOut { .. }) = &begun {
                // No later call uses it, whether or not the server confirms that.
                let _ = connection.inner.shared.command(|engine, _| engine.close(None));
            }
            begun
        });
        // The task ends early with its runtime alone.
        beginning.await.unwrap_or(Err(Error::Closed(Reason::Local(None))))
    }
}
