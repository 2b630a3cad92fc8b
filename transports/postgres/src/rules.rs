//! Rules as rows hold them.

use std::{collections::HashMap, sync::Arc};

use consign::{
    rules::{Rule, RuleSet, WrittenRule},
    transport::{ErrorKind, ManageError},
};
use parking_lot::Mutex;

use crate::codec;

type Written = WrittenRule<serde_json::Value>;

pub(crate) fn write(rule: &Rule) -> Result<String, ManageError> {
    let written = Written::of(rule, codec::write_value).and_then(|written| serde_json::to_string(&written));
    written.map_err(|error| ManageError::new(ErrorKind::Serialization).with_detail(error.to_string()))
}

fn read(text: &str) -> Result<Rule, Box<dyn std::error::Error + Send + Sync>> {
    let written: Written = serde_json::from_str(text)?;
    written.into_rule(|value| Ok(codec::read_value(value).map_err(|error| error.to_string())?))
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
