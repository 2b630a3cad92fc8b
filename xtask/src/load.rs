//! `cargo xtask load`: the program `consign serve` under load, by the example `load` of its crate.
//!
//! Processor time is measured beside the acceptor of fe2o3-amqp, a program of `tests/foreign/fe2o3`, and beside the AMQP 1.0 plugin
//! of RabbitMQ at the address in `CONSIGN_AMQP10`.

use std::process::Command;

use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::error::Error;
use crate::workspace::{cargo, root, run as build};

const PARTS: [&str; 5] = ["hostile", "overload", "links", "page", "cpu"];
/// As many files as are allowed: each connection is one.
const WITH_FILES: &str = "ulimit -n \"$(ulimit -Hn)\"; exec \"$0\" \"$@\"";

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Run only this part
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(PARTS))]
    only: Option<String>,
    /// A tenth of the connections, messages and seconds
    #[arg(long)]
    quick: bool,
}

pub(crate) fn run(options: &Options) -> Result<(), Error> {
    let program = ["--package", "consign-server", "--features", "cli", "--bin", "consign", "--example", "load"];
    build(cargo(["build", "--quiet", "--release", "--target-dir", "target"]).args(program))?;
    let built = |path: &str| root().join("target/release").join(path);
    let mut command = Command::new("sh");
    command.args(["-c", WITH_FILES]).arg(built("examples/load")).arg(built("consign"));
    if let Some(only) = &options.only {
        command.args(["--only", only]);
    }
    if options.only.as_deref().is_none_or(|only| only == "cpu") {
        let acceptor = ["--locked", "--manifest-path", "tests/foreign/fe2o3/Cargo.toml", "--bin", "acceptor"];
        build(cargo(["build", "--quiet", "--release", "--target-dir", "target"]).args(acceptor))?;
        command.arg("--acceptor").arg(built("acceptor"));
    }
    command.args(options.quick.then_some("--quick")).current_dir(root());
    crate::workspace::for_each_line(&mut command, |line| println!("{line}"))
}
