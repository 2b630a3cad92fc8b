use std::time::Duration;

use consign_store_postgres::tokio_postgres::{Client, NoTls};
use tokio::{
    process::Command,
    time::{Instant, sleep, timeout},
};
use tower::BoxError;

use crate::cluster::Cluster;

/// A connection to one node.
async fn connect(cluster: &Cluster, node: usize) -> Result<Client, BoxError> {
    let url = format!("postgresql://consign_test:consign_test@127.0.0.1:{}/consign_test", cluster.port(node));
    let (client, connection) =
        timeout(Duration::from_secs(3), consign_store_postgres::tokio_postgres::connect(&url, NoTls)).await??;
    tokio::spawn(connection);
    Ok(client)
}

pub(super) async fn primary(cluster: &Cluster) -> Option<usize> {
    for node in 0..cluster.servers.nodes() {
        if let Ok(client) = connect(cluster, node).await
            && let Ok(row) = client.query_one("SELECT pg_is_in_recovery()", &[]).await
            && !row.get::<_, bool>(0)
        {
            return Some(node);
        }
    }
    None
}

/// The primary waits for a replica, which it has.
pub(super) async fn is_complete(cluster: &Cluster) -> Result<bool, BoxError> {
    let Some(primary) = primary(cluster).await else { return Ok(false) };
    let client = connect(cluster, primary).await?;
    let has_replica = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = 'sync'";
    Ok(client.query_one(has_replica, &[]).await?.get::<_, i64>(0) == 1)
}

pub(super) async fn promote(cluster: &Cluster, node: usize) -> Result<(), BoxError> {
    let client = connect(cluster, node).await?;
    // Without a replica its commits would wait.
    wait_for_replica(&client, false).await?;
    client.query_one("SELECT pg_promote(true, 60)", &[]).await?;
    Ok(())
}

pub(super) async fn follow(cluster: &Cluster, node: usize, primary: usize) -> Result<(), BoxError> {
    let port = cluster.port_between(node, primary).unwrap_or(cluster.port(primary));
    let copied = Command::new(cluster.folder(node).join("follow")).arg(port.to_string()).status().await?;
    if !copied.success() {
        return Err("the primary could not be copied".into());
    }
    cluster.run(node)?;
    let client = connect(cluster, primary).await?;
    let began = Instant::now();
    let streaming = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND application_name = $1";
    let name = crate::cluster::NODES[node];
    while client.query_one(streaming, &[&name]).await?.get::<_, i64>(0) == 0 {
        if began.elapsed() > Duration::from_secs(60) {
            return Err("the replica does not follow".into());
        }
        sleep(Duration::from_millis(100)).await;
    }
    wait_for_replica(&client, true).await
}

/// Sets whether a commit waits for the replica.
async fn wait_for_replica(client: &Client, waits: bool) -> Result<(), BoxError> {
    let names = if waits { "*" } else { "" };
    client.batch_execute(&format!("ALTER SYSTEM SET synchronous_standby_names = '{names}'")).await?;
    client.query_one("SELECT pg_reload_conf()", &[]).await?;
    Ok(())
}
