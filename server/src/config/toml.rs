//! The format of this server.

use std::collections::BTreeMap;

use consign_core::{administration::QueueSettings, message::EntityPath};
use consign_rules::{Rule, SqlAction};
use serde::Deserialize;

use super::{
    Config, ConfigError, SubscriptionConfig, TopicConfig,
    properties::{Correlation, Defaults, QueueProperties, SubscriptionProperties, TopicProperties, filter},
};
use crate::{
    auth::{Rights, SharedAccessKey},
    entities::entity_of,
};

/// By topic and subscription.
type BySubscription<T> = BTreeMap<String, BTreeMap<String, T>>;

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
#[derive(Default)]
struct File {
    queues: BTreeMap<String, QueueProperties>,
    topics: BTreeMap<String, TopicProperties>,
    subscriptions: BySubscription<SubscriptionProperties>,
    rules: BySubscription<Vec<RuleEntry>>,
    keys: Vec<Key>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleEntry {
    name: String,
    sql: Option<String>,
    correlation: Option<Correlation>,
    action: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_field_names, reason = "they are those of the format")]
struct Key {
    name: String,
    key: String,
    rights: Vec<Right>,
    entity: Option<String>,
}

#[derive(Clone, Copy, Deserialize)]
enum Right {
    #[serde(alias = "send")]
    Send,
    #[serde(alias = "listen")]
    Listen,
    #[serde(alias = "manage")]
    Manage,
}

pub(super) fn read(text: &str) -> Result<Config, ConfigError> {
    // Only the message: the error itself shows the line, which may have a key.
    let file: File = toml::from_str(text).map_err(|error| {
        let line = error.span().map(|span| 1 + text.get(..span.start).unwrap_or_default().matches('\n').count());
        let error = ConfigError::new(error.message());
        line.map_or(error.clone(), |line| error.at(format_args!("line {line}")))
    })?;
    let File { queues, topics, mut subscriptions, mut rules, keys } = file;
    let defaults = Defaults { queue: QueueSettings::default(), window: None };
    let mut config = Config::default();
    for (name, properties) in queues {
        let settings = properties.settings(&defaults).map_err(|error| error.at(&name))?;
        config.queues.push((name, settings));
    }
    for (name, properties) in topics {
        let settings = properties.settings(&defaults).map_err(|error| error.at(&name))?;
        let mut rules = rules.remove(&name).unwrap_or_default();
        let mut read = Vec::new();
        for (subscription, properties) in subscriptions.remove(&name).unwrap_or_default() {
            let rules = rules.remove(&subscription).unwrap_or_default();
            let found = read_subscription(subscription, properties, rules, &defaults);
            read.push(found.map_err(|error| error.at(&name))?);
        }
        if let Some(subscription) = rules.into_keys().next() {
            return Err(ConfigError::new("rules of a subscription that is not in the file").at(subscription).at(name));
        }
        config.topics.push(TopicConfig { name, settings, subscriptions: read });
    }
    if let Some(topic) = subscriptions.into_keys().chain(rules.into_keys()).next() {
        return Err(ConfigError::new("subscriptions or rules of a topic that is not in the file").at(topic));
    }
    config.keys = keys.into_iter().map(Key::read).collect::<Result<_, _>>()?;
    Ok(config)
}

fn read_subscription(
    name: String,
    properties: SubscriptionProperties,
    rules: Vec<RuleEntry>,
    defaults: &Defaults,
) -> Result<SubscriptionConfig, ConfigError> {
    let settings = properties.settings(defaults).map_err(|error| error.at(&name))?;
    let rules = rules.into_iter().map(RuleEntry::read).collect::<Result<_, _>>();
    Ok(SubscriptionConfig { settings, rules: rules.map_err(|error| error.at(&name))?, name })
}

impl RuleEntry {
    fn read(self) -> Result<Rule, ConfigError> {
        let Self { name, sql, correlation, action } = self;
        let place = name.clone();
        let rule = || {
            let rule = Rule::new(name, filter(sql.as_deref(), correlation)?);
            let rule = rule.map_err(|error| ConfigError::new(error.to_string()))?;
            let Some(action) = action else { return Ok(rule) };
            let action = SqlAction::parse(&action).map_err(|error| ConfigError::new(error.to_string()))?;
            Ok(rule.with_action(action))
        };
        rule().map_err(|error: ConfigError| error.at(place))
    }
}

impl Key {
    fn read(self) -> Result<SharedAccessKey, ConfigError> {
        let Self { name, key, rights, entity } = self;
        if name.is_empty() || key.is_empty() || rights.is_empty() {
            return Err(ConfigError::new("a key has a name, a key and rights").at(name));
        }
        let rights = rights.into_iter().fold(Rights::NONE, |all, right| {
            all | match right {
                Right::Send => Rights::SEND,
                Right::Listen => Rights::LISTEN,
                Right::Manage => Rights::MANAGE,
            }
        });
        let Some(entity) = entity else { return Ok(SharedAccessKey::new(name, key, rights)) };
        if let Err(error) = EntityPath::new(&entity_of(&entity)) {
            return Err(ConfigError::new(error.to_string()).at("entity").at(name));
        }
        Ok(SharedAccessKey::new(name, key, rights).entity(entity))
    }
}
