//! What the suites share: cases that are run a few at once, and the line or the object that each of them prints.

use std::{
    process::{ExitCode, Stdio},
    time::Duration,
};

use futures_util::{StreamExt, future::LocalBoxFuture, stream};
use tokio::process::Command;
use tower::BoxError;

/// Longer than any case takes.
const LONG: Duration = Duration::from_secs(60);
/// Most of a case is the start of a program.
const AT_ONCE: usize = 4;

/// One exchange with a program of another language.
pub(crate) struct Case<E> {
    pub(crate) name: &'static str,
    pub(crate) run: for<'e> fn(&'e E) -> LocalBoxFuture<'e, Result<(), BoxError>>,
}

/// What became of a case.
enum Outcome {
    Passed,
    Failed(BoxError),
}

/// Runs the cases, and prints what became of them.
pub(crate) async fn run_all<E>(cases: &[Case<E>], env: &E, json: bool) -> ExitCode {
    let outcomes: Vec<_> = stream::iter(cases).map(|case| run(case, env)).buffered(AT_ONCE).collect().await;
    let failed = outcomes.iter().filter(|(_, outcome)| matches!(outcome, Outcome::Failed(_))).count();
    if json {
        println!("{}", as_json(&outcomes));
    } else {
        for (case, outcome) in &outcomes {
            match outcome {
                Outcome::Passed => println!("pass  {}", case.name),
                Outcome::Failed(error) => println!("FAIL  {}: {error}", case.name),
            }
        }
        println!("{} case(s), {failed} failed", outcomes.len());
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn run<'c, E>(case: &'c Case<E>, env: &E) -> (&'c Case<E>, Outcome) {
    let outcome = match tokio::time::timeout(LONG, (case.run)(env)).await {
        Ok(Ok(())) => Outcome::Passed,
        Ok(Err(error)) => Outcome::Failed(error),
        Err(elapsed) => Outcome::Failed(elapsed.into()),
    };
    (case, outcome)
}

fn as_json<E>(outcomes: &[(&Case<E>, Outcome)]) -> serde_json::Value {
    let case = |(case, outcome): &(&Case<E>, Outcome)| {
        let (outcome, reason) = match outcome {
            Outcome::Passed => ("passed", None),
            Outcome::Failed(error) => ("failed", Some(error.to_string())),
        };
        serde_json::json!({ "case": case.name, "outcome": outcome, "reason": reason })
    };
    outcomes.iter().map(case).collect()
}

/// Runs a program to its end. What it prints is its answer.
pub(crate) async fn answer(command: &mut Command) -> Result<String, BoxError> {
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        let printed = String::from_utf8_lossy(&output.stdout);
        // The last such line of a traceback says what happened, and all lines of a panic.
        let last = text.lines().chain(printed.lines()).rfind(|line| line.contains("Error") || line.contains("FAILED"));
        let panic = text.find("panicked at").map(|at| text[at..].trim_end());
        let last = panic.or(last).or_else(|| text.lines().next_back()).unwrap_or("");
        return Err(format!("the program failed: {last}").into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// Fails unless both are the same.
#[expect(clippy::needless_pass_by_value, reason = "most are made for the call")]
pub(crate) fn same<T: PartialEq<U> + std::fmt::Debug, U: std::fmt::Debug>(
    what: &str,
    got: T,
    expected: U,
) -> Result<(), BoxError> {
    if got == expected { Ok(()) } else { Err(format!("{what}: {got:?} instead of {expected:?}").into()) }
}
