//! Lists, in pages.

use consign_core::{administration::EntityKind, message::EntityPath};
use consign_http::administration::{Entry, Feed};

use super::Request;
use crate::http::{path_in_url, refusal::Refusal};

/// The most entries of a page.
const MAX_PAGE: u64 = 100;

impl Request<'_> {
    pub(super) fn queues(&self) -> Result<Feed, Refusal> {
        let broker = self.http.server.broker();
        let page = self.page("$Resources/queues", "Queues", self.paths(EntityKind::Queue))?;
        // An entity that is deleted meanwhile is left out.
        let queues = page.items.iter().filter_map(|path| broker.queue(path.as_str()).ok());
        let entries = queues.filter_map(|queue| self.show_queue(&queue).ok()).collect();
        Ok(page.feed(entries))
    }

    pub(super) fn topics(&self) -> Result<Feed, Refusal> {
        let broker = self.http.server.broker();
        let page = self.page("$Resources/topics", "Topics", self.paths(EntityKind::Topic))?;
        let topics = page.items.iter().filter_map(|path| broker.topic(path.as_str()).ok());
        let entries = topics.filter_map(|topic| self.show_topic(&topic).ok()).collect();
        Ok(page.feed(entries))
    }

    pub(super) fn subscriptions(&self, topic: &EntityPath) -> Result<Feed, Refusal> {
        let topic =
            self.http.server.broker().topic(topic.as_str()).map_err(|error| Self::missing(error, topic.as_str()))?;
        let list = format!("{}/{}", path_in_url(topic.path()), self.words().0);
        let page = self.page(&list, "Subscriptions", topic.subscriptions())?;
        let subscriptions = page.items.iter().filter_map(|name| topic.subscription(name).ok());
        let entries = subscriptions.filter_map(|found| self.show_subscription(topic.path(), &found).ok()).collect();
        Ok(page.feed(entries))
    }

    pub(super) fn rules(&self, path: &EntityPath) -> Result<Feed, Refusal> {
        let (topic, subscription) = self.subscription(path)?;
        let list = format!("{}/{}", self.subscription_path(&topic, subscription.name()), self.words().1);
        let count = subscription.rule_count();
        let page = self.page_of(&list, "Rules", count, |skip, top| subscription.rules_page(skip, top))?;
        let entries = page.items.iter().map(|rule| self.show_rule(&topic, subscription.name(), rule)).collect();
        Ok(page.feed(entries))
    }

    fn paths(&self, kind: EntityKind) -> Vec<EntityPath> {
        let entities = self.http.server.broker().entities().into_iter();
        entities.filter(|entity| entity.kind == kind).map(|entity| entity.path).collect()
    }

    fn page<T>(&self, list: &str, title: &str, all: Vec<T>) -> Result<Page<T>, Refusal> {
        self.page_of(list, title, all.len(), |skip, top| all.into_iter().skip(skip).take(top).collect())
    }

    /// A page of `count` items in all.
    fn page_of<T>(
        &self,
        list: &str,
        title: &str,
        count: usize,
        items: impl FnOnce(usize, usize) -> Vec<T>,
    ) -> Result<Page<T>, Refusal> {
        let skip = self.call.query.number("$skip")?.unwrap_or(0);
        let top = self.call.query.number("$top")?.unwrap_or(MAX_PAGE).min(MAX_PAGE);
        let as_index = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let items = items(as_index(skip), as_index(top));
        let url = self.url(&if self.call.ends_with_slash { format!("{list}/") } else { list.to_owned() });
        let end = skip.saturating_add(top);
        let mut feed = Feed::default();
        feed.title = Some(title.to_owned());
        let next = if url.contains('?') { '&' } else { '?' };
        feed.next = (end < count as u64 && top > 0).then(|| format!("{url}{next}$skip={end}&$top={top}"));
        feed.id = Some(url);
        Ok(Page { items, feed })
    }
}

/// A page without its entries.
struct Page<T> {
    items: Vec<T>,
    feed: Feed,
}

impl<T> Page<T> {
    fn feed(self, entries: Vec<Entry>) -> Feed {
        let mut feed = self.feed;
        feed.entries = entries;
        feed
    }
}
