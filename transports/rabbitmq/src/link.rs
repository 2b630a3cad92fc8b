//! The connection that senders and receivers share, and that is opened again when it breaks.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Waker},
    time::Duration,
};

use consign_core::transport::{ErrorKind, ServerAddress};
use lapin::{
    Channel, Connection, ConnectionBuilder, ConnectionProperties,
    tcp::{OwnedIdentity, OwnedTLSConfig},
    types::ShortString,
    uri::AMQPUri,
};
use tokio::{sync::Mutex, time::Instant};

use crate::{
    Options, address,
    error::{Failure, within},
    log,
    settled::SettledTags,
};

/// The source of channels.
pub(crate) struct Link {
    pub(crate) options: Options,
    source: Source,
    /// How many attempts to connect have ended.
    attempts: AtomicU64,
}

enum Source {
    Servers {
        /// In the order of the address.
        uris: Box<[AMQPUri]>,
        slot: Box<Mutex<Slot>>,
    },
    /// The user's channel. Its `qos` and what follows it must not mix with another's.
    Wrapped { channel: Channel, turn: Arc<Mutex<()>> },
}

#[derive(Default)]
struct Slot {
    connection: Option<Arc<Connection>>,
    /// Channels that were opened on it.
    opened: usize,
    /// Connections that have no number for another channel. Each lives as long as a channel of it is leased.
    used_up: Vec<Weak<Connection>>,
    is_closed: bool,
    /// Which server the connection is to, or was.
    server: usize,
    failures: u32,
    not_before: Option<Instant>,
    /// The result of the last attempt, and its number.
    last: Option<(u64, Failure)>,
}

/// A channel, and the lock that orders its users.
#[derive(Clone)]
pub(crate) struct Leased {
    pub(crate) channel: Channel,
    pub(crate) turn: Arc<Mutex<()>>,
    /// The connection of the channel, if this crate has to close the channel.
    connection: Option<Arc<Connection>>,
    /// What this crate has settled on the channel. On one that was wrapped others settle too.
    settled: Option<Arc<parking_lot::Mutex<SettledTags>>>,
}

impl Leased {
    /// Returns whether both are the same channel.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.turn, &other.turn)
    }

    /// Returns whether both are channels of one connection of this crate.
    pub(crate) fn is_beside(&self, other: &Self) -> bool {
        matches!((&self.connection, &other.connection), (Some(one), Some(two)) if Arc::ptr_eq(one, two))
    }

    /// Returns the settled deliveries of the channel, if this crate settles all of them.
    pub(crate) fn settled(&self) -> Option<&Arc<parking_lot::Mutex<SettledTags>>> {
        self.settled.as_ref()
    }

    /// Ends an operation at its deadline, and closes the channel then: the answer may still come, and with it messages that
    /// are read by nothing. A channel that was wrapped stays open.
    pub(crate) async fn within<T>(
        &self,
        deadline: Duration,
        what: &'static str,
        operation: impl Future<Output = lapin::Result<T>>,
    ) -> Result<T, Failure> {
        let result = within(deadline, what, operation).await;
        if result.as_ref().is_err_and(|failure| failure.kind() == ErrorKind::ServiceTimeout) {
            if self.connection.is_none() {
                log::unanswered(what, deadline);
            }
            let leased = self.clone();
            let mut closing = Box::pin(async move { leased.close(deadline).await });
            // From the first poll on the channel is not used any more.
            if closing.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
                tokio::spawn(closing);
            }
        }
        result
    }

    /// Closes the channel, unless it was wrapped.
    pub(crate) async fn close(&self, deadline: Duration) {
        if self.connection.is_some() && self.channel.status().connected() {
            let _ = within(deadline, "channel.close", self.channel.close(200, ShortString::from("OK"))).await;
        }
    }
}

impl Slot {
    /// lapin gives each channel the next number, and begins with the first again after the last. It refuses for good a number
    /// whose channel the broker has closed. So a connection is left when each of its numbers was used once.
    fn retire(&mut self) {
        let numbers = |connection: &Connection| match connection.configuration().channel_max() {
            0 => usize::from(u16::MAX),
            most => usize::from(most),
        };
        if let Some(connection) = self.connection.take_if(|connection| self.opened >= numbers(connection)) {
            self.used_up.retain(|connection| connection.strong_count() > 0);
            self.used_up.push(Arc::downgrade(&connection));
        }
    }
}

impl Link {
    pub(crate) async fn open(options: Options, address: &str) -> Result<Self, Failure> {
        let mut uris = address::parse(address)?;
        let seconds = u16::try_from(options.heartbeat.as_secs()).unwrap_or(u16::MAX);
        for uri in &mut uris {
            uri.query.heartbeat.get_or_insert(seconds);
        }
        Self::open_uris(options, uris.into()).await
    }

    async fn open_uris(options: Options, uris: Box<[AMQPUri]>) -> Result<Self, Failure> {
        let source = Source::Servers { uris, slot: Box::default() };
        let link = Self { options, source, attempts: AtomicU64::new(0) };
        link.channel().await?.close(link.options.timeout).await;
        Ok(link)
    }

    /// Another connection to the same address.
    pub(crate) async fn again(&self) -> Result<Self, Failure> {
        match &self.source {
            Source::Servers { uris, .. } => Self::open_uris(self.options.clone(), uris.clone()).await,
            Source::Wrapped { .. } => {
                Err(Failure::new(ErrorKind::InvalidOperation, "a channel that was wrapped is the only one"))
            }
        }
    }

    pub(crate) fn wrap(channel: Channel) -> Self {
        let source = Source::Wrapped { channel, turn: Arc::default() };
        Self { options: Options::default(), source, attempts: AtomicU64::new(0) }
    }

    /// Returns the only server. `None` with several: a caller that keeps it would have the wrong one after a reconnection.
    pub(crate) fn server(&self) -> Option<ServerAddress> {
        let Source::Servers { uris, .. } = &self.source else { return None };
        let [only] = &**uris else { return None };
        Some(ServerAddress::new(only.authority.host.as_str()).with_port(only.authority.port))
    }

    pub(crate) fn is_wrapped(&self) -> bool {
        matches!(self.source, Source::Wrapped { .. })
    }

    pub(crate) fn deadline(&self) -> Duration {
        self.options.timeout
    }

    /// Opens a channel for one caller; returns the user's own, if that was wrapped. A missing connection is opened, not before
    /// the pause after the last failure is over.
    pub(crate) async fn channel(&self) -> Result<Leased, Failure> {
        match &self.source {
            Source::Wrapped { channel, turn } if channel.status().connected() => {
                Ok(Leased { channel: channel.clone(), turn: Arc::clone(turn), connection: None, settled: None })
            }
            Source::Wrapped { .. } => Err(Failure::gone("the channel that was wrapped is closed")),
            Source::Servers { uris, slot } => {
                let ended = self.attempts.load(Ordering::Relaxed);
                let mut slot = slot.lock().await;
                self.create_channel(uris, &mut slot, ended).await
            }
        }
    }

    async fn create_channel(&self, uris: &[AMQPUri], slot: &mut Slot, ended: u64) -> Result<Leased, Failure> {
        if slot.is_closed {
            return Err(Failure::gone("it was closed"));
        }
        slot.retire();
        if slot.connection.as_ref().is_none_or(|connection| !connection.status().connected()) {
            if slot.connection.take().is_some() {
                log::lost(&uris[slot.server]);
            }
            // An attempt that failed while this one waited for its turn counts as its own.
            if let Some((attempt, failure)) = &slot.last
                && *attempt > ended
            {
                return Err(failure.clone());
            }
            if let Some(at) = slot.not_before {
                tokio::time::sleep_until(at).await;
            }
            let connected = self.connect_any(uris, slot.server).await;
            let attempt = self.attempts.fetch_add(1, Ordering::Relaxed) + 1;
            match connected {
                Ok((server, connection)) => {
                    if slot.failures > 0 || attempt > 1 {
                        log::connected(&uris[server], slot.failures);
                    }
                    let used_up = std::mem::take(&mut slot.used_up);
                    *slot = Slot { connection: Some(Arc::new(connection)), server, used_up, ..Slot::default() };
                }
                Err((server, error)) => {
                    let pause = self.pause(slot.failures);
                    log::not_connected(&uris[server], &error, pause);
                    slot.not_before = Some(Instant::now() + pause);
                    slot.failures = slot.failures.saturating_add(1);
                    slot.last = Some((attempt, error.clone()));
                    return Err(error);
                }
            }
        }
        let no_connection = || Failure::new(ErrorKind::CommunicationProblem, "no connection");
        let connection = Arc::clone(slot.connection.as_ref().ok_or_else(no_connection)?);
        slot.opened += 1;
        let channel = within(self.deadline(), "channel.open", connection.create_channel()).await?;
        Ok(Leased { channel, turn: Arc::default(), connection: Some(connection), settled: Some(Arc::default()) })
    }

    /// Tries each server once, first the one that was connected last. Returns which one answered, or the last one with its
    /// error.
    async fn connect_any(&self, uris: &[AMQPUri], first: usize) -> Result<(usize, Connection), (usize, Failure)> {
        let mut failed: Option<(usize, Failure)> = None;
        for server in (first..uris.len()).chain(0..first) {
            if let Some((before, error)) = failed.take() {
                log::next_server(&uris[before], &error);
            }
            match self.connect(&uris[server]).await {
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
        within(self.deadline(), "connection", connecting).await.map_err(refused)
    }

    fn pause(&self, failures: u32) -> Duration {
        let (first, longest) = self.options.backoff;
        let pause = first.saturating_mul(1 << failures.min(16)).min(longest);
        pause.mul_f64(0.5 + fastrand::f64() / 2.0)
    }

    /// Runs one operation on a channel of its own, which an error may end.
    pub(crate) async fn manage<T, F>(&self, what: &str, operation: F) -> Result<T, Failure>
    where
        F: AsyncFnOnce(&Leased) -> lapin::Result<T>,
    {
        let leased = self.channel().await?;
        let result = within(self.deadline(), what, operation(&leased)).await;
        leased.close(self.deadline()).await;
        result
    }

    /// Closes the connection, and opens no other.
    pub(crate) async fn close(&self) {
        let Source::Servers { slot, .. } = &self.source else { return };
        let mut slot = slot.lock().await;
        slot.is_closed = true;
        let used_up = std::mem::take(&mut slot.used_up);
        for connection in slot.connection.take().into_iter().chain(used_up.iter().filter_map(Weak::upgrade)) {
            let _ = within(self.deadline(), "connection.close", connection.close(200, "OK".into())).await;
        }
    }
}

/// A broker that refuses a login or a virtual host closes the connection with these.
fn refused(failure: Failure) -> Failure {
    match failure.kind() {
        ErrorKind::SessionCannotBeLocked => Failure::new(ErrorKind::Unauthorized, "the login was refused"),
        _ => failure,
    }
}
