//! The command line.

mod bench;
mod body;
mod dead_letters;
mod decode;
mod entities;
mod error;
mod failure;
mod files;
mod input;
mod interrupt;
mod log;
mod messages;
mod new_file;
mod operators;
mod options;
mod output;
mod page;
mod ports;
mod progress;
mod serve;
mod store;
mod target;
mod tls;
mod values;

use std::{
    io::{self, Write},
    process::ExitCode,
};

use clap::{CommandFactory, Parser};
use tokio::runtime::Runtime;
use tracing_subscriber::filter::LevelFilter;

pub(crate) use self::error::Error;
use self::{
    failure::{Exit, Failure},
    interrupt::ctrl_c,
    options::{Command, CommandLine, LogFormat},
    output::Output,
    target::{Target, redact_arguments},
};

/// Runs the command of the arguments of the process.
pub(crate) fn main() -> ExitCode {
    let line = match CommandLine::try_parse() {
        Ok(line) => line,
        Err(error) => return refused(&error),
    };
    match run(&line.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // As after `| head`: who reads the output has what it needs.
            if failure.exit != Exit::OutputClosed {
                report(&line.command, &failure);
            }
            failure.exit.into()
        }
    }
}

/// Prints help, the version, or what is wrong with the arguments. A URL among them may have a password.
fn refused(error: &clap::Error) -> ExitCode {
    if error.use_stderr() {
        let text = redact_arguments(&error.render().to_string(), std::env::args_os());
        if std::env::args_os().any(|argument| argument == "--json") {
            let object = Failure::usage(text.trim_end()).to_json(str::to_owned);
            let _ = writeln!(io::stderr(), "{object}");
        } else {
            let _ = write!(io::stderr(), "{text}");
        }
        return Exit::Usage.into();
    }
    let _ = error.print();
    ExitCode::SUCCESS
}

fn report(command: &Command, failure: &Failure) {
    let redact = |text: &str| match command.target() {
        Some(target) => redact_arguments(&target.url.redact(text), std::env::args_os()),
        None => redact_arguments(text, std::env::args_os()),
    };
    let line = if command.is_json() {
        failure.to_json(redact).to_string()
    } else {
        format!("error: {}", failure.redacted(redact))
    };
    let _ = writeln!(io::stderr(), "{line}");
}

fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Serve(options) => match &options.transport {
            Some(url) => return page::run(options, url),
            None if !options.tls.is_empty() => {
                return Err(Failure::usage("--tls-ca and --tls-client-cert are of the broker of --transport"));
            }
            None => return Ok(serve::run(options)?),
        },
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut CommandLine::command(), "consign", &mut script);
            return Ok(io::stdout().write_all(&script)?);
        }
        _ => {}
    }
    // What a transport warns of is in no result: a message that it has dead-lettered, for example.
    log::init(if command.is_json() { LogFormat::Json } else { LogFormat::Text }, LevelFilter::WARN);
    let mut out = Output::new(command.is_json());
    let done = Runtime::new()?.block_on(async {
        match command {
            // It deletes its queue first.
            Command::Bench(command) => command.run(&mut out, ctrl_c()).await,
            // It names what it leaves.
            Command::Store(command) => command.run(&mut out, ctrl_c()).await,
            // They release what they have received first.
            Command::Peek(command) => interrupt::run(|interrupt| command.run(&mut out, interrupt)).await,
            Command::Export(command) => interrupt::run(|interrupt| command.run(&mut out, interrupt)).await,
            _ => tokio::select! {
                biased;
                failure = ctrl_c() => Err(failure),
                done = run_on(command, &mut out) => done,
            },
        }
    });
    let flushed = out.flush();
    done.and(flushed)
}

async fn run_on(command: &Command, out: &mut Output) -> Result<(), Failure> {
    match command {
        Command::Serve(_)
        | Command::Completions { .. }
        | Command::Bench(_)
        | Command::Peek(_)
        | Command::Export(_)
        | Command::Store(_) => Ok(()),
        Command::Entities(command) => command.run(out).await,
        Command::Send(command) => command.run(out).await,
        Command::Receive(command) => command.run(out).await,
        Command::DeadLetters(command) => command.run(out).await,
        Command::Decode(command) => command.run(out).await,
        Command::Import(command) => command.run(out).await,
    }
}

impl Command {
    fn target(&self) -> Option<&Target> {
        match self {
            Self::Entities(command) => Some(command.target()),
            Self::Send(command) => Some(&command.target),
            Self::Peek(command) => Some(&command.target),
            Self::Receive(command) => Some(&command.target),
            Self::DeadLetters(command) => Some(command.target()),
            Self::Export(command) => Some(&command.target),
            Self::Import(command) => Some(&command.target),
            Self::Bench(command) => Some(&command.target),
            Self::Serve(_) | Self::Completions { .. } | Self::Decode(_) | Self::Store(_) => None,
        }
    }

    fn is_json(&self) -> bool {
        match self {
            Self::Decode(command) => command.json,
            Self::Store(command) => command.is_json(),
            Self::Serve(options) => options.log_format == LogFormat::Json,
            _ => self.target().is_some_and(|target| target.json),
        }
    }
}

#[cfg(test)]
mod tests;
