//! Entities and rules by the traits of the model.

mod convert;
mod declare;
mod inspect;

use consign_core::{
    administration::{Administration, Counts, Entity, EntitySettings},
    message::EntityPath,
    transport::{ErrorKind, ManageError},
};
use consign_rules::{ManageRules, Rule};

use self::convert::Own;
use crate::{Nats, beside::Beside, rules::Stored as Rules};

/// Returns the topic and the name of a subscription.
fn subscription(path: &EntityPath) -> Result<(&str, &str), ManageError> {
    let missing = || ManageError::new(ErrorKind::EntityNotFound).with_detail(format!("{path} is not a subscription"));
    path.subscription().filter(|_| !path.is_sub_queue()).ok_or_else(missing)
}

impl Administration for Nats {
    async fn create(&self, path: &EntityPath, settings: &EntitySettings) -> Result<(), ManageError> {
        match Own::of(settings)? {
            Own::Queue(own) => self.create_queue(path.as_str(), own).await,
            Own::Topic(own) => self.create_topic(path.as_str(), own).await,
            Own::Subscription(own) => {
                let (topic, name) = subscription(path)?;
                self.create_subscription(topic, name, own).await
            }
        }
    }

    async fn declare(&self, path: &EntityPath, settings: &EntitySettings) -> Result<(), ManageError> {
        self.inner.declare(path, &Own::of(settings)?).await
    }

    /// The settings of an entity are fixed: its receivers read them once, and the locks that they hold depend on them.
    async fn update(&self, path: &EntityPath, settings: &EntitySettings) -> Result<(), ManageError> {
        let current = Administration::settings(self, path).await?;
        settings.check()?;
        match (&current, settings) {
            (EntitySettings::Queue(current), EntitySettings::Queue(new)) => current.check_fixed(new)?,
            (EntitySettings::Topic(current), EntitySettings::Topic(new)) => {
                current.to_queue().check_fixed(&new.to_queue())?;
            }
            (EntitySettings::Subscription(current), EntitySettings::Subscription(new)) => {
                current.to_queue().check_fixed(&new.to_queue())?;
            }
            _ => {
                let why = format!("{path} is a {}", current.kind().name());
                return Err(ManageError::new(ErrorKind::InvalidOperation).with_detail(why));
            }
        }
        current.difference(settings).map_or(Ok(()), |setting| {
            let why = format!("the setting {setting} is fixed when the entity is created");
            Err(ManageError::new(ErrorKind::NotSupported).with_detail(why))
        })
    }

    async fn delete(&self, path: &EntityPath) -> Result<(), ManageError> {
        Self::delete(self, path.as_str()).await
    }

    async fn settings(&self, path: &EntityPath) -> Result<EntitySettings, ManageError> {
        let entity = self.inner.entity(path).await?;
        Ok(convert::settings(&entity.settings, entity.duplicate_detection()))
    }

    async fn list(&self) -> Result<Vec<Entity>, ManageError> {
        Ok(self.inner.list().await?)
    }

    async fn counts(&self, path: &EntityPath) -> Result<Counts, ManageError> {
        self.inner.counts(path).await
    }
}

impl ManageRules for Nats {
    async fn create_rule(&self, path: &EntityPath, rule: &Rule) -> Result<(), ManageError> {
        let (topic, name) = subscription(path)?;
        Self::create_rule(self, topic, name, rule).await
    }

    async fn delete_rule(&self, path: &EntityPath, rule: &str) -> Result<(), ManageError> {
        let (topic, name) = subscription(path)?;
        Self::delete_rule(self, topic, name, rule).await
    }

    async fn rules(&self, path: &EntityPath) -> Result<Vec<Rule>, ManageError> {
        subscription(path)?;
        let (stream, root, _) = self.inner.find(path).await?;
        let stored = Rules::read(&self.inner, &Beside::new(&stream, &root), None).await?;
        let mut rules: Vec<Rule> = stored.rules.iter().cloned().collect();
        rules.sort_by(|one, other| one.name().cmp(other.name()));
        Ok(rules)
    }
}
