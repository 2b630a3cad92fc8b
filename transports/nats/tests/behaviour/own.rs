//! A server that belongs to one test.

use std::{
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use consign_conformance::left_out;
use tempfile::TempDir;

/// Another process may have the port of a server that is to start.
const ATTEMPTS: usize = 5;

pub(crate) struct OwnServer {
    port: u16,
    folder: TempDir,
    /// What else is said to the server.
    more: Vec<String>,
    child: Option<Child>,
}

impl OwnServer {
    /// A server on a free port, or `None` with a word on it where there is no `nats-server`.
    pub(crate) async fn start() -> Option<Self> {
        Self::start_with(|_| Vec::new()).await
    }

    /// The same with further arguments, which may name files in the server's folder.
    pub(crate) async fn start_with(more: impl FnOnce(&Path) -> Vec<String>) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        if Command::new(Self::program()).arg("--version").stdout(Stdio::null()).status().is_err() {
            assert!(std::env::var_os("CONSIGN_NATS").is_none(), "there is no nats-server to start");
            left_out("tests that start a NATS server: there is no nats-server; scripts/brokers installs it");
            return None;
        }
        let mut server = Self { port: free_port(), more: more(folder.path()), folder, child: None };
        for _ in 0..ATTEMPTS {
            if server.listens().await {
                return Some(server);
            }
            server.port = free_port();
        }
        panic!("the server ends when it starts");
    }

    fn program() -> &'static str {
        if std::path::Path::new("/usr/sbin/nats-server").exists() { "/usr/sbin/nats-server" } else { "nats-server" }
    }

    #[allow(dead_code, reason = "one of two test binaries needs it")]
    pub(crate) fn socket(&self) -> std::net::SocketAddr {
        ([127, 0, 0, 1], self.port).into()
    }

    #[allow(dead_code, reason = "one of two test binaries needs it")]
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    #[allow(dead_code, reason = "one of two test binaries needs it")]
    pub(crate) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Runs the server on its port and its folder, and waits until it listens.
    pub(crate) async fn run(&mut self) {
        for _ in 0..ATTEMPTS {
            if self.listens().await {
                return;
            }
        }
        panic!("the server ends when it starts");
    }

    /// `false` if it ends: another process may have got its port.
    async fn listens(&mut self) -> bool {
        let mut command = Command::new(Self::program());
        command.args(["--addr", "127.0.0.1", "--port", &self.port.to_string(), "--jetstream", "--store_dir"]);
        command.arg(self.folder.path()).args(&self.more).stdout(Stdio::null()).stderr(Stdio::null());
        let child = self.child.insert(command.spawn().expect("nats-server"));
        for _ in 0..1_200 {
            let is_open = TcpStream::connect(("127.0.0.1", self.port)).is_ok();
            if child.try_wait().expect("a child").is_some() {
                return false;
            }
            if is_open {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("the server does not listen");
    }

    /// Ends the server as an operator does: what it has confirmed is in its files.
    #[allow(dead_code, reason = "one of two test binaries needs it")]
    pub(crate) fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let status = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
            assert!(status.expect("kill").success());
            child.wait().expect("it ends");
        }
    }

    /// Kills the server.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("it runs");
            child.wait().expect("it ends");
        }
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns a port that is free. It is outside of the range that the system assigns ports from.
pub(crate) fn free_port() -> u16 {
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    std::iter::repeat_with(|| fastrand::u16(15_000..32_000)).take(1_000).find(is_free).expect("a free port")
}
