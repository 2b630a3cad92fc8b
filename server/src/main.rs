//! The program `consign`: a command line for every broker, and `consign serve`, which serves Azure Service Bus clients.
#![forbid(unsafe_code)]

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
