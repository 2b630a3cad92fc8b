//! Entities of a case, their settings and their rules.

use std::sync::atomic::Ordering;

use consign::{
    administration::{Administration, EntitySettings, QueueSettings, Status, SubscriptionSettings, TopicSettings},
    message::EntityPath,
    rules::{ManageRules, Rule},
    transport::Capability,
};

use super::Bench;
use crate::{Failure, Verdict};

impl Bench<'_> {
    /// Returns a path without an entity.
    pub(crate) fn fresh_path(&self) -> Result<EntityPath, Failure> {
        let number = self.entities.fetch_add(1, Ordering::Relaxed);
        Ok(EntityPath::new(&format!("{}-{number}", self.prefix))?)
    }

    /// Creates an entity, which is deleted after the case.
    pub(crate) async fn create(&self, path: &EntityPath, settings: impl Into<EntitySettings>) -> Verdict {
        self.transport.create(path, &settings.into()).await?;
        self.delete_later(path).await;
        Ok(())
    }

    /// Deletes an entity after the case.
    pub(crate) async fn delete_later(&self, path: &EntityPath) {
        self.created.lock().await.push(path.clone());
    }

    pub(crate) async fn queue(&self, settings: QueueSettings) -> Result<EntityPath, Failure> {
        let path = self.fresh_path()?;
        self.create(&path, settings).await?;
        Ok(path)
    }

    /// Creates a queue whose locks hold for [`Timing::lock`].
    pub(crate) async fn locking_queue(&self) -> Result<EntityPath, Failure> {
        self.queue(self.locking()).await
    }

    /// Creates a queue whose locks are as short as the transport can set them: for a case that passes with any lock duration,
    /// and would not notice a message that only waits for the end of its lock.
    pub(crate) async fn short_locking_queue(&self) -> Result<EntityPath, Failure> {
        let is_setting = self.capabilities().supports(Capability::LockDuration);
        self.queue(if is_setting { self.locking() } else { QueueSettings::default() }).await
    }

    /// Returns the settings of a queue whose locks hold for [`Timing::lock`].
    pub(crate) fn locking(&self) -> QueueSettings {
        QueueSettings::default().lock_duration(self.timing.lock)
    }

    pub(crate) async fn topic(&self, settings: TopicSettings) -> Result<EntityPath, Failure> {
        let path = self.fresh_path()?;
        self.create(&path, settings).await?;
        Ok(path)
    }

    pub(crate) async fn subscription(
        &self,
        topic: &EntityPath,
        name: &str,
        settings: SubscriptionSettings,
    ) -> Result<EntityPath, Failure> {
        let path = EntityPath::new(&format!("{topic}/Subscriptions/{name}"))?;
        self.create(&path, settings).await?;
        Ok(path)
    }

    pub(crate) async fn create_rule(&self, subscription: &EntityPath, rule: &Rule) -> Verdict {
        Ok(self.transport.create_rule(subscription, rule).await?)
    }

    pub(crate) async fn delete_rule(&self, subscription: &EntityPath, name: &str) -> Verdict {
        Ok(self.transport.delete_rule(subscription, name).await?)
    }

    /// Opens or closes the directions of a queue.
    pub(crate) async fn set_status(&self, queue: &EntityPath, status: Status) -> Verdict {
        let EntitySettings::Queue(settings) = self.transport.settings(queue).await? else {
            return Err(Failure::behaviour(format!("{queue} has not the settings of a queue")));
        };
        Ok(self.transport.update(queue, &settings.status(status).into()).await?)
    }
}
