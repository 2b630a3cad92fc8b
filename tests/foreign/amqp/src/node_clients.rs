//! Foreign clients beside the node of the tests, over TCP.
//!
//! Each program takes the ports of two nodes, of which the second has [`IDLE`], and the prefix of its addresses. It prints an
//! object with what it has seen of each step.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use consign_amqp::{engine::Options, value::Symbol};
use futures_util::future::LocalBoxFuture;
use serde_json::{Value as Json, json};
use tokio::{net::TcpListener, process::Command};
use tower::BoxError;

use crate::{
    node::Node,
    suite::{answer, same},
};

/// The idle timeout of the second node. The programs stay connected for three of them.
const IDLE: Duration = Duration::from_secs(2);

/// What each program prints.
fn expected() -> Json {
    json!({
        "mechanisms": ["ANONYMOUS", "PLAIN"],
        // Of the server's open.
        "container": "node",
        "sent": ["accepted", "accepted"],
        // The body and the delivery count before each settlement.
        "released": ["1", 0],
        "modified": ["1", 0],
        "accepted": ["1", 1],
        "rejected": ["2", 0],
        // The bytes that are the same on the way to the node and back.
        "large": 1 << 20,
        // The messages of a drain, and the credit after it.
        "drained": [1, 0],
        // What a link had locked is received again after its detach.
        "detached": ["4", "4"],
        "refused": ["amqp:not-found", "amqp:not-found"],
        "idle": "accepted",
    })
}

/// What the suites have to run.
pub(crate) struct Environment {
    folder: PathBuf,
    node: Node,
    address: SocketAddr,
    idle: SocketAddr,
}

impl Environment {
    /// Starts the nodes.
    pub(crate) async fn new(folder: PathBuf) -> Result<Self, BoxError> {
        let mechanisms = ["ANONYMOUS", "PLAIN"].map(Symbol::from_static);
        // With the sections around a body of 1 MiB.
        let options = Options::default().with_sasl_mechanisms(mechanisms).with_max_message_size(2 << 20);
        let node = Node::with_options(options.clone());
        let address = listen(node.clone()).await?;
        let idle = listen(Node::with_options(options.with_idle_timeout(IDLE))).await?;
        Ok(Self { folder, node, address, idle })
    }

    /// A Python program of this package.
    pub(crate) fn python(&self, script: &str) -> Command {
        let mut command = Command::new(self.folder.join("venv/bin/python"));
        command.arg(path(script));
        command
    }

    /// A program of Node of this package.
    fn javascript(&self, script: &str) -> Command {
        let mut command = Command::new("node");
        command.env("NODE_MODULES", &self.folder).arg(path(script));
        command
    }

    /// Runs a client, and checks what it has seen and what it has left on the node.
    async fn check(&self, mut client: Command, prefix: &str) -> Result<(), BoxError> {
        client.args([self.address.port().to_string(), self.idle.port().to_string(), prefix.to_owned()]);
        let seen: Json = serde_json::from_str(&answer(&mut client).await?)?;
        let expected = expected();
        let steps = expected.as_object().ok_or("no steps")?;
        for (step, expected) in steps {
            same(step, &seen[step], expected)?;
        }
        same("the steps", seen.as_object().map(serde_json::Map::len), Some(steps.len()))?;
        for (queue, left) in [("orders", 0), ("large", 0), ("drained", 0), ("detached", 0)] {
            same(queue, self.node.len(&format!("{prefix}/{queue}")), left)?;
        }
        same("the dead letters", self.node.len(&format!("dead/{prefix}/orders")), 1_usize)
    }
}

fn path(script: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(script)
}

/// Serves a node on a free port of the loopback interface.
async fn listen(node: Node) -> Result<SocketAddr, BoxError> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // Without it, an answer may wait for the peer's acknowledgement.
            if stream.set_nodelay(true).is_ok() {
                tokio::spawn(node.clone().serve(stream));
            }
        }
    });
    Ok(address)
}

pub(crate) fn proton(env: &Environment) -> LocalBoxFuture<'_, Result<(), BoxError>> {
    Box::pin(env.check(env.python("proton_client.py"), "proton"))
}

pub(crate) fn rhea(env: &Environment) -> LocalBoxFuture<'_, Result<(), BoxError>> {
    Box::pin(env.check(env.javascript("rhea_client.mjs"), "rhea"))
}

pub(crate) fn azure(env: &Environment) -> LocalBoxFuture<'_, Result<(), BoxError>> {
    Box::pin(env.check(env.python("azure_client.py"), "azure"))
}
