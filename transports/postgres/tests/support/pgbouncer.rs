//! `PgBouncer`, which gives each transaction or each client any of its connections of the server.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    os::unix::fs::PermissionsExt,
    process::{Child, Command, Stdio},
    time::Duration,
};

use consign_conformance::left_out;
use consign_postgres::tokio_postgres::{
    self, Config, NoTls,
    config::Host::{Tcp, Unix},
};
use tempfile::TempDir;

/// It ends when it is dropped.
pub(crate) struct PgBouncer {
    child: Child,
    url: String,
    _folder: TempDir,
}

/// Another process may have the port of one that is to start.
const ATTEMPTS: usize = 5;

impl PgBouncer {
    /// In front of the server at `url`, with a `pool_mode`. `None` if it is not installed, and nobody said that it is.
    pub(crate) async fn start(url: &str, mode: &str) -> Option<Self> {
        if Command::new(program()).arg("--version").stdout(Stdio::null()).status().is_err() {
            assert!(std::env::var_os("CONSIGN_POSTGRES").is_none(), "there is no pgbouncer to start");
            left_out("tests that start PgBouncer: there is no pgbouncer; scripts/brokers installs it");
            return None;
        }
        let config: Config = url.parse().unwrap();
        for _ in 0..ATTEMPTS {
            let mut bouncer = Self::launch(&config, mode);
            if bouncer.answers().await {
                return Some(bouncer);
            }
        }
        panic!("PgBouncer ends when it starts");
    }

    fn launch(server: &Config, mode: &str) -> Self {
        let host = match server.get_hosts() {
            [Tcp(name)] => name.clone(),
            [Unix(path)] => path.display().to_string(),
            hosts => panic!("one host is expected: {hosts:?}"),
        };
        let (port, name) = (server.get_ports().first().unwrap_or(&5432), server.get_dbname().unwrap());
        let user = server.get_user().unwrap();
        let password = server
            .get_password()
            .map_or(String::new(), |password| format!("password={}", str::from_utf8(password).unwrap()));
        let folder = tempfile::tempdir().unwrap();
        let own = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let file = folder.path().join("pgbouncer.ini");
        let settings = format!(
            "[databases]\n\
             {name} = host={host} port={port} dbname={name} user={user} {password}\n\
             [pgbouncer]\n\
             listen_addr = 127.0.0.1\nlisten_port = {own}\nunix_socket_dir =\n\
             auth_type = any\npool_mode = {mode}\ndefault_pool_size = 8\nmax_client_conn = 1000\n",
        );
        fs::write(&file, settings).unwrap();
        let mut command = Command::new(program());
        if Command::new("id").arg("-u").output().is_ok_and(|id| id.stdout == b"0\n") {
            // It does not run as root.
            fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
            command.args(["--user", "nobody"]);
        }
        let child = command.arg(&file).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, own));
        Self { child, url: format!("postgresql://{user}@{address}/{name}"), _folder: folder }
    }

    /// `false` if it ends.
    async fn answers(&mut self) -> bool {
        for _ in 0..1_200 {
            if self.child.try_wait().unwrap().is_some() {
                return false;
            }
            if tokio_postgres::connect(&self.url, NoTls).await.is_ok() {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("PgBouncer does not answer");
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

fn program() -> &'static str {
    if std::path::Path::new("/usr/sbin/pgbouncer").exists() { "/usr/sbin/pgbouncer" } else { "pgbouncer" }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
