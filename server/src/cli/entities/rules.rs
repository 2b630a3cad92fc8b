//! `consign entities rules`.

use std::fmt;

use clap::{Args, Subcommand};
use consign::{
    message::EntityPath,
    rules::{ManageRules, Rule, WrittenRule},
    transport::{DynTransport, Escaped},
};
use consign_core::wire::text;
use serde_json::{Map, Value, json};

use crate::cli::{
    failure::{Exit, Failure},
    output::Output,
    target::{Target, entity},
    values::{Property, pair, property},
};

#[derive(Debug, Subcommand)]
pub(crate) enum Rules {
    /// List the rules of a subscription
    List(List),
    /// Create a rule of a subscription
    Create(Create),
    /// Delete a rule of a subscription
    Delete(Delete),
}

#[derive(Debug, Args)]
pub(crate) struct List {
    /// The path of the subscription: TOPIC/Subscriptions/NAME
    #[arg(value_parser = entity)]
    subscription: EntityPath,
    #[command(flatten)]
    target: Target,
}

/// The help of an option. In a comment, names with underscores would need marks that a terminal shows.
const CORRELATION: &str = "An equal property of a correlation filter: subject, message_id, correlation_id, content_type, \
                           session_id, reply_to, reply_to_session_id, to";

#[derive(Debug, Args)]
pub(crate) struct Create {
    /// The path of the subscription: TOPIC/Subscriptions/NAME
    #[arg(value_parser = entity)]
    subscription: EntityPath,
    /// The name of the rule
    name: String,
    /// An SQL filter; without a filter, the rule matches every message
    #[arg(long, value_name = "EXPRESSION", conflicts_with_all = ["correlation", "property"])]
    sql: Option<String>,
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair, help = CORRELATION)]
    correlation: Vec<(String, String)>,
    /// An equal application property of a correlation filter
    #[arg(long, value_name = "NAME[:TYPE]=VALUE", value_parser = property)]
    property: Vec<Property>,
    /// An SQL action
    #[arg(long, value_name = "STATEMENTS")]
    action: Option<String>,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, Args)]
pub(crate) struct Delete {
    /// The path of the subscription: TOPIC/Subscriptions/NAME
    #[arg(value_parser = entity)]
    subscription: EntityPath,
    /// The name of the rule
    name: String,
    #[command(flatten)]
    target: Target,
}

impl Rules {
    pub(super) fn target(&self) -> &Target {
        match self {
            Self::List(List { target, .. })
            | Self::Create(Create { target, .. })
            | Self::Delete(Delete { target, .. }) => target,
        }
    }

    pub(super) async fn run(&self, transport: &DynTransport, out: &mut Output) -> Result<(), Failure> {
        match self {
            Self::List(options) => {
                for rule in transport.rules(&options.subscription).await? {
                    let written = written(&rule)?;
                    out.either(Escaped(&shown(&written)), &written)?;
                }
                Ok(())
            }
            Self::Create(options) => {
                let rule = options.rule()?;
                transport.create_rule(&options.subscription, &rule).await?;
                let object = json!({ "created": rule.name(), "subscription": options.subscription.as_str() });
                out.either(format_args!("created rule {}", Escaped(rule.name())), &object)
            }
            Self::Delete(options) => {
                transport.delete_rule(&options.subscription, &options.name).await?;
                let object = json!({ "deleted": options.name, "subscription": options.subscription.as_str() });
                out.either(format_args!("deleted rule {}", Escaped(&options.name)), &object)
            }
        }
    }
}

impl Create {
    fn rule(&self) -> Result<Rule, Failure> {
        let filter = match &self.sql {
            Some(sql) => json!({ "sql": sql }),
            None if self.correlation.is_empty() && self.property.is_empty() => json!("true"),
            None => {
                let system = self.correlation.iter().map(|(name, value)| (name, value.clone()));
                let properties = self.property.iter();
                let properties = properties.map(|property| (&property.name, text::write(&property.value)));
                json!({ "correlation": { "system": by_name(system)?, "properties": by_name(properties)? } })
            }
        };
        let written = json!({ "name": self.name, "filter": filter, "action": self.action });
        let written: WrittenRule<String> = serde_json::from_value(written).map_err(refused)?;
        written.into_rule(|value| Ok(text::read(&value)?)).map_err(refused)
    }
}

fn refused(text: impl fmt::Display) -> Failure {
    Failure::new(Exit::Usage, "InvalidArgument", format!("the rule: {text}"))
}

/// The properties of a filter. Of two with one name only one would be in it.
fn by_name<'a>(properties: impl Iterator<Item = (&'a String, String)>) -> Result<Map<String, Value>, Failure> {
    let mut map = Map::new();
    for (name, value) in properties {
        if map.insert(name.clone(), value.into()).is_some() {
            return Err(refused(format_args!("`{name}` is given twice")));
        }
    }
    Ok(map)
}

/// The rule as an object: its name, its filter and its action.
fn written(rule: &Rule) -> Result<Value, Failure> {
    let write = |value: &_| Ok::<_, std::convert::Infallible>(text::write(value));
    let written = match WrittenRule::of(rule, write) {
        Ok(written) => written,
        Err(never) => match never {},
    };
    Ok(serde_json::to_value(written)?)
}

fn shown(written: &Value) -> String {
    let name = written["name"].as_str().unwrap_or_default();
    let filter = &written["filter"];
    let filter = match filter["sql"].as_str() {
        Some(sql) => format!("sql {sql}"),
        None if filter.is_string() => filter.as_str().unwrap_or_default().to_owned(),
        None => filter.to_string(),
    };
    match written["action"].as_str() {
        Some(action) => format!("{name}: {filter}, action {action}"),
        None => format!("{name}: {filter}"),
    }
}
