use std::{path::Path, time::Instant};

use crate::{
    contestant::{Contestant, Entrant, Error, Place, SIZE},
    disk::space,
};

/// Windows, and how many messages a round has of each.
pub(crate) const WINDOWS: [(usize, usize); 3] = [(1, 256), (64, 64 * 64), (512, 16 * 512)];

/// Tasks that send at once and wait each for its own message, and how many messages a round has of them.
pub(crate) const SENDERS: (usize, usize) = (16, 4_096);

/// Messages in a second, and bytes that were written for each byte of a message: one figure a round.
#[derive(Default)]
pub(crate) struct Rates {
    /// Windows are sent, one after the other.
    pub(crate) send: Vec<f64>,
    /// They are sent, and then received and completed.
    pub(crate) cycle: Vec<f64>,
    /// Of the sends, first that of the round which is not measured. Empty where the system does not count them.
    pub(crate) written: Vec<f64>,
}

/// What one round of a contestant comes to.
struct Round {
    send: f64,
    cycle: f64,
    written: Option<f64>,
}

/// One that takes part.
pub(crate) struct Runner {
    pub(crate) name: &'static str,
    pub(crate) settings: String,
    pub(crate) rates: [Rates; WINDOWS.len()],
    /// Messages in a second of all [`SENDERS`] together. Empty where a task cannot send for itself.
    pub(crate) senders: Vec<f64>,
    /// Whether it writes in this process.
    is_here: bool,
    contestant: Box<dyn Contestant>,
}

/// Those that can be had, and why the others cannot.
pub(crate) async fn entered(entrants: Vec<&Entrant>, folder: &Path) -> (Vec<Runner>, Vec<(&'static str, String)>) {
    let (mut runners, mut left_out) = (Vec::new(), Vec::new());
    let run = std::process::id();
    for Entrant { name, enter, is_here, .. } in entrants {
        let unique = format!("consign_bench_{}_{run}", name.replace('-', "_"));
        match enter(Place { folder: &folder.join(name), name: &unique }).await {
            Ok(entered) => {
                let (contestant, settings) = (entered.contestant, entered.settings);
                let (rates, senders) = (Default::default(), Vec::new());
                runners.push(Runner { name, settings, rates, senders, is_here: *is_here, contestant });
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
            let first = runner.round(window, messages / 4).await?;
            runner.rates[at].written.extend(first.written);
        }
        for round in 0..rounds {
            eprintln!("windows of {window}: round {} of {rounds}", round + 1);
            runners.rotate_left(1);
            for runner in &mut *runners {
                let Round { send, cycle, written } = runner.round(window, messages).await?;
                runner.rates[at].send.push(send);
                runner.rates[at].cycle.push(cycle);
                runner.rates[at].written.extend(written);
            }
        }
    }
    if windows.is_empty() || windows.contains(&1) {
        for round in 0..rounds {
            eprintln!("{} senders: round {} of {rounds}", SENDERS.0, round + 1);
            runners.rotate_left(1);
            for runner in &mut *runners {
                runner.round_of_senders().await?;
            }
        }
    }
    Ok(())
}

impl Runner {
    async fn round_of_senders(&mut self) -> Result<(), Error> {
        let (senders, messages) = SENDERS;
        let started = Instant::now();
        let Some(sends) = self.contestant.send_from(senders, messages / senders) else { return Ok(()) };
        sends.await.map_err(|error| failed(self.name, error))?;
        self.senders.push(f64::from(u32::try_from(messages)?) / started.elapsed().as_secs_f64());
        // As empty as it was.
        self.contestant.take(messages).await.map_err(|error| failed(self.name, error))
    }

    async fn round(&mut self, window: usize, messages: usize) -> Result<Round, Error> {
        let windows = messages.div_ceil(window);
        let before = space::written();
        let started = Instant::now();
        for _ in 0..windows {
            self.contestant.send(window).await.map_err(|error| failed(self.name, error))?;
        }
        let sent = started.elapsed();
        let written = space::written().zip(before).map(|(after, before)| after - before);
        for _ in 0..windows {
            self.contestant.take(window).await.map_err(|error| failed(self.name, error))?;
        }
        let both = started.elapsed();
        let messages = u32::try_from(windows * window).map(f64::from)?;
        let written = written.filter(|_| self.is_here).map(|written| written as f64 / (messages * SIZE as f64));
        Ok(Round { send: messages / sent.as_secs_f64(), cycle: messages / both.as_secs_f64(), written })
    }

    pub(crate) async fn end(self) -> Result<(), Error> {
        self.contestant.end().await.map_err(|error| failed(self.name, error))
    }
}

fn failed(name: &'static str, error: Error) -> Error {
    eprintln!("{name}: {error}");
    error
}
