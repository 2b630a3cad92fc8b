//! `cargo xtask foreign`: this library beside encoders, producers and consumers of Python, Node and Rust.
//!
//! `scripts/foreign` installs them. The suite `codecs` and the clients of fe2o3-amqp and azservicebus are workspaces of their own,
//! because peers are not held to the policy of dependencies; the other suites are members of this one.

use std::process::Command;

use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::error::Error;
use crate::options::Output;
use crate::workspace::{cargo, for_each_line, output, root, run as build};

/// A program, and how it is built.
struct Suite {
    name: &'static str,
    /// The parameters of each build.
    builds: &'static [&'static [&'static str]],
    /// The parameters of more builds with `--all`.
    all_builds: &'static [&'static [&'static str]],
    /// In `target/debug`.
    program: &'static str,
}

const SUITES: [Suite; 7] = [
    Suite {
        name: "amqp",
        builds: &[
            &["--manifest-path", "tests/foreign/fe2o3/Cargo.toml"],
            &["--package", "foreign-amqp", "--example", "foreign-amqp"],
        ],
        all_builds: &[],
        program: "examples/foreign-amqp",
    },
    Suite {
        name: "codecs",
        builds: &[&["--manifest-path", "tests/foreign/codecs/Cargo.toml"]],
        all_builds: &[],
        program: "foreign-codecs",
    },
    // With the features of `scripts/test`, so that nothing is built again.
    Suite {
        name: "formats",
        builds: &[&["--workspace", "--features", "full", "--example", "foreign-formats"]],
        all_builds: &[],
        program: "examples/foreign-formats",
    },
    Suite {
        name: "languages",
        builds: &[&["--workspace", "--features", "full", "--example", "foreign-languages"]],
        all_builds: &[],
        program: "examples/foreign-languages",
    },
    Suite {
        name: "page",
        builds: &[&["--workspace", "--features", "full", "--example", "foreign-page", "--bin", "consign"]],
        all_builds: &[],
        program: "examples/foreign-page",
    },
    Suite {
        name: "peers",
        builds: &[&["--workspace", "--features", "full", "--example", "foreign-peers"]],
        all_builds: &[],
        program: "examples/foreign-peers",
    },
    Suite {
        name: "servicebus",
        builds: &[&["--workspace", "--features", "full", "--example", "foreign-servicebus", "--bin", "consign"]],
        all_builds: &[
            &["--manifest-path", "tests/foreign/azservicebus/Cargo.toml"],
            &["--manifest-path", "tests/foreign/fe2o3/Cargo.toml", "--bin", "servicebus"],
        ],
        program: "examples/foreign-servicebus",
    },
];

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Run every client of the suite servicebus, in memory and on a store
    #[arg(long)]
    all: bool,
    /// Run only this suite
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(SUITES.iter().map(|suite| suite.name)))]
    suite: Option<String>,
    #[command(flatten)]
    output: Output,
}

pub(crate) fn run(options: &Options) -> Result<(), Error> {
    let folder = output(Command::new("scripts/foreign").current_dir(root()))?;
    let is_all = options.all || std::env::var_os("CONSIGN_SERVICEBUS").is_some_and(|part| part == "all");
    for suite in suites(options.suite.as_deref()) {
        let more: &[&[&str]] = if is_all { suite.all_builds } else { &[] };
        for parameters in suite.builds.iter().chain(more) {
            build(cargo(["build", "--locked", "--quiet", "--target-dir", "target"]).args(*parameters))?;
        }
        let mut program = Command::new(root().join("target/debug").join(suite.program));
        program.arg(folder.trim()).args(options.output.json.then_some("--json"));
        if is_all {
            program.env("CONSIGN_SERVICEBUS", "all");
        }
        for_each_line(&mut program, |line| println!("{line}"))?;
    }
    Ok(())
}

/// One suite, or all of them.
fn suites(only: Option<&str>) -> impl Iterator<Item = &'static Suite> {
    SUITES.iter().filter(move |suite| only.is_none_or(|only| only == suite.name))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::CommandLine;

    #[test]
    fn suites_are_found_by_name() {
        let names = |only| suites(only).map(|suite| suite.name).collect::<Vec<_>>();
        assert_eq!(names(Some("codecs")), ["codecs"]);
        assert_eq!(names(None), ["amqp", "codecs", "formats", "languages", "page", "peers", "servicebus"]);
        assert!(CommandLine::try_parse_from(["xtask", "foreign", "--suite", "codecs"]).is_ok());
        assert!(CommandLine::try_parse_from(["xtask", "foreign", "--suite", "codec"]).is_err());
    }
}
