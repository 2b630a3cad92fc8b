//! `cargo xtask foreign`: this library beside encoders, producers and consumers of Python, Node and Rust.
//!
//! `scripts/foreign` installs them. The suite `codecs` is a workspace of its own, for its peers are not held to the policy of
//! dependencies; the suite `formats` is a member of this one.

use std::process::Command;

use crate::Options;
use crate::error::Error;
use crate::workspace::{cargo, for_each_line, output, root};

/// The suites, and what comes before the arguments of their programs.
const SUITES: [(&str, &[&str]); 1] =
    [("codecs", &["--manifest-path", "tests/foreign/codecs/Cargo.toml", "--target-dir", "target"])];

pub(crate) fn run(options: Options) -> Result<(), Error> {
    let suites = suites(options.suite)?;
    let folder = output(Command::new("scripts/foreign").current_dir(root()))?;
    for package in suites {
        let mut command = cargo(["run", "--quiet"]);
        command.args(package).arg("--").arg(folder.trim()).args(options.json.then_some("--json"));
        for_each_line(&mut command, |line| println!("{line}"))?;
    }
    Ok(())
}

/// One suite, or all of them.
fn suites(name: Option<&str>) -> Result<Vec<&'static [&'static str]>, Error> {
    let Some(name) = name else { return Ok(SUITES.iter().map(|(_, package)| *package).collect()) };
    let suite = SUITES.iter().find(|(suite, _)| *suite == name);
    suite.map(|(_, package)| vec![*package]).ok_or_else(|| Error::NoSuite(name.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suite_has_a_name() {
        assert_eq!(suites(Some("codecs")).unwrap(), [SUITES[0].1]);
        assert_eq!(suites(None).unwrap().len(), SUITES.len());
        assert!(matches!(suites(Some("codec")), Err(Error::NoSuite(name)) if name == "codec"));
    }
}
