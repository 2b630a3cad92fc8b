use std::sync::Weak;

use consign_amqp::client::Connection;
use consign_core::transport::BoxFuture;
use futures_util::future::Shared;
use parking_lot::Mutex;
use tokio::{task::AbortHandle, time::Instant};

use crate::error::Failure;

/// The connection of a dialer, and how it was reached.
#[derive(Default)]
pub(crate) struct Slot {
    pub(crate) connection: Option<Connection>,
    /// The attempt that is under way, for all callers.
    pub(crate) opening: Option<Opening>,
    /// The server that was connected last, or the one after it if that connection was of no use.
    pub(crate) server: usize,
    /// Attempts that have failed since the last connection that was of use.
    pub(crate) failures: u32,
    pub(crate) not_before: Option<Instant>,
    pub(crate) has_connected: bool,
    /// Whether the server has answered a ping on the connection.
    pub(crate) has_answered: bool,
}

/// A task that opens the connection.
pub(crate) struct Opening {
    pub(crate) opened: Shared<BoxFuture<Result<Connection, Failure>>>,
    pub(crate) task: AbortHandle,
}

pub(crate) type WeakSlot = Weak<Mutex<Slot>>;

/// Closes the connection of a dialer, and ends an attempt to open one.
pub(crate) async fn close(slot: &Mutex<Slot>) -> Result<(), Failure> {
    let connection = {
        let mut slot = slot.lock();
        if let Some(opening) = slot.opening.take() {
            opening.task.abort();
        }
        slot.connection.take()
    };
    match connection {
        Some(connection) if !connection.is_closed() => Ok(connection.close().await?),
        _ => Ok(()),
    }
}
