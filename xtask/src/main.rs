//! Long checks and figures, one word each: `cargo xtask NAME [OPTIONS]`.
#![forbid(unsafe_code)]

mod bench;
mod conformance;
mod deny;
mod error;
mod faults;
mod features;
mod foreign;
mod kill;
mod model;
mod nightly;
mod power_loss;
mod random;
mod recovery;
mod rows;
mod sabotage;
mod shuttle;
mod workspace;

use std::process::ExitCode;

use error::Error;

/// What stands after the word on the command line.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
struct Options<'a> {
    long: bool,
    json: bool,
    quick: bool,
    page: bool,
    rebaseline: bool,
    only: Option<&'a str>,
    transport: Option<&'a str>,
    suite: Option<&'a str>,
    ops: Option<u64>,
    seeds: Option<u64>,
    cycles: Option<u64>,
    seed: Option<u64>,
}

/// One word of the command line and what it does.
struct Word {
    name: &'static str,
    about: &'static str,
    /// The options that the word understands; any other is refused.
    accepts: Options<'static>,
    run: fn(Options) -> Result<(), Error>,
}

const NO_OPTIONS: Options = Options {
    long: false,
    json: false,
    quick: false,
    page: false,
    rebaseline: false,
    only: None,
    transport: None,
    suite: None,
    ops: None,
    seeds: None,
    cycles: None,
    seed: None,
};
const JSON: Options = Options { json: true, ..NO_OPTIONS };
const LONG_AND_JSON: Options = Options { long: true, ..JSON };
/// Accepts a value, which the usage calls NAME.
const TRANSPORT_AND_JSON: Options = Options { transport: Some("NAME"), ..JSON };
/// Accepts a value, which the usage calls SCENARIO.
const BENCH: Options = Options { quick: true, page: true, rebaseline: true, only: Some("SCENARIO"), ..JSON };
/// Accepts numbers.
const OPS_SEEDS_LONG_AND_JSON: Options = Options { ops: Some(0), seeds: Some(0), ..LONG_AND_JSON };
const CYCLES_SEED_AND_JSON: Options = Options { cycles: Some(0), seed: Some(0), ..JSON };
const SEED_LONG_AND_JSON: Options = Options { seed: Some(0), ..LONG_AND_JSON };

const WORDS: &[Word] = &[
    Word {
        name: "bench",
        about: "what this library costs beside others; writes docs/benchmarks.md unless asked for less (wants valgrind)",
        accepts: BENCH,
        run: bench::run,
    },
    Word {
        name: "conformance",
        about: "the suite of all transports on one of them, by default `embedded`; writes its column of docs/conformance.md",
        accepts: TRANSPORT_AND_JSON,
        run: conformance::run,
    },
    Word {
        name: "deny",
        about: "bans, licences and sources of the dependencies; advisories when their database is at hand",
        accepts: NO_OPTIONS,
        run: deny::run,
    },
    Word {
        name: "faults",
        about: "faults around a handler that commits to PostgreSQL: 10,000, or 100,000 with --long; with --transport, on a \
                server: 1,000, or 10,000 (wants scripts/brokers)",
        accepts: Options { transport: Some("NAME"), ..SEED_LONG_AND_JSON },
        run: faults::run,
    },
    Word {
        name: "features",
        about: "clippy on one feature of each group alone; with --long on each group and on each feature alone",
        accepts: LONG_AND_JSON,
        run: features::run,
    },
    Word {
        name: "foreign",
        about: "encoders and producers of Python, Node and Rust, both ways; a suite is `codecs`, or `formats` (wants scripts/brokers)",
        accepts: Options { suite: Some("NAME"), ..JSON },
        run: foreign::run,
    },
    Word {
        name: "growth",
        about: "what a message costs while the broker holds little and while it holds much (wants valgrind)",
        accepts: JSON,
        run: bench::growth::run,
    },
    Word {
        name: "guard",
        about: "whether a message costs over 3 % more than benches/baseline.json says (wants valgrind)",
        accepts: JSON,
        run: bench::guard::run,
    },
    Word {
        name: "kill",
        about: "processes that use a broker on a disk are killed: 200 unless said, and a tenth as many told to end",
        accepts: CYCLES_SEED_AND_JSON,
        run: kill::run,
    },
    Word {
        name: "memory",
        about: "bytes that a queue, a message, a lock, an id and a session take in the embedded broker",
        accepts: JSON,
        run: bench::memory::run,
    },
    Word {
        name: "model",
        about: "random operations on the broker, in memory and on a disk, and on a model of it: 1,000,000 over 20 fresh seeds",
        accepts: OPS_SEEDS_LONG_AND_JSON,
        run: model::run,
    },
    Word {
        name: "nightly",
        about: "the long checks, about 2 hours; writes target/nightly/page.md; --only runs some, separated by commas",
        accepts: Options { only: Some("PARTS"), ..JSON },
        run: nightly::run,
    },
    Word {
        name: "power-loss",
        about: "the journal on a disk that loses power, fails, fills up or is damaged: 20,000 cases and more",
        accepts: SEED_LONG_AND_JSON,
        run: power_loss::run,
    },
    Word {
        name: "random",
        about: "random bytes through the ContentType parser and every codec: 100,000 a test, 1,000,000 with --long",
        accepts: LONG_AND_JSON,
        run: random::run,
    },
    Word {
        name: "recovery",
        about: "time and memory of a broker on a disk with 100,000 messages of 1 KiB, or 10,000,000 with --long (15 GB of disk)",
        accepts: LONG_AND_JSON,
        run: recovery::run,
    },
    Word { name: "rows", about: "which rows of docs/semantics.md have a test", accepts: JSON, run: rows::run },
    Word {
        name: "sabotage",
        about: "the library with one thing broken at a time, which a test has to notice",
        accepts: JSON,
        run: sabotage::run,
    },
    Word {
        name: "shuttle",
        about: "the broker under orders of threads that shuttle chooses: 5,000 a property, 200,000 with --long",
        accepts: LONG_AND_JSON,
        run: shuttle::run,
    },
];

const MISUSED: u8 = 2;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (word, options) = match parse(&arguments) {
        Ok(parsed) => parsed,
        Err(misuse) => {
            eprintln!("{misuse}\n\n{}", usage());
            return ExitCode::from(MISUSED);
        }
    };
    match (word.run)(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {error}", word.name);
            ExitCode::FAILURE
        }
    }
}

/// Why a command line was refused.
#[derive(Debug, PartialEq, Eq)]
enum Misuse {
    NoWord,
    UnknownWord(String),
    UnknownOption { word: &'static str, option: String },
    MissingValue { option: String },
    NoNumber { option: String },
}

impl std::fmt::Display for Misuse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoWord => write!(f, "a word is missing"),
            Self::UnknownWord(word) => write!(f, "unknown word `{word}`"),
            Self::UnknownOption { word, option } => write!(f, "`{word}` has no option `{option}`"),
            Self::MissingValue { option } => write!(f, "`{option}` wants a value"),
            Self::NoNumber { option } => write!(f, "`{option}` wants a number above 0"),
        }
    }
}

fn parse(arguments: &[String]) -> Result<(&'static Word, Options<'_>), Misuse> {
    let (name, rest) = arguments.split_first().ok_or(Misuse::NoWord)?;
    let word = WORDS.iter().find(|word| word.name == name).ok_or_else(|| Misuse::UnknownWord(name.clone()))?;
    let mut options = Options::default();
    let mut rest = rest.iter();
    while let Some(option) = rest.next() {
        match option.as_str() {
            "--long" if word.accepts.long => options.long = true,
            "--json" if word.accepts.json => options.json = true,
            "--quick" if word.accepts.quick => options.quick = true,
            "--page" if word.accepts.page => options.page = true,
            "--rebaseline" if word.accepts.rebaseline => options.rebaseline = true,
            "--only" if word.accepts.only.is_some() => {
                let value = rest.next().ok_or_else(|| Misuse::MissingValue { option: option.clone() })?;
                options.only = Some(value);
            }
            "--transport" if word.accepts.transport.is_some() => {
                let value = rest.next().ok_or_else(|| Misuse::MissingValue { option: option.clone() })?;
                options.transport = Some(value);
            }
            "--suite" if word.accepts.suite.is_some() => {
                let value = rest.next().ok_or_else(|| Misuse::MissingValue { option: option.clone() })?;
                options.suite = Some(value);
            }
            "--ops" if word.accepts.ops.is_some() => options.ops = Some(number(option, rest.next())?),
            "--seed" if word.accepts.seed.is_some() => options.seed = Some(number(option, rest.next())?),
            "--seeds" if word.accepts.seeds.is_some() => options.seeds = Some(number(option, rest.next())?),
            "--cycles" if word.accepts.cycles.is_some() => options.cycles = Some(number(option, rest.next())?),
            _ => return Err(Misuse::UnknownOption { word: word.name, option: option.clone() }),
        }
    }
    Ok((word, options))
}

fn number(option: &str, value: Option<&String>) -> Result<u64, Misuse> {
    let value = value.ok_or_else(|| Misuse::MissingValue { option: option.to_owned() })?;
    let number = value.replace(['_', ','], "").parse().ok().filter(|&number| number > 0);
    number.ok_or_else(|| Misuse::NoNumber { option: option.to_owned() })
}

fn usage() -> String {
    let lines = WORDS.iter().map(|Word { name, about, accepts, .. }| {
        let flags = [
            ("--long", accepts.long),
            ("--json", accepts.json),
            ("--quick", accepts.quick),
            ("--page", accepts.page),
            ("--rebaseline", accepts.rebaseline),
        ];
        let values = [
            ("--only", accepts.only),
            ("--transport", accepts.transport),
            ("--suite", accepts.suite),
            ("--ops", accepts.ops.map(|_| "N")),
            ("--seeds", accepts.seeds.map(|_| "N")),
            ("--cycles", accepts.cycles.map(|_| "N")),
            ("--seed", accepts.seed.map(|_| "N")),
        ];
        let flags = flags.iter().filter(|(_, is_accepted)| *is_accepted).map(|(flag, _)| format!(" [{flag}]"));
        let values = values.iter().filter_map(|(option, value)| value.map(|value| format!(" [{option} {value}]")));
        let call = format!("{name}{}", flags.chain(values).collect::<String>());
        format!("  {call:<40} {about}")
    });
    std::iter::once("cargo xtask NAME, where NAME is one of".into()).chain(lines).collect::<Vec<String>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The word, whether it is long and JSON, and the transport.
    type Parsed = (&'static str, bool, bool, Option<String>);

    fn parse_line(line: &str) -> Result<Parsed, Misuse> {
        let arguments: Vec<String> = line.split_whitespace().map(String::from).collect();
        parse(&arguments)
            .map(|(word, Options { long, json, transport, .. })| (word.name, long, json, transport.map(String::from)))
    }

    #[test]
    fn options_follow_the_word() {
        assert_eq!(parse_line("random --json --long"), Ok(("random", true, true, None)));
        assert_eq!(parse_line("rows"), Ok(("rows", false, false, None)));
    }

    #[test]
    fn an_option_may_have_a_value() {
        let expected = ("conformance", false, true, Some("embedded".into()));
        assert_eq!(parse_line("conformance --transport embedded --json"), Ok(expected));
        let missing = Misuse::MissingValue { option: "--transport".into() };
        assert_eq!(parse_line("conformance --transport"), Err(missing));
        let unknown = Misuse::UnknownOption { word: "rows", option: "--transport".into() };
        assert_eq!(parse_line("rows --transport embedded"), Err(unknown));
    }

    #[test]
    fn an_option_may_have_a_number() {
        let line = |line: &str| {
            let arguments: Vec<String> = line.split_whitespace().map(String::from).collect();
            parse(&arguments).map(|(word, options)| (word.name, options.ops, options.seeds))
        };
        assert_eq!(line("model --seeds 3 --ops 1_000"), Ok(("model", Some(1_000), Some(3))));
        assert_eq!(line("model"), Ok(("model", None, None)));
        assert_eq!(line("model --ops 0"), Err(Misuse::NoNumber { option: "--ops".into() }));
        assert_eq!(line("model --seeds many"), Err(Misuse::NoNumber { option: "--seeds".into() }));
        assert_eq!(line("model --ops"), Err(Misuse::MissingValue { option: "--ops".into() }));
        assert_eq!(line("rows --ops 1"), Err(Misuse::UnknownOption { word: "rows", option: "--ops".into() }));
    }

    #[test]
    fn an_unknown_word_or_option_is_refused() {
        assert_eq!(parse_line(""), Err(Misuse::NoWord));
        assert_eq!(parse_line("row"), Err(Misuse::UnknownWord("row".into())));
        assert_eq!(parse_line("rows --long"), Err(Misuse::UnknownOption { word: "rows", option: "--long".into() }));
    }

    #[test]
    fn the_usage_names_every_word() {
        let usage = usage();
        assert!(WORDS.iter().all(|word| usage.contains(word.name) && usage.contains(word.about)));
    }
}
