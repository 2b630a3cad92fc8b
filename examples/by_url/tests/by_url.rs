//! Both programs say the same on every broker.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::{
    env,
    net::{SocketAddr, TcpStream},
    process::Command,
    time::Duration,
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
