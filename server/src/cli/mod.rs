//! The command line.

mod error;
mod files;
mod options;
mod ports;
mod serve;
mod tls;

use self::options::Command;
pub(crate) use self::{error::Error, options::CommandLine};

pub(crate) fn run(line: &CommandLine) -> Result<(), Error> {
    match &line.command {
        Command::Serve(options) => serve::run(options),
    }
}
