//! Rules as rows.

use std::{collections::HashMap, sync::Arc};

use consign_core::transport::{ErrorKind, ManageError};
use consign_rules::{Rule, RuleSet, WrittenRule};
use parking_lot::Mutex;

use crate::{codec, log};

type Written = WrittenRule<serde_json::Value>;

pub(crate) fn write(rule: &Rule) -> Result<String, ManageError> {
    let refused = |detail: String| ManageError::new(ErrorKind::Serialization).with_detail(detail);
    let written = Written::of(rule, codec::write_value).map_err(|error| refused(error.to_string()))?;
    serde_json::to_string(&written).map_err(|error| refused(error.to_string()))
}

fn read(text: &str) -> Result<Rule, Box<dyn std::error::Error + Send + Sync>> {
    let written: Written = serde_json::from_str(text)?;
    written.into_rule(|value| Ok(codec::read_value(value).map_err(|error| error.to_string())?))
}

/// The rules of a subscription.
pub(crate) struct Rules {
    pub(crate) set: RuleSet,
    /// Why one of them cannot be read. Its matches are unknown.
    pub(crate) unreadable: Option<String>,
}

/// The rules of subscriptions that were read before, by version.
#[derive(Default)]
pub(crate) struct Cache(Mutex<HashMap<i64, (i64, Arc<Rules>)>>);

impl Cache {
    pub(crate) fn get(&self, subscription: i64, version: i64) -> Option<Arc<Rules>> {
        let all = self.0.lock();
        all.get(&subscription).filter(|(known, _)| *known == version).map(|(_, rules)| Arc::clone(rules))
    }

    /// Of rules with their names.
    pub(crate) fn put(&self, subscription: i64, version: i64, texts: &[(String, String)]) -> Arc<Rules> {
        let mut rules = Rules { set: RuleSet::empty(), unreadable: None };
        for (name, text) in texts {
            let read = read(text).map_err(|error| error.to_string());
            if let Err(why) = read.and_then(|rule| rules.set.create(rule).map_err(|error| error.to_string())) {
                // It was readable when it was created, so a newer version of the library has written it.
                log::unreadable_rule(subscription, name, &why);
                rules.unreadable = Some(format!("rule {name:?} cannot be read: {why}"));
            }
        }
        let (rules, mut all) = (Arc::new(rules), self.0.lock());
        if all.len() > 10_000 {
            all.clear();
        }
        all.insert(subscription, (version, Arc::clone(&rules)));
        rules
    }
}
