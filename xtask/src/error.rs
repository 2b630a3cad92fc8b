//! Why a subcommand failed.

use std::path::PathBuf;
use std::process::ExitStatus;

use plotters::drawing::DrawingAreaErrorKind;

use crate::attacks::problem::Problem as AttackProblem;
use crate::fuzz::finding::Finding;
use crate::guarantees::problem::Problem as GuaranteeProblem;
use crate::spec::Problem;

/// The failure to draw a plot.
pub(crate) type PlotError = DrawingAreaErrorKind<std::io::Error>;

/// The failure of a subcommand.
#[derive(Debug)]
pub(crate) enum Error {
    /// A file could not be read.
    Read { path: PathBuf, source: std::io::Error },
    /// A program could not be started or its output not be read.
    Start { command: String, source: std::io::Error },
    /// A program ran and failed.
    Failed { command: String, status: ExitStatus },
    /// Not the name of a transport, which is lower case, digits and hyphens.
    NoTransport(String),
    /// What `cargo metadata` printed is no JSON.
    Metadata(serde_json::Error),
    /// Features that do not pass alone, each as `package/feature`.
    Features(Vec<String>),
    /// A program said nothing of what it was run for.
    NoCount { command: String },
    /// cargo built no program of this name.
    NoProgram { name: &'static str },
    /// There is no valgrind.
    NoValgrind,
    /// `Cargo.toml` declares no version of Rust.
    NoRustVersion,
    /// No scenario and no part of the benches has this name.
    NoScenario(String),
    /// A file could not be written.
    Write { path: PathBuf, source: std::io::Error },
    /// What was measured before is not JSON that this subcommand has written.
    Results(serde_json::Error),
    /// A plot could not be drawn.
    Plot(PlotError),
    /// In so many scenarios a message costs more than it did.
    Worse(usize),
    /// Dependencies between packages of the workspace that are not allowed, each as `package -> dependency`.
    Layers(Vec<String>),
    /// A filter matched no test, or the test was left out, so nothing was checked.
    NoTest { filter: &'static str },
    /// The report of a run of the suite is not JSON.
    Report(serde_json::Error),
    /// The report of a run of the suite has no number under this name.
    NoNumber(&'static str),
    /// A transport fails so many cases of the suite, or declares them wrongly.
    Conformance(u64),
    /// In so many cases a message costs more while the broker holds more.
    Growth(usize),
    /// A process had so many bytes of memory, and may have fewer.
    Memory { peak: u64, goal: u64 },
    /// A store took so many bytes beside twice what it held, and may take fewer.
    Space { over: u64, goal: u64 },
    /// Features that break the library and that no test notices.
    Unnoticed(Vec<&'static str>),
    /// A test that has to notice a defect fails without one, too.
    FailsAnyway(&'static str),
    /// Tests catch this percentage of the mutants, and have to catch more.
    Survived { percent: u64, least: u64 },
    /// What is wrong with the rules, their tests or the exceptions.
    Spec(Vec<Problem>),
    /// What is wrong with the guarantees, their tests or their page.
    Guarantees(Vec<GuaranteeProblem>),
    /// What is wrong with the attacks, their tests or their page.
    Attacks(Vec<AttackProblem>),
    /// A list of guarantees or attacks is not of the form that is expected.
    Toml { path: &'static str, source: toml::de::Error },
    /// The test of this transport did not run the suite.
    NoReport(String),
    /// `cargo metadata` does not have this package.
    NoPackage(&'static str),
    /// No crate with this name is published that is not a macro.
    NoCrate(String),
    /// git has no commit of this name.
    NoCommit(String),
    /// Parts of the nightly checks that failed.
    Parts(Vec<&'static str>),
    /// There is no such toolchain of rustup.
    NoToolchain(&'static str),
    /// Inputs with which fuzz targets fail.
    Findings(Vec<Finding>),
    /// Features of a package that no group of `xtask/src/features` names, as `package/feature`.
    Ungrouped(Vec<String>),
    /// Why crates cannot be published, a line for each reason.
    Package(Vec<String>),
    /// Crates whose public items are not those of docs/api.
    Api(Vec<String>),
    /// What rustdoc wrote about a crate could not be read, for instance because the format of the toolchain is another one.
    Rustdoc { json: PathBuf, source: public_api::Error },
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Read { path, source } => write!(f, "cannot read {}: {source}", path.display()),
            Self::Start { command, source } => write!(f, "cannot run `{command}`: {source}"),
            Self::Failed { command, status } => write!(f, "`{command}` failed: {status}"),
            Self::NoTransport(name) => write!(f, "`{name}` is not the name of a transport"),
            Self::Metadata(source) => write!(f, "cannot read the output of `cargo metadata`: {source}"),
            Self::Features(failed) => write!(f, "these do not pass alone: {}", failed.join(", ")),
            Self::NoCount { command } => write!(f, "`{command}` counted nothing"),
            Self::NoProgram { name } => write!(f, "cargo built no `{name}`"),
            Self::NoRustVersion => write!(f, "Cargo.toml has no line rust-version = \"...\""),
            Self::NoValgrind => write!(f, "there is no valgrind; on Debian: apt-get install valgrind"),
            Self::NoScenario(name) => write!(f, "no scenario and no part is `{name}`"),
            Self::Write { path, source } => write!(f, "cannot write {}: {source}", path.display()),
            Self::Results(source) => write!(f, "cannot read what was measured before: {source}"),
            Self::Plot(source) => write!(f, "cannot draw a plot: {source}"),
            Self::Worse(scenarios) => write!(f, "a message costs more than it did in {scenarios} scenario(s)"),
            Self::Layers(refused) => write!(f, "not allowed, see xtask/src/layers.rs: {}", refused.join(", ")),
            Self::NoTest { filter } => {
                write!(
                    f,
                    "no test with `{filter}` in its name said what it did: is a server missing? See CONTRIBUTING.md"
                )
            }
            Self::Report(source) => write!(f, "cannot read the report of the suite: {source}"),
            Self::NoNumber(name) => write!(f, "the report of the suite has no number `{name}`"),
            Self::Conformance(cases) => write!(f, "{cases} case(s) are not as the transport declares them"),
            Self::Growth(cases) => write!(f, "the cost grows in {cases} case(s)"),
            Self::Memory { peak, goal } => {
                write!(f, "a process took {} MiB of memory, and may take {} MiB", peak >> 20, goal >> 20)
            }
            Self::Space { over, goal } => {
                let (over, goal) = (over >> 20, goal >> 20);
                write!(f, "a store took {over} MiB beside twice what it holds, and may take {goal} MiB")
            }
            Self::Unnoticed(features) => write!(f, "no test notices {}", features.join(", ")),
            Self::FailsAnyway(test) => write!(f, "`{test}` fails without a defect, too"),
            Self::Survived { percent, least } => {
                write!(f, "the tests catch {percent} % of the mutants, and have to catch {least} %")
            }
            Self::NoReport(name) => {
                write!(f, "the suite was not run on {name}: is there a server? See CONTRIBUTING.md")
            }
            Self::NoPackage(name) => write!(f, "`cargo metadata` names no package `{name}` with features"),
            Self::NoCrate(name) => write!(f, "no library with the name `{name}` is published"),
            Self::NoCommit(name) => write!(f, "git has no commit `{name}`"),
            Self::Parts(failed) => write!(f, "failed: {}", failed.join(", ")),
            Self::Ungrouped(features) => write!(f, "these features are in no group: {}", features.join(", ")),
            Self::Package(problems) => write!(f, "not ready to be published:\n  {}", problems.join("\n  ")),
            Self::Api(changed) => {
                let changed = changed.join(", ");
                write!(
                    f,
                    "the public items of {changed} have changed: cargo xtask api --write, and read the difference"
                )
            }
            Self::Rustdoc { json, source } => write!(f, "cannot read {}: {source}", json.display()),
            Self::NoToolchain(name) => {
                write!(f, "there is no {name} toolchain: rustup toolchain install {name} --profile minimal")
            }
            Self::Findings(findings) => {
                write!(f, "{} finding(s)", findings.len())?;
                findings.iter().try_for_each(|Finding { target, file }| {
                    write!(f, "\n  {file}\n  replay: cargo xtask fuzz --target {target} --replay {file}")
                })
            }
            Self::Spec(problems) => {
                write!(f, "{} problem(s)", problems.len())?;
                problems.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
            }
            Self::Guarantees(problems) => {
                write!(f, "{} problem(s)", problems.len())?;
                problems.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
            }
            Self::Attacks(problems) => {
                write!(f, "{} problem(s)", problems.len())?;
                problems.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
            }
            Self::Toml { path, source } => write!(f, "cannot read {path}: {source}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Read { source, .. } | Self::Write { source, .. } | Self::Start { source, .. } => Some(source),
            Self::Plot(source) => Some(source),
            Self::Rustdoc { source, .. } => Some(source),
            Self::Toml { source, .. } => Some(source),
            Self::Metadata(source) | Self::Report(source) | Self::Results(source) => Some(source),
            Self::Failed { .. }
            | Self::NoTransport(_)
            | Self::Features(_)
            | Self::NoCount { .. }
            | Self::NoProgram { .. }
            | Self::NoRustVersion
            | Self::NoValgrind
            | Self::NoScenario(_)
            | Self::Worse(_)
            | Self::Layers(_)
            | Self::NoTest { .. }
            | Self::NoNumber(_)
            | Self::Conformance(_)
            | Self::Growth(_)
            | Self::Memory { .. }
            | Self::Space { .. }
            | Self::Unnoticed(_)
            | Self::FailsAnyway(_)
            | Self::Survived { .. }
            | Self::NoReport(_)
            | Self::NoPackage(_)
            | Self::NoCrate(_)
            | Self::NoCommit(_)
            | Self::Parts(_)
            | Self::Ungrouped(_)
            | Self::Package(_)
            | Self::Api(_)
            | Self::NoToolchain(_)
            | Self::Findings(_)
            | Self::Guarantees(_)
            | Self::Attacks(_)
            | Self::Spec(_) => None,
        }
    }
}
