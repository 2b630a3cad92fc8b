use std::{
    future::{self, Future},
    panic::AssertUnwindSafe,
    pin::pin,
    task::Poll,
    time::{Duration, Instant},
};

use consign::{
    rules::DynRules,
    transport::{Capability, Level, Transport},
};
use futures_util::{FutureExt, StreamExt, stream};

use crate::{Backend, Case, Failure, Outcome, Report, Verdict, bench::Bench, cases, report::CaseReport};

/// The conformance suite: the cases, and how they are run.
///
/// ```no_run
/// # async fn run(backend: &dyn consign_conformance::Backend) {
/// use consign::transport::Capability;
/// use consign_conformance::Suite;
///
/// let report = Suite::new().only(Capability::Deferral).shuffled(7).run(backend).await;
/// assert!(report.is_passed(), "{report}");
/// # }
/// ```
#[derive(Debug)]
pub struct Suite {
    cases: Vec<Case>,
    /// The capabilities of which the suite has every case.
    whole: Vec<Capability>,
    seed: Option<u64>,
    at_once: usize,
    busy_limit: Duration,
}

/// For how long a case may keep the runtime busy, unless the suite sets another limit.
const BUSY_LIMIT: Duration = Duration::from_secs(60);

/// How often a case is run again after a failure of the broker itself.
const MOST_OUTAGES: usize = 2;

impl Suite {
    /// Creates a suite of all cases, one after the other, in their order.
    #[must_use]
    pub fn new() -> Self {
        Self { cases: cases::all(), whole: Capability::ALL.to_vec(), seed: None, at_once: 1, busy_limit: BUSY_LIMIT }
    }

    /// Keeps only the cases of one capability.
    #[must_use]
    pub fn only(mut self, capability: Capability) -> Self {
        self.cases.retain(|case| case.capability() == capability);
        self.whole.retain(|whole| *whole == capability);
        self
    }

    /// Keeps only the cases with `part` in their name. The suite then does not judge a capability as a whole.
    #[must_use]
    pub fn named(mut self, part: &str) -> Self {
        self.cases.retain(|case| case.name().contains(part));
        self.whole.clear();
        self
    }

    /// Runs the cases in a random order; the same seed gives the same order.
    #[must_use]
    pub fn shuffled(mut self, seed: u64) -> Self {
        fastrand::Rng::with_seed(seed).shuffle(&mut self.cases);
        self.seed = Some(seed);
        self
    }

    /// Runs up to `cases` at the same time, for a broker on real time: most of a case is waiting. At least 1.
    #[must_use]
    pub fn at_once(mut self, cases: usize) -> Self {
        self.at_once = cases.max(1);
        self
    }

    /// Sets for how long a case may run while tokio's time stands still. 60 s by default.
    ///
    /// Paused time advances only when the runtime is idle. So a transport that redelivers at once, without an end, would never
    /// reach the [deadline](crate::Timing::deadline) of its case.
    #[must_use]
    pub fn busy_limit(mut self, limit: Duration) -> Self {
        self.busy_limit = limit;
        self
    }

    /// Returns the cases.
    #[must_use]
    pub fn cases(&self) -> &[Case] {
        &self.cases
    }

    /// Runs the cases. Each has entities of its own, which are deleted after it.
    ///
    /// # Panics
    ///
    /// If a time of [`Backend::timing`] is not in the range that [`Timing`](crate::Timing) requires.
    pub async fn run(&self, backend: &dyn Backend) -> Report {
        backend.timing().check();
        // Two processes may begin a run on one broker in the same millisecond.
        let run = format!("{:x}-{:08x}", backend.now().await.as_millis(), fastrand::u32(..));
        let numbered = self.cases.iter().enumerate();
        let run = &run;
        let running = stream::iter(numbered.map(|(index, case)| async move {
            let level = backend.transport().capabilities().level(case.capability());
            let mut outages = Vec::new();
            loop {
                let prefix = format!("c{run}-{index}-{}", outages.len());
                match self.run_case(backend, case, prefix).await {
                    Outcome::Failed(failure) if outages.len() < MOST_OUTAGES && backend.is_outage(&failure) => {
                        outages.push(failure);
                    }
                    outcome => return CaseReport::new(case, level, outcome, outages),
                }
            }
        }));
        let mut cases: Vec<CaseReport> = running.buffer_unordered(self.at_once).collect().await;
        cases.sort_by_key(|case| (case.capability, case.name));
        Report {
            transport: backend.name(),
            capabilities: backend.transport().capabilities(),
            seed: self.seed,
            whole: self.whole.clone(),
            without_trait: self.whole.iter().copied().filter(|&capability| lacks_trait(backend, capability)).collect(),
            not_tested: backend.not_tested(),
            cases,
        }
    }

    async fn run_case(&self, backend: &dyn Backend, case: &Case, prefix: String) -> Outcome {
        let capabilities = backend.transport().capabilities();
        let missing = case.needs().iter().find(|need| !capabilities.supports(**need));
        if let Some(&missing) = missing {
            return Outcome::PassedOver(missing);
        }
        let bench = Bench::new(backend, prefix);
        let verdict = self.bounded(backend, (case.run)(&bench)).await.and_then(|verdict| verdict);
        let cleared = self.bounded(backend, bench.clear()).await;
        let cleared = cleared.unwrap_or_else(|_| Err(Failure::broken("its entities could not be deleted")));
        judge(case.capability(), capabilities.level(case.capability()), verdict.and(cleared))
    }

    /// Runs a part of a case: a panic and an endless wait are failures.
    async fn bounded<T>(&self, backend: &dyn Backend, part: impl Future<Output = T>) -> Result<T, Failure> {
        let deadline = backend.timing().deadline;
        let ended = tokio::time::timeout(deadline, AssertUnwindSafe(part).catch_unwind());
        match while_time_passes(self.busy_limit, ended).await {
            Some(Ok(Ok(output))) => Ok(output),
            Some(Ok(Err(_))) => Err(Failure::broken("it panicked")),
            Some(Err(_)) => Err(Failure::broken(format!("it did not end within {deadline:?}"))),
            None => {
                let limit = self.busy_limit;
                Err(Failure::broken(format!("it did not end within {limit:?} of real time: it never waits")))
            }
        }
    }
}

impl Default for Suite {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns whether the transport declares the capability, and does not implement the trait that it requires.
fn lacks_trait(backend: &dyn Backend, capability: Capability) -> bool {
    let transport = backend.transport();
    let is_implemented = match capability {
        Capability::CorrelationFilters | Capability::SqlRules => transport.extension::<DynRules>().is_some(),
        other => transport.implements(other),
    };
    transport.capabilities().supports(capability) && !is_implemented
}

/// Waits for a future until it has been polled for `limit` of real time in which tokio's time has not passed. `None` means that
/// it never waits.
#[expect(clippy::disallowed_methods, reason = "the time of a clock stands still meanwhile")]
async fn while_time_passes<F: Future>(limit: Duration, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let (began, real) = (tokio::time::Instant::now(), Instant::now());
    future::poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending if real.elapsed() > began.elapsed().saturating_add(limit) => Poll::Ready(None),
        Poll::Pending => Poll::Pending,
    })
    .await
}

/// Returns the outcome of a verdict on a transport that declares `level`.
fn judge(capability: Capability, level: Level, verdict: Verdict) -> Outcome {
    let is_unsupported = level == Level::Unsupported;
    match verdict {
        Err(failure) if failure.is_detail() => Outcome::NoSuchDetail(failure),
        Ok(()) if !is_unsupported => Outcome::Passed,
        Err(failure) if !is_unsupported => Outcome::Failed(failure),
        Err(failure) if failure.is_no_call() => Outcome::NoCall(failure),
        // A promise is about other calls, so there is none to refuse.
        Ok(()) if capability.is_promise() => Outcome::Unpromised,
        Err(failure) if capability.is_promise() && failure.is_behaviour() => Outcome::Absent(failure),
        Ok(()) => Outcome::Undeclared,
        Err(failure) if failure.refused() == Some(capability) => Outcome::Refused,
        Err(failure) => Outcome::SilentlyIgnored(failure),
    }
}

#[cfg(test)]
mod tests {
    use consign::transport::{ErrorKind, SendError, Unsupported};

    use super::*;
    use crate::{Complaint, NoCall, failure::detail};

    const CALL: Capability = Capability::Peek;
    const PROMISE: Capability = Capability::EnqueuedTime;

    fn refusal_of(capability: Capability) -> Failure {
        SendError::from(Unsupported::new(capability)).into()
    }

    /// Rules: K-40.
    #[test]
    fn an_unsupported_capability_must_be_refused_by_name() {
        let unsupported = |verdict| judge(CALL, Level::Unsupported, verdict);
        let ignored =
            |failure: Failure| assert_eq!(unsupported(Err(failure.clone())), Outcome::SilentlyIgnored(failure));
        assert_eq!(unsupported(Err(refusal_of(CALL))), Outcome::Refused);
        assert_eq!(unsupported(Ok(())), Outcome::Undeclared);
        // A refusal of something else, one without a capability, and none.
        ignored(refusal_of(Capability::Purge));
        ignored(Failure::answer(ErrorKind::NotSupported, "no"));
        ignored(Failure::behaviour("nothing happened"));
        ignored(Failure::broken("it panicked"));
    }

    /// Rules: K-40.
    #[test]
    fn a_missing_call_is_not_a_refusal() {
        let absent = Failure::from(SendError::from(NoCall::new("no such setting")));
        assert_eq!(judge(CALL, Level::Unsupported, Err(absent.clone())), Outcome::NoCall(absent.clone()));
        assert_eq!(judge(CALL, Level::Native, Err(absent.clone())), Outcome::Failed(absent.clone()));
        let no_detail = detail::<(), _>(Err(absent)).unwrap_err();
        for level in [Level::Native, Level::Unsupported] {
            assert_eq!(judge(CALL, level, Err(no_detail.clone())), Outcome::NoSuchDetail(no_detail.clone()));
        }
        assert!(!Outcome::NoSuchDetail(no_detail).counts());
    }

    /// Rules: K-40.
    #[test]
    fn cases_of_a_declared_capability_must_pass() {
        let wrong = Failure::behaviour("nothing happened");
        for (level, capability) in [(Level::Native, CALL), (Level::Emulated, CALL), (Level::Native, PROMISE)] {
            assert_eq!(judge(capability, level, Ok(())), Outcome::Passed);
            for failure in [wrong.clone(), refusal_of(capability), Failure::broken("it panicked")] {
                assert_eq!(judge(capability, level, Err(failure.clone())), Outcome::Failed(failure));
            }
        }
    }

    /// Rules: K-40.
    #[test]
    fn an_unsupported_promise_is_tried_too() {
        let unsupported = |verdict| judge(PROMISE, Level::Unsupported, verdict);
        let wrong = Failure::behaviour("another time");
        assert_eq!(unsupported(Ok(())), Outcome::Unpromised);
        assert_eq!(unsupported(Err(wrong.clone())), Outcome::Absent(wrong));
        // A case that did not end, or a server that is down, shows nothing of the promise.
        for failure in [Failure::broken("it panicked"), Failure::answer(ErrorKind::CommunicationProblem, "gone")] {
            assert_eq!(unsupported(Err(failure.clone())), Outcome::SilentlyIgnored(failure));
        }
    }

    fn report(level: Level, outcomes: Vec<Outcome>, not_tested: &'static [(Capability, &'static str)]) -> Report {
        let case = |outcome| CaseReport {
            name: "a",
            rules: Vec::new(),
            capability: CALL,
            level,
            outcome,
            outages: Vec::new(),
        };
        Report {
            transport: "one",
            capabilities: consign::transport::Capabilities::none().with_each(Capability::ALL, level),
            seed: None,
            whole: vec![CALL],
            without_trait: Vec::new(),
            not_tested,
            cases: outcomes.into_iter().map(case).collect(),
        }
    }

    /// Rules: K-40.
    #[test]
    fn a_capability_of_which_nothing_ran_fails() {
        let no_call = || Outcome::NoCall(NoCall::new("no such call").into());
        let over = || Outcome::PassedOver(Capability::Purge);
        let complaints = |level, outcomes, not_tested| {
            let report = report(level, outcomes, not_tested);
            assert_eq!(report.is_passed(), report.complaints().is_empty(), "{report}");
            report.complaints()
        };
        let reason: &[_] = &[(CALL, "there is no call")];
        for outcomes in [vec![], vec![no_call()], vec![over()]] {
            assert_eq!(complaints(Level::Native, outcomes.clone(), &[]), [Complaint::NeverPassed(CALL)]);
            assert_eq!(complaints(Level::Native, outcomes.clone(), reason), [Complaint::NeverPassed(CALL)]);
            assert_eq!(complaints(Level::Unsupported, outcomes.clone(), &[]), [Complaint::NotTested(CALL)]);
            assert_eq!(complaints(Level::Unsupported, outcomes, &[(CALL, "")]), [Complaint::NotTested(CALL)]);
        }
        assert_eq!(complaints(Level::Unsupported, vec![no_call()], reason), []);
        assert_eq!(complaints(Level::Unsupported, vec![Outcome::Refused], reason), [Complaint::Tested(CALL)]);
        assert_eq!(complaints(Level::Unsupported, vec![Outcome::Refused], &[]), []);
        assert_eq!(complaints(Level::Unsupported, vec![Outcome::Unpromised], &[]), [Complaint::NotTested(CALL)]);
        assert_eq!(complaints(Level::Native, vec![Outcome::Passed, over()], &[]), []);
    }

    #[test]
    fn a_capability_without_its_trait_fails() {
        let mut report = report(Level::Native, vec![Outcome::Passed], &[]);
        assert!(report.is_passed(), "{report}");
        report.without_trait.push(CALL);
        assert_eq!(report.complaints(), [Complaint::NoTrait(CALL)]);
        assert!(!report.is_passed(), "{report}");
    }

    #[test]
    fn a_suite_without_a_case_is_not_passed() {
        let mut empty = report(Level::Native, Vec::new(), &[]);
        empty.whole.clear();
        assert!(!empty.is_passed());
    }
}
