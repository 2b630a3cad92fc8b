//! `cargo xtask foreign`: this library beside encoders, producers and consumers of Python, Node and Rust.
//!
//! `scripts/foreign` installs them. The suites `codecs` and `convert` and the clients of fe2o3-amqp and azservicebus are workspaces of their
//! own, because peers are not held to the policy of dependencies; the other suites are members of this one.

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
    /// A script of Python that runs beside the program, in place of it. Such a suite runs only by its name: it takes long.
    script: Option<&'static str>,
}

/// A member is built with the features of `scripts/test`, so that nothing is built again.
const SUITES: [Suite; 9] = [
    Suite {
        name: "amqp",
        builds: &[
            &["--manifest-path", "tests/foreign/fe2o3/Cargo.toml"],
            &["--workspace", "--features", "full", "--example", "foreign-amqp"],
        ],
        all_builds: &[],
        program: "examples/foreign-amqp",
        script: None,
    },
    Suite {
        name: "codecs",
        builds: &[&["--manifest-path", "tests/foreign/codecs/Cargo.toml"]],
        all_builds: &[],
        program: "foreign-codecs",
        script: None,
    },
    Suite {
        name: "convert",
        builds: &[&["--manifest-path", "tests/foreign/convert/Cargo.toml"]],
        all_builds: &[],
        program: "foreign-convert",
        script: None,
    },
    Suite {
        name: "formats",
        builds: &[&["--workspace", "--features", "full", "--example", "foreign-formats"]],
        all_builds: &[],
        program: "examples/foreign-formats",
        script: None,
    },
    Suite {
        name: "languages",
        builds: &[&["--workspace", "--features", "full", "--example", "foreign-languages"]],
        all_builds: &[],
        program: "examples/foreign-languages",
        script: None,
    },
    Suite {
        name: "page",
        builds: &[&["--workspace", "--features", "full", "--example", "foreign-page", "--bin", "consign"]],
        all_builds: &[],
        program: "examples/foreign-page",
        script: None,
    },
    Suite {
        name: "peers",
        builds: &[&["--workspace", "--features", "full", "--example", "foreign-peers"]],
        all_builds: &[],
        program: "examples/foreign-peers",
        script: None,
    },
    Suite {
        name: "servicebus",
        builds: &[&["--workspace", "--features", "full", "--example", "foreign-servicebus", "--bin", "consign"]],
        all_builds: &[
            &["--manifest-path", "tests/foreign/azservicebus/Cargo.toml"],
            &["--manifest-path", "tests/foreign/fe2o3/Cargo.toml", "--bin", "servicebus"],
        ],
        program: "examples/foreign-servicebus",
        script: None,
    },
    Suite {
        name: "servicebus-upstream",
        builds: &[&["--workspace", "--features", "full", "--bin", "consign"]],
        all_builds: &[],
        program: "consign",
        script: Some("tests/foreign/servicebus/upstream/run.py"),
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
        let path = root().join("target/debug").join(suite.program);
        let mut program = if let Some(script) = suite.script {
            let mut python = Command::new(format!("{}/venv/bin/python", folder.trim()));
            python.arg(root().join(script)).arg(folder.trim()).arg(path);
            python
        } else {
            let mut program = Command::new(path);
            program.arg(folder.trim()).args(options.output.json.then_some("--json"));
            program
        };
        if is_all {
            program.env("CONSIGN_SERVICEBUS", "all");
        }
        for_each_line(&mut program, |line| println!("{line}"))?;
    }
    Ok(())
}

/// One suite, or all of them that do not take long.
fn suites(only: Option<&str>) -> impl Iterator<Item = &'static Suite> {
    SUITES.iter().filter(move |suite| only.map_or(suite.script.is_none(), |only| only == suite.name))
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
        assert_eq!(names(Some("servicebus-upstream")), ["servicebus-upstream"]);
        assert_eq!(names(None), ["amqp", "codecs", "convert", "formats", "languages", "page", "peers", "servicebus"]);
        assert!(CommandLine::try_parse_from(["xtask", "foreign", "--suite", "codecs"]).is_ok());
        assert!(CommandLine::try_parse_from(["xtask", "foreign", "--suite", "codec"]).is_err());
    }
}
