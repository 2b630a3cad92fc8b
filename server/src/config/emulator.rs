//! The format of Microsoft's emulator.

use std::time::Duration;

use consign_core::administration::QueueSettings;
use consign_rules::{Rule, SqlAction};
use serde::{Deserialize, de::IgnoredAny};

use super::{
    Config, ConfigError, SubscriptionConfig, TopicConfig,
    properties::{Correlation, Defaults, QueueProperties, SubscriptionProperties, TopicProperties, filter},
};

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct File {
    user_config: UserConfig,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct UserConfig {
    namespaces: Vec<Namespace>,
    #[serde(default, rename = "Logging")]
    _logging: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Namespace {
    #[serde(rename = "Name")]
    _name: String,
    #[serde(default)]
    queues: Vec<Queue>,
    #[serde(default)]
    topics: Vec<Topic>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Queue {
    name: String,
    #[serde(default)]
    properties: QueueProperties,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Topic {
    name: String,
    #[serde(default)]
    properties: TopicProperties,
    #[serde(default)]
    subscriptions: Vec<Subscription>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Subscription {
    name: String,
    #[serde(default)]
    properties: SubscriptionProperties,
    #[serde(default)]
    rules: Vec<RuleEntry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct RuleEntry {
    name: String,
    #[serde(default)]
    properties: RuleProperties,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default, deny_unknown_fields)]
struct RuleProperties {
    filter_type: Option<FilterType>,
    sql_filter: Option<Sql>,
    correlation_filter: Option<Correlation>,
    action: Option<Sql>,
}

#[derive(Clone, Copy, Deserialize)]
enum FilterType {
    Sql,
    Correlation,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Sql {
    sql_expression: String,
}

pub(super) fn read(text: &str) -> Result<Config, ConfigError> {
    let file: File = serde_json::from_str(text).map_err(|error| ConfigError::new(error.to_string()))?;
    let mut namespaces = file.user_config.namespaces.into_iter();
    let (Some(namespace), None) = (namespaces.next(), namespaces.next()) else {
        return Err(ConfigError::new("a configuration has one namespace"));
    };
    let defaults = Defaults { queue: QueueSettings::emulator(), window: Some(Duration::from_secs(20)) };
    let mut config = Config::default();
    for Queue { name, properties } in namespace.queues {
        let settings = properties.settings(&defaults).map_err(|error| error.at(&name))?;
        config.queues.push((name, settings));
    }
    for topic in namespace.topics {
        let name = topic.name;
        let settings = topic.properties.settings(&defaults).map_err(|error| error.at(&name))?;
        let subscriptions = topic.subscriptions.into_iter().map(|subscription| subscription.read(&defaults));
        let subscriptions = subscriptions.collect::<Result<_, _>>().map_err(|error| error.at(&name))?;
        config.topics.push(TopicConfig { name, settings, subscriptions });
    }
    Ok(config)
}

impl Subscription {
    fn read(self, defaults: &Defaults) -> Result<SubscriptionConfig, ConfigError> {
        let Self { name, properties, rules } = self;
        let settings = properties.settings(defaults).map_err(|error| error.at(&name))?;
        let rules = rules.into_iter().map(RuleEntry::read).collect::<Result<_, _>>();
        Ok(SubscriptionConfig { settings, rules: rules.map_err(|error| error.at(&name))?, name })
    }
}

impl RuleEntry {
    fn read(self) -> Result<Rule, ConfigError> {
        let name = self.name;
        self.properties.read(&name).map_err(|error| error.at(&name))
    }
}

impl RuleProperties {
    fn read(mut self, name: &str) -> Result<Rule, ConfigError> {
        // The emulator's own files may have both filters, and the type selects one.
        match self.filter_type {
            Some(FilterType::Sql) => self.correlation_filter = None,
            Some(FilterType::Correlation) => self.sql_filter = None,
            None => {}
        }
        let sql = self.sql_filter.as_ref().map(|sql| sql.sql_expression.as_str());
        let missing = match self.filter_type {
            Some(FilterType::Sql) => sql.is_none().then_some("SqlFilter"),
            Some(FilterType::Correlation) => self.correlation_filter.is_none().then_some("CorrelationFilter"),
            None => None,
        };
        if let Some(missing) = missing {
            return Err(ConfigError::new(format!("the rule has no {missing}")));
        }
        let rule = Rule::new(name, filter(sql, self.correlation_filter)?);
        let rule = rule.map_err(|error| ConfigError::new(error.to_string()))?;
        match self.action {
            None => Ok(rule),
            Some(action) => {
                let action = SqlAction::parse(&action.sql_expression);
                Ok(rule.with_action(action.map_err(|error| ConfigError::new(error.to_string()))?))
            }
        }
    }
}
