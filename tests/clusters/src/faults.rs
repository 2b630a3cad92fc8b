//! What happens to a cluster and its clients.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::sleep;
use tower::BoxError;

use crate::cluster::{Cluster, NODES};

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Fault {
    /// The primary is killed, and its replica takes its place.
    Failover,
    /// A node is killed, and runs again later.
    Kill,
    /// A node is stopped for a while, and goes on.
    Pause,
    /// A node cannot reach the others.
    Partition,
    /// A node ends, and runs again at once.
    Restart,
    /// All nodes, one after the other.
    Rolling,
    /// A client is killed, and another one takes its place whose clock is an hour wrong.
    Skew,
}

impl Fault {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Failover => "failover",
            Self::Kill => "kill",
            Self::Pause => "pause",
            Self::Partition => "partition",
            Self::Restart => "restart",
            Self::Rolling => "rolling",
            Self::Skew => "skew",
        }
    }
}

/// A fault with all that was chosen at random.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) fault: Fault,
    /// Of a partition: whether packets wait, or connections end.
    pub(crate) by_silence: bool,
    pub(crate) lasts: Duration,
    /// Whether the leader has the fault, if it can be found, or else this node.
    pub(crate) of_leader: bool,
    pub(crate) node: usize,
}

impl Plan {
    pub(crate) fn random(random: &mut fastrand::Rng, faults: &[Fault], nodes: usize) -> Self {
        Self {
            fault: faults[random.usize(..faults.len())],
            by_silence: random.bool(),
            lasts: Duration::from_millis(random.u64(500..6_000)),
            of_leader: random.u8(..10) < 7,
            node: random.usize(..nodes),
        }
    }

    /// Does to a node what the plan says, and undoes it. The cluster may take longer to be complete.
    pub(crate) async fn inject(&self, cluster: &Cluster, node: usize) -> Result<(), BoxError> {
        match self.fault {
            Fault::Failover => {
                cluster.signal(node, "KILL").await?;
                sleep(self.lasts / 4).await;
                cluster.promote(node).await?;
                cluster.follow(node).await?;
            }
            Fault::Kill => {
                cluster.signal(node, "KILL").await?;
                sleep(self.lasts).await;
                cluster.run(node)?;
            }
            Fault::Pause => {
                cluster.signal(node, "STOP").await?;
                sleep(self.lasts).await;
                cluster.signal(node, "CONT").await?;
            }
            Fault::Partition => {
                cluster.partition(node, true, self.by_silence);
                sleep(self.lasts * 2).await;
                cluster.partition(node, false, self.by_silence);
            }
            Fault::Restart => {
                cluster.terminate(node).await?;
                cluster.run(node)?;
            }
            Fault::Rolling => {
                let nodes = cluster.servers.nodes();
                for node in (1..=nodes).map(|after| (node + after) % nodes) {
                    eprintln!("rolling: {}", NODES[node]);
                    cluster.terminate(node).await?;
                    cluster.run(node)?;
                    crate::run::complete(cluster).await?;
                }
            }
            // The client is not part of the cluster.
            Fault::Skew => {}
        }
        Ok(())
    }
}
