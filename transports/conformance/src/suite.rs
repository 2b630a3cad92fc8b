use std::panic::AssertUnwindSafe;

use consign::transport::{Capability, ErrorKind, Level};
use futures_util::{FutureExt, StreamExt, stream};

use crate::{Backend, Case, Failure, Outcome, Report, Verdict, bench::Bench, cases, report::CaseReport};

/// The cases, and how they are run.
///
/// ```no_run
/// # async fn run(backend: impl consign_conformance::Backend) {
/// use consign::transport::Capability;
/// use consign_conformance::Suite;
///
/// let report = Suite::new().only(Capability::Deferral).shuffled(7).run(&backend).await;
/// assert!(report.is_passed(), "{report}");
/// # }
/// ```
#[derive(Debug)]
pub struct Suite<B: Backend> {
    cases: Vec<Case<B>>,
    seed: Option<u64>,
    at_once: usize,
}

impl<B: Backend> Suite<B> {
    /// All cases, one after the other, in their order.
    #[must_use]
    pub fn new() -> Self {
        Self { cases: cases::all(), seed: None, at_once: 1 }
    }

    /// Those of one capability.
    #[must_use]
    pub fn only(mut self, capability: Capability) -> Self {
        self.cases.retain(|case| case.capability() == capability);
        self
    }

    /// Those with `part` in their name.
    #[must_use]
    pub fn named(mut self, part: &str) -> Self {
        self.cases.retain(|case| case.name().contains(part));
        self
    }

    /// In a random order; the same seed gives the same order.
    #[must_use]
    pub fn shuffled(mut self, seed: u64) -> Self {
        fastrand::Rng::with_seed(seed).shuffle(&mut self.cases);
        self.seed = Some(seed);
        self
    }

    /// Up to `cases` at the same time, for a broker on which time is real: most of a case is waiting. At least 1.
    #[must_use]
    pub fn at_once(mut self, cases: usize) -> Self {
        self.at_once = cases.max(1);
        self
    }

    /// The cases.
    #[must_use]
    pub fn cases(&self) -> &[Case<B>] {
        &self.cases
    }

    /// Runs them. Each has entities of its own, which are deleted behind it.
    pub async fn run(&self, backend: &B) -> Report {
        // Two runs on one broker do not begin in the same millisecond.
        let run = backend.now().await.as_millis();
        let numbered = self.cases.iter().enumerate();
        let running = stream::iter(numbered.map(|(index, case)| async move {
            let outcome = run_case(backend, case, format!("c{run:x}-{index}")).await;
            CaseReport::new(case, backend.capabilities().level(case.capability()), outcome)
        }));
        let mut cases: Vec<CaseReport> = running.buffer_unordered(self.at_once).collect().await;
        cases.sort_by_key(|case| (case.capability, case.name));
        Report { transport: backend.name(), capabilities: backend.capabilities(), seed: self.seed, cases }
    }
}

impl<B: Backend> Default for Suite<B> {
    fn default() -> Self {
        Self::new()
    }
}

async fn run_case<B: Backend>(backend: &B, case: &Case<B>, prefix: String) -> Outcome {
    let capabilities = backend.capabilities();
    let level = capabilities.level(case.capability());
    if level == Level::Unsupported && case.capability().is_promise() {
        return Outcome::Refused;
    }
    // A case of something unsupported ends in a refusal, whichever of what it uses is the first to be refused.
    let missing = case.needs().iter().find(|need| !capabilities.supports(**need));
    if let (Some(&missing), true) = (missing, capabilities.supports(case.capability())) {
        return Outcome::PassedOver(missing);
    }
    let bench = Bench::new(backend, prefix);
    let deadline = backend.timing().deadline;
    let verdict = match tokio::time::timeout(deadline, AssertUnwindSafe((case.run)(&bench)).catch_unwind()).await {
        Ok(Ok(verdict)) => verdict,
        Ok(Err(_)) => Err(Failure::behaviour("it panicked")),
        Err(_) => Err(Failure::behaviour(format!("it did not end within {deadline:?}"))),
    };
    let cleared = tokio::time::timeout(deadline, AssertUnwindSafe(bench.clear()).catch_unwind()).await;
    let verdict = verdict.and_then(|()| match cleared {
        Ok(Ok(())) => Ok(()),
        _ => Err(Failure::behaviour("its entities could not be deleted")),
    });
    judge(level, verdict)
}

/// What a verdict means on a transport that says `level` of itself.
fn judge(level: Level, verdict: Verdict) -> Outcome {
    match (level, verdict) {
        (Level::Native | Level::Emulated, Ok(())) => Outcome::Passed,
        (Level::Native | Level::Emulated, Err(failure)) if failure.is_detail() => Outcome::NoSuchDetail,
        (Level::Native | Level::Emulated, Err(failure)) => Outcome::Failed(failure),
        (Level::Unsupported, Ok(())) => Outcome::Undeclared,
        (Level::Unsupported, Err(failure)) if failure.is_detail() => Outcome::Refused,
        (Level::Unsupported, Err(failure)) if failure.kind() == Some(ErrorKind::NotSupported) => Outcome::Refused,
        (Level::Unsupported, Err(failure)) => Outcome::SilentlyIgnored(failure),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k_40_what_is_unsupported_must_say_so() {
        let not_supported = Failure::answer(ErrorKind::NotSupported, "no");
        let wrong = Failure::behaviour("nothing happened");
        assert_eq!(judge(Level::Unsupported, Err(not_supported.clone())), Outcome::Refused);
        assert_eq!(judge(Level::Unsupported, Err(wrong.clone())), Outcome::SilentlyIgnored(wrong.clone()));
        assert_eq!(judge(Level::Unsupported, Ok(())), Outcome::Undeclared);
        for level in [Level::Native, Level::Emulated] {
            assert_eq!(judge(level, Ok(())), Outcome::Passed);
            assert_eq!(judge(level, Err(wrong.clone())), Outcome::Failed(wrong.clone()));
            assert_eq!(judge(level, Err(not_supported.clone())), Outcome::Failed(not_supported.clone()));
        }
    }
}
