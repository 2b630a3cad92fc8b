//! The program `consign` for the clients.

use std::{
    env, fs,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    process::{self, Stdio},
    time::Duration,
};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    time::timeout,
};

use crate::Failure;

const KEYS: [(&str, &str, &str); 3] = [
    ("root", "Manage", "key of the root"),
    ("sender", "Send", "key of the sender"),
    ("listener", "Listen", "key of the listener"),
];

/// A server on an address of its own, stopped when this is dropped.
///
/// The client in Python connects over TLS to port 5671 only, so the ports are those that the program has by default.
pub(crate) struct Server {
    _process: Child,
    folder: TempDir,
    settings: PathBuf,
    durable: bool,
}

impl Server {
    /// Starts a server. Numbers are below 64.
    pub(crate) async fn start(number: u32, config: &Value, durable: bool) -> Result<Self, Failure> {
        let folder = tempfile::tempdir()?;
        // All of 127.0.0.0/8 is loopback on Linux. Runs at the same time have other addresses.
        let host = Ipv4Addr::from_bits(0x7f40_0000 | (process::id() & 0xffff) << 6 | number & 63);
        let file = |name: &str| folder.path().join(name);

        let key = rcgen::KeyPair::generate()?;
        let names = vec!["localhost".to_owned(), host.to_string()];
        fs::write(file("certificate.pem"), rcgen::CertificateParams::new(names)?.self_signed(&key)?.pem())?;
        fs::write(file("key.pem"), key.serialize_pem())?;
        fs::write(file("config.json"), config.to_string())?;
        let keys =
            KEYS.map(|(name, right, key)| format!("[[keys]]\nname = '{name}'\nkey = '{key}'\nrights = ['{right}']\n"));
        fs::write(file("keys.toml"), keys.concat())?;
        fs::write(file("settings.json"), settings(host, &file("certificate.pem")).to_string())?;

        let mut command = Command::new(program("consign"));
        command.args(["serve", "--http-port", "5300", "--host", &host.to_string()]);
        for (option, name) in [
            ("--config", "config.json"),
            ("--keys", "keys.toml"),
            ("--tls-cert", "certificate.pem"),
            ("--tls-key", "key.pem"),
        ] {
            command.arg(option).arg(file(name));
        }
        if durable {
            command.arg("--data").arg(file("data"));
        }
        let log = fs::File::create(file("log"))?;
        let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).kill_on_drop(true).spawn()?;
        let mut lines = BufReader::new(process.stdout.take().ok_or("no standard output")?).lines();
        loop {
            match timeout(Duration::from_secs(60), lines.next_line()).await?? {
                Some(line) if line.starts_with("Ready") => break,
                Some(_) => {}
                None => return Err(fs::read_to_string(file("log"))?.into()),
            }
        }
        Ok(Self { _process: process, settings: file("settings.json"), folder, durable })
    }

    /// The file with the settings of the clients.
    pub(crate) fn settings(&self) -> &Path {
        debug_assert!(self.settings.starts_with(self.folder.path()), "the folder is removed with the server");
        &self.settings
    }

    /// What it keeps messages in.
    pub(crate) const fn kind(&self) -> &'static str {
        if self.durable { "a store" } else { "memory" }
    }
}

/// The path of a program of the same build. This one is an example, in a folder beside them.
pub(crate) fn program(name: &str) -> PathBuf {
    env::current_exe().unwrap_or_default().ancestors().nth(2).unwrap_or(Path::new(".")).join(name)
}

fn settings(host: Ipv4Addr, certificate: &Path) -> Value {
    let connection = |port: u16, name: &str, key: &str| {
        let emulator = if port == 5672 { ";UseDevelopmentEmulator=true" } else { "" };
        format!("Endpoint=sb://{host}:{port};SharedAccessKeyName={name};SharedAccessKey={key}{emulator}")
    };
    let [(root, _, key), (sender, _, send), (listener, _, listen)] = KEYS;
    json!({
        "connection": connection(5672, root, key),
        "send_only": connection(5672, sender, send),
        "listen_only": connection(5672, listener, listen),
        "wrong_key": connection(5672, root, "another key"),
        "tls": connection(5671, root, key),
        "web_socket": connection(5300, root, key),
        "administration": connection(5300, root, key),
        "administration_listen": connection(5300, listener, listen),
        "administration_wrong_key": connection(5300, root, "another key"),
        "web_socket_endpoint": format!("sb://{host}:5300"),
        "ca": certificate,
    })
}
