//! Whether a connection that was opened is of use.

use consign_amqp::client::{self, Connection, Session};
use consign_core::transport::ErrorKind;
use parking_lot::Mutex;

use crate::error::Failure;

/// A server that is about to stop may open a connection and end it at its first session or link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Progress {
    #[default]
    Unused,
    /// No link was attached yet.
    Tried,
    Useful,
}

/// Begins a session. A connection on which that is not answered is closed: in a task, as the deadline of a caller may be sooner.
pub(crate) async fn begin(connection: &Connection, progress: &Mutex<Progress>) -> Result<Session, Failure> {
    {
        let mut progress = progress.lock();
        if *progress == Progress::Unused {
            *progress = Progress::Tried;
        }
    }
    let connection = connection.clone();
    let beginning = tokio::spawn(async move {
        let begun = connection.begin().await;
        if let Err(client::Error::TimedOut { .. }) = &begun {
            // The next call opens another one, whether or not the server confirms it.
            tokio::spawn(connection.close());
        }
        begun
    });
    let ended = |_| Failure::new(ErrorKind::General, "the task of the session has ended");
    Ok(beginning.await.map_err(ended)??)
}
