//! A RabbitMQ of the test's own, which can be killed.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use consign::transport::Transport;
use consign_amqp10::Amqp10;
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

/// Not the wrapper in the path, which needs to be root.
const SERVER: &str = "/usr/lib/rabbitmq/bin/rabbitmq-server";

pub(crate) struct Node {
    folder: TempDir,
    name: String,
    ports: [u16; 2],
    process: Mutex<Option<Child>>,
}

impl Node {
    /// Starts one with the plugin; `None` where there is no RabbitMQ to be started, and none is configured.
    pub(crate) async fn start() -> Option<Self> {
        Self::start_with(|_| String::new()).await
    }

    /// Starts one with a configuration, which may name files in the folder.
    pub(crate) async fn start_with(configuration: impl FnOnce(&Path) -> String) -> Option<Self> {
        if !Path::new(SERVER).exists() {
            assert!(std::env::var_os("CONSIGN_RABBITMQ").is_none(), "there is no {SERVER}");
            super::rabbitmq::without("tests that start a RabbitMQ");
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("plugins"), "[rabbitmq_amqp1_0,rabbitmq_auth_mechanism_ssl].\n")
            .expect("a file");
        std::fs::write(folder.path().join("rabbitmq.conf"), configuration(folder.path())).expect("a file");
        let ports = [free_port(), free_port()];
        let name = format!("consign-{:016x}@localhost", fastrand::u64(..));
        let node = Self { folder, name, ports, process: Mutex::new(None) };
        node.spawn().expect("a server that starts");
        node.answers().await;
        Some(node)
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn socket(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.ports[0]).into()
    }

    /// Returns the URL of AMQP 0-9-1.
    pub(crate) fn url(&self) -> String {
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

    /// Waits until it takes connections.
    async fn answers(&self) {
        let until = Instant::now() + Duration::from_secs(90);
        let url = super::rabbitmq::of_amqp10(&self.url());
        loop {
            match Amqp10::options().timeout(Duration::from_secs(5)).connect(&url).await {
                Ok(amqp) => return drop(amqp.close().await),
                Err(error) => assert!(Instant::now() < until, "the node does not answer: {error}"),
            }
            sleep(Duration::from_millis(200)).await;
        }
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
        self.kill();
        self.spawn()?;
        self.answers().await;
        Ok(())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}

pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.local_addr().expect("its number").port()
}
