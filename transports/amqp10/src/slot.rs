use std::sync::Weak;

use consign_amqp::client::Connection;
use tokio::{sync::Mutex, time::Instant};

use crate::error::Failure;

/// The connection of a dialer, and how it was reached.
#[derive(Default)]
pub(crate) struct Slot {
    pub(crate) connection: Option<Connection>,
    /// The server that was connected last.
    pub(crate) server: usize,
    /// Attempts that have failed since.
    pub(crate) failures: u32,
    pub(crate) not_before: Option<Instant>,
    pub(crate) has_connected: bool,
}

pub(crate) type WeakSlot = Weak<Mutex<Slot>>;

/// Closes the connection of a dialer.
pub(crate) async fn close(slot: &Mutex<Slot>) -> Result<(), Failure> {
    let connection = slot.lock().await.connection.take();
    match connection {
        Some(connection) if !connection.is_closed() => Ok(connection.close().await?),
        _ => Ok(()),
    }
}
