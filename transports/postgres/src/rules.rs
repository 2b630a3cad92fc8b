//! Rules as rows.

use std::{collections::HashMap, sync::Arc};

use consign_core::{
    message::EntityPath,
    transport::{ErrorKind, ManageError},
};
use consign_rules::{Filter, ManageRules, Rule, RuleSet, WrittenRule};
use parking_lot::Mutex;
use tokio_postgres::types::Type;

use crate::{
    Postgres, codec,
    database::Parameter,
    entity::{key, missing},
    failure::Failure,
    log,
};

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
            if let Err(why) = read.and_then(|rule| rules.set.restore(rule).map_err(|error| error.to_string())) {
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

/// At most [`RuleSet::MAX_SQL_RULES`] rules of one subscription with SQL, and [`RuleSet::MAX_CORRELATION_RULES`] others; one
/// more is refused as [`QuotaExceeded`](ErrorKind::QuotaExceeded).
impl ManageRules for Postgres {
    async fn create_rule(&self, path: &EntityPath, rule: &Rule) -> Result<(), ManageError> {
        let sql = self.inner.sql(
            "WITH changed AS (
                UPDATE {s}.entities SET version = version + 1 WHERE key = $1 AND kind = 2 RETURNING id
            ), created AS (
                INSERT INTO {s}.rules (subscription, key, rule) SELECT id, $2, $3::json FROM changed
                -- With fewer rules of both kinds none is looked at.
                WHERE (SELECT count(*) FROM {s}.rules WHERE subscription = id) < $5 OR (
                    SELECT count(*) FROM {s}.rules
                    WHERE subscription = id AND (rule->'filter'->'correlation' IS NOT NULL) = $4
                ) < $5 RETURNING 1
            )
            SELECT EXISTS (SELECT FROM created) FROM changed",
        );
        let is_correlation = matches!(rule.filter(), Filter::Correlation(_));
        let limit = if is_correlation { RuleSet::MAX_CORRELATION_RULES } else { RuleSet::MAX_SQL_RULES };
        let (name, rule, most) = (rule.name().to_lowercase(), write(rule)?, i64::try_from(limit).unwrap_or(i64::MAX));
        let parameters: [Parameter<'_>; 5] = [
            (&key(path), Type::TEXT),
            (&name, Type::TEXT),
            (&rule, Type::TEXT),
            (&is_correlation, Type::BOOL),
            (&most, Type::INT8),
        ];
        let row = match self.inner.database.row(&sql, &parameters).await {
            Ok(row) => row.ok_or_else(|| missing(path))?,
            Err(failure) if failure.is_duplicate() => {
                let detail = format!("{path} has a rule of this name");
                return Err(ManageError::new(ErrorKind::AlreadyExists).with_detail(detail));
            }
            Err(failure) => return Err(failure.into()),
        };
        if !row.try_get::<_, bool>(0).map_err(Failure::from)? {
            let detail = format!("the subscription has the maximum of {limit} rules of this kind");
            return Err(ManageError::new(ErrorKind::QuotaExceeded).with_detail(detail));
        }
        Ok(())
    }

    async fn delete_rule(&self, path: &EntityPath, rule: &str) -> Result<(), ManageError> {
        let sql = self.inner.sql(
            "WITH changed AS (
                UPDATE {s}.entities SET version = version + 1 WHERE key = $1 AND kind = 2 RETURNING id
            )
            DELETE FROM {s}.rules USING changed WHERE subscription = changed.id AND key = $2 RETURNING 1",
        );
        let parameters: [Parameter<'_>; 2] = [(&key(path), Type::TEXT), (&rule.to_lowercase(), Type::TEXT)];
        self.inner.database.row(&sql, &parameters).await?.map(drop).ok_or_else(|| missing(path))
    }

    async fn rules(&self, path: &EntityPath) -> Result<Vec<Rule>, ManageError> {
        let sql = self.inner.sql(
            "SELECT r.rule::text FROM {s}.entities AS e LEFT JOIN {s}.rules AS r ON r.subscription = e.id
            WHERE e.key = $1 AND e.kind = 2 ORDER BY r.key",
        );
        let rows = self.inner.database.rows(&sql, &[(&key(path), Type::TEXT)]).await?;
        if rows.is_empty() {
            return Err(missing(path));
        }
        let mut rules = Vec::with_capacity(rows.len());
        for row in rows {
            let Some(text) = row.try_get::<_, Option<String>>(0).map_err(Failure::from)? else { continue };
            rules.push(read(&text).map_err(|error| {
                // It was readable when it was created, so a newer version of the library has written it.
                ManageError::new(ErrorKind::NotSupported).with_detail(format!("a rule cannot be read: {error}"))
            })?);
        }
        Ok(rules)
    }
}
