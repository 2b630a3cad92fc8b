use clap::Args;
use consign::message::EntityPath;

use super::super::{target::entity, values::rate};

#[derive(Debug, Args)]
#[command(next_help_heading = "Run")]
pub(crate) struct RunOptions {
    /// The entity to send to; by default the queue that the messages were dead-lettered from. A subscription needs this option
    #[arg(long, value_name = "ENTITY", value_parser = entity)]
    pub(super) to: Option<EntityPath>,
    #[command(flatten)]
    pub(super) limits: Limits,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Run")]
pub(crate) struct Limits {
    /// Do it; otherwise the command prints what it would do
    #[arg(long, visible_alias = "yes")]
    pub(super) apply: bool,
    /// The most dead letters a second
    #[arg(long, value_name = "COUNT", value_parser = rate)]
    pub(super) rate: Option<f64>,
    /// How many dead letters are handled at once; 1 keeps their order
    #[arg(long, value_name = "COUNT", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1_024))]
    pub(super) concurrency: u16,
    /// How many dead letters that stay, as they do not pass the filter, are locked at once; the run ends at one more
    #[arg(long, value_name = "COUNT", default_value_t = 16_384, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) max_held: u32,
}
