use std::{path::Path, time::Instant};

use crate::{
    contestant::{Contestant, Entered, Entrant, Error, Place, SIZE},
    disk::space,
    processes::{Cpu, Server},
};

/// Windows, and how many messages of [`SIZE`] a round has of each.
pub(crate) const WINDOWS: [(usize, usize); 3] = [(1, 256), (64, 64 * 64), (512, 16 * 512)];

/// Tasks that send at once and wait each for its own message, and how many messages a round has of them.
pub(crate) const SENDERS: (usize, usize) = (16, 4_096);

/// A round sends no more bytes than this, so that large messages do not fill the disk.
const MOST_BYTES: usize = 16 << 20;

/// What is done with messages in one part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// A window is sent, and acknowledged as a whole, before the next one is; then they are received and completed.
    Windows { window: usize, messages: usize, size: usize },
    /// So many senders and so many receivers at the same time.
    Exchange { tasks: usize, messages: usize, size: usize },
}

/// The result of one round, for one message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    pub(crate) per_second: f64,
    /// CPU time of this process and of the server, in microseconds.
    pub(crate) client: f64,
    /// `None` where there is no server, or its process was not found.
    pub(crate) server: Option<f64>,
}

/// The rounds of one plan.
pub(crate) struct Rounds {
    pub(crate) plan: Plan,
    pub(crate) send: Vec<Cost>,
    /// Messages are sent, and then received and completed.
    pub(crate) cycle: Vec<Cost>,
    /// Bytes written for a byte of a message that is sent, first in the round that is not measured. Empty where the system does
    /// not count them.
    pub(crate) written: Vec<f64>,
}

/// What one round of a contestant comes to.
struct Round {
    send: Option<Cost>,
    cycle: Cost,
    written: Option<f64>,
}

/// One that takes part.
pub(crate) struct Runner {
    pub(crate) name: &'static str,
    pub(crate) settings: String,
    pub(crate) rounds: Vec<Rounds>,
    /// Messages in a second of all [`SENDERS`] together. Empty where a task cannot send for itself.
    pub(crate) senders: Vec<f64>,
    /// Whether it writes in this process.
    is_here: bool,
    contestant: Box<dyn Contestant>,
    server: Server,
}

/// The plans of a run: windows of [`SIZE`], unless others are given, and then exchanges.
pub(crate) fn plans(windows: &[usize], sizes: &[usize], tasks: &[usize]) -> Vec<Plan> {
    let is_selected = |window: &usize| windows.is_empty() && tasks.is_empty() || windows.contains(window);
    let sizes = if sizes.is_empty() { &[SIZE] } else { sizes };
    let few = |messages: usize, size: usize| messages.min(MOST_BYTES / size.max(1)).max(1);
    let windows = sizes.iter().flat_map(|&size| {
        let of_size = move |&(window, messages): &(usize, usize)| Plan::Windows {
            window,
            messages: few(messages, size).max(window),
            size,
        };
        WINDOWS.iter().filter(move |(window, _)| is_selected(window)).map(of_size)
    });
    let exchange =
        |&tasks: &usize| sizes.iter().map(move |&size| Plan::Exchange { tasks, messages: few(2_048, size), size });
    windows.chain(tasks.iter().flat_map(exchange)).collect()
}

/// Starts the contestants. Returns those that started, and why the others did not.
pub(crate) async fn entered(entrants: Vec<&Entrant>, folder: &Path) -> (Vec<Runner>, Vec<(&'static str, String)>) {
    let (mut runners, mut left_out) = (Vec::new(), Vec::new());
    let run = std::process::id();
    for Entrant { name, enter, is_here, .. } in entrants {
        let unique = format!("consign_bench_{}_{run}", name.replace('-', "_"));
        let entered = enter(Place { folder: &folder.join(name), name: &unique }).await;
        let found = entered.and_then(|entered| Ok((Server::at(entered.contestant.port())?, entered)));
        match found {
            Ok((server, Entered { contestant, settings })) => {
                let (rounds, senders) = (Vec::new(), Vec::new());
                runners.push(Runner { name, settings, rounds, senders, is_here: *is_here, contestant, server });
            }
            Err(error) => left_out.push((*name, error.to_string())),
        }
    }
    (runners, left_out)
}

/// Rounds of all in turn, each of which begins with another.
pub(crate) async fn run(runners: &mut [Runner], rounds: usize, plans: &[Plan]) -> Result<(), Error> {
    for &plan in plans {
        for runner in &mut *runners {
            runner.rounds.push(Rounds { plan, send: Vec::new(), cycle: Vec::new(), written: Vec::new() });
            runner.contestant.resize(plan.size());
            if let Plan::Windows { window, .. } = plan {
                runner.contestant.prepare(window).await?;
            }
            // Caches, tables and files are there from then on.
            let first = runner.round(plan.shorter()).await?;
            if let Some(rounds) = runner.rounds.last_mut() {
                rounds.written.extend(first.written);
            }
        }
        for round in 0..rounds {
            eprintln!("{plan:?}: round {} of {rounds}", round + 1);
            runners.rotate_left(1);
            for runner in &mut *runners {
                let Round { send, cycle, written } = runner.round(plan).await?;
                if let Some(rounds) = runner.rounds.last_mut() {
                    rounds.send.extend(send);
                    rounds.cycle.push(cycle);
                    rounds.written.extend(written);
                }
            }
        }
        if matches!(plan, Plan::Windows { window: 1, .. }) {
            for round in 0..rounds {
                eprintln!("{} senders: round {} of {rounds}", SENDERS.0, round + 1);
                runners.rotate_left(1);
                for runner in &mut *runners {
                    runner.round_of_senders().await?;
                }
            }
        }
    }
    Ok(())
}

impl Plan {
    pub(crate) fn size(self) -> usize {
        let (Self::Windows { size, .. } | Self::Exchange { size, .. }) = self;
        size
    }

    fn shorter(self) -> Self {
        match self {
            Self::Windows { window, messages, size } => Self::Windows { window, messages: messages / 4, size },
            Self::Exchange { tasks, messages, size } => Self::Exchange { tasks, messages: messages / 4, size },
        }
    }
}

/// The time and the CPU time since the beginning.
struct Since {
    started: Instant,
    cpu: Cpu,
}

impl Since {
    fn now(server: &Server) -> Result<Self, Error> {
        Ok(Self { cpu: server.cpu()?, started: Instant::now() })
    }

    fn cost(&self, server: &Server, messages: usize) -> Result<Cost, Error> {
        let elapsed = self.started.elapsed();
        let cpu = server.cpu()?;
        let messages = u32::try_from(messages).map(f64::from)?;
        let each = |now: u64, before: u64| now.saturating_sub(before) as f64 / 1_000.0 / messages;
        Ok(Cost {
            per_second: messages / elapsed.as_secs_f64(),
            client: each(cpu.client, self.cpu.client),
            server: cpu.server.zip(self.cpu.server).map(|(now, before)| each(now, before)),
        })
    }
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

    async fn round(&mut self, plan: Plan) -> Result<Round, Error> {
        let failed = |error| failed(self.name, error);
        let since = Since::now(&self.server)?;
        match plan {
            Plan::Windows { window, messages, size } => {
                let windows = messages.div_ceil(window);
                let before = space::written().filter(|_| self.is_here);
                for _ in 0..windows {
                    self.contestant.send(window).await.map_err(failed)?;
                }
                let send = since.cost(&self.server, windows * window)?;
                let bytes = u32::try_from(windows * window * size).map(f64::from)?;
                let written = space::written().zip(before).map(|(after, before)| (after - before) as f64 / bytes);
                for _ in 0..windows {
                    self.contestant.take(window).await.map_err(failed)?;
                }
                Ok(Round { send: Some(send), cycle: since.cost(&self.server, windows * window)?, written })
            }
            Plan::Exchange { tasks, messages, .. } => {
                self.contestant.exchange(tasks, messages).await.map_err(failed)?;
                Ok(Round { send: None, cycle: since.cost(&self.server, messages)?, written: None })
            }
        }
    }

    pub(crate) async fn end(self) -> Result<(), Error> {
        self.contestant.end().await.map_err(|error| failed(self.name, error))
    }
}

fn failed(name: &'static str, error: Error) -> Error {
    eprintln!("{name}: {error}");
    error
}
