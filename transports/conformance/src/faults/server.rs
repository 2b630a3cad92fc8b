use std::{future::Future, net::SocketAddr, time::Duration};

use consign::{
    administration::{Administration, QueueSettings},
    message::EntityPath,
    transport::{DynTransport, ErrorKind, ManageError},
};

use crate::Failure;

/// A real server, and how a transport connects to it.
pub trait Server: Send + Sync + 'static {
    /// Returns the transport's name: lower case, without spaces.
    fn name(&self) -> &'static str;

    /// Returns the address of the server, on loopback.
    fn address(&self) -> SocketAddr;

    /// Connects to `address`, which is that of a [`Proxy`](super::Proxy) or of the server itself. The connection is separate: a
    /// fault of it affects no other. Calls over a proxy should end after [`deadline`](Self::deadline). Those to the server itself
    /// have no fault, and need the time that they take on a machine that is busy.
    fn connect(&self, address: SocketAddr) -> impl Future<Output = Result<DynTransport, Failure>> + Send;

    /// Returns the deadline of one call over a connection from [`connect`](Self::connect) to a proxy. 2 s.
    fn deadline(&self) -> Duration {
        Duration::from_secs(2)
    }

    /// Returns the settings of the queues. A message must survive many deliveries, and a lost lock should not last long.
    fn queue(&self) -> QueueSettings {
        QueueSettings::default().lock_duration(Duration::from_secs(5)).max_delivery_count(1_000)
    }

    /// Creates a queue that takes `max_size` bytes. By default it is a queue with that setting.
    fn create_small_queue(
        &self,
        transport: &DynTransport,
        path: &EntityPath,
        max_size: u64,
    ) -> impl Future<Output = Result<(), ManageError>> + Send {
        async move { transport.create(path, &QueueSettings::default().max_size(max_size).into()).await }
    }

    /// Returns whether the server answers a settlement. Otherwise, as in AMQP 0-9-1, a completion may be lost although it
    /// seemed to succeed, and the message is redelivered.
    fn answers_settlements(&self) -> bool {
        true
    }

    /// Returns whether an answered settlement survives a kill of the server. Otherwise a run with restarts does not require
    /// that no message is redelivered after its completion.
    fn keeps_settlements(&self) -> bool {
        true
    }

    /// Kills the server, starts it again with the data on its disk, and returns when it listens. Only for a server of the
    /// test's own.
    fn restart(&self) -> impl Future<Output = Result<(), Failure>> + Send {
        async { Err(Failure::answer(ErrorKind::NotSupported, "the server is not the test's own")) }
    }
}
