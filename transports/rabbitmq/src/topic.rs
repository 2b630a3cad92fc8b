//! Topics: a headers exchange, and a queue for each subscription.

use std::sync::Arc;

use consign_core::{
    message::EntityPath,
    transport::{ErrorKind, ManageError},
};
use consign_rules::Rule;
use lapin::{
    ExchangeKind,
    options::{ExchangeDeclareOptions, ExchangeDeleteOptions},
    types::FieldTable,
};

use tokio::time::Instant;

use crate::{
    QueueSettings, RabbitMq, TopicSettings,
    client::Shared,
    error::Failure,
    link::Leased,
    rules,
    settings::check_path,
    stored::{self, Known},
};

impl RabbitMq {
    /// Creates a topic: a durable headers exchange of that name.
    ///
    /// # Errors
    ///
    /// `AlreadyExists`; a path or settings that are not allowed.
    pub async fn create_topic(&self, path: &str, settings: TopicSettings) -> Result<(), ManageError> {
        self.create_entity(&check_path(path)?, &Known::Topic(settings.default_time_to_live)).await
    }

    /// Creates a subscription of a topic, which gets every message: a queue at `topic/Subscriptions/name` and its dead-letter
    /// queue. Returns its path.
    ///
    /// # Errors
    ///
    /// `EntityNotFound` without the topic; otherwise as [`create_queue`](Self::create_queue).
    pub async fn create_subscription(
        &self,
        topic: &str,
        name: &str,
        settings: QueueSettings,
    ) -> Result<EntityPath, ManageError> {
        let topic = check_path(topic)?;
        let path = topic.subscription_of(name)?;
        settings.check()?;
        check_path(path.as_str())?;
        self.create_entity(&path, &Known::Queue(Arc::new(settings))).await?;
        Ok(path)
    }
}

pub(crate) async fn declare(shared: &Shared, path: &EntityPath) -> Result<(), Failure> {
    let declaring = async |leased: &Leased| {
        let durable = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
        leased
            .channel
            .exchange_declare(path.as_str().into(), ExchangeKind::Headers, durable, FieldTable::default())
            .await
    };
    shared.manage("exchange.declare", declaring).await
}

/// Creates the rule that a new subscription has.
pub(crate) async fn bind_default(shared: &Shared, path: &EntityPath, known: &Known) -> Result<(), ManageError> {
    let by_session = matches!(known, Known::Queue(settings) if settings.requires_session);
    rules::bind(shared, path, by_session, &Rule::default()).await
}

/// Deletes a topic with its subscriptions.
pub(crate) async fn delete(shared: &Arc<Shared>, path: &EntityPath) -> Result<(), ManageError> {
    let deleting = async |leased: &Leased| {
        leased.channel.exchange_delete(path.as_str().into(), ExchangeDeleteOptions::default()).await
    };
    shared.manage("exchange.delete", deleting).await?;
    shared.forget_delays(path.as_str());
    let until = Instant::now() + shared.link.deadline();
    loop {
        for (subscription, known) in stored::subscriptions_of(shared, path).await? {
            if let Known::Queue(settings) = known {
                shared.delete_queues(&subscription, &settings).await?;
            }
        }
        if stored::delete_topic(shared, path).await? {
            break;
        }
        if Instant::now() > until {
            return Err(ManageError::new(ErrorKind::ServiceTimeout).with_detail("a subscription was not deleted"));
        }
    }
    shared.entities.forget(path);
    Ok(())
}
