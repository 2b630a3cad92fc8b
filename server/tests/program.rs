//! The program `consign serve`: what it prints, what it refuses, and that it loses nothing.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

use std::{
    io::{BufRead, BufReader},
    net::{SocketAddr, TcpListener},
    path::Path,
    process::{Child, ChildStdout, Command, Output, Stdio},
    time::Duration,
};

use consign_amqp::{
    client::{Connection, Options},
    codec::Encoder,
    engine::SaslCredentials,
    message::Data,
    types::{Accepted, DeliveryState},
};

/// A server that is killed when this is dropped.
struct Server {
    process: Child,
    lines: Vec<String>,
    output: BufReader<ChildStdout>,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn command(options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_consign"));
    command.arg("serve").args(options).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn start(options: &[&str]) -> Server {
    let mut process = command(&[&["--amqp-port", "0", "--http-port", "0"], options].concat()).spawn().unwrap();
    let mut output = BufReader::new(process.stdout.take().unwrap());
    let mut lines = Vec::new();
    while !lines.last().is_some_and(|line: &String| line.starts_with("Ready")) {
        let mut line = String::new();
        assert_ne!(output.read_line(&mut line).unwrap(), 0, "it ended after {lines:?}");
        lines.push(line.trim_end().to_owned());
    }
    Server { process, lines, output }
}

/// The result of a server that does not start.
fn refused(options: &[&str]) -> (i32, String) {
    let Output { status, stderr, .. } = command(options).output().unwrap();
    (status.code().unwrap(), String::from_utf8(stderr).unwrap())
}

impl Server {
    fn address(&self) -> SocketAddr {
        let line = self.lines.iter().find_map(|line| line.strip_prefix("AMQP: Endpoint=sb://")).unwrap();
        line.split_once(';').unwrap().0.parse().unwrap()
    }

    fn says(&self, text: &str) {
        assert!(self.lines.iter().any(|line| line.contains(text)), "{text}: {:?}", self.lines);
    }
}

async fn connect(server: &Server) -> Connection {
    let mut options = Options::new("client").timeout(Duration::from_secs(20));
    let mut engine = consign_amqp::engine::Options::default();
    engine.sasl_client = Some(SaslCredentials::anonymous());
    options = options.engine(engine);
    Connection::connect(server.address(), options).await.unwrap()
}

fn message(text: &str) -> bytes::Bytes {
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes);
    encoder.encode(&Data(bytes::Bytes::copy_from_slice(text.as_bytes()).into()));
    encoder.finish().unwrap();
    bytes.into()
}

fn accepted() -> DeliveryState {
    Accepted {}.into()
}

/// Sends messages that the server accepts.
async fn send(server: &Server, queue: &str, count: usize) {
    let session = connect(server).await.begin().await.unwrap();
    let sender = session.attach_sender("sender", queue).await.unwrap();
    for number in 0..count {
        assert_eq!(sender.send(message(&number.to_string())).await.unwrap(), Some(accepted()));
    }
}

/// Receives and completes messages.
async fn receive(server: &Server, queue: &str, count: usize) {
    let session = connect(server).await.begin().await.unwrap();
    let mut receiver = session.attach_receiver("receiver", queue).await.unwrap();
    receiver.set_automatic_credit(10).unwrap();
    for number in 0..count {
        let delivery = receiver.recv().await.unwrap();
        let body = delivery.payload.clone().into_bytes();
        assert!(body.ends_with(number.to_string().as_bytes()), "message {number}: {body:?}");
        receiver.settler().settle_confirmed(delivery.id, &accepted()).await.unwrap();
    }
}

#[tokio::test]
async fn without_options_it_is_for_development() {
    let server = start(&[]);
    for text in ["in memory", "on first use", "Any key", "Endpoint=sb://127.0.0.1:", "UseDevelopmentEmulator=true"] {
        server.says(text);
    }
    send(&server, "created-on-first-use", 1).await;
    receive(&server, "created-on-first-use", 1).await;
}

#[tokio::test]
async fn acknowledged_messages_survive_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let options = ["--data", data.to_str().unwrap(), "--create-entities"];
    let mut server = start(&options);
    send(&server, "orders", 20).await;
    server.process.kill().unwrap();
    server.process.wait().unwrap();
    let server = start(&options);
    receive(&server, "orders", 20).await;
}

#[tokio::test]
async fn with_a_store_entities_are_not_created() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(&["--data", folder.path().join("data").to_str().unwrap()]);
    server.says("others do not exist");
    let session = connect(&server).await.begin().await.unwrap();
    let error = session.attach_sender("sender", "orders").await.err().unwrap();
    assert!(error.to_string().contains("could not be found"), "{error}");
}

#[tokio::test]
async fn the_signal_to_end_closes_connections_and_exits_with_success() {
    let mut server = start(&[]);
    let connection = connect(&server).await;
    let session = connection.begin().await.unwrap();
    let mut receiver = session.attach_receiver("receiver", "orders").await.unwrap();
    receiver.set_credit(1).unwrap();
    let pid = server.process.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    let error = receiver.recv().await.err().unwrap();
    assert_eq!(error.condition().map(|condition| condition.as_str().to_owned()), Some("amqp:connection:forced".into()));
    let status = tokio::task::spawn_blocking(move || server.process.wait().map(|status| (status, server)));
    let (status, server) = status.await.unwrap().unwrap();
    assert!(status.success(), "{status}");
    assert!(server.output.buffer().is_empty());
}

#[test]
fn a_port_in_use_is_named_with_its_option() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    for (option, options) in [
        ("--amqp-port", ["--amqp-port", &port, "--http-port", "0"]),
        ("--http-port", ["--amqp-port", "0", "--http-port", &port]),
    ] {
        let (status, error) = refused(&options);
        assert_eq!(status, 1);
        assert!(error.contains(&port) && error.contains(option), "{error}");
    }
}

#[test]
fn beyond_loopback_keys_and_encryption_are_required() {
    let folder = tempfile::tempdir().unwrap();
    let keys = file(folder.path(), "keys.toml", "[[keys]]\nname = 'root'\nkey = 'canary'\nrights = ['Manage']\n");
    let (status, error) = refused(&["--host", "0.0.0.0", "--amqp-port", "0"]);
    assert!(status == 2 && error.contains("--keys"), "{status} {error}");
    let (status, error) = refused(&["--host", "0.0.0.0", "--amqp-port", "0", "--keys", &keys]);
    assert!(status == 2 && error.contains("--allow-plain-tcp") && !error.contains("canary"), "{status} {error}");
}

#[test]
fn a_store_in_use_is_named_once() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let data = data.to_str().unwrap();
    let _server = start(&["--data", data]);
    let (status, error) = refused(&["--amqp-port", "0", "--http-port", "0", "--data", data]);
    assert_eq!((status, error.matches(data).count()), (5, 1), "{error}");
}

#[test]
fn a_configuration_that_is_wrong_is_named_without_a_key() {
    let folder = tempfile::tempdir().unwrap();
    let text = "[[keys]]\nname = 'root'\nkey = 'canary'\nrights = ['Manage']\nother = 1\n";
    let (status, error) = refused(&["--config", &file(folder.path(), "own.toml", text)]);
    assert!(status == 1 && error.contains("own.toml") && error.contains("other"), "{error}");
    assert!(!error.contains("canary"), "{error}");
    let text = r#"{"UserConfig": {"Namespaces": [{"Name": "n", "Queues": [{"Name": "orders", "Properties": {"LockDuration": "PT1S"}}]}]}}"#;
    let (_, error) = refused(&["--config", &file(folder.path(), "emulator.json", text)]);
    assert!(error.contains("orders") && error.contains("lock_duration"), "{error}");
    let text = "[queues.orders]\nforward_to = 'nope'";
    let (_, error) =
        refused(&["--config", &file(folder.path(), "forward.toml", text), "--amqp-port", "0", "--http-port", "0"]);
    assert!(error.contains("forward.toml: orders: forward_to: "), "{error}");
}

fn file(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}
