//! The servers of an address, and the connection to one of them, which is opened again when it breaks.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use consign_core::transport::{ErrorKind, ServerAddress};
use lapin::{
    Channel, Connection, ConnectionBuilder, ConnectionProperties,
    tcp::{OwnedIdentity, OwnedTLSConfig},
    uri::AMQPUri,
};
use tokio::{
    sync::{Mutex, OwnedMutexGuard},
    task::AbortHandle,
    time::Instant,
};

use crate::{
    Options,
    blocked::Blocked,
    error::{Failure, within},
    log,
};

pub(crate) struct Servers {
    options: Arc<Options>,
    /// In the order of the address.
    uris: Box<[AMQPUri]>,
    slot: Arc<Mutex<Slot>>,
    /// How many attempts to connect have ended.
    attempts: AtomicU64,
    is_closed: AtomicBool,
    pub(crate) blocked: Blocked,
    /// The attempt to connect that is in progress.
    connecting: parking_lot::Mutex<Option<AbortHandle>>,
}

#[derive(Default)]
struct Slot {
    connection: Option<Arc<Connection>>,
    /// Of the connection.
    number: u64,
    /// Channels that were opened on it.
    opened: usize,
    /// Connections that get no further channel. Each lives as long as a channel of it is leased.
    left: Vec<Weak<Connection>>,
    /// Which server the connection is to, or was.
    server: usize,
    failures: u32,
    not_before: Option<Instant>,
    /// The result of the last attempt, and its number.
    last: Option<(u64, Failure)>,
}

impl Slot {
    /// lapin gives each channel the next number, and begins with the first again after the last. It refuses for good a number
    /// whose channel the broker has closed. So a connection is left when each of its numbers was used once.
    fn retire(&mut self) {
        let numbers = |connection: &Connection| match connection.configuration().channel_max() {
            0 => usize::from(u16::MAX),
            most => usize::from(most),
        };
        if self.connection.as_ref().is_some_and(|connection| self.opened >= numbers(connection)) {
            self.leave();
        }
    }

    fn leave(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.left.retain(|connection| connection.strong_count() > 0);
            self.left.push(Arc::downgrade(&connection));
        }
    }

    /// Returns the connection for one more channel, if it works.
    fn connected(&mut self) -> Option<Arc<Connection>> {
        let connection = self.connection.as_ref().filter(|connection| connection.status().connected())?;
        self.opened += 1;
        Some(Arc::clone(connection))
    }
}

impl Servers {
    pub(crate) fn new(options: Arc<Options>, uris: Box<[AMQPUri]>) -> Arc<Self> {
        Arc::new(Self {
            options,
            uris,
            slot: Arc::default(),
            attempts: AtomicU64::new(0),
            is_closed: AtomicBool::new(false),
            blocked: Blocked::default(),
            connecting: parking_lot::Mutex::default(),
        })
    }

    pub(crate) fn uris(&self) -> &[AMQPUri] {
        &self.uris
    }

    /// Returns the only server. `None` with several: a caller that keeps it would have the wrong one after a reconnection.
    pub(crate) fn only(&self) -> Option<ServerAddress> {
        let [only] = &*self.uris else { return None };
        Some(ServerAddress::new(only.authority.host.as_str()).with_port(only.authority.port))
    }

    /// Returns whether new channels are opened on this connection.
    pub(crate) fn is_present(&self, connection: &Arc<Connection>) -> bool {
        // While another call has the lock, it may replace the connection.
        let slot = self.slot.try_lock();
        slot.is_ok_and(|slot| slot.connection.as_ref().is_some_and(|present| Arc::ptr_eq(present, connection)))
    }

    /// Opens a channel. A missing connection is opened, not before the pause after the last failure is over.
    pub(crate) async fn channel(self: &Arc<Self>) -> Result<(Arc<Connection>, Channel), Failure> {
        let connection = self.connection().await?;
        let opened = within(self.options.timeout, "channel.open", connection.create_channel()).await;
        if opened.as_ref().is_err_and(|failure| failure.kind() == ErrorKind::ServiceTimeout) {
            // No channel would be opened on it.
            let mut slot = self.slot.lock().await;
            if slot.connection.as_ref().is_some_and(|present| Arc::ptr_eq(present, &connection)) {
                log::unusable(&self.uris[slot.server]);
                slot.leave();
            }
        }
        Ok((connection, opened.map_err(|failure| failure.explained(self.blocked.reason()))?))
    }

    async fn connection(self: &Arc<Self>) -> Result<Arc<Connection>, Failure> {
        let ended = self.attempts.load(Ordering::Relaxed);
        let mut slot = Arc::clone(&self.slot).lock_owned().await;
        if self.is_closed.load(Ordering::Acquire) {
            return Err(closed());
        }
        slot.retire();
        if let Some(connection) = slot.connected() {
            return Ok(connection);
        }
        if slot.connection.take().is_some() {
            log::lost(&self.uris[slot.server]);
            // Its events end with its last delivery.
            self.blocked.forget(slot.number);
        }
        // An attempt that failed while this one waited for its turn counts as its own.
        if let Some((attempt, failure)) = &slot.last
            && *attempt > ended
        {
            return Err(failure.clone());
        }
        // A caller that waits no longer would end the attempt at a server that does not answer, and the next caller would begin
        // with the same server again.
        let attempt = tokio::spawn(Arc::clone(self).fill(slot));
        *self.connecting.lock() = Some(attempt.abort_handle());
        if self.is_closed.load(Ordering::Acquire) {
            attempt.abort();
        }
        attempt.await.unwrap_or_else(|_| Err(closed()))
    }

    /// Connects to the first server that answers.
    async fn fill(self: Arc<Self>, mut slot: OwnedMutexGuard<Slot>) -> Result<Arc<Connection>, Failure> {
        if let Some(at) = slot.not_before {
            tokio::time::sleep_until(at).await;
        }
        let connected = self.connect_any(slot.server).await;
        let attempt = self.attempts.fetch_add(1, Ordering::Relaxed) + 1;
        match connected {
            Ok((server, connection)) => {
                if slot.failures > 0 || attempt > 1 {
                    log::connected(&self.uris[server], slot.failures);
                }
                let events = connection.events_listener();
                tokio::spawn(self.blocked.clone().watch(attempt, log::server(&self.uris[server]), events));
                let (connection, left) = (Arc::new(connection), std::mem::take(&mut slot.left));
                let present = Some(Arc::clone(&connection));
                *slot = Slot { connection: present, number: attempt, opened: 1, server, left, ..Slot::default() };
                Ok(connection)
            }
            Err((server, error)) => {
                let pause = self.pause(slot.failures);
                log::not_connected(&self.uris[server], &error, pause);
                slot.not_before = Some(Instant::now() + pause);
                slot.failures = slot.failures.saturating_add(1);
                slot.last = Some((attempt, error.clone()));
                Err(error)
            }
        }
    }

    /// Tries each server once, first the one that was connected last. Returns which one answered, or the last one with its
    /// error.
    async fn connect_any(&self, first: usize) -> Result<(usize, Connection), (usize, Failure)> {
        let mut failed: Option<(usize, Failure)> = None;
        for server in (first..self.uris.len()).chain(0..first) {
            if let Some((before, error)) = failed.take() {
                log::next_server(&self.uris[before], &error);
            }
            match self.connect(&self.uris[server]).await {
                Ok(connection) => return Ok((server, connection)),
                Err(error) => failed = Some((server, error)),
            }
        }
        Err(failed.unwrap_or_else(|| (0, Failure::gone("the address has no server"))))
    }

    async fn connect(&self, uri: &AMQPUri) -> Result<Connection, Failure> {
        let mut properties = ConnectionProperties::default();
        if let Some(name) = &self.options.name {
            properties = properties.with_connection_name(name.as_str().into());
        }
        let identity = self
            .options
            .client_certificate
            .as_ref()
            .map(|(chain, key)| OwnedIdentity::PKCS8 { pem: chain.as_bytes().to_vec(), key: key.as_bytes().to_vec() });
        let tls = OwnedTLSConfig { identity, cert_chain: self.options.certificates.clone() };
        let connecting = async {
            let builder = ConnectionBuilder::new()?.with_uri(uri.clone());
            builder.with_properties(properties).with_tls_config(tls).connect().await
        };
        within(self.options.timeout, "connection", connecting).await.map_err(refused)
    }

    fn pause(&self, failures: u32) -> Duration {
        let (first, longest) = self.options.backoff;
        let pause = first.saturating_mul(1 << failures.min(16)).min(longest);
        pause.mul_f64(0.5 + fastrand::f64() / 2.0)
    }

    /// Closes the connection, and opens no other.
    pub(crate) async fn close(&self) {
        self.stop();
        let mut slot = self.slot.lock().await;
        let left = std::mem::take(&mut slot.left);
        for connection in slot.connection.take().into_iter().chain(left.iter().filter_map(Weak::upgrade)) {
            let _ = within(self.options.timeout, "connection.close", connection.close(200, "OK".into())).await;
        }
    }

    /// Ends an attempt to connect, and begins no other.
    pub(crate) fn stop(&self) {
        self.is_closed.store(true, Ordering::Release);
        if let Some(connecting) = self.connecting.lock().take() {
            connecting.abort();
        }
    }
}

fn closed() -> Failure {
    Failure::gone("it was closed")
}

/// A broker that refuses a login or a virtual host closes the connection with these.
fn refused(failure: Failure) -> Failure {
    match failure.kind() {
        _ if failure.is_exclusive() => Failure::new(ErrorKind::Unauthorized, "the login was refused"),
        // 530, of a virtual host that is missing or not permitted, or whose connections or those of the user are too many.
        // The names of both are in the text, and may have a part of this.
        ErrorKind::InvalidOperation
            if failure.to_string().contains(" limit (") && failure.to_string().contains(") is reached") =>
        {
            failure.of_kind(ErrorKind::ServiceBusy)
        }
        ErrorKind::InvalidOperation => failure.of_kind(ErrorKind::Unauthorized),
        _ => failure,
    }
}

#[cfg(test)]
mod tests {
    use lapin::protocol::{AMQPError, AMQPErrorKind, AMQPHardError};

    use super::*;

    /// The texts of RabbitMQ 4.
    #[test]
    fn a_refusal_of_a_connection_is_not_one_of_what_it_is_for() {
        for (text, kind) in [
            (
                "NOT_ALLOWED - access to vhost 'shop' refused for user 'u': connection limit (1) is reached",
                ErrorKind::ServiceBusy,
            ),
            (
                "NOT_ALLOWED - connection refused for user 'u': user connection limit (1) is reached",
                ErrorKind::ServiceBusy,
            ),
            ("NOT_ALLOWED - access to vhost 'shop' refused for user 'u'", ErrorKind::Unauthorized),
            ("NOT_ALLOWED - vhost shop not found", ErrorKind::Unauthorized),
            ("NOT_ALLOWED - access to vhost 'unlimited' refused for user 'u'", ErrorKind::Unauthorized),
        ] {
            let error = AMQPError::new(AMQPErrorKind::Hard(AMQPHardError::NOTALLOWED), text.into());
            let failure = refused(lapin::Error::from(lapin::ErrorKind::ProtocolError(error)).into());
            assert_eq!(failure.kind(), kind, "{text}");
        }
    }
}
