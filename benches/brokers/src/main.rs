//! Ways to have a durable queue, beside each other: messages of 1 KiB in windows of 1, 64 and 512.
//!
//! ```text
//! brokers [--only disk|transports|NAME] [--rounds N] [--window N] [--size BYTES] [--tasks N] [--folder PATH] [--json]
//! brokers --rest QUEUES --only rabbitmq|nats|postgres
//! brokers --kinds [--rounds N] --only rabbitmq|nats|postgres
//! brokers --depth --only rabbitmq|nats|postgres
//! ```
//!
//! A window is sent and all of it acknowledged before the next one is. `send` is that alone, `cycle` is that and then to
//! receive as many, complete them and have that acknowledged. The contestants take turns within a round, and each round
//! begins with another; a figure is the median of the rounds (9), and a ratio the median of the ratios in one round, for
//! the machine may be slower in one round than in the next. `--only`, `--window`, `--size` and `--tasks` may be given several
//! times. With `--tasks` so many senders and so many receivers work at the same time, each on one message after the other.
//!
//! Each figure has the CPU time of this process and of the server, which wall clock hides where both have cores of their own. It
//! is that of the threads, between the same two moments as the rate.
//!
//! `--rest` measures nothing of that, but what idle receivers of so many queues cost: tasks, memory, requests, CPU time.
//! `--kinds` measures dead letters, sessions and calls beside plain messages, one after the other. `--depth` measures messages of a
//! queue that holds up to a million, sessions of one that has up to 10,000, and the memory of messages in flight.
//!
//! With windows of 1 come rounds in which 16 tasks send at once, each one message after the other. Bytes written for a
//! byte of a message are those that this process has the system write while windows are sent: in the round that is not
//! measured, in which files are made, and in the median of the others.
//!
//! Each file says at its top how its contestant is set up. One that cannot start is reported as left out.
#![forbid(unsafe_code)]

mod alone;
mod contestant;
mod depth;
mod disk;
mod exchange;
mod kinds;
mod processes;
mod report;
mod rest;
mod rounds;
mod servers;

use std::{path::PathBuf, process::ExitCode};

use alone::What;
use contestant::{Entrant, Error, Part, Place, Unexpected};
use disk::{durable, fjall, floor, handed, redb, segments, space, sqlite};
use servers::{consign, nats, postgres, rabbitmq};

/// The first of those that take part is the one that the others stand beside.
const ENTRANTS: &[Entrant] = &[
    Entrant { name: "durable", part: Part::Disk, is_here: true, enter: durable::enter },
    Entrant { name: "durable-batch", part: Part::Disk, is_here: true, enter: durable::enter_in_batches },
    Entrant { name: "consign-rabbitmq", part: Part::Transports, is_here: false, enter: consign::enter_rabbitmq },
    Entrant { name: "consign-nats", part: Part::Transports, is_here: false, enter: consign::enter_nats },
    Entrant { name: "consign-postgres", part: Part::Transports, is_here: false, enter: consign::enter_postgres },
    Entrant { name: "floor", part: Part::Both, is_here: true, enter: floor::enter },
    Entrant { name: "floor-handed", part: Part::Disk, is_here: true, enter: handed::enter },
    Entrant { name: "append", part: Part::Disk, is_here: true, enter: floor::enter_append },
    Entrant { name: "redb", part: Part::Disk, is_here: true, enter: redb::enter },
    Entrant { name: "redb-quick", part: Part::Disk, is_here: true, enter: redb::enter_quick_repair },
    Entrant { name: "fjall", part: Part::Disk, is_here: true, enter: fjall::enter },
    Entrant { name: "segments", part: Part::Disk, is_here: true, enter: segments::enter },
    Entrant { name: "sqlite", part: Part::Disk, is_here: true, enter: sqlite::enter },
    Entrant { name: "rabbitmq", part: Part::Both, is_here: false, enter: rabbitmq::enter },
    Entrant { name: "nats", part: Part::Both, is_here: false, enter: nats::enter },
    Entrant { name: "nats-synced", part: Part::Disk, is_here: false, enter: nats::enter_written_through },
    Entrant { name: "skip-locked", part: Part::Transports, is_here: false, enter: postgres::enter_skip_locked },
    Entrant { name: "pgmq", part: Part::Transports, is_here: false, enter: postgres::enter_timed },
];

struct Options {
    only: Vec<String>,
    rounds: usize,
    windows: Vec<usize>,
    sizes: Vec<usize>,
    tasks: Vec<usize>,
    /// Queues of idle receivers.
    rest: Option<usize>,
    /// Whether kinds of messages are measured, or a queue that fills.
    kinds: bool,
    depth: bool,
    folder: Option<PathBuf>,
    json: bool,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("brokers: {error}");
            ExitCode::FAILURE
        }
    }
}

fn options() -> Result<Options, Error> {
    let (windows, sizes, tasks) = (Vec::new(), Vec::new(), Vec::new());
    let (only, rest, folder) = (Vec::new(), None, None);
    let (kinds, depth) = (false, false);
    let mut options = Options { only, rounds: 9, windows, sizes, tasks, rest, kinds, depth, folder, json: false };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(Unexpected("an option needs a value"));
        match &*argument {
            "--json" => options.json = true,
            "--kinds" => options.kinds = true,
            "--depth" => options.depth = true,
            "--only" => options.only.push(value()?),
            "--rounds" => options.rounds = value()?.parse()?,
            "--window" => options.windows.push(value()?.parse()?),
            "--size" => options.sizes.push(value()?.parse()?),
            "--tasks" => options.tasks.push(value()?.parse()?),
            "--rest" => options.rest = Some(value()?.parse()?),
            "--folder" => options.folder = Some(value()?.into()),
            _ => return Err(Unexpected("there is no such option").into()),
        }
    }
    Ok(options)
}

fn run() -> Result<(), Error> {
    let options = options()?;
    let is_selected = |entrant: &&Entrant| {
        let is_it = |only: &String| *only == entrant.name || entrant.part.is_of(only);
        options.only.is_empty() && entrant.part.is_of(Part::DISK) || options.only.iter().any(is_it)
    };
    let entrants: Vec<&Entrant> = ENTRANTS.iter().filter(is_selected).collect();
    let names: Vec<&'static str> = entrants.iter().map(|entrant| entrant.name).collect();
    // Beside the program, which is on a disk, as the folder of temporary files need not be.
    let program = std::env::current_exe()?;
    let beside = program.parent().ok_or(Unexpected("the program is in no folder"))?;
    let parent = options.folder.as_deref().unwrap_or(beside);
    space::check(parent)?;
    let folder = tempfile::Builder::new().prefix("brokers-").tempdir_in(parent)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    if options.rest.is_some() || options.kinds || options.depth {
        for transport in &options.only {
            let unique = format!("consign_bench_{transport}_{}", std::process::id());
            let place = Place { folder: &folder.path().join(transport), name: &unique };
            let report = match options.rest {
                Some(queues) => runtime.block_on(rest::run(transport, queues, place))?,
                None => {
                    let what = if options.depth { What::Depth } else { What::Kinds { rounds: options.rounds } };
                    runtime.block_on(alone::run(transport, what, place))?
                }
            };
            println!("{report}");
        }
        return Ok(());
    }
    let plans = rounds::plans(&options.windows, &options.sizes, &options.tasks);
    runtime.block_on(async {
        let (mut runners, left_out) = rounds::entered(entrants, folder.path()).await;
        let measured = rounds::run(&mut runners, options.rounds, &plans).await;
        if measured.is_ok() {
            let figures = report::figures(&runners, &names);
            if options.json {
                println!("{}", report::json(&figures, &runners, &left_out));
            } else {
                println!("{}", report::text(&figures, &runners, &left_out));
            }
        }
        for runner in runners {
            runner.end().await?;
        }
        measured
    })
}
