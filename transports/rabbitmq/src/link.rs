//! The source of channels: the connection that senders and receivers share, or a channel of the user.

use std::{
    sync::Arc,
    task::{Context, Waker},
    time::Duration,
};

use consign_core::transport::{ErrorKind, ServerAddress};
use lapin::{Channel, Connection, options::ChannelFlowOptions, types::ShortString, uri::AMQPUri};
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::{
    Options, address,
    error::{Failure, within},
    log,
    servers::Servers,
    settled::SettledTags,
};

/// The source of channels.
pub(crate) struct Link {
    pub(crate) options: Arc<Options>,
    source: Source,
    /// The channel of pings. A channel for each would use up the numbers of the connection.
    pings: Arc<Mutex<Option<Leased>>>,
}

enum Source {
    Servers(Arc<Servers>),
    /// The user's channel. Its `qos` and what follows it must not mix with another's.
    Wrapped {
        channel: Channel,
        turn: Arc<Mutex<()>>,
    },
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

    /// Returns whether this crate opened the channel, and may close it.
    pub(crate) fn is_owned(&self) -> bool {
        self.connection.is_some()
    }

    /// Returns whether the channel and its connection work.
    pub(crate) fn is_alive(&self) -> bool {
        self.channel.status().connected() && self.check().is_ok()
    }

    /// Checks the connection after an answer. lapin may handle an answer after it has ended the channels of a broken connection:
    /// then the channel is in use again, and nothing reports its end.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match &self.connection {
            Some(connection) if !connection.status().connected() => {
                Err(Failure::new(ErrorKind::CommunicationProblem, "the connection was lost"))
            }
            _ => Ok(()),
        }
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
        result.and_then(|answer| self.check().map(|()| answer))
    }

    /// Closes the channel, unless it was wrapped.
    pub(crate) async fn close(&self, deadline: Duration) {
        if self.is_owned() && self.channel.status().connected() {
            let _ = within(deadline, "channel.close", self.channel.close(200, ShortString::from("OK"))).await;
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
        Self::open_uris(Arc::new(options), uris.into()).await
    }

    async fn open_uris(options: Arc<Options>, uris: Box<[AMQPUri]>) -> Result<Self, Failure> {
        let source = Source::Servers(Servers::new(Arc::clone(&options), uris));
        let link = Self { options, source, pings: Arc::default() };
        link.channel().await?.close(link.options.timeout).await;
        Ok(link)
    }

    /// Another connection to the same address.
    pub(crate) async fn again(&self) -> Result<Self, Failure> {
        match &self.source {
            Source::Servers(servers) => Self::open_uris(Arc::clone(&self.options), servers.uris().into()).await,
            Source::Wrapped { .. } => {
                Err(Failure::new(ErrorKind::InvalidOperation, "a channel that was wrapped is the only one"))
            }
        }
    }

    pub(crate) fn wrap(channel: Channel) -> Self {
        let source = Source::Wrapped { channel, turn: Arc::default() };
        Self { options: Arc::default(), source, pings: Arc::default() }
    }

    /// Returns the server, if the address has one only.
    pub(crate) fn server(&self) -> Option<ServerAddress> {
        match &self.source {
            Source::Servers(servers) => servers.only(),
            Source::Wrapped { .. } => None,
        }
    }

    /// Returns why RabbitMQ has blocked a connection of this crate.
    pub(crate) fn blocked(&self) -> Option<String> {
        match &self.source {
            Source::Servers(servers) => servers.blocked.reason(),
            Source::Wrapped { .. } => None,
        }
    }

    pub(crate) fn is_wrapped(&self) -> bool {
        matches!(self.source, Source::Wrapped { .. })
    }

    pub(crate) fn deadline(&self) -> Duration {
        self.options.timeout
    }

    /// Opens a channel for one caller; returns the user's own, if that was wrapped.
    pub(crate) async fn channel(&self) -> Result<Leased, Failure> {
        match &self.source {
            Source::Wrapped { channel, turn } if channel.status().connected() => {
                Ok(Leased { channel: channel.clone(), turn: Arc::clone(turn), connection: None, settled: None })
            }
            Source::Wrapped { .. } => Err(Failure::gone("the channel that was wrapped is closed")),
            Source::Servers(servers) => {
                let (connection, channel) = servers.channel().await?;
                Ok(Leased {
                    channel,
                    turn: Arc::default(),
                    connection: Some(connection),
                    settled: Some(Arc::default()),
                })
            }
        }
    }

    /// Runs one operation on a channel of its own, which an error may end.
    pub(crate) async fn manage<T, F>(&self, what: &str, operation: F) -> Result<T, Failure>
    where
        F: AsyncFnOnce(&Leased) -> lapin::Result<T>,
    {
        let leased = self.channel().await?;
        let result = within(self.deadline(), what, operation(&leased)).await;
        leased.close(self.deadline()).await;
        result.map_err(|failure| failure.explained(self.blocked()))
    }

    /// Makes one round trip.
    pub(crate) async fn ping(self: &Arc<Self>) -> Result<(), Failure> {
        let pinging = async {
            let kept = Arc::clone(&self.pings).lock_owned().await;
            // A caller that waits no longer would leave a channel that is neither open nor closed.
            let pinging = tokio::spawn(Arc::clone(self).round_trip(kept));
            pinging.await.unwrap_or_else(|_| Err(Failure::gone("the runtime is shutting down")))
        };
        let pinged = tokio::time::timeout(self.deadline(), pinging).await;
        let pinged = pinged.unwrap_or_else(|_| Err(Failure::late("ping", self.deadline())));
        pinged.map_err(|failure| failure.explained(self.blocked()))
    }

    async fn round_trip(self: Arc<Self>, mut kept: OwnedMutexGuard<Option<Leased>>) -> Result<(), Failure> {
        let leased = match kept.take() {
            Some(leased) if leased.is_alive() && self.has(&leased) => leased,
            // The last channel of a connection that is used no longer keeps it open.
            _ => self.channel().await?,
        };
        let flow = leased.channel.channel_flow(ChannelFlowOptions { active: true });
        leased.within(self.deadline(), "channel.flow", flow).await?;
        *kept = Some(leased);
        Ok(())
    }

    /// Returns whether new channels are on the connection of this one.
    fn has(&self, leased: &Leased) -> bool {
        match (&self.source, &leased.connection) {
            (Source::Servers(servers), Some(connection)) => servers.is_present(connection),
            _ => true,
        }
    }

    /// Closes the connection, and opens no other.
    pub(crate) async fn close(&self) {
        if let Source::Servers(servers) = &self.source {
            servers.close().await;
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Source::Servers(servers) = &self.source {
            servers.stop();
        }
    }
}
