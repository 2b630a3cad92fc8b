//! A PostgreSQL of the test's own, which it may kill.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Command, Output},
    time::Duration,
};

use consign_conformance::left_out;
use tempfile::TempDir;
use tokio::time::Instant;

/// It is stopped and deleted when it is dropped.
pub(crate) struct Cluster {
    folder: TempDir,
    programs: PathBuf,
    port: u16,
    is_root: bool,
    options: String,
}

impl Cluster {
    /// `None` if there is no PostgreSQL to make one of, and none is configured.
    pub(crate) fn start() -> Option<Self> {
        Self::start_with(|_| String::new())
    }

    /// With options that come of files in its folder.
    pub(crate) fn start_with(prepare: impl FnOnce(&Path) -> String) -> Option<Self> {
        let Some(programs) = programs() else {
            assert!(std::env::var_os("CONSIGN_POSTGRES").is_none(), "no initdb in /usr/lib/postgresql or the path");
            left_out("tests that start a PostgreSQL: there is no initdb; scripts/brokers installs it");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        let is_root = Command::new("id").arg("-u").output().is_ok_and(|id| id.stdout == b"0\n");
        let options = prepare(folder.path());
        let mut cluster = Self { folder, programs, port: free_port(), is_root, options };
        if is_root {
            // PostgreSQL does not run as root.
            let owned = Command::new("chown").args(["-R", "postgres"]).arg(cluster.folder.path()).status().unwrap();
            assert!(owned.success());
        }
        let data = cluster.data();
        cluster
            .run("initdb", &["--pgdata", &data, "--username", "test", "--auth", "trust", "--encoding", "UTF8"])
            .unwrap();
        // Others may have taken the port meanwhile.
        for _ in 0..4 {
            if cluster.launch().is_ok() {
                return Some(cluster);
            }
            cluster.port = free_port();
        }
        cluster.launch().unwrap();
        Some(cluster)
    }

    fn data(&self) -> String {
        self.folder.path().join("data").display().to_string()
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Where it is, by way of `address`.
    pub(crate) fn url(address: SocketAddr) -> String {
        format!("postgresql://test@{address}/postgres?connect_timeout=2")
    }

    fn launch(&self) -> io::Result<()> {
        let (data, log) = (self.data(), self.folder.path().join("log").display().to_string());
        let options = format!(
            "-p {} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c max_connections=200 {}",
            self.port, self.options
        );
        self.run("pg_ctl", &["start", "--wait", "--pgdata", &data, "--log", &log, "--options", &options])
    }

    /// Kills it, as a crash does, and starts it again. Runs on a runtime with several threads.
    pub(crate) async fn restart(&self) -> io::Result<()> {
        let stop = ["stop", "--wait", "--mode", "immediate", "--pgdata", &self.data()];
        tokio::task::block_in_place(|| self.run("pg_ctl", &stop))?;
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            match tokio::task::block_in_place(|| self.launch()) {
                // A connection of another process may have the port for now.
                Err(_) if Instant::now() < until => tokio::time::sleep(Duration::from_millis(200)).await,
                launched => return launched,
            }
        }
    }

    fn run(&self, program: &str, arguments: &[&str]) -> io::Result<()> {
        let program = self.programs.join(program);
        let mut command = if self.is_root {
            let mut command = Command::new("runuser");
            command.args(["-u", "postgres", "--"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        // The server keeps what it inherits: a pipe would never end.
        let null = std::process::Stdio::null;
        let status = command.args(arguments).current_dir("/").stdout(null()).stderr(null()).status()?;
        if status.success() { Ok(()) } else { Err(io::Error::other(format!("{command:?}: {status}"))) }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.run("pg_ctl", &["stop", "--wait", "--mode", "immediate", "--pgdata", &self.data()]);
    }
}

fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

/// The folder of `initdb`: the newest of Debian's, or the path's.
fn programs() -> Option<PathBuf> {
    let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut debian: Vec<PathBuf> = debian.map(|version| version.path().join("bin")).collect();
    debian.sort();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::split_paths(&path).collect::<Vec<_>>();
    debian.into_iter().rev().chain(path).find(|folder| is_there(folder))
}

fn is_there(folder: &Path) -> bool {
    let found: io::Result<Output> = Command::new(folder.join("initdb")).arg("--version").output();
    found.is_ok_and(|output| output.status.success())
}
