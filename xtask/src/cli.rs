//! The command line: `cargo xtask SUBCOMMAND [OPTIONS]`. Each module has the options of its own subcommand.

use clap::{Parser, Subcommand as Subcommands};

use crate::{
    api, attacks, bench, clusters, conformance, deny, error::Error, faults, features, foreign, fuzz, guarantees, guide,
    kill, latency, load, model, msrv, mutants, nightly, options::Output, package, power_loss, random, recovery,
    sabotage, semver, shuttle, space, spec,
};

/// Run the longer checks and the benchmarks of this workspace
#[derive(Debug, Parser)]
#[command(name = "xtask", bin_name = "cargo xtask")]
#[command(subcommand_help_heading = "Subcommands", subcommand_value_name = "SUBCOMMAND")]
#[command(after_help = PURPOSES)]
pub(crate) struct CommandLine {
    #[command(subcommand)]
    subcommand: Subcommand,
}

/// The subcommands by purpose, after the list of them.
const PURPOSES: &str = "\
By purpose:
  before a commit       features, spec, guarantees, attacks, deny, package --quick, guide
  brokers and clients   conformance, foreign, faults, clusters
  the embedded broker   model, shuttle, kill, power-loss, recovery, sabotage, space, latency
  untrusted input       fuzz, random
  gaps in the tests     mutants
  cost of a message     guard, growth, memory, load, bench
  before a release      package, api, semver, msrv, nightly";

#[derive(Debug, Subcommands)]
enum Subcommand {
    /// Compare the public items of the published crates with the lists of docs/api (requires a nightly toolchain)
    Api(api::Options),
    /// Check that each input of docs/attacks.toml has a test, that docs/attacks.md lists them, and with `--run` that they pass
    Attacks(attacks::Options),
    /// Measure this library beside others and write docs/benchmarks.md (requires valgrind)
    Bench(bench::Options),
    /// Inject faults into clusters of NATS, RabbitMQ and PostgreSQL under a workload, and check its history
    Clusters(clusters::Options),
    /// Run the conformance suite on one transport and write its column of docs/conformance.md
    Conformance(conformance::Options),
    /// Check bans, licences and sources of the dependencies, and advisories if their database is present
    Deny(deny::Options),
    /// Inject faults around a handler or a transport with a real server (requires scripts/brokers)
    Faults(faults::Options),
    /// Run clippy with one feature of each group alone
    Features(features::Options),
    /// Exchange messages with encoders and clients in Python, Node and Rust (requires scripts/brokers)
    Foreign(foreign::Options),
    /// Fuzz each parser of bytes from outside, or replay inputs (requires a nightly toolchain)
    Fuzz(fuzz::Options),
    /// Fail if a message takes more instructions while the embedded broker holds more (requires valgrind)
    Growth(Output),
    /// Check that each guarantee of the README has its tests, for each transport, and that docs/guarantees.md lists them
    Guarantees(guarantees::Options),
    /// Fail if a message takes over 3 % more instructions, or more allocations, than in benches/baseline.json (requires valgrind)
    Guard(Output),
    /// Build docs/guide as a book in target/guide/book (installs mdBook if it is missing)
    Guide,
    /// Kill and terminate processes that use a durable broker, and check what they acknowledged
    Kill(kill::Options),
    /// Measure one durable send at 10, 50 and 90 % of the maximum rate, while the store is compacted
    Latency(latency::Options),
    /// Measure the program `consign serve` under hostile connections, overload and many links, and its processor time
    Load(load::Options),
    /// Print the bytes that a queue, a message, a lock, an id and a session take in the embedded broker
    Memory(Output),
    /// Compare the embedded broker, in memory and durable, with a model of it over random operations
    Model(model::Options),
    /// Check the workspace with the Rust version that it declares (installs that version by rustup if it is missing)
    Msrv,
    /// Change the code of a package in random places, and count the changes that its tests catch (installs cargo-mutants if it is missing)
    Mutants(mutants::Options),
    /// Run the long checks in about 2 hours and write target/nightly/page.md
    Nightly(nightly::Options),
    /// Build the published crates from their archives, and a crate outside of the workspace from all of them
    Package(package::Options),
    /// Simulate power loss, failures, lack of space and damage on the disk of a durable broker
    PowerLoss(power_loss::Options),
    /// Feed random bytes to the ContentType parser and to every codec
    Random(random::Options),
    /// Measure time and memory of a durable broker that opens with many messages of 1 KiB
    Recovery(recovery::Options),
    /// Run tests with one defect of the library at a time, and fail if a defect goes unnoticed
    Sabotage(Output),
    /// Check that no published crate breaks its users since the last tag (installs cargo-semver-checks if it is missing)
    Semver(semver::Options),
    /// Run the concurrency tests of the embedded broker under shuttle
    Shuttle(shuttle::Options),
    /// Measure the disk that a durable broker takes while queues are filled and emptied in random order
    Space(space::Options),
    /// Check that each rule of docs/semantics.md has a test
    Spec(Output),
}

impl CommandLine {
    /// Runs the subcommand.
    pub(crate) fn run(&self) -> Result<(), Error> {
        match &self.subcommand {
            Subcommand::Api(options) => api::run(options),
            Subcommand::Attacks(options) => attacks::run(options),
            Subcommand::Bench(options) => bench::run(options),
            Subcommand::Clusters(options) => clusters::run(options),
            Subcommand::Conformance(options) => conformance::run(options),
            Subcommand::Deny(options) => deny::run(options),
            Subcommand::Faults(options) => faults::run(options),
            Subcommand::Features(options) => features::run(options),
            Subcommand::Foreign(options) => foreign::run(options),
            Subcommand::Fuzz(options) => fuzz::run(options),
            Subcommand::Growth(output) => bench::growth::run(output),
            Subcommand::Guard(output) => bench::guard::run(output),
            Subcommand::Guarantees(options) => guarantees::run(options),
            Subcommand::Guide => guide::run(),
            Subcommand::Kill(options) => kill::run(options),
            Subcommand::Latency(options) => latency::run(options),
            Subcommand::Load(options) => load::run(options),
            Subcommand::Memory(output) => bench::memory::run(output),
            Subcommand::Model(options) => model::run(options),
            Subcommand::Msrv => msrv::run(),
            Subcommand::Mutants(options) => mutants::run(options),
            Subcommand::Nightly(options) => nightly::run(options),
            Subcommand::Package(options) => package::run(options),
            Subcommand::PowerLoss(options) => power_loss::run(options),
            Subcommand::Random(options) => random::run(options),
            Subcommand::Recovery(options) => recovery::run(options),
            Subcommand::Sabotage(output) => sabotage::run(output),
            Subcommand::Semver(options) => semver::run(options),
            Subcommand::Shuttle(options) => shuttle::run(options),
            Subcommand::Space(options) => space::run(options),
            Subcommand::Spec(output) => spec::run(output),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use clap::error::ErrorKind;

    use super::*;

    fn parse(line: &str) -> Result<Subcommand, ErrorKind> {
        let arguments = std::iter::once("xtask").chain(line.split_whitespace());
        CommandLine::try_parse_from(arguments).map(|parsed| parsed.subcommand).map_err(|error| {
            assert_eq!(error.exit_code(), 2, "{error}");
            error.kind()
        })
    }

    #[test]
    fn every_subcommand_is_well_defined_and_has_a_help_text() {
        let mut command = CommandLine::command();
        command.clone().debug_assert();
        let help = command.render_help().to_string();
        for subcommand in command.get_subcommands() {
            assert!(help.contains(&format!("\n  {}", subcommand.get_name())), "{help}");
            assert!(subcommand.get_about().is_some(), "{}", subcommand.get_name());
            let undocumented = subcommand.get_arguments().find(|option| option.get_help().is_none());
            assert!(undocumented.is_none(), "{}: {undocumented:?}", subcommand.get_name());
        }
    }

    #[test]
    fn every_subcommand_has_one_purpose() {
        let listed = PURPOSES.lines().skip(1).filter_map(|line| line.get(24..)).flat_map(|line| line.split(", "));
        let mut listed: Vec<_> = listed.filter(|name| !name.contains(' ')).collect();
        listed.sort_unstable();
        let command = CommandLine::command();
        let names: Vec<_> = command.get_subcommands().map(clap::Command::get_name).collect();
        assert_eq!(listed, names);
    }

    #[test]
    fn options_follow_the_subcommand() {
        let Ok(Subcommand::Random(random)) = parse("random --json --long") else { panic!("refused") };
        assert!(random.long && random.output.json);
        let Ok(Subcommand::Memory(memory)) = parse("memory") else { panic!("refused") };
        assert!(!memory.json);
    }

    #[test]
    fn an_option_may_have_a_value() {
        let Ok(Subcommand::Conformance(options)) = parse("conformance --transport nats --json") else {
            panic!("refused")
        };
        assert_eq!((&*options.transport, options.output.json), ("nats", true));
        assert_eq!(parse("conformance --transport").unwrap_err(), ErrorKind::InvalidValue);
        assert_eq!(parse("memory --transport embedded").unwrap_err(), ErrorKind::UnknownArgument);
    }

    #[test]
    fn an_option_may_have_a_number() {
        let numbers = |line: &str| match parse(line)? {
            Subcommand::Model(model) => Ok((model.ops, model.seeds)),
            other => panic!("{other:?}"),
        };
        assert_eq!(numbers("model --seeds 3 --ops 1_000"), Ok((Some(1_000), 3)));
        assert_eq!(numbers("model --ops 1,000"), Ok((Some(1_000), 20)));
        assert_eq!(numbers("model"), Ok((None, 20)));
        assert_eq!(numbers("model --ops 0"), Err(ErrorKind::ValueValidation));
        assert_eq!(numbers("model --seeds many"), Err(ErrorKind::ValueValidation));
        assert_eq!(numbers("model --ops"), Err(ErrorKind::InvalidValue));
        assert_eq!(parse("memory --ops 1").unwrap_err(), ErrorKind::UnknownArgument);
    }

    #[test]
    fn an_option_may_be_there_without_a_value() {
        let replay = |line: &str| match parse(line)? {
            Subcommand::Fuzz(fuzz) => Ok((fuzz.target, fuzz.seconds, fuzz.replay)),
            other => panic!("{other:?}"),
        };
        assert_eq!(replay("fuzz --seconds 5"), Ok((None, 5, None)));
        assert_eq!(replay("fuzz --replay"), Ok((None, 60, Some(None))));
        let file = Some(Some("a/b".into()));
        assert_eq!(replay("fuzz --target codec --replay a/b"), Ok((Some("codec".into()), 60, file)));
        for refused in ["fuzz --replay --seconds 5", "fuzz --json --replay"] {
            assert_eq!(replay(refused), Err(ErrorKind::ArgumentConflict));
        }
        assert_eq!(replay("fuzz --target codex"), Err(ErrorKind::InvalidValue));
    }

    #[test]
    fn an_unknown_subcommand_or_option_is_refused() {
        assert_eq!(parse("").unwrap_err(), ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand);
        assert_eq!(parse("memori").unwrap_err(), ErrorKind::InvalidSubcommand);
        assert_eq!(parse("memory --long").unwrap_err(), ErrorKind::UnknownArgument);
        assert_eq!(parse("deny --json").unwrap_err(), ErrorKind::UnknownArgument);
    }
}
