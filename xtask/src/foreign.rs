//! `cargo xtask foreign`: this library beside encoders, producers and consumers of Python, Node and Rust.
//!
//! `scripts/foreign` installs them. The suite `codecs` is a workspace of its own, for its peers are not held to the policy of
//! dependencies; the suites `formats` and `peers` are members of this one.

use std::process::Command;

use crate::Options;
use crate::error::Error;
use crate::workspace::{cargo, for_each_line, output, root, run as build};

/// A program, and how it is built.
struct Suite {
    name: &'static str,
    build: &'static [&'static str],
    /// In `target/debug`.
    program: &'static str,
}

const SUITES: [Suite; 3] = [
    Suite { name: "codecs", build: &["--manifest-path", "tests/foreign/codecs/Cargo.toml"], program: "foreign-codecs" },
    // With the features of `scripts/test`, so that nothing is built again.
    Suite {
        name: "formats",
        build: &["--workspace", "--features", "full", "--example", "foreign-formats"],
        program: "examples/foreign-formats",
    },
    Suite {
        name: "peers",
        build: &["--workspace", "--features", "full", "--example", "foreign-peers"],
        program: "examples/foreign-peers",
    },
];

pub(crate) fn run(options: Options) -> Result<(), Error> {
    let suites = suites(options.suite)?;
    let folder = output(Command::new("scripts/foreign").current_dir(root()))?;
    for suite in suites {
        build(cargo(["build", "--quiet", "--target-dir", "target"]).args(suite.build))?;
        let mut program = Command::new(root().join("target/debug").join(suite.program));
        program.arg(folder.trim()).args(options.json.then_some("--json"));
        for_each_line(&mut program, |line| println!("{line}"))?;
    }
    Ok(())
}

/// One suite, or all of them.
fn suites(name: Option<&str>) -> Result<Vec<&'static Suite>, Error> {
    let Some(name) = name else { return Ok(SUITES.iter().collect()) };
    let suite = SUITES.iter().find(|suite| suite.name == name);
    suite.map(|suite| vec![suite]).ok_or_else(|| Error::NoSuite(name.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_are_found_by_name() {
        let names = |name| suites(name).map(|suites| suites.iter().map(|suite| suite.name).collect::<Vec<_>>());
        assert_eq!(names(Some("codecs")).unwrap(), ["codecs"]);
        assert_eq!(names(None).unwrap(), ["codecs", "formats", "peers"]);
        assert!(matches!(names(Some("codec")), Err(Error::NoSuite(name)) if name == "codec"));
    }
}
