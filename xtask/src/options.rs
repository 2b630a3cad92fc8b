//! What the options of several subcommands share.

use std::hash::{BuildHasher, Hasher, RandomState};

use clap::Args;

/// The option that every subcommand with a result has.
#[derive(Debug, Args)]
pub(crate) struct Output {
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Parses a number above 0. Its digits may be grouped, as in `1_000`.
pub(crate) fn positive(value: &str) -> Result<u64, NotPositive> {
    value.replace(['_', ','], "").parse().ok().filter(|&number| number > 0).ok_or(NotPositive)
}

/// A seed that nothing chooses, above 0 as `positive` expects it.
pub(crate) fn random_seed() -> u64 {
    RandomState::new().build_hasher().finish().max(1)
}

/// The value of an option is not a whole number above 0.
#[derive(Debug)]
pub(crate) struct NotPositive;

impl std::fmt::Display for NotPositive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("expected a whole number above 0")
    }
}

impl std::error::Error for NotPositive {}
