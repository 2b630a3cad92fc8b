//! Topics: a stream that keeps a message until each subscription has its copy.

use consign_core::{
    message::EntityPath,
    transport::{ErrorKind, ManageError},
};
use consign_rules::Rule;
use serde::Deserialize;
use serde_json::json;

use crate::{
    Nats, SubscriptionSettings, TopicSettings,
    beside::Beside,
    connection::Inner,
    entities::{Entity, own_path, stream_config},
    error::Fault,
    fan_out::{self, FanOut},
    rules::Stored as Rules,
    settings::{Kind, Limits},
    wire::{self, nanos},
};

impl Nats {
    /// Creates a topic. While it has no subscription, a message that is sent to it is dropped at once.
    ///
    /// # Errors
    ///
    /// Those of [`Nats::create_queue`].
    pub async fn create_topic(&self, path: &str, settings: TopicSettings) -> Result<(), ManageError> {
        let path = own_path(path)?;
        let (limits, stored) = (settings.limits(), settings.stored(&path));
        limits.check()?;
        let (stream, root) = self.inner.name(path.as_str())?;
        let config = stream_config(&stream, &[format!("{root}.m")], "interest", &limits, &stored);
        match self.inner.create_stream(&stream, &config).await {
            Ok(_) => Ok(()),
            Err(fault) => Err(self.inner.why_not_created(fault, &stream, &root).await.into()),
        }
    }

    /// Creates a subscription at `topic/Subscriptions/name`, with the rule [`Rule::default`]. It gets messages that are sent
    /// from then on.
    ///
    /// # Errors
    ///
    /// Those of [`Nats::create_queue`], and [`EntityNotFound`](ErrorKind::EntityNotFound) if there is no such topic.
    pub async fn create_subscription(
        &self,
        topic: &str,
        name: &str,
        settings: SubscriptionSettings,
    ) -> Result<(), ManageError> {
        let inner = &self.inner;
        let topic = EntityPath::new(topic)?;
        let path = topic.subscription_of(name)?;
        settings.check()?;
        let of_topic = inner.topic(&topic).await?;
        let limits = Limits::none(of_topic.config.num_replicas.max(1));
        let stored = settings.stored(&path, of_topic.settings.id);
        inner.create_entity(&path, &stored, &limits).await?;
        let (own, root) = inner.name(path.as_str())?;
        let fed = async {
            Rules::first(inner, &Beside::new(&own, &root)).await?;
            inner.create_consumer(&of_topic.stream, &fan_out::consumer(name), &feed_config(name)).await
        };
        let Err(fault) = fed.await else { return Ok(()) };
        let _ = inner.delete_streams(&path).await;
        Err(fault.into())
    }

    /// Creates a rule of a subscription. It is for messages that are sent from then on.
    ///
    /// # Errors
    ///
    /// [`EntityNotFound`](ErrorKind::EntityNotFound), [`AlreadyExists`](ErrorKind::AlreadyExists),
    /// [`QuotaExceeded`](ErrorKind::QuotaExceeded) if all rules together are larger than half of the server's `max_payload`.
    pub async fn create_rule(&self, topic: &str, subscription: &str, rule: &Rule) -> Result<(), ManageError> {
        let beside = self.caught_up(topic, subscription).await?;
        Rules::change(&self.inner, &beside, |rules| rules.create(rule.clone())).await
    }

    /// Deletes a rule of a subscription, for messages that are sent from then on.
    ///
    /// # Errors
    ///
    /// [`EntityNotFound`](ErrorKind::EntityNotFound) also for a rule.
    pub async fn delete_rule(&self, topic: &str, subscription: &str, rule: &str) -> Result<(), ManageError> {
        let beside = self.caught_up(topic, subscription).await?;
        Rules::change(&self.inner, &beside, |rules| rules.remove(rule).map(drop)).await
    }

    /// Returns the place of the rules of a subscription, when earlier messages have their copies.
    async fn caught_up(&self, topic: &str, subscription: &str) -> Result<Beside, ManageError> {
        let path = EntityPath::new(topic)?.subscription_of(subscription)?;
        let (stream, root, settings) = self.inner.find(&path).await?;
        FanOut::of(&self.inner, &path, &settings)?.catch_up().await?;
        Ok(Beside::new(&stream, &root))
    }
}

/// One request waits at a time, so one process gets the messages, in their order.
pub(crate) fn feed_config(name: &str) -> serde_json::Value {
    json!({
        "durable_name": fan_out::consumer(name),
        "deliver_policy": "new",
        "ack_policy": "explicit",
        "ack_wait": nanos(fan_out::ACK_WAIT),
        "max_deliver": -1,
        "replay_policy": "instant",
        "max_ack_pending": fan_out::AT_ONCE,
        "max_waiting": 1,
    })
}

impl Inner {
    /// Returns a topic.
    pub(crate) async fn topic(&self, path: &EntityPath) -> Result<Entity, Fault> {
        let entity = self.entity(path).await?;
        if entity.settings.kind != Kind::Topic {
            return Err(Fault::new(ErrorKind::EntityNotFound, format!("{path} is no topic")));
        }
        Ok(entity)
    }

    /// Removes a subscription from its topic.
    pub(crate) async fn stop_copies(&self, path: &EntityPath) -> Result<(), Fault> {
        let Some((topic, name)) = path.subscription() else { return Ok(()) };
        let (topic, _) = self.name(topic)?;
        match self.delete_consumer(&topic, &fan_out::consumer(name)).await {
            Err(fault) if fault.kind == ErrorKind::EntityNotFound => Ok(()),
            deleted => deleted,
        }
    }

    /// Returns the names of the subscriptions of a topic. A queue has none.
    pub(crate) async fn subscriptions(&self, path: &EntityPath) -> Result<Vec<String>, Fault> {
        #[derive(Deserialize)]
        struct Page {
            total: usize,
            #[serde(default)]
            consumers: Vec<String>,
        }
        match self.find(path).await {
            Ok((.., settings)) if settings.kind == Kind::Topic => {}
            Ok(_) => return Ok(Vec::new()),
            // The caller that deletes a stream finds out if it is missing, or was created by another client.
            Err(fault) if matches!(fault.kind, ErrorKind::EntityNotFound | ErrorKind::InvalidOperation) => {
                return Ok(Vec::new());
            }
            Err(fault) => return Err(fault),
        }
        let (stream, _) = self.name(path.as_str())?;
        let mut names = Vec::new();
        loop {
            let at = format!("CONSUMER.NAMES.{stream}");
            let page = self.request::<Page>(&at, &json!({ "offset": names.len() })).await?;
            let read = page.consumers.len();
            names.extend(page.consumers);
            if read == 0 || names.len() >= page.total {
                return Ok(names.iter().filter_map(|name| wire::untoken(name)).collect());
            }
        }
    }
}
