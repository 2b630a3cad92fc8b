//! Rules of subscriptions.

use axum::http::StatusCode;
use consign_broker::Subscription;
use consign_core::{message::EntityPath, transport::ErrorKind};
use consign_http::administration::{Entry, RuleDescription};
use consign_rules::Rule;

use super::Request;
use crate::http::refusal::Refusal;

impl Request<'_> {
    /// Finds a subscription, and the path of its topic.
    pub(super) fn subscription(&self, path: &EntityPath) -> Result<(EntityPath, Subscription), Refusal> {
        let (topic, name) = path
            .subscription()
            .filter(|_| !path.is_sub_queue())
            .ok_or_else(|| Refusal::no_entity(StatusCode::NOT_FOUND, path.as_str()))?;
        let topic = self.http.server.broker().topic(topic).map_err(|error| Self::missing(error, topic))?;
        let subscription = topic.subscription(name).map_err(|error| Self::missing(error, path.as_str()))?;
        Ok((topic.path().clone(), subscription))
    }

    pub(super) fn rule(&self, path: &EntityPath, name: &str) -> Result<Entry, Refusal> {
        let (topic, subscription) = self.subscription(path)?;
        let rule = subscription.rule(name).ok_or_else(|| missing(path, name))?;
        Ok(self.show_rule(&topic, subscription.name(), &rule))
    }

    pub(super) fn put_rule(&self, path: &EntityPath, name: &str, rule: &RuleDescription) -> Result<Entry, Refusal> {
        let (_, subscription) = self.subscription(path)?;
        let described = rule.to_rule(name)?;
        if !described.is_named(name) {
            return Err(Refusal::bad_request("The name of the rule differs from that in the path."));
        }
        if self.is_update {
            replace(&subscription, described).map_err(|error| match error.kind() {
                ErrorKind::EntityNotFound => missing(path, name),
                _ => error.into(),
            })?;
        } else {
            subscription.create_rule(described).map_err(|error| match error.kind() {
                ErrorKind::AlreadyExists => {
                    Refusal::new(StatusCode::CONFLICT, format!("The rule '{name}' of '{path}' already exists."))
                }
                _ => error.into(),
            })?;
        }
        self.rule(path, name)
    }

    pub(super) fn delete_rule(&self, path: &EntityPath, name: &str) -> Result<(), Refusal> {
        let (_, subscription) = self.subscription(path)?;
        subscription.delete_rule(name).map(drop).map_err(|error| match error.kind() {
            ErrorKind::EntityNotFound => missing(path, name),
            _ => error.into(),
        })
    }
}

/// Replaces a rule. The broker has no call for it: in between, the subscription does not have the rule.
fn replace(subscription: &Subscription, rule: Rule) -> Result<(), consign_core::transport::ManageError> {
    let before = subscription.delete_rule(rule.name())?;
    subscription.create_rule(rule).inspect_err(|_| {
        // It was there: it fits.
        let name = before.name().to_owned();
        if let Err(error) = subscription.create_rule(before) {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(%name, error, "an update of a rule failed, and the subscription lost the rule");
        }
    })
}

fn missing(path: &EntityPath, name: &str) -> Refusal {
    Refusal::no_entity(StatusCode::NOT_FOUND, &format!("{path}/Rules/{name}"))
}
