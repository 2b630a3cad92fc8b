//! The stored rules of a subscription: one message beside it, in which a writer replaces the version that it has read.

use std::{convert::Infallible, sync::Arc};

use async_nats::HeaderMap;
use consign_core::{
    transport::{ErrorKind, ManageError},
    wire::text,
};
use consign_rules::{Rule, RuleSet, RuleSetError, WrittenRule};
use tokio::time::Instant;

use crate::{beside::Beside, connection::Inner, error::Fault};

type Written = WrittenRule<String>;

fn write(rule: &Rule) -> Written {
    let Ok(written) = Written::of(rule, |value| Ok::<_, Infallible>(text::write(value)));
    written
}

fn read(written: Written) -> Result<Rule, Box<dyn std::error::Error + Send + Sync>> {
    written.into_rule(|value| Ok(text::read(&value)?))
}

/// The rules of a subscription, and where they are stored.
#[derive(Clone)]
pub(crate) struct Stored {
    pub(crate) rules: Arc<RuleSet>,
    at: u64,
}

impl Stored {
    /// Reads the stored rules. `known` are the rules that were read before.
    pub(crate) async fn read(inner: &Inner, beside: &Beside, known: Option<&Self>) -> Result<Self, Fault> {
        let Some(found) = inner.last_at(&beside.stream, &beside.rules()).await? else {
            // It exists from the beginning on, so the subscription is incomplete, or is being deleted.
            return Err(Fault::new(ErrorKind::EntityNotFound, "the subscription has no rules"));
        };
        if let Some(known) = known.filter(|known| known.at == found.sequence) {
            return Ok(known.clone());
        }
        let newer = |why: String| {
            let why = format!("a rule cannot be read, and may be of a later version of this transport: {why}");
            Fault::new(ErrorKind::NotSupported, why)
        };
        let all: Vec<Written> = serde_json::from_slice(&found.payload).map_err(|error| newer(error.to_string()))?;
        let mut rules = RuleSet::empty();
        for written in all {
            let rule = read(written).map_err(|error| newer(error.to_string()))?;
            rules.restore(rule).map_err(|error| newer(error.to_string()))?;
        }
        Ok(Self { rules: Arc::new(rules), at: found.sequence })
    }

    /// Stores the rules of a new subscription.
    pub(crate) async fn first(inner: &Inner, beside: &Beside) -> Result<(), Fault> {
        let stored = Self { rules: Arc::new(RuleSet::default()), at: 0 };
        if stored.write(inner, beside).await? {
            Ok(())
        } else {
            Err(Fault::new(ErrorKind::AlreadyExists, "the subscription is being created"))
        }
    }

    /// Writes the rules. `false` if another process has changed them since they were read.
    async fn write(&self, inner: &Inner, beside: &Beside) -> Result<bool, Fault> {
        let all = self.rules.iter().map(write).collect::<Vec<_>>();
        let payload =
            serde_json::to_vec(&all).map_err(|error| Fault::new(ErrorKind::Serialization, error.to_string()))?;
        if payload.len() > inner.client.max_payload() / 2 {
            let why = "the rules together are larger than half of what the server takes in one message";
            return Err(Fault::new(ErrorKind::QuotaExceeded, why));
        }
        let mut headers = HeaderMap::new();
        headers.insert(async_nats::header::NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, self.at.to_string());
        match inner.publish(&beside.rules(), headers, payload.into()).await {
            Err(fault) if fault.is_wrong_last_sequence() => Ok(false),
            written => written.map(|_| true),
        }
    }

    /// Changes the rules, also if others do so at the same time.
    pub(crate) async fn change(
        inner: &Inner,
        beside: &Beside,
        change: impl Fn(&mut RuleSet) -> Result<(), RuleSetError> + Send + Sync,
    ) -> Result<(), ManageError> {
        let started = Instant::now();
        while started.elapsed() < inner.timeout {
            let mut stored = Self::read(inner, beside, None).await?;
            change(Arc::make_mut(&mut stored.rules)).map_err(refused)?;
            if stored.write(inner, beside).await? {
                return Ok(());
            }
        }
        Err(Fault::new(ErrorKind::ServiceBusy, "others change the rules all the time").into())
    }
}

fn refused(error: RuleSetError) -> ManageError {
    let kind = match error {
        RuleSetError::AlreadyExists => ErrorKind::AlreadyExists,
        RuleSetError::TooManyRules { .. } | RuleSetError::TooManyBytes { .. } => ErrorKind::QuotaExceeded,
        _ => ErrorKind::EntityNotFound,
    };
    ManageError::new(kind).with_detail(error.to_string())
}

#[cfg(test)]
mod tests {
    use consign_rules::{CorrelationFilter, Filter, SqlAction, SqlFilter};

    use super::*;

    #[test]
    fn rules_are_read_as_they_were_written() {
        let correlation = CorrelationFilter::builder().subject("a").to("%").property("n", 7_i32).property("s", "x: y");
        let sql = SqlFilter::parse("n > 1 AND sys.Label LIKE 'a%'").unwrap();
        let action = SqlAction::parse("SET n = n + 1; REMOVE b").unwrap();
        for rule in [
            Rule::default(),
            Rule::new("none", Filter::False).unwrap(),
            Rule::new("correlation", correlation.build().unwrap()).unwrap(),
            Rule::new("sql", sql).unwrap().with_action(action),
        ] {
            let text = serde_json::to_string(&write(&rule)).unwrap();
            assert_eq!(read(serde_json::from_str(&text).unwrap()).unwrap(), rule, "{text}");
        }
    }
}
