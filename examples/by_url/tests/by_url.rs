//! Both programs say the same on every broker.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::{
    env,
    net::{SocketAddr, TcpStream},
    process::Command,
    time::Duration,
};

use consign::{
    administration::{Administration, QueueSettings},
    message::EntityPath,
};
use consign_conformance::left_out;
use serde_json::Value;

/// The variable that names a broker, its URL otherwise, and its port on loopback.
const BROKERS: [(&str, &str, u16); 3] = [
    ("CONSIGN_RABBITMQ", "amqp://guest:guest@127.0.0.1:5672/%2f", 5672),
    ("CONSIGN_NATS", "nats://127.0.0.1:4222", 4222),
    ("CONSIGN_POSTGRES", "postgresql://consign_test:consign_test@127.0.0.1:5432/consign_test", 5432),
];

/// The brokers at hand, and that in memory. One that a variable names has to be.
fn urls() -> Vec<String> {
    let mut urls = vec!["memory:".to_owned()];
    for (variable, url, port) in BROKERS {
        let named = env::var(variable).ok();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        if named.is_none() && TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_err() {
            left_out(&format!("a broker of the examples: none at {url}; scripts/brokers starts one"));
            continue;
        }
        urls.push(named.unwrap_or_else(|| url.to_owned()));
    }
    urls
}

fn said(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn one_consumer_runs_on_every_broker() {
    for url in urls() {
        let lines = said(env!("CARGO_BIN_EXE_consumer"), &[&url]);
        let mut lines: Vec<_> = lines.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, ["12 of bolt", "7 of nut", "dead: DeserializationFailed"], "{url}");
    }
}

/// The queue is one of RabbitMQ, which `consign-rabbitmq` creates and the consumer uses by AMQP 1.0.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_consumer_runs_on_amqp_1_0() {
    let Ok(url) = env::var("CONSIGN_RABBITMQ") else {
        return left_out("AMQP 1.0 of the examples: CONSIGN_RABBITMQ is not set; scripts/brokers starts a RabbitMQ");
    };
    let login = url.strip_prefix("amqp://").and_then(|rest| rest.split('/').next()).unwrap();
    let url_of_amqp10 = format!("amqp10://{login}");
    if consign_by_url::transports().connect(&url_of_amqp10).await.is_err() {
        return left_out("AMQP 1.0 of the examples: the RabbitMQ has no plugin rabbitmq_amqp1_0");
    }
    let rabbitmq = consign_by_url::transports().connect(&url).await.unwrap();
    let queue = EntityPath::new(&format!("orders-{:016x}", fastrand::u64(..))).unwrap();
    rabbitmq.declare(&queue, &QueueSettings::default().into()).await.unwrap();
    let name = queue.to_string();
    let lines = tokio::task::spawn_blocking(move || {
        let lines = said(env!("CARGO_BIN_EXE_consumer"), &[&url_of_amqp10, &name]);
        let mut lines: Vec<_> = lines.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    });
    let lines = lines.await.unwrap();
    rabbitmq.delete(&queue).await.unwrap();
    assert_eq!(lines, ["12 of bolt", "7 of nut", "dead: DeserializationFailed"]);
}

#[test]
fn the_job_has_the_same_table_on_every_broker() {
    let mut tables = urls().into_iter().map(|url| {
        let options = [&url, "--messages", "900", "--json"];
        let table: Value = serde_json::from_str(&said(env!("CARGO_BIN_EXE_multi_format"), &options)).unwrap();
        assert_eq!((&table["lost"], &table["duplicates"]), (&0.into(), &0.into()), "{url}");
        (url, [table["by_format"].clone(), table["dead_letters"].clone()])
    });
    let (_, in_memory) = tables.next().unwrap();
    for (url, table) in tables {
        assert_eq!(table, in_memory, "{url}");
    }
}

fn multi_format(arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_multi_format")).args(arguments).output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn the_job_tells_help_from_a_wrong_command_line() {
    for arguments in [["--help"].as_slice(), &["memory:", "--help"]] {
        assert_eq!(multi_format(arguments), (Some(0), String::new()), "{arguments:?}");
    }
    for (arguments, named) in
        [(["--messages", "5"].as_slice(), "a URL is expected"), (&["memory:", "--store", "a"], "`--store`: ")]
    {
        let (code, text) = multi_format(arguments);
        assert!(code == Some(2) && text.contains(named), "{arguments:?}: {text}");
    }
}

#[tokio::test]
async fn a_job_without_its_input_leaves_no_queue() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("file:{}", folder.path().join("store").display());
    let (code, text) = multi_format(&[&url, "--input", "/missing"]);
    assert!(code == Some(1) && text.contains("/missing"), "{text}");
    let transport = consign_by_url::transports().connect(&url).await.unwrap();
    assert_eq!(transport.list().await.unwrap(), []);
}
