//! The log, on the standard error.

use std::{env, io};

use tracing_subscriber::{
    Layer,
    filter::{LevelFilter, ParseError, Targets},
    fmt,
    layer::SubscriberExt,
    util::SubscriberInitExt,
};

use super::options::LogFormat;

/// What is logged instead of the default.
const VARIABLE: &str = "RUST_LOG";
/// The client of RabbitMQ logs the bodies of messages that return, and answers that the transport expects.
const CLIENT_WITH_BODIES: &str = "lapin";

/// Writes the log from a level on, or what the environment has set.
pub(super) fn init(format: LogFormat, level: LevelFilter) {
    let set = env::var(VARIABLE).ok();
    let (filter, refused) = match read(set.as_deref(), level) {
        Ok(filter) => (filter, None),
        Err(error) => (default(level), Some(error)),
    };
    let lines = fmt::layer().with_writer(io::stderr).with_ansi(false);
    let lines = match format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().boxed(),
    };
    tracing_subscriber::registry().with(lines.with_filter(filter)).init();
    if let Some(error) = refused {
        tracing::warn!(%error, "{VARIABLE} is not read: it has levels, optionally of targets, such as `info,consign=debug`");
    }
}

fn default(level: LevelFilter) -> Targets {
    Targets::new().with_default(level).with_target(CLIENT_WITH_BODIES, LevelFilter::OFF)
}

fn read(set: Option<&str>, level: LevelFilter) -> Result<Targets, ParseError> {
    match set.map(str::trim) {
        None | Some("") => Ok(default(level)),
        Some(set) => set.parse(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_replaces_the_level() {
        let level_of = |set, target| {
            let filter = read(set, LevelFilter::WARN).unwrap();
            [LevelFilter::DEBUG, LevelFilter::INFO, LevelFilter::WARN]
                .into_iter()
                .find(|level| filter.would_enable(target, &level.into_level().unwrap()))
        };
        for set in [None, Some(""), Some("warn"), Some("consign=warn")] {
            assert_eq!(level_of(set, "consign::amqp10"), Some(LevelFilter::WARN), "{set:?}");
        }
        let lapin = "lapin::returned_messages";
        assert_eq!((level_of(None, lapin), level_of(Some("warn"), lapin)), (None, Some(LevelFilter::WARN)));
        assert_eq!(level_of(Some("off"), "consign::amqp10"), None);
        assert_eq!(level_of(Some("info,consign=debug"), "consign::amqp10"), Some(LevelFilter::DEBUG));
        assert_eq!(level_of(Some("info,consign=debug"), "hyper"), Some(LevelFilter::INFO));
        assert!(read(Some("consign=loud"), LevelFilter::WARN).is_err());
    }
}
