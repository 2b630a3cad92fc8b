//! What `consign serve` shows operators over HTTP: where the page and the metrics are open, and the page over a URL.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use consign_broker::Broker;
use consign_core::{Message, administration::QueueSettings, transport::Sender};
use tokio::time::Instant;

const KEY: &str = "the key of operators";

/// A server that is killed when this is dropped.
struct Server {
    process: Child,
    lines: Vec<String>,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn command(options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_consign"));
    command.arg("serve").args(["--http-port", "0", "--amqp-port", "0"]).args(options);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn start(options: &[&str]) -> Server {
    let mut process = command(options).spawn().unwrap();
    let mut output = BufReader::new(process.stdout.take().unwrap());
    let mut lines = Vec::new();
    while !lines.last().is_some_and(|line: &String| line.starts_with("Ready")) {
        let mut line = String::new();
        assert_ne!(output.read_line(&mut line).unwrap(), 0, "it ended after {lines:?}");
        lines.push(line.trim_end().to_owned());
    }
    Server { process, lines }
}

fn refused(options: &[&str]) -> String {
    let output = command(options).output().unwrap();
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

impl Server {
    fn line(&self, start: &str) -> Option<&str> {
        self.lines.iter().find_map(|line| line.strip_prefix(start))
    }

    fn address(&self) -> &str {
        let address = self.line("HTTP: http://").or_else(|| self.line("Page: http://")).unwrap();
        address.split('/').next().unwrap()
    }

    /// The status of an answer, and all of it.
    fn get(&self, path: &str, key: Option<&str>) -> (u16, String) {
        let key = key.map(|key| format!("Authorization: Bearer {key}\r\n")).unwrap_or_default();
        self.exchange(&format!("GET {path} HTTP/1.1\r\nHost: {}\r\n{key}Connection: close\r\n\r\n", self.address()))
    }

    /// The status of the answer to a request after which the connection is closed, and all of it.
    fn exchange(&self, request: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8(answer).unwrap();
        (answer.split(' ').nth(1).unwrap().parse().unwrap(), answer)
    }
}

fn file(folder: &Path, name: &str, text: &str) -> String {
    let file = folder.join(name);
    std::fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

#[test]
fn on_loopback_everything_is_open() {
    let server = start(&[]);
    assert!(server.line("Page: ").is_some());
    for path in ["/$page/", "/metrics", "/health", "/health/live", "/health/ready"] {
        assert_eq!(server.get(path, None).0, 200, "{path}");
    }
}

/// Rules: HT-33.
#[test]
fn with_shared_access_keys_operators_need_a_key_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let keys = file(folder.path(), "keys.toml", "[[keys]]\nname = 'root'\nkey = 'secret'\nrights = ['Manage']\n");
    let server = start(&["--keys", &keys]);
    assert!(server.line("Page: ").is_none());
    assert_eq!((server.get("/$page/", None).0, server.get("/metrics", None).0), (400, 401));
    assert_eq!(server.get("/health/ready", None).0, 200);

    let key = file(folder.path(), "operators", &format!("{KEY}\n"));
    let server = start(&["--keys", &keys, "--operator-key", &key]);
    let (status, answer) = server.get("/$page/", None);
    assert!(status == 303 && answer.contains("location: /$page/login"), "{answer}");
    assert_eq!((server.get("/metrics", None).0, server.get("/metrics", Some(KEY)).0), (401, 200));
}

#[test]
fn the_page_can_be_left_out() {
    let server = start(&["--no-page"]);
    assert!(server.line("Page: ").is_none());
    assert_eq!((server.get("/$page/", None).0, server.get("/metrics", None).0), (400, 200));
}

#[test]
fn a_short_key_and_a_missing_file_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let short = file(folder.path(), "short", "secret\n");
    let text = refused(&["--operator-key", &short]);
    assert!(text.contains("at least 16 bytes") && !text.contains("secret"), "{text}");
    let text = refused(&["--operator-key", folder.path().join("none").to_str().unwrap()]);
    assert!(text.contains("none"), "{text}");
}

#[test]
fn the_log_is_json_if_it_is_requested() {
    let mut server = start(&["--log-format", "json"]);
    // Its shutdown is a line.
    let id = server.process.id().to_string();
    assert!(Command::new("kill").arg(id).status().unwrap().success());
    server.process.wait().unwrap();
    let mut log = String::new();
    server.process.stderr.take().unwrap().read_to_string(&mut log).unwrap();
    let line: serde_json::Value = serde_json::from_str(log.lines().last().unwrap()).unwrap();
    assert_eq!((&line["level"], &line["fields"]["message"]), (&"INFO".into(), &"shutting down".into()));
}

/// Rules: HT-20, HT-35.
#[tokio::test]
async fn the_page_is_served_over_the_broker_of_a_url() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let broker = Broker::open(&store).unwrap();
    let queue = broker.create_queue("of-a-store", QueueSettings::default()).unwrap();
    queue.sender().unwrap().send(Message::new("one order")).await.unwrap();
    let url = format!("file:{}", store.display());
    let text = refused(&["--transport", &url]);
    assert!(text.contains("has the store open"), "{text}");
    broker.close().await.unwrap();

    let server = start(&["--transport", &url]);
    assert!(server.line("AMQP: ").is_none());
    let (status, answer) = server.get("/$page/", None);
    assert!(status == 200 && answer.contains("of-a-store"), "{answer}");
    assert!(server.get("/$page/messages?path=of-a-store", None).1.contains("one order"));
    assert_eq!((server.get("/health/live", None).0, server.get("/metrics", None).0), (200, 404));
    assert_eq!((server.get("/health/ready", None).0, server.get("/health", None).0), (200, 200));
    let twice =
        "POST /$page/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    let (status, answer) = server.exchange(twice);
    assert!(status == 400 && answer.contains("not both"), "{answer}");
}

/// Rules: HT-36.
#[test]
fn the_page_over_a_broker_that_is_gone_is_not_ready() {
    let mut broker = start(&["--no-page"]);
    let address = broker.line("AMQP: Endpoint=sb://").unwrap().split(';').next().unwrap();
    let page = start(&["--transport", &format!("servicebus://any:any@{address}?emulator=true")]);
    assert_eq!(page.get("/health/ready", None).0, 200);
    broker.process.kill().unwrap();
    broker.process.wait().unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    let answer = loop {
        match page.get("/health/ready", None) {
            (503, answer) => break answer,
            (status, answer) => assert!(status == 200 && Instant::now() < until, "{answer}"),
        }
    };
    assert!(answer.ends_with("not ready: the ping of the broker failed with CommunicationProblem\n"), "{answer}");
    assert_eq!(page.get("/health/live", None).0, 200);
}

#[test]
fn a_url_that_cannot_be_served_is_refused() {
    assert!(refused(&["--transport", "memory:"]).contains("memory: is a broker in this process"));
    assert!(refused(&["--transport", "none:"]).contains("no transport is registered"));
    let text = refused(&["--transport", "memory:", "--data", "folder"]);
    assert!(text.contains("cannot be used with"), "{text}");
    let text = refused(&["--transport", "file:none", "--host", "0.0.0.0"]);
    assert!(text.contains("--operator-key"), "{text}");
}
