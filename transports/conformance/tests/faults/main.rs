//! The harness of faults, on a toy: a broker that keeps its word passes, and each lie is noticed.

mod toy;

use consign_conformance::faults::{FaultReport, Plan};

use crate::toy::{Lie, Toy};

async fn report(lie: Option<Lie>) -> FaultReport {
    Plan::from_env().faults(40).run(&Toy::start(lie).await).await
}

#[tokio::test]
async fn an_honest_broker_passes() {
    let report = report(None).await;
    println!("faults: {}", report.to_json());
    assert!(report.is_passed(), "{report}");
    let figures = report.to_json();
    let figure = |name: &str| figures[name].as_u64().unwrap();
    assert!(figure("faults") >= 40 && figure("unknown") > 0, "{report}");
    // Connecting takes no step of its own; a send, a receive and a completion take one each.
    assert!((3..=8).contains(&figure("steps")), "{report}");
}

#[tokio::test]
async fn a_broker_that_loses_is_noticed() {
    let report = report(Some(Lie::Loses)).await;
    assert!(!report.is_passed() && report.to_json()["lost"].as_u64() > Some(0), "{report}");
}

#[tokio::test]
async fn a_broker_that_invents_is_noticed() {
    let report = report(Some(Lie::Invents)).await;
    assert!(!report.is_passed() && report.to_json()["unexpected"].as_u64() > Some(0), "{report}");
}

#[tokio::test]
async fn a_broker_that_forgets_completions_is_noticed() {
    let report = report(Some(Lie::ForgetsCompletions)).await;
    assert!(!report.is_passed() && report.to_json()["after_completion"].as_u64() > Some(0), "{report}");
}

#[tokio::test]
async fn a_broker_that_repeats_is_noticed() {
    let report = report(Some(Lie::Repeats)).await;
    let figures = report.to_json();
    println!("faults: {figures}");
    let figure = |name: &str| figures[name].as_u64().unwrap();
    // Two copies of a third of them are expected.
    assert!(!report.is_passed() && figure("duplicated") > figure("accepted") / 4, "{report}");
}
