//! Foreign clients beside the node of the tests, over TCP, TLS and WebSocket.
//!
//! Each program takes the ports of two nodes, of which the second has [`IDLE`], the prefix of its addresses and the transport. It
//! prints an object with what it has seen of each step.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use consign_amqp::{
    engine::Options,
    rustls::{ServerConfig, pki_types::PrivatePkcs8KeyDer},
    server::Acceptor,
    stream::{Subprotocol, WebSocketOptions},
    value::Symbol,
};
use futures_util::future::LocalBoxFuture;
use serde_json::{Value as Json, json};
use tokio::{
    net::{TcpListener, TcpStream},
    process::Command,
};
use tower::BoxError;

use crate::{
    node::Node,
    suite::{answer, same},
    to_hex,
};

/// The idle timeout of the second node. The programs stay connected for longer. On a busy machine an empty frame can be late by
/// seconds.
const IDLE: Duration = Duration::from_secs(8);

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
    tcp: Ports,
    tls: Ports,
    web_socket: Ports,
    /// That of the node, in hexadecimal digits.
    certificate: String,
}

/// Those of the two nodes.
struct Ports {
    node: u16,
    idle: u16,
}

impl Environment {
    /// Starts the nodes.
    pub(crate) async fn new(folder: PathBuf) -> Result<Self, BoxError> {
        let mechanisms = ["ANONYMOUS", "PLAIN"].map(Symbol::from_static);
        // With the sections around a body of 1 MiB.
        let options = Options::default().sasl_mechanisms(mechanisms).max_message_size(2 << 20);
        let node = Node::with_options(options.clone());
        let idle = Node::with_options(options.idle_timeout(IDLE));
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let config = ServerConfig::builder().with_no_client_auth();
        let config = config.with_single_cert(vec![made.cert.der().clone()], key.into())?;
        let both = [Subprotocol::Amqp, Subprotocol::ServiceBus];
        let web_socket = WebSocketOptions::service_bus().subprotocols(both);
        let listen = async |acceptor: Acceptor| {
            let (node, idle) = (node.clone(), idle.clone());
            Ok::<_, BoxError>(Ports {
                node: listen(node, acceptor.clone()).await?,
                idle: listen(idle, acceptor).await?,
            })
        };
        Ok(Self {
            folder,
            tcp: listen(Acceptor::new()).await?,
            tls: listen(Acceptor::new().tls(Arc::new(config))).await?,
            web_socket: listen(Acceptor::new().web_socket(web_socket)).await?,
            certificate: to_hex(made.cert.der()),
            node,
        })
    }

    /// A Python program of this package.
    pub(crate) fn python(&self, script: &str) -> Command {
        let mut command = Command::new(self.folder.join("venv/bin/python"));
        command.arg(path(script));
        command
    }

    /// A program of Node of this package.
    pub(crate) fn javascript(&self, script: &str) -> Command {
        let mut command = Command::new("node");
        command.env("NODE_MODULES", &self.folder).arg(path(script));
        command
    }

    /// The client of fe2o3-amqp.
    fn fe2o3(&self) -> Result<Command, BoxError> {
        let mut command = program("foreign-fe2o3")?;
        command.env("CERTIFICATE", &self.certificate);
        Ok(command)
    }

    /// Runs a client, and checks what it has seen and what it has left on the node.
    async fn check(&self, client: Command, transport: &str, prefix: &str) -> Result<(), BoxError> {
        self.check_without(None, client, transport, prefix).await
    }

    /// Runs a client that has no means to see one of the steps.
    async fn check_without(
        &self,
        unseen: Option<&str>,
        mut client: Command,
        transport: &str,
        prefix: &str,
    ) -> Result<(), BoxError> {
        let ports = match transport {
            "tls" => &self.tls,
            "websocket" => &self.web_socket,
            _ => &self.tcp,
        };
        client.args([&ports.node.to_string(), &ports.idle.to_string(), prefix, transport]);
        let seen: Json = serde_json::from_str(&answer(&mut client).await?)?;
        let mut expected = expected();
        let steps = expected.as_object_mut().ok_or("no steps")?;
        steps.retain(|step, _| Some(step.as_str()) != unseen);
        for (step, expected) in &*steps {
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
async fn listen(node: Node, acceptor: Acceptor) -> Result<u16, BoxError> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(node.clone(), acceptor.clone(), stream));
        }
    });
    Ok(port)
}

async fn serve(node: Node, acceptor: Acceptor, stream: TcpStream) {
    // Without it, an answer may wait for the peer's acknowledgement.
    if stream.set_nodelay(true).is_ok()
        && let Ok(stream) = acceptor.accept(stream).await
    {
        node.serve(stream).await;
    }
}

type Outcome<'e> = LocalBoxFuture<'e, Result<(), BoxError>>;

pub(crate) fn proton(env: &Environment) -> Outcome<'_> {
    Box::pin(env.check(env.python("proton_client.py"), "tcp", "proton"))
}

pub(crate) fn rhea(env: &Environment) -> Outcome<'_> {
    Box::pin(env.check(env.javascript("rhea_client.mjs"), "tcp", "rhea"))
}

pub(crate) fn rhea_over_web_socket(env: &Environment) -> Outcome<'_> {
    Box::pin(env.check(env.javascript("rhea_client.mjs"), "websocket", "rhea-websocket"))
}

pub(crate) fn azure(env: &Environment) -> Outcome<'_> {
    Box::pin(env.check(env.python("azure_client.py"), "tcp", "azure"))
}

pub(crate) fn fe2o3(env: &Environment) -> Outcome<'_> {
    Box::pin(check_fe2o3(env, "tcp"))
}

pub(crate) fn fe2o3_over_tls(env: &Environment) -> Outcome<'_> {
    Box::pin(check_fe2o3(env, "tls"))
}

pub(crate) fn fe2o3_over_web_socket(env: &Environment) -> Outcome<'_> {
    Box::pin(check_fe2o3(env, "websocket"))
}

/// It does not show the open of the node.
/// A stack around that client, on a server of its own.
pub(crate) fn wrapped_fe2o3(_: &Environment) -> Outcome<'_> {
    Box::pin(async { answer(&mut program("wrap_fe2o3")?).await.map(drop) })
}

/// A program that was built beside this one.
fn program(name: &str) -> Result<Command, BoxError> {
    let this = std::env::current_exe()?;
    let folder = this.parent().and_then(Path::parent).ok_or("no folder of programs")?;
    Ok(Command::new(folder.join(name)))
}

async fn check_fe2o3(env: &Environment, transport: &str) -> Result<(), BoxError> {
    env.check_without(Some("container"), env.fe2o3()?, transport, &format!("fe2o3-{transport}")).await
}
