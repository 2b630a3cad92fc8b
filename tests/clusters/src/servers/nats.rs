use std::time::Duration;

use consign::{
    message::EntityPath,
    transport::{DynTransport, ErrorKind, ManageError},
};
use consign_nats::{
    Nats, QueueSettings,
    async_nats::{
        ConnectOptions,
        jetstream::{self, stream::Info},
    },
};
use futures_util::TryStreamExt;
use tower::BoxError;

use super::Servers;
use crate::cluster::{Cluster, NODES};

pub(super) async fn create(
    transport: &DynTransport,
    path: &EntityPath,
    requires_session: bool,
    duplicate_detection: Option<Duration>,
) -> Result<(), ManageError> {
    let nats = transport.extension::<Nats>().ok_or(ManageError::new(ErrorKind::NotSupported))?;
    let mut settings = QueueSettings::default();
    settings.lock_duration = Servers::LOCK;
    settings.max_delivery_count = 1_000;
    settings.requires_session = requires_session;
    settings.duplicate_detection = duplicate_detection;
    settings.replicas = NODES.len();
    nats.create_queue(path.as_str(), settings).await
}

/// The streams of the cluster, by any of its nodes.
async fn streams(cluster: &Cluster) -> Result<Vec<Info>, BoxError> {
    let addresses: Vec<_> = (0..NODES.len()).map(|node| format!("nats://127.0.0.1:{}", cluster.port(node))).collect();
    let options = ConnectOptions::new().connection_timeout(Duration::from_secs(2));
    let client = options.connect(addresses).await?;
    let jetstream = jetstream::new(client);
    Ok(tokio::time::timeout(Duration::from_secs(5), jetstream.streams().try_collect()).await??)
}

pub(super) async fn leader(cluster: &Cluster, path: &EntityPath) -> Option<usize> {
    let streams = streams(cluster).await.ok()?;
    let stream = streams.into_iter().find(|stream| stream.config.name == format!("consign_{}", path.as_str()))?;
    let leader = stream.cluster?.leader?;
    NODES.iter().position(|node| *node == leader)
}

pub(super) async fn is_complete(cluster: &Cluster) -> Result<bool, BoxError> {
    let streams = streams(cluster).await?;
    let is_current = |stream: &Info| {
        stream.cluster.as_ref().is_some_and(|members| {
            let followers = members.replicas.iter().filter(|follower| follower.current && !follower.offline).count();
            members.leader.is_some() && followers + 1 == NODES.len()
        })
    };
    Ok(streams.iter().all(is_current))
}
