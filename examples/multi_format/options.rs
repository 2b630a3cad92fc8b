use std::path::PathBuf;

use crate::failure::Failure;

pub const HELP: &str = "\
Sends recorded webhook events through one queue in every format, and accounts for every message.

usage: multi_format [--input FILE] [--messages N] [--seed N] [--store DIR] [--json]

  --input FILE   JSON lines, each {\"event\": text, \"action\": text or null, \"payload\": object};
                 without it the 42 events of examples/data
  --messages N   how many messages to send, 1 to 100000000; the events are repeated (default 10000)
  --seed N       what the noise is made of (default 1)
  --store DIR    keep messages and account in this folder; a run that was killed goes on when it is started again
                 with the same options
  --json         print one JSON object, and no table
  --help         print this

Ctrl-C stops the producers; what is in the queue is handled, and the report is printed.
The exit code is 0 if every message is accounted for as it should be, 1 if not, and 2 for a wrong command line.";

/// What the command line says.
#[derive(Debug, PartialEq, Eq)]
pub struct Options {
    pub input: Option<PathBuf>,
    pub messages: usize,
    pub seed: u64,
    pub store: Option<PathBuf>,
    pub json: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { input: None, messages: 10_000, seed: 1, store: None, json: false }
    }
}

impl Options {
    const MAX_MESSAGES: usize = 100_000_000;

    /// `None` if help is asked for.
    pub fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Option<Self>, Failure> {
        let mut options = Self::default();
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--help" | "-h" => return Ok(None),
                "--json" => options.json = true,
                "--input" => {
                    let path = arguments.next().ok_or_else(|| usage(argument, "a file is expected after it"))?;
                    options.input = Some(path.into());
                }
                "--store" => {
                    let path = arguments.next().ok_or_else(|| usage(argument, "a folder is expected after it"))?;
                    options.store = Some(path.into());
                }
                "--messages" => {
                    let number = arguments.next().and_then(|number| number.parse().ok());
                    let number = number.filter(|number| (1..=Self::MAX_MESSAGES).contains(number));
                    options.messages =
                        number.ok_or_else(|| usage(argument, "a number from 1 to 100000000 is expected after it"))?;
                }
                "--seed" => {
                    let number = arguments.next().and_then(|number| number.parse().ok());
                    options.seed = number.ok_or_else(|| usage(argument, "a number below 2^64 is expected after it"))?;
                }
                _ => return Err(usage(argument, "no such option; --help names them all")),
            }
        }
        Ok(Some(options))
    }
}

fn usage(argument: String, expected: &'static str) -> Failure {
    Failure::Usage { argument, expected }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Option<Options>, Failure> {
        Options::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn options_are_read() {
        let options = parse("--input a.jsonl --messages 7 --seed 9 --store b --json").unwrap().unwrap();
        let (input, store) = (Some("a.jsonl".into()), Some("b".into()));
        assert_eq!(options, Options { input, messages: 7, seed: 9, store, json: true });
        assert_eq!(parse("").unwrap(), Some(Options::default()));
        assert_eq!(parse("--json --help").unwrap(), None);
    }

    #[test]
    fn an_unknown_option_is_named() {
        for line in ["--messages", "--messages 0", "--messages x", "--seed -1", "--input", "--store", "--jsn", "file"] {
            let error = parse(line).unwrap_err();
            let first = line.split(' ').next().unwrap();
            assert!(error.to_string().starts_with(&format!("`{first}`: ")), "{error}");
        }
    }
}
