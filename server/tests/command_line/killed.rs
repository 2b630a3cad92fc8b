use std::time::Duration;

use crate::support::Shell;

const COUNT: usize = 1_000;

/// A run is killed several times while it resubmits, and repeated to its end.
#[tokio::test]
async fn a_killed_resubmission_loses_and_doubles_nothing() {
    let seed: u64 = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
    println!("seed {seed}; repeat with SEED={seed} and the name of this test");
    let mut random = fastrand::Rng::with_seed(seed);
    let shell = Shell::on_a_store();
    shell.ok(&["entities", "create", "orders"]);
    let lines: String = (1..=COUNT).map(|number| format!("{number}\n")).collect();
    shell.with_input(lines, &["send", "orders", "--message-id", "m"]);
    shell.dead_letter("orders", COUNT, "HandlerFailed");

    let concurrency = random.u8(1..=32).to_string();
    let resubmit = ["dead-letters", "resubmit", "orders", "--apply", "--concurrency", &concurrency];
    for _ in 0..4 {
        let mut process = shell.command(&resubmit).spawn().unwrap();
        // At any place: the start of the process, the search for the last dead letter, the run.
        tokio::time::sleep(Duration::from_millis(random.u64(20..800))).await;
        process.kill().unwrap();
        process.wait().unwrap();
        let counts = shell.json(&["entities", "show", "orders"])[0]["counts"].clone();
        println!("killed: {counts}");
        let total = counts["active"].as_u64().unwrap() + counts["dead_lettered"].as_u64().unwrap();
        assert_eq!(total, COUNT as u64, "each message is either a dead letter or resubmitted: {counts}");
    }
    shell.ok(&resubmit);
    let mut bodies: Vec<usize> = shell.bodies("orders").iter().map(|body| body.parse().unwrap()).collect();
    bodies.sort_unstable();
    assert_eq!(bodies, (1..=COUNT).collect::<Vec<_>>());
    assert_eq!(shell.json(&["dead-letters", "list", "orders"]).len(), 0);
}
