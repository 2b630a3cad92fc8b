//! Longer checks and benchmarks, one subcommand each: `cargo xtask SUBCOMMAND [OPTIONS]`.
#![forbid(unsafe_code)]

mod api;
mod attacks;
mod bench;
mod cli;
mod clusters;
mod conformance;
mod deny;
mod error;
mod faults;
mod features;
mod folder;
mod foreign;
mod fuzz;
mod guarantees;
mod guide;
mod kill;
mod latency;
mod layers;
mod load;
mod markdown;
mod model;
mod msrv;
mod mutants;
mod nightly;
mod options;
mod package;
mod power_loss;
mod random;
mod recovery;
mod sabotage;
mod semver;
mod shuttle;
mod source;
mod space;
mod spec;
mod toolchain;
mod workspace;

use std::process::ExitCode;

use clap::Parser;

/// A command line that is refused ends with exit code 2, in the parser.
fn main() -> ExitCode {
    match cli::CommandLine::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
