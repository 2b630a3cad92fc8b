use std::env;

use consign::{
    administration::Administration,
    message::EntityPath,
    time::{Clock, SystemClock},
    transport::{Capability, DynTransport, Transport},
};

use super::{Server, full, random, report::FaultReport, steps};
use crate::Failure;

/// The plan of a run: its seed, and how many faults it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    seed: u64,
    faults: u64,
    workers: usize,
    restarts: u64,
}

impl Default for Plan {
    /// A fresh seed, 60 random faults, 6 workers and 1 restart.
    fn default() -> Self {
        Self { seed: fastrand::u64(..), faults: 60, workers: 6, restarts: 1 }
    }
}

impl Plan {
    /// Returns the default with the seed of `SEED` and the number of random faults of `CONSIGN_FAULTS`, where they are set.
    #[must_use]
    pub fn from_env() -> Self {
        let number = |name| env::var(name).ok().and_then(|text| text.parse().ok());
        let mut plan = Self::default();
        plan.seed = number("SEED").unwrap_or(plan.seed);
        plan.faults(number("CONSIGN_FAULTS").unwrap_or(plan.faults))
    }

    /// Sets how many faults happen at random. There is one restart for each 100 of them.
    #[must_use]
    pub fn faults(mut self, faults: u64) -> Self {
        self.faults = faults;
        self.restarts = faults.div_ceil(100);
        self
    }

    /// Runs it. A third of the workers send, the others receive.
    pub async fn run<S: Server>(&self, server: &S) -> FaultReport {
        let mut report = FaultReport {
            transport: server.name(),
            seed: self.seed,
            faults: 0,
            planned: self.faults,
            restarts: 0,
            steps: 0,
            totals: super::account::Totals::default(),
            answers_settlements: server.answers_settlements(),
            may_forget: false,
            failures: Vec::new(),
            left_out: Vec::new(),
        };
        if let Err(failure) = self.try_run(server, &mut report).await {
            report.failures.push(failure.to_string());
        }
        report
    }

    async fn try_run<S: Server>(&self, server: &S, report: &mut FaultReport) -> Result<(), Failure> {
        let direct = server.connect(server.address()).await?;
        let run = format!("f{:x}-{:x}", SystemClock::new().now().utc.as_millis(), self.seed & 0xffff);

        let queue = Self::queue(server, &direct, &format!("{run}-steps")).await?;
        let stepped = steps::run(server, &direct, &queue, report).await;
        direct.delete(&queue).await?;
        stepped?;

        if direct.capabilities().supports(Capability::Rejection) {
            full::run(server, &direct, &EntityPath::new(&format!("{run}-full"))?, report).await?;
        }

        let queue = Self::queue(server, &direct, &format!("{run}-random")).await?;
        drop(direct);
        let random = random::Random {
            server,
            queue: &queue,
            seed: self.seed,
            faults: self.faults,
            workers: self.workers,
            restarts: self.restarts,
        };
        random.run(report).await?;
        let direct = server.connect(server.address()).await?;
        direct.delete(&queue).await?;
        Ok(())
    }

    async fn queue<S: Server>(server: &S, direct: &DynTransport, name: &str) -> Result<EntityPath, Failure> {
        let path = EntityPath::new(name)?;
        direct.create(&path, &server.queue().into()).await?;
        Ok(path)
    }
}
