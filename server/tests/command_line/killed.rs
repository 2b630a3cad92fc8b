use std::time::Duration;

use crate::{
    served::serve,
    support::{Shell, numbered, objects},
};

/// The dead letters of a test.
const COUNT: usize = 1_000;

struct Killed {
    shell: Shell,
    random: fastrand::Rng,
}

impl Killed {
    /// A queue with dead letters.
    fn new() -> Self {
        let shell = Shell::on_a_store();
        shell.ok(&["entities", "create", "orders"]);
        Self::on(shell, COUNT)
    }

    /// A queue with so many dead letters.
    fn on(shell: Shell, count: usize) -> Self {
        let seed: u64 =
            std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
        println!("seed {seed}; repeat with SEED={seed} and the name of this test");
        let lines = numbered(count);
        shell.with_input(lines, &["send", "orders", "--message-id", "m"]);
        shell.dead_letter("orders", count, "HandlerFailed");
        Self { shell, random: fastrand::Rng::with_seed(seed) }
    }

    /// Runs a command and kills it several times, and then runs it to its end.
    async fn run(&mut self, command: &[&str], check: impl Fn(&Shell)) {
        let concurrency = self.random.u8(1..=32).to_string();
        let command = [command, &["--concurrency", &concurrency]].concat();
        for _ in 0..4 {
            let mut process = self.shell.command(&command).spawn().unwrap();
            // At any place: the start of the process, the search for the last dead letter, the run.
            tokio::time::sleep(Duration::from_millis(self.random.u64(20..800))).await;
            process.kill().unwrap();
            process.wait().unwrap();
            check(&self.shell);
        }
        self.shell.ok(&command);
        assert_eq!(self.shell.json(&["dead-letters", "list", "orders"]).len(), 0);
    }

    /// Each of so many messages is in the queue once.
    fn check_all(&self, queue: &str, count: usize) {
        let messages = self.shell.drain(queue, "1s", |messages| messages.len() >= count);
        let bodies = messages.iter().map(|message| message["body"]["text"].as_str().unwrap().parse().unwrap());
        let mut bodies: Vec<usize> = bodies.collect();
        bodies.sort_unstable();
        assert_eq!(bodies, (1..=count).collect::<Vec<_>>());
    }
}

/// Rules: L-25.
#[tokio::test]
async fn a_killed_resubmission_loses_and_doubles_nothing() {
    let mut killed = Killed::new();
    let check = |shell: &Shell| {
        let counts = shell.json(&["entities", "show", "orders"])[0]["counts"].clone();
        println!("killed: {counts}");
        let total = counts["active"].as_u64().unwrap() + counts["dead_lettered"].as_u64().unwrap();
        assert_eq!(total, COUNT as u64, "each message is either a dead letter or resubmitted: {counts}");
    };
    killed.run(&["dead-letters", "resubmit", "orders", "--apply"], check).await;
    killed.check_all("orders", COUNT);
}

/// Rules: L-26.
#[tokio::test]
async fn duplicate_detection_drops_the_second_copy_of_a_killed_resubmission() {
    let mut killed = Killed::new();
    killed.shell.ok(&["entities", "create", "archive", "--duplicate-detection", "10m"]);
    killed.run(&["dead-letters", "resubmit", "orders", "--to", "archive", "--apply"], |_| {}).await;
    killed.check_all("archive", COUNT);
}

/// A killed process loses its connection, and the server rolls its transactions back.
/// Rules: L-25.
#[tokio::test]
async fn a_killed_resubmission_on_a_server_loses_and_doubles_nothing() {
    const COUNT: usize = 300;
    let server = serve();
    let mut killed = Killed::on(Shell::on(&server.url), COUNT);
    let resubmit = ["dead-letters", "resubmit", "orders", "--apply", "--json"];
    let mut resubmitted = 0;
    for _ in 0..4 {
        let mut process = killed.shell.command(&resubmit).spawn().unwrap();
        tokio::time::sleep(Duration::from_millis(killed.random.u64(50..400))).await;
        process.kill().unwrap();
        process.wait().unwrap();
    }
    // A lock that the server has not released yet is released when the connection is closed.
    while resubmitted < 60 && !killed.shell.json(&["dead-letters", "list", "orders", "-n", "1"]).is_empty() {
        let ran = killed.shell.run(&resubmit);
        assert_eq!(objects(&ran.out)[0]["guarantee"], "transaction", "{ran:?}");
        resubmitted += 1;
    }
    killed.check_all("orders", COUNT);
}
