//! `consign dead-letters resubmit` while its server is killed and started again.

use std::{
    collections::{BTreeSet, HashMap},
    process::Stdio,
    time::Duration,
};

use serde_json::Value;

use crate::{
    served::{Server, serve_on},
    support::{Shell, numbered, objects, text},
};

/// The dead letters of one round.
const COUNT: usize = 300;
const CONCURRENCY: usize = 8;
/// How often the server is killed while one queue is resubmitted.
const KILLS: usize = 3;

struct Round {
    random: fastrand::Rng,
    server: Server,
    shell: Shell,
    data: String,
}

impl Round {
    fn new(seed: u64) -> Self {
        let shell = Shell::on("");
        let data = text(&shell.path("data")).to_owned();
        let server = serve_on("0", &["--data", &data, "--create-entities"]);
        let shell = shell.with_url(&server.url);
        shell.with_input(numbered(COUNT), &["send", "orders", "--message-id", "m"]);
        shell.dead_letter("orders", COUNT, "HandlerFailed");
        Self { random: fastrand::Rng::with_seed(seed), server, shell, data }
    }

    /// Kills the server several times while the command runs, and repeats the command until no dead letter is left. Returns the
    /// guarantees that the reports name.
    async fn resubmit(&mut self, to: &[&str]) -> BTreeSet<String> {
        let concurrency = CONCURRENCY.to_string();
        let command =
            [&["dead-letters", "resubmit", "orders", "--apply", "--json", "--concurrency", &concurrency], to].concat();
        let port = self.server.port().to_owned();
        let mut guarantees = BTreeSet::new();
        let mut read = |out: &str| {
            let named = objects(out).into_iter().filter_map(|report| Some(report["guarantee"].as_str()?.to_owned()));
            guarantees.extend(named);
        };
        for _ in 0..KILLS {
            let process = self.shell.command(&command).stdin(Stdio::null()).spawn().unwrap();
            // At any place: the start of the process, the search for the last dead letter, the run.
            tokio::time::sleep(Duration::from_millis(self.random.u64(50..600))).await;
            self.server.kill();
            self.server = serve_on(&port, &["--data", &self.data, "--create-entities"]);
            // It goes on over a new connection, or has failed.
            read(&String::from_utf8(process.wait_with_output().unwrap().stdout).unwrap());
        }
        let mut runs = 0;
        while !self.shell.json(&["dead-letters", "list", "orders", "-n", "1"]).is_empty() {
            runs += 1;
            assert!(runs < 60, "dead letters stay");
            read(&self.shell.run(&command).out);
        }
        guarantees
    }

    /// The ids of the copies of each body.
    fn copies(&self, queue: &str) -> HashMap<String, Vec<Value>> {
        let body = |message: &Value| message["body"]["text"].as_str().unwrap().to_owned();
        let are_all = |messages: &[Value]| messages.iter().map(body).collect::<BTreeSet<_>>().len() >= COUNT;
        let mut copies: HashMap<_, Vec<Value>> = HashMap::new();
        for message in self.shell.drain(queue, "1s", are_all) {
            let body = body(&message);
            copies.entry(body).or_default().push(message["message_id"].clone());
        }
        copies
    }
}

/// Rules: L-25, L-26.
/// In one transaction with its removal a copy is there once. A copy that is sent to another queue is there twice at most for those
/// that a run had in work, with the same MessageId.
#[tokio::test]
async fn a_resubmission_survives_kills_of_its_server() {
    let read = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let seed = read("SEED").unwrap_or_else(|| fastrand::u64(..));
    println!("seed {seed}; repeat with SEED={seed} and the name of this test");
    let rounds = read("CONSIGN_CYCLES").map_or(2, |cycles| cycles.div_ceil(KILLS as u64));
    let (mut lost, mut doubled, mut in_one) = (0, 0, 0);
    for round in 0..rounds {
        let mut on = Round::new(seed.wrapping_add(round));
        let (to, queue, guarantee): (&[&str], _, _) = match round % 2 {
            0 => (&[], "orders", "transaction"),
            _ => (&["--to", "archive"], "archive", "same-message-id"),
        };
        let guarantees = on.resubmit(to).await;
        assert!(guarantees.iter().eq([guarantee]), "{guarantees:?}");
        let copies = on.copies(queue);
        lost += COUNT - copies.len();
        let more = copies.values().map(|ids| ids.len() - 1).sum::<usize>();
        if guarantee == "transaction" {
            in_one += more;
        } else {
            doubled += more;
            assert!(more <= KILLS * CONCURRENCY, "{more} doubled, seed {seed}");
            let is_same = |ids: &Vec<Value>| ids.iter().all(|id| *id == ids[0]);
            assert!(copies.values().all(is_same), "a second copy has the MessageId of the first");
        }
    }
    let kills = rounds * KILLS as u64;
    println!(
        "kill: {kills} servers: {lost} lost, {in_one} doubled in transactions, {doubled} doubled without, seed {seed}"
    );
    assert_eq!((lost, in_one), (0, 0), "seed {seed}");
}
