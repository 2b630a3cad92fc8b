//! A RabbitMQ of the test's own, which can be killed.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use consign_conformance::left_out;
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

/// Not the wrapper in the path, which needs to be root.
const SERVER: &str = "/usr/lib/rabbitmq/bin/rabbitmq-server";
/// One that has just ended may still have its name or a port.
const ATTEMPTS: usize = 5;

pub(crate) struct Node {
    folder: TempDir,
    name: String,
    /// Of AMQP, of the distribution of Erlang, and one more for a configuration.
    ports: [u16; 3],
    process: Mutex<Option<Child>>,
}

impl Node {
    /// Starts one; `None` where there is no RabbitMQ to be started, and none is configured.
    pub(crate) async fn start() -> Option<Self> {
        Self::start_with(|_, _| String::new()).await
    }

    /// Starts one with a configuration, which may name files in the folder, and one more port.
    pub(crate) async fn start_with(configuration: impl Fn(&Path, u16) -> String) -> Option<Self> {
        if !Path::new(SERVER).exists() {
            assert!(std::env::var_os(super::VARIABLE).is_none(), "there is no {SERVER}");
            left_out(&format!("tests that start a RabbitMQ: there is no {SERVER}; scripts/brokers installs it"));
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let name = format!("consign-{:016x}@localhost", fastrand::u64(..));
        let mut node = Self { folder, name, ports: free_ports(), process: Mutex::new(None) };
        for _ in 0..ATTEMPTS {
            let configuration = configuration(node.folder(), node.ports[2]);
            std::fs::write(node.folder().join("rabbitmq.conf"), configuration).expect("a file");
            node.spawn().expect("a server that starts");
            if node.answers().await {
                return Some(node);
            }
            node.kill();
            node.ports = free_ports();
        }
        panic!("the node ends when it starts");
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the port that its configuration got.
    pub(crate) fn further_port(&self) -> u16 {
        self.ports[2]
    }

    pub(crate) fn socket(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.ports[0]).into()
    }

    pub(crate) fn address(&self) -> String {
        format!("amqp://guest:guest@{}/%2f", self.socket())
    }

    fn spawn(&self) -> io::Result<()> {
        let at = |name: &str| self.folder.path().join(name);
        let child = Command::new(SERVER)
            .env("HOME", self.folder.path())
            .env("RABBITMQ_NODENAME", &self.name)
            .env("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1")
            .env("RABBITMQ_NODE_PORT", self.ports[0].to_string())
            .env("RABBITMQ_DIST_PORT", self.ports[1].to_string())
            .env("RABBITMQ_MNESIA_BASE", at("mnesia"))
            .env("RABBITMQ_LOG_BASE", at("log"))
            .env("RABBITMQ_PID_FILE", at("pid"))
            .env("RABBITMQ_CONFIG_FILE", at("rabbitmq"))
            .env("RABBITMQ_ENABLED_PLUGINS_FILE", at("plugins"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        *self.process.lock() = Some(child);
        Ok(())
    }

    /// Waits until it takes connections. `false` if it ends: another process may have got one of its ports.
    async fn answers(&self) -> bool {
        let until = Instant::now() + Duration::from_secs(180);
        while let Err(error) = super::options().timeout(Duration::from_secs(5)).connect(&self.address()).await {
            if self.has_ended() {
                return false;
            }
            assert!(Instant::now() < until, "the node does not answer: {error}");
            sleep(Duration::from_millis(200)).await;
        }
        true
    }

    fn has_ended(&self) -> bool {
        self.process.lock().as_mut().is_some_and(|child| child.try_wait().is_ok_and(|status| status.is_some()))
    }

    /// Kills it, without a chance to put anything in order.
    pub(crate) fn kill(&self) {
        if let Some(mut child) = self.process.lock().take() {
            // The script and what it has started are one group.
            let group = format!("-{}", child.id());
            let _ = Command::new("kill").args(["-9", "--", &group]).status();
            let _ = child.wait();
        }
    }

    pub(crate) async fn restart(&self) -> io::Result<()> {
        for _ in 0..ATTEMPTS {
            self.kill();
            self.spawn()?;
            if self.answers().await {
                return Ok(());
            }
        }
        Err(io::Error::other("the node ends when it starts"))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns ports that are free. They are outside of the range that the system assigns ports from.
fn free_ports<const N: usize>() -> [u16; N] {
    // Each is kept until all are found: they differ.
    let listeners: [TcpListener; N] = std::array::from_fn(|_| {
        let any = || TcpListener::bind((Ipv4Addr::LOCALHOST, fastrand::u16(15_000..32_000)));
        std::iter::repeat_with(any).take(1_000).find_map(Result::ok).expect("a free port")
    });
    listeners.map(|listener| listener.local_addr().expect("its number").port())
}
