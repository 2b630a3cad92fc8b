use std::{
    io::Write,
    sync::{Arc, Mutex},
};

use clap::{CommandFactory, Parser};
use consign::{broker::Broker, transport::DynTransport};
use tokio::runtime::Runtime;

use super::{Command, CommandLine, failure::Failure, interrupt::Interrupt, output::Output};

#[path = "../../tests/command_line_brokers/session.rs"]
mod session;

mod list_limit;
mod receive;
mod reference;

#[test]
fn the_options_of_all_commands_are_consistent() {
    CommandLine::command().debug_assert();
}

/// The standard output of a command.
#[derive(Clone, Default)]
struct Printed(Arc<Mutex<Vec<u8>>>);

impl Write for Printed {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

async fn run(command: &Command, transport: &DynTransport, out: &mut Output) -> Result<(), Failure> {
    let (_interrupts, interrupt) = Interrupt::new();
    match command {
        Command::Entities(command) => command.run_on(transport, out).await,
        Command::Send(command) => command.run_on(transport, out).await,
        Command::Peek(command) => command.run_on(transport, out, &interrupt).await,
        Command::Export(command) => command.run_on(transport, out, &interrupt).await,
        Command::Receive(command) => command.run_on(transport, out).await,
        Command::DeadLetters(command) => command.run_on(transport, out).await,
        _ => panic!("not a command of the session: {command:?}"),
    }
}

/// Runs a command line, and returns its exit code and its standard output.
async fn run_line<'l>(line: impl IntoIterator<Item = &'l str>, transport: &DynTransport) -> (i32, String) {
    let line = ["consign"].into_iter().chain(line).chain(["--url", "memory:"]);
    let line = CommandLine::try_parse_from(line).unwrap();
    let printed = Printed::default();
    let mut out = Output::to(printed.clone(), false);
    let done = run(&line.command, transport, &mut out).await;
    let text = String::from_utf8(printed.0.lock().unwrap().clone()).unwrap();
    (done.map_or_else(|failure| failure.exit as i32, |()| 0), text)
}

/// The session of the other brokers, on one in this process.
#[test]
fn dead_letters_are_the_same_in_memory() {
    let (runtime, transport) = (Runtime::new().unwrap(), DynTransport::from(Broker::new()));
    session::check("memory:", "orders", &mut |arguments| {
        runtime.block_on(run_line(arguments.iter().map(String::as_str), &transport))
    });
}
