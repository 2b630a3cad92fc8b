//! What the servers do differently: ports, signals, leaders, and when a cluster is complete.

mod nats;
mod postgres;
mod rabbitmq;

use consign::{
    administration::{Administration, QueueSettings},
    message::EntityPath,
    transport::{DynTransport, ManageError},
};
use std::time::Duration;
use tower::BoxError;

use crate::{check::Allowed, cluster::Cluster, faults::Fault};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Servers {
    Nats,
    RabbitMq,
    Postgres,
}

impl Servers {
    pub(crate) const ALL: [Self; 3] = [Self::Nats, Self::RabbitMq, Self::Postgres];
    /// Of messages and sessions.
    const LOCK: Duration = Duration::from_secs(10);

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Nats => "nats",
            Self::RabbitMq => "rabbitmq",
            Self::Postgres => "postgres",
        }
    }

    pub(crate) fn nodes(self) -> usize {
        if self == Self::Postgres { 2 } else { 3 }
    }

    /// The first of the ports, if they are free.
    pub(crate) fn base(self) -> u16 {
        match self {
            Self::Nats => 24_400,
            Self::RabbitMq => 24_500,
            Self::Postgres => 24_600,
        }
    }

    /// The port at which other nodes reach one.
    pub(crate) fn peer_port(self, base: u16, node: usize) -> u16 {
        let first = if self == Self::Postgres { 1 } else { 11 };
        base + first + u16::try_from(node).expect("a node of three")
    }

    /// The URL for clients, with what differs from the defaults.
    pub(crate) fn url(self, url: &str) -> String {
        match self {
            Self::Nats => format!("{url}?timeout=5s&server_syncs=true&max_backoff=1s"),
            Self::RabbitMq => format!("{url}?timeout=5s&heartbeat=2s&max_backoff=1s"),
            Self::Postgres => format!("{url}&timeout=5s&connect_timeout=2"),
        }
    }

    /// The signal at which a server ends with what it has begun.
    pub(crate) fn end_signal(self) -> &'static str {
        if self == Self::Postgres { "INT" } else { "TERM" }
    }

    /// What the README of the transport says of it.
    pub(crate) fn allowed(self) -> Allowed {
        Allowed {
            // No README says so: it is a violation until plain clients of the server show it.
            unstored_sends: false,
            undetected_duplicates: self == Self::Nats,
            stuck_sessions: self == Self::Nats,
            redelivery_after_completion: self != Self::Postgres,
            unanswered_completions: self == Self::RabbitMq,
        }
    }

    /// Whether requests are answered only by a process with a right clock, as docs/rpc.md says.
    pub(crate) fn needs_a_right_clock(self) -> bool {
        self == Self::Nats
    }

    pub(crate) fn detects_duplicates(self) -> bool {
        self != Self::RabbitMq
    }

    pub(crate) fn faults(self) -> &'static [Fault] {
        const OF_ALL: [Fault; 6] =
            [Fault::Kill, Fault::Pause, Fault::Partition, Fault::Restart, Fault::Rolling, Fault::Skew];
        const OF_POSTGRES: [Fault; 7] =
            [Fault::Failover, Fault::Kill, Fault::Pause, Fault::Partition, Fault::Restart, Fault::Rolling, Fault::Skew];
        if self == Self::Postgres { &OF_POSTGRES } else { &OF_ALL }
    }

    /// Creates a queue that outlives the loss of a node.
    pub(crate) async fn create(
        self,
        transport: &DynTransport,
        path: &EntityPath,
        requires_session: bool,
        detects_duplicates: bool,
    ) -> Result<(), ManageError> {
        let window = Duration::from_secs(600);
        if self == Self::Nats {
            return nats::create(transport, path, requires_session, detects_duplicates.then_some(window)).await;
        }
        let mut settings = QueueSettings::default().lock_duration(Self::LOCK).requires_session(requires_session);
        settings.max_delivery_count = 1_000;
        settings.duplicate_detection = detects_duplicates.then_some(window);
        transport.declare(path, &settings.into()).await
    }
}

impl Cluster {
    /// The node that leads a queue, if that can be found out.
    pub(crate) async fn leader(&self, path: &EntityPath) -> Option<usize> {
        match self.servers {
            Servers::Nats => nats::leader(self, path).await,
            Servers::RabbitMq => rabbitmq::leader(self, path).await,
            Servers::Postgres => postgres::primary(self).await,
        }
    }

    /// Whether all nodes take part again.
    pub(crate) async fn is_complete(&self) -> bool {
        if !self.listens().await {
            return false;
        }
        let complete = match self.servers {
            Servers::Nats => nats::is_complete(self).await,
            Servers::RabbitMq => rabbitmq::is_complete(self).await,
            Servers::Postgres => postgres::is_complete(self).await,
        };
        complete.unwrap_or(false)
    }

    /// Makes the other node the primary, in place of one that was killed, and that one its replica.
    pub(crate) async fn promote(&self, lost: usize) -> Result<(), BoxError> {
        postgres::promote(self, 1 - lost).await
    }

    /// Replaces the data of a lost primary by that of the new one, and runs it as its replica.
    pub(crate) async fn follow(&self, lost: usize) -> Result<(), BoxError> {
        postgres::follow(self, lost, 1 - lost).await
    }
}
