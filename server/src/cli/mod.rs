//! The command line.

mod error;
mod options;
mod ports;
mod serve;
mod tls;

pub(crate) use self::{error::Error, options::CommandLine};
use self::options::Command;

pub(crate) fn run(line: &CommandLine) -> Result<(), Error> {
    match &line.command {
        Command::Serve(options) => serve::run(options),
    }
}
