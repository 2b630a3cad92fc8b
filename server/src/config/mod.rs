//! Configuration files: the entities of a broker, and shared access keys. Feature `config`.
//!
//! A file is JSON in the format of Microsoft's emulator of Service Bus, or TOML:
//!
//! ```
//! # use consign_broker::Broker;
//! # use consign_server::config::Config;
//! let config = Config::from_toml(
//!     r#"
//!     [queues.orders]
//!     lock_duration = "PT30S"
//!     requires_session = true
//!
//!     [topics.news]
//!
//!     [subscriptions.news.mail]
//!     max_delivery_count = 5
//!
//!     [[rules.news.mail]]
//!     name = "urgent"
//!     sql = "priority > 5"
//!
//!     [[keys]]
//!     name = "RootManageSharedAccessKey"
//!     key = "a secret"
//!     rights = ["Manage"]
//!     "#,
//! )?;
//! let broker = Broker::new();
//! config.apply(&broker)?;
//! assert_eq!(broker.entities().len(), 3);
//! # Ok::<(), consign_server::config::ConfigError>(())
//! ```
//!
//! The README of this crate has all keys; the settings have the ranges of [`QueueSettings`]. Durations are those of ISO 8601, such as
//! `PT1M30S` or `P7D`. A setting that is not known is an error. The metadata that clients have set is kept where the file has none.

mod apply;
mod duration;
mod emulator;
mod error;
mod properties;
mod toml;

use std::{collections::HashSet, path::Path};

use consign_core::administration::{QueueSettings, SubscriptionSettings, TopicSettings};
use consign_rules::Rule;

pub use self::error::ConfigError;
use crate::auth::SharedAccessKey;

/// What a configuration file has.
#[derive(Clone, Debug, Default)]
pub struct Config {
    queues: Vec<(String, QueueSettings)>,
    topics: Vec<TopicConfig>,
    keys: Vec<SharedAccessKey>,
}

#[derive(Clone, Debug)]
struct TopicConfig {
    name: String,
    settings: TopicSettings,
    subscriptions: Vec<SubscriptionConfig>,
}

#[derive(Clone, Debug)]
struct SubscriptionConfig {
    name: String,
    settings: SubscriptionSettings,
    rules: Vec<Rule>,
}

impl Config {
    /// Reads a file: as TOML if its name ends with `.toml`, and as the JSON of the emulator otherwise.
    ///
    /// # Errors
    /// The file cannot be read, or those of [`Config::from_toml`] and [`Config::from_emulator_json`]. They name the file.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        let path = path.as_ref();
        let is_toml = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml"));
        let read = if is_toml { Self::from_toml } else { Self::from_emulator_json };
        text_of(path).and_then(|text| read(&text)).map_err(|error| error.at(path.display()))
    }

    /// Reads the shared access keys of a TOML file.
    ///
    /// # Errors
    /// Those of [`Config::read`], and the file has no keys, or has something else.
    pub fn read_keys(path: impl AsRef<Path>) -> Result<Vec<SharedAccessKey>, ConfigError> {
        let path = path.as_ref();
        let mut config =
            text_of(path).and_then(|text| Self::from_toml(&text)).map_err(|error| error.at(path.display()))?;
        let keys = config.take_keys();
        if keys.is_empty() || config.entities() != 0 {
            return Err(ConfigError::new("a file of keys has keys, and no entities").at(path.display()));
        }
        Ok(keys)
    }

    /// Reads TOML.
    ///
    /// # Errors
    /// The text is not TOML, has a setting that is not known, a value out of its range, or a name that is given twice.
    pub fn from_toml(text: &str) -> Result<Self, ConfigError> {
        toml::read(text)?.with_unique_names()
    }

    /// Reads the format of Microsoft's emulator. It has no keys: the emulator accepts any. Settings that are left out have
    /// the emulator's defaults, such as 3 deliveries and one hour to live.
    ///
    /// # Errors
    /// The text is not JSON, has a setting that is not known, a value out of its range, or a name that is given twice.
    pub fn from_emulator_json(text: &str) -> Result<Self, ConfigError> {
        emulator::read(text)?.with_unique_names()
    }

    /// Refuses a name that is given twice: the settings of one of the two would have no effect.
    fn with_unique_names(self) -> Result<Self, ConfigError> {
        let queues = self.queues.iter().map(|(name, _)| &**name);
        check_unique(queues.chain(self.topics.iter().map(|topic| &*topic.name)))?;
        for TopicConfig { name, subscriptions, .. } in &self.topics {
            let unique = check_unique(subscriptions.iter().map(|subscription| &*subscription.name));
            unique.map_err(|error| error.at(name))?;
            for subscription in subscriptions {
                let unique = check_unique(subscription.rules.iter().map(Rule::name));
                unique.map_err(|error| error.at(&subscription.name).at(name))?;
            }
        }
        Ok(self)
    }

    /// Takes the shared access keys.
    pub fn take_keys(&mut self) -> Vec<SharedAccessKey> {
        std::mem::take(&mut self.keys)
    }

    /// Returns the number of queues, topics and subscriptions.
    #[must_use]
    pub fn entities(&self) -> usize {
        self.queues.len() + self.topics.iter().map(|topic| 1 + topic.subscriptions.len()).sum::<usize>()
    }
}

/// The text of a file. Editors on Windows write a byte order mark in front of it.
fn text_of(path: &Path) -> Result<String, ConfigError> {
    let text = std::fs::read_to_string(path).map_err(|error| ConfigError::new(error.to_string()))?;
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

/// Names are compared without regard to case, as those of entities.
fn check_unique<'n>(mut names: impl Iterator<Item = &'n str>) -> Result<(), ConfigError> {
    let mut found = HashSet::new();
    match names.find(|name| !found.insert(name.to_lowercase())) {
        Some(name) => Err(ConfigError::new("the name is given twice").at(name)),
        None => Ok(()),
    }
}
