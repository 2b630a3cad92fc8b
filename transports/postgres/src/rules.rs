//! Rules as rows hold them.

use std::{collections::BTreeMap, collections::HashMap, sync::Arc};

use consign::{
    rules::{CorrelationFilter, Filter, Rule, RuleSet, SqlAction, SqlFilter},
    transport::{ErrorKind, ManageError},
};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::codec;

#[derive(Serialize, Deserialize)]
struct Written {
    name: String,
    filter: WrittenFilter,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    action: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum WrittenFilter {
    True,
    False,
    Sql(String),
    Correlation {
        #[serde(default)]
        system: BTreeMap<String, String>,
        #[serde(default)]
        properties: BTreeMap<String, serde_json::Value>,
    },
}

macro_rules! keys {
    ($use:ident) => {
        $use!(content_type, correlation_id, message_id, reply_to, reply_to_session_id, session_id, subject, to)
    };
}

pub(crate) fn write(rule: &Rule) -> Result<String, ManageError> {
    let filter = match rule.filter() {
        Filter::True => WrittenFilter::True,
        Filter::False => WrittenFilter::False,
        Filter::Sql(filter) => WrittenFilter::Sql(filter.as_str().to_owned()),
        Filter::Correlation(filter) => {
            let mut system = BTreeMap::new();
            macro_rules! add {
                ($($key:ident),*) => {$(
                    if let Some(value) = filter.$key() {
                        system.insert(stringify!($key).to_owned(), value.to_owned());
                    }
                )*};
            }
            keys!(add);
            WrittenFilter::Correlation { system, properties: codec::write_values(filter.properties()) }
        }
        _ => return Err(ManageError::new(ErrorKind::NotSupported).with_detail("a filter of this kind")),
    };
    let action = rule.action().map(|action| action.as_str().to_owned());
    let written = Written { name: rule.name().to_owned(), filter, action };
    serde_json::to_string(&written)
        .map_err(|error| ManageError::new(ErrorKind::Serialization).with_detail(error.to_string()))
}

fn read(text: &str) -> Result<Rule, Box<dyn std::error::Error + Send + Sync>> {
    let Written { name, filter, action } = serde_json::from_str(text)?;
    let filter: Filter = match filter {
        WrittenFilter::True => Filter::True,
        WrittenFilter::False => Filter::False,
        WrittenFilter::Sql(text) => SqlFilter::parse(&text)?.into(),
        WrittenFilter::Correlation { mut system, properties } => {
            let mut filter = CorrelationFilter::builder();
            macro_rules! add {
                ($($key:ident),*) => {$(
                    if let Some(value) = system.remove(stringify!($key)) {
                        filter = filter.$key(value);
                    }
                )*};
            }
            keys!(add);
            for (key, value) in properties {
                filter = filter.property(key, codec::read_value(value).map_err(|error| error.to_string())?);
            }
            filter.build()?.into()
        }
    };
    let rule = Rule::new(name, filter)?;
    Ok(match action {
        Some(action) => rule.with_action(SqlAction::parse(&action)?),
        None => rule,
    })
}

/// The rules of subscriptions that were read before, by version.
#[derive(Default)]
pub(crate) struct Cache(Mutex<HashMap<i64, (i64, Arc<RuleSet>)>>);

impl Cache {
    pub(crate) fn get(&self, subscription: i64, version: i64) -> Option<Arc<RuleSet>> {
        let all = self.0.lock();
        all.get(&subscription).filter(|(known, _)| *known == version).map(|(_, rules)| Arc::clone(rules))
    }

    pub(crate) fn put(&self, subscription: i64, version: i64, texts: &[String]) -> Arc<RuleSet> {
        let mut set = RuleSet::empty();
        for text in texts {
            let read = read(text).map_err(|error| error.to_string());
            if let Err(why) = read.and_then(|rule| set.create(rule).map_err(|error| error.to_string())) {
                // It was read when it was created, so a newer version of the library has written it.
                tracing::error!(subscription, why, "a rule cannot be read, and matches nothing");
            }
        }
        let (set, mut all) = (Arc::new(set), self.0.lock());
        if all.len() > 10_000 {
            all.clear();
        }
        all.insert(subscription, (version, Arc::clone(&set)));
        set
    }
}
