use std::{path::Path, time::Instant};

use crate::contestant::{Contestant, Entrant, Error, Place};

/// Windows, and how many messages a round has of each.
pub(crate) const WINDOWS: [(usize, usize); 3] = [(1, 256), (64, 64 * 64), (512, 16 * 512)];

/// Messages in a second, one figure a round.
#[derive(Default)]
pub(crate) struct Rates {
    /// Windows are sent, one after the other.
    pub(crate) send: Vec<f64>,
    /// They are sent, and then received and completed.
    pub(crate) cycle: Vec<f64>,
}

/// One that takes part.
pub(crate) struct Runner {
    pub(crate) name: &'static str,
    pub(crate) settings: String,
    pub(crate) rates: [Rates; WINDOWS.len()],
    contestant: Box<dyn Contestant>,
}

/// Those that can be had, and why the others cannot.
pub(crate) async fn entered(entrants: Vec<&Entrant>, folder: &Path) -> (Vec<Runner>, Vec<(&'static str, String)>) {
    let (mut runners, mut left_out) = (Vec::new(), Vec::new());
    let run = std::process::id();
    for Entrant { name, enter, .. } in entrants {
        let unique = format!("consign_bench_{}_{run}", name.replace('-', "_"));
        match enter(Place { folder: &folder.join(name), name: &unique }).await {
            Ok(entered) => {
                let (contestant, settings) = (entered.contestant, entered.settings);
                runners.push(Runner { name, settings, rates: Default::default(), contestant });
            }
            Err(error) => left_out.push((*name, error.to_string())),
        }
    }
    (runners, left_out)
}

/// Rounds of all in turn, each of which begins with another.
pub(crate) async fn run(runners: &mut [Runner], rounds: usize, windows: &[usize]) -> Result<(), Error> {
    for (at, (window, messages)) in WINDOWS.into_iter().enumerate() {
        if !windows.is_empty() && !windows.contains(&window) {
            continue;
        }
        for runner in &mut *runners {
            runner.contestant.prepare(window).await?;
            // Caches, tables and files are there from then on.
            runner.round(window, messages / 4).await?;
        }
        for round in 0..rounds {
            eprintln!("windows of {window}: round {} of {rounds}", round + 1);
            runners.rotate_left(1);
            for runner in &mut *runners {
                let (send, cycle) = runner.round(window, messages).await?;
                runner.rates[at].send.push(send);
                runner.rates[at].cycle.push(cycle);
            }
        }
    }
    Ok(())
}

impl Runner {
    async fn round(&mut self, window: usize, messages: usize) -> Result<(f64, f64), Error> {
        let windows = messages.div_ceil(window);
        let started = Instant::now();
        for _ in 0..windows {
            self.contestant.send(window).await.map_err(|error| failed(self.name, error))?;
        }
        let sent = started.elapsed();
        for _ in 0..windows {
            self.contestant.take(window).await.map_err(|error| failed(self.name, error))?;
        }
        let both = started.elapsed();
        let messages = u32::try_from(windows * window).map(f64::from)?;
        Ok((messages / sent.as_secs_f64(), messages / both.as_secs_f64()))
    }

    pub(crate) async fn end(self) -> Result<(), Error> {
        self.contestant.end().await.map_err(|error| failed(self.name, error))
    }
}

fn failed(name: &'static str, error: Error) -> Error {
    eprintln!("{name}: {error}");
    error
}
