//! The programs that are measured, and how each is built.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::Value;

use crate::error::Error;
use crate::workspace::{cargo, output, run as run_command};

/// What a program may be built with one scenario of, alone: see `benches/scenario`.
const ALONE: &str = "CONSIGN_BENCH_ALONE";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Package {
    /// A bench of `consign-benches`.
    Own,
    /// A bench of `consign-opentelemetry`.
    OpenTelemetry,
    /// A program of `benches/peers`, which is a workspace of its own.
    Peers,
    /// A program of `benches/brokers`, another one.
    Brokers,
    /// A program of `benches/amqp`, another one.
    Amqp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Program {
    pub(crate) name: &'static str,
    pub(crate) package: Package,
    /// Whether it says `ready`, and waits for the end of its standard input before it does what is counted.
    pub(crate) waits: bool,
    /// Whether the whole program is counted, for other threads do what its `hot_phase` waits for.
    pub(crate) is_whole: bool,
}

const fn bench(name: &'static str, waits: bool) -> Program {
    Program { name, package: Package::Own, waits, is_whole: false }
}

impl Package {
    /// A member of the workspace, or the folder in `benches` and `target` of a workspace of its own.
    const fn name(self) -> &'static str {
        match self {
            Self::Own => "consign-benches",
            Self::OpenTelemetry => "consign-opentelemetry",
            Self::Peers => "peers",
            Self::Brokers => "brokers",
            Self::Amqp => "amqp",
        }
    }

    const fn is_member(self) -> bool {
        matches!(self, Self::Own | Self::OpenTelemetry)
    }
}

const fn peer(name: &'static str) -> Program {
    Program { package: Package::Peers, ..bench(name, false) }
}

pub(crate) const AMQP: Program = Program { package: Package::Amqp, ..peer("amqp") };
pub(crate) const LOOPBACK: Program = Program { package: Package::Amqp, ..peer("loopback") };
pub(crate) const CONSUME: Program = bench("consume", false);
pub(crate) const BROKERS: Program = Program { package: Package::Brokers, ..peer("brokers") };
pub(crate) const CALL: Program = bench("call", true);
pub(crate) const CODECS: Program = bench("codecs", false);
pub(crate) const DURABLE: Program = Program { is_whole: true, ..bench("durable", false) };
pub(crate) const ERASED: Program = bench("erased", false);
pub(crate) const GROWTH: Program = bench("growth", true);
pub(crate) const LAYERS: Program = bench("layers", false);
pub(crate) const MEMORY: Program = bench("memory", false);
pub(crate) const OBSERVED: Program = Program { package: Package::OpenTelemetry, ..bench("observed", false) };
pub(crate) const RECOVERY: Program = bench("recovery", false);
pub(crate) const ROW: Program = bench("row", false);
pub(crate) const RUSTSTREAM: Program = peer("ruststream");
pub(crate) const STORE: Program = bench("store", false);
pub(crate) const WALL: Program = peer("wall");

/// Every program, so that one which does not compile is found before it is needed.
const ALL: [Program; 17] = [
    AMQP, BROKERS, CALL, CODECS, CONSUME, DURABLE, ERASED, GROWTH, LAYERS, LOOPBACK, MEMORY, OBSERVED, RECOVERY, ROW,
    RUSTSTREAM, STORE, WALL,
];

/// Builds every program in the profile `dev`, and returns how many there are.
pub(crate) fn build_all() -> Result<usize, Error> {
    for program in ALL {
        program.build_with("dev", None)?;
    }
    Ok(ALL.len())
}

/// Builds benches of one member as they are measured, at once: the last steps of each take one processor.
pub(crate) fn build_together(package: Package, programs: &BTreeSet<&str>) -> Result<(), Error> {
    eprintln!("building {} (lto)", programs.iter().copied().collect::<Vec<_>>().join(", "));
    let mut build = cargo(["bench", "--no-run", "--quiet", "--profile", "lto", "--package", package.name()]);
    run_command(build.args(programs.iter().flat_map(|name| ["--bench", name])).env_remove(ALONE))
}

impl Program {
    /// Builds it as it is measured, with all its scenarios.
    pub(crate) fn build(&self) -> Result<PathBuf, Error> {
        self.build_with("lto", None)
    }

    /// Builds it in a profile, with all its scenarios or with one alone. The next build writes to the same place.
    pub(crate) fn build_with(&self, profile: &str, alone: Option<&str>) -> Result<PathBuf, Error> {
        eprintln!("building {} ({profile}{})", self.name, alone.map(|name| format!(", {name}")).unwrap_or_default());
        let package = self.package.name();
        let mut build = if self.package.is_member() {
            cargo(["bench", "--no-run", "--package", package, "--bench", self.name])
        } else {
            let (manifest, target) = (format!("benches/{package}/Cargo.toml"), format!("target/{package}"));
            let mut build = cargo(["build", "--locked", "--bin", self.name]);
            build.args(["--manifest-path", &*manifest, "--target-dir", &*target]);
            build
        };
        build.args(["--quiet", "--profile", profile, "--message-format", "json"]).env_remove(ALONE);
        if let Some(scenario) = alone {
            build.env(ALONE, scenario);
        }
        executable(&output(&mut build)?, self.name).ok_or(Error::NoProgram { name: self.name })
    }
}

/// The program, from what cargo says of its build.
fn executable(built: &str, name: &str) -> Option<PathBuf> {
    built.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).find_map(|message| {
        let is_it = message["target"]["name"] == name;
        message["executable"].as_str().filter(|_| is_it).map(PathBuf::from)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_found_among_others() {
        let built = r#"{"target":{"name":"other"},"executable":"a"}
not json
{"target":{"name":"consume"},"executable":null}
{"target":{"name":"consume"},"executable":"b"}"#;
        assert_eq!(executable(built, "consume"), Some(PathBuf::from("b")));
        assert_eq!(executable(built, "call"), None);
    }
}
