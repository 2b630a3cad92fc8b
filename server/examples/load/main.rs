//! `load PROGRAM [--only PART] [--quick] [--acceptor PROGRAM]`: the program `consign serve` under load, from a process of its own.
//!
//! `hostile` has 500 connections that send garbage, stop, or send a byte a second, beside a client that works. `overload` sends ten
//! times of what is received. `links` has 1,000 connections with 10 links each. `page` compares the page and peeks of a queue of 100,000
//! messages with those of one of 100. `cpu` measures the processor time of a message,
//! beside the AMQP 1.0 plugin of RabbitMQ at the address in `CONSIGN_AMQP10`, and an acceptor that prints its address. The process
//! fails if a part finds an error of the server, and not for a figure.

mod client;
mod cpu;
mod hostile;
mod links;
mod overload;
mod page;
mod process;

use std::{env, path::PathBuf, process::ExitCode};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What is measured, and how much of it.
struct Options {
    program: PathBuf,
    /// Another server, which prints its address.
    acceptor: Option<PathBuf>,
    only: Option<String>,
    /// A tenth of everything.
    quick: bool,
}

impl Options {
    fn read() -> Result<Self, Failure> {
        let mut arguments = env::args().skip(1);
        let program = arguments.next().ok_or("the path of the program `consign` is missing")?.into();
        let mut options = Self { program, acceptor: None, only: None, quick: false };
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{argument} has no value"));
            match argument.as_str() {
                "--only" => options.only = Some(value()?),
                "--acceptor" => options.acceptor = Some(value()?.into()),
                "--quick" => options.quick = true,
                other => return Err(format!("unknown option {other}").into()),
            }
        }
        Ok(options)
    }

    fn has(&self, part: &str) -> bool {
        self.only.as_deref().is_none_or(|only| only == part)
    }

    /// A number, or a tenth of it.
    const fn scaled(&self, number: u32) -> u32 {
        if self.quick { number / 10 } else { number }
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Failure> {
    let options = Options::read()?;
    if options.has("hostile") {
        hostile::run(&options).await?;
    }
    if options.has("overload") {
        overload::run(&options).await?;
    }
    if options.has("links") {
        links::run(&options).await?;
    }
    if options.has("page") {
        page::run(&options).await?;
    }
    if options.has("cpu") {
        cpu::run(&options).await?;
    }
    Ok(())
}
