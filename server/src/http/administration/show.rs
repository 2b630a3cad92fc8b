//! Entities as entries.

use consign_broker::{Queue, Subscription, Topic};
use consign_core::{
    message::EntityPath,
    time::Timestamp,
    transport::{ErrorKind, ManageError},
};
use consign_http::administration::{
    Description, Entry, NamespaceProperties, QueueDescription, RuleDescription, SubscriptionDescription,
    TopicDescription,
};
use consign_rules::{Filter, Rule};

use super::Request;
use crate::http::{path_in_url, refusal::Refusal, text_in_url};

/// The broker does not keep times of entities. This is the first of .NET, which the service writes for one that is unknown too.
const UNKNOWN: Timestamp = Timestamp::from_millis(-62_135_596_800_000);

impl Request<'_> {
    /// The refusal for an entity of the administration.
    pub(super) fn missing(error: ManageError, path: &str) -> Refusal {
        match error.kind() {
            ErrorKind::EntityNotFound if error.description().is_none_or(|text| text.eq_ignore_ascii_case(path)) => {
                Refusal::no_entity(axum::http::StatusCode::NOT_FOUND, path)
            }
            _ => error.into(),
        }
    }

    fn entry(&self, path: &str, title: &str, description: impl Into<Description>) -> Entry {
        let mut entry = Entry::new(description);
        entry.id = Some(self.url(path));
        entry.title = Some(title.to_owned());
        entry.published = Some(UNKNOWN);
        entry.updated = Some(UNKNOWN);
        entry
    }

    /// The URL of a resource, with the version that the request names. Older clients take the name of an entity from it.
    pub(super) fn url(&self, path: &str) -> String {
        let base = &self.call.base;
        match self.call.query.get("api-version") {
            Some(version) => format!("{base}/{path}?api-version={version}"),
            None => format!("{base}/{path}"),
        }
    }

    /// The words for subscriptions and rules in the case of the request, which clients look for in the URL of the answer.
    pub(super) fn words(&self) -> (&str, &str) {
        const WORDS: (&str, &str) = ("Subscriptions", "Rules");
        let segments: Vec<_> = self.call.path.split('/').collect();
        let (is, is_rules) =
            (|word: &str| word.eq_ignore_ascii_case(WORDS.0), |word: &str| word.eq_ignore_ascii_case(WORDS.1));
        match segments[..] {
            [.., word] if is(word) => (word, WORDS.1),
            [.., word, _, rules] | [.., word, _, rules, _] if is(word) && is_rules(rules) => (word, rules),
            [.., word, _] if is(word) => (word, WORDS.1),
            _ => WORDS,
        }
    }

    /// The URL of an entity that messages are forwarded to.
    fn absolute(&self, path: Option<String>) -> Option<String> {
        path.map(|path| format!("sb://{}/{}", self.call.host, text_in_url(&path)))
    }

    pub(super) fn namespace(&self) -> Entry {
        let mut namespace = NamespaceProperties::default();
        namespace.created_time = Some(UNKNOWN);
        namespace.modified_time = Some(UNKNOWN);
        namespace.messaging_sku = Some("Standard".to_owned());
        namespace.name = Some(self.call.host.clone());
        namespace.namespace_type = Some("Messaging".to_owned());
        self.entry("$namespaceinfo", &self.call.host, namespace)
    }

    pub(super) fn show_queue(&self, queue: &Queue) -> Result<Entry, Refusal> {
        let path = queue.path();
        let settings = queue.settings().map_err(|error| Self::missing(error, path.as_str()))?;
        let counts = queue.counts();
        let mut shown = QueueDescription::from(&settings);
        shown.forward_to = self.absolute(shown.forward_to);
        shown.forward_dead_lettered_messages_to = self.absolute(shown.forward_dead_lettered_messages_to);
        if !self.has_message_sizes {
            shown.max_message_size_in_kilobytes = None;
        }
        shown.size_in_bytes = Some(counts.size);
        let counts = counts.into();
        shown.message_count = Some(consign_http::administration::CountDetails::total(&counts));
        shown.count_details = Some(counts);
        shown.is_anonymous_accessible = Some(false);
        shown.entity_availability_status = Some("Available".to_owned());
        (shown.created_at, shown.updated_at, shown.accessed_at) = (Some(UNKNOWN), Some(UNKNOWN), Some(UNKNOWN));
        Ok(self.entry(&path_in_url(&path), path.as_str(), shown))
    }

    pub(super) fn show_topic(&self, topic: &Topic) -> Result<Entry, Refusal> {
        let path = topic.path();
        let settings = topic.settings().map_err(|error| Self::missing(error, path.as_str()))?;
        let counts = topic.counts();
        let mut shown = TopicDescription::from(&settings);
        if !self.has_message_sizes {
            shown.max_message_size_in_kilobytes = None;
        }
        shown.size_in_bytes = Some(counts.size);
        shown.count_details = Some(counts.into());
        shown.subscription_count = Some(topic.subscriptions().len() as u64);
        if self.has_filter_counts {
            let (sql, correlation) = filters(topic);
            (shown.sql_filter_count, shown.correlation_filter_count) = (Some(sql), Some(correlation));
        }
        shown.filtering_messages_before_publishing = Some(false);
        shown.is_anonymous_accessible = Some(false);
        shown.enable_subscription_partitioning = Some(false);
        shown.entity_availability_status = Some("Available".to_owned());
        (shown.created_at, shown.updated_at, shown.accessed_at) = (Some(UNKNOWN), Some(UNKNOWN), Some(UNKNOWN));
        Ok(self.entry(&path_in_url(path), path.as_str(), shown))
    }

    pub(super) fn show_subscription(&self, topic: &EntityPath, subscription: &Subscription) -> Result<Entry, Refusal> {
        let path = subscription.queue().path();
        let settings = subscription.subscription_settings();
        let settings = settings.map_err(|error| Self::missing(error, path.as_str()))?;
        let mut shown = SubscriptionDescription::from(&settings);
        shown.forward_to = self.absolute(shown.forward_to);
        shown.forward_dead_lettered_messages_to = self.absolute(shown.forward_dead_lettered_messages_to);
        let counts = subscription.queue().counts().into();
        shown.message_count = Some(consign_http::administration::CountDetails::total(&counts));
        shown.count_details = Some(counts);
        shown.entity_availability_status = Some("Available".to_owned());
        (shown.created_at, shown.updated_at, shown.accessed_at) = (Some(UNKNOWN), Some(UNKNOWN), Some(UNKNOWN));
        Ok(self.entry(&self.subscription_path(topic, subscription.name()), subscription.name(), shown))
    }

    pub(super) fn show_rule(&self, topic: &EntityPath, subscription: &str, rule: &Rule) -> Entry {
        let mut shown = RuleDescription::from(rule);
        shown.created_at.get_or_insert(UNKNOWN);
        let path = format!("{}/{}/{}", self.subscription_path(topic, subscription), self.words().1, rule.name());
        self.entry(&path, rule.name(), shown)
    }

    pub(super) fn subscription_path(&self, topic: &EntityPath, name: &str) -> String {
        format!("{}/{}/{name}", path_in_url(topic), self.words().0)
    }
}

/// Counts the SQL filters and the correlation filters of all subscriptions.
fn filters(topic: &Topic) -> (u64, u64) {
    let (mut sql, mut correlation) = (0, 0);
    for name in topic.subscriptions() {
        // One that is deleted meanwhile has no filters.
        let Ok(subscription) = topic.subscription(&name) else { continue };
        for rule in subscription.rules() {
            let count = if matches!(rule.filter(), Filter::Correlation(_)) { &mut correlation } else { &mut sql };
            *count += 1;
        }
    }
    (sql, correlation)
}
