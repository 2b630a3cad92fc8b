use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use serde_json::Value;

use crate::{
    brokers::{Broker, brokers, queue},
    support::{Shell, numbered, objects},
};

const COUNT: usize = 300;
const KILLS: usize = 2;
const CONCURRENCY: usize = 8;

/// Rules: L-12, L-25, L-26.
/// A run is killed while it resubmits, and repeated to its end. No message is lost. A message is there twice only where the
/// transport has no transactions and the queue no duplicate detection, and then at most as often as the run had messages in
/// work.
#[tokio::test]
async fn a_killed_resubmission_loses_nothing() {
    let seed: u64 = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
    println!("seed {seed}; repeat with SEED={seed} and the name of this test");
    let mut random = fastrand::Rng::with_seed(seed);
    for Broker { name, url, .. } in brokers() {
        let settings: &[&str] = match name {
            // The locks of a killed process hold until they expire.
            "NATS" => &["--lock-duration", "5s", "--duplicate-detection", "10m"],
            "PostgreSQL" => &["--lock-duration", "5s"],
            "RabbitMQ" => &[],
            _ => continue,
        };
        let (shell, queue) = (Shell::on(&url), queue());
        shell.ok(&[&["entities", "create", &queue], settings].concat());
        shell.with_input(numbered(COUNT), &["send", &queue, "--message-id", "m"]);
        shell.dead_letter(&queue, COUNT, "HandlerFailed");

        let concurrency = CONCURRENCY.to_string();
        let resubmit = ["dead-letters", "resubmit", &queue, "--apply", "--json", "--concurrency", &concurrency];
        for _ in 0..KILLS {
            let mut process = shell.command(&resubmit).spawn().unwrap();
            tokio::time::sleep(Duration::from_millis(random.u64(100..900))).await;
            process.kill().unwrap();
            process.wait().unwrap();
        }
        let mut runs = 0;
        let guarantee = loop {
            let ran = shell.run(&resubmit);
            let report = objects(&ran.out).remove(0);
            runs += 1;
            if ran.code == Some(0) && listed(&shell, &queue) == 0 {
                break report["guarantee"].clone();
            }
            assert!(runs < 60, "{name}: {ran:?}");
        };
        let first = |message: &Value| message["properties"]["x-original-message-id"].as_str().unwrap().to_owned();
        let are_all = |messages: &[Value]| messages.iter().map(first).collect::<HashSet<_>>().len() >= COUNT;
        let mut copies: HashMap<String, Vec<Value>> = HashMap::new();
        for message in shell.drain(&queue, "2s", are_all) {
            let first = first(&message);
            copies.entry(first).or_default().push(message["message_id"].clone());
        }
        let doubled = copies.values().map(|ids| ids.len() - 1).sum::<usize>();
        println!("{name}: {guarantee}, {runs} runs after {KILLS} kills, {doubled} doubled");
        assert_eq!(copies.len(), COUNT, "{name}: none is lost");
        let most = if name == "RabbitMQ" { KILLS * CONCURRENCY } else { 0 };
        assert!(doubled <= most, "{name}: {doubled} doubled");
        let expected = match name {
            "NATS" => "same-message-id",
            "PostgreSQL" => "transaction",
            _ => "same-first-id",
        };
        assert_eq!(guarantee, expected, "{name}");
        shell.ok(&["entities", "delete", &queue, "--apply"]);
    }
}

/// How many dead letters are there.
fn listed(shell: &Shell, queue: &str) -> usize {
    shell.json(&["dead-letters", "list", queue, "-n", "1"]).len()
}
