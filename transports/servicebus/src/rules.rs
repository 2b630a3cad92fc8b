//! The rules of subscriptions.

use consign_core::{
    message::EntityPath,
    transport::{ErrorKind, ManageError},
};
use consign_rules::Rule;

use crate::{ServiceBus, retry::Effect};

impl ServiceBus {
    /// Creates a rule of a subscription, over AMQP.
    ///
    /// # Errors
    ///
    /// `AlreadyExists`; `EntityNotFound` without the subscription; `InvalidOperation` for a path that is not that of a
    /// subscription.
    pub async fn create_rule(&self, subscription: &EntityPath, rule: &Rule) -> Result<(), ManageError> {
        check(subscription)?;
        let adding =
            self.core.manage(subscription, Effect::Once, |management| async move { management.add_rule(rule).await });
        Ok(adding.await?)
    }

    /// Deletes the rule of a subscription with this name, over AMQP.
    ///
    /// # Errors
    ///
    /// `EntityNotFound` without the subscription or the rule.
    pub async fn delete_rule(&self, subscription: &EntityPath, name: &str) -> Result<(), ManageError> {
        check(subscription)?;
        let removing = self
            .core
            .manage(subscription, Effect::Once, |management| async move { management.remove_rule(name).await });
        Ok(removing.await?)
    }

    /// Returns the rules of a subscription in the order of their names, over AMQP.
    ///
    /// # Errors
    ///
    /// `EntityNotFound`, and `NotSupported` for a rule that consign does not have.
    pub async fn rules(&self, subscription: &EntityPath) -> Result<Vec<Rule>, ManageError> {
        check(subscription)?;
        let listing =
            self.core.manage(subscription, Effect::Repeatable, |management| async move { management.rules().await });
        let mut rules = listing.await?;
        rules.sort_by(|one, other| one.name().cmp(other.name()));
        Ok(rules)
    }
}

fn check(path: &EntityPath) -> Result<(), ManageError> {
    if path.subscription().is_some() && !path.is_sub_queue() {
        return Ok(());
    }
    Err(ManageError::new(ErrorKind::InvalidOperation).with_detail("only a subscription has rules"))
}
