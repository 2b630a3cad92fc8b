//! The administration of entities: ATOM documents over HTTP.

mod http;
mod settings;

use std::{collections::HashSet, sync::Arc};

use ::http::Method;
use consign_core::{
    administration::{Administration, Counts, Entity, EntityKind, EntitySettings},
    message::EntityPath,
    transport::{ErrorKind, ManageError},
};
use consign_http::administration::{CountDetails, Description, Document, Entry, Feed};
use consign_rules::{ManageRules, Rule};

use self::http::{Call, call};
use crate::{
    ServiceBus,
    core::Core,
    error::Failure,
    retry::{Effect, retry},
};

/// The entries of a page.
const PAGE: usize = 100;

fn no_entity(path: &str) -> Failure {
    Failure::new(ErrorKind::EntityNotFound, path.to_owned())
}

/// Reads the description of an entity. An entity that does not exist is an empty list.
async fn get(core: &Arc<Core>, path: &EntityPath) -> Result<Description, Failure> {
    let answered = retry(core, Effect::Repeatable, || call(core, Call::new(Method::GET, path.as_str()))).await;
    match answered? {
        Some(Document::Entry(Entry { description, .. })) => Ok(description),
        _ => Err(no_entity(path.as_str())),
    }
}

/// Reads all pages of a list.
async fn list(core: &Arc<Core>, of: &str) -> Result<Vec<Entry>, Failure> {
    let (mut all, mut seen) = (Vec::new(), HashSet::new());
    loop {
        let skip = all.len();
        let page = retry(core, Effect::Repeatable, || {
            call(core, Call::new(Method::GET, of).with_query(format!("&$skip={skip}&$top={PAGE}")))
        });
        let Some(Document::Feed(Feed { entries, .. })) = page.await? else {
            return Err(Failure::new(ErrorKind::General, "the answer is not a list").for_good());
        };
        let count = entries.len();
        let before = seen.len();
        seen.extend(entries.iter().map(|entry| entry.title.clone()));
        all.extend(entries);
        if count < PAGE {
            return Ok(all);
        }
        if seen.len() == before {
            return Err(Failure::new(ErrorKind::General, "the server has sent a page of a list again").for_good());
        }
    }
}

async fn put(
    core: &Arc<Core>,
    path: &EntityPath,
    settings: &EntitySettings,
    is_update: bool,
) -> Result<(), ManageError> {
    let description = settings::describe(settings)?;
    let (forward_to, forward_dead_letters_to) = settings::forwards(settings);
    let request = Call::new(Method::PUT, path.as_str())
        .with_body(Entry::new(description).to_xml())
        .updating(is_update)
        .forwarding(forward_to, forward_dead_letters_to);
    Ok(retry(core, Effect::Once, || call(core, request.clone())).await.map(drop)?)
}

/// Checks settings before they are sent.
fn check(path: &EntityPath, settings: &EntitySettings) -> Result<(), ManageError> {
    settings.check()?;
    if path.is_sub_queue() {
        let detail = "a sub-queue is created with its entity";
        return Err(ManageError::new(ErrorKind::InvalidOperation).with_detail(detail));
    }
    if path.subscription().is_some() != (settings.kind() == EntityKind::Subscription) {
        let detail = format!("{path} is not the path of a {}", settings.kind().name());
        return Err(ManageError::new(ErrorKind::InvalidArgument).with_detail(detail));
    }
    Ok(())
}

/// Over HTTP, on the port of [`Options::http_port`](crate::Options::http_port).
impl Administration for ServiceBus {
    async fn create(&self, path: &EntityPath, settings: &EntitySettings) -> Result<(), ManageError> {
        check(path, settings)?;
        put(&self.core, path, settings, false).await
    }

    async fn declare(&self, path: &EntityPath, settings: &EntitySettings) -> Result<(), ManageError> {
        match Administration::create(self, path, settings).await {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                Administration::settings(self, path).await?.check_declared(path, settings)
            }
            created => created,
        }
    }

    async fn update(&self, path: &EntityPath, settings: &EntitySettings) -> Result<(), ManageError> {
        check(path, settings)?;
        let current = Administration::settings(self, path).await?;
        settings::check_fixed(&current, settings)?;
        put(&self.core, path, settings, true).await
    }

    async fn delete(&self, path: &EntityPath) -> Result<(), ManageError> {
        if path.is_sub_queue() {
            let detail = "a sub-queue is deleted with its entity";
            return Err(ManageError::new(ErrorKind::InvalidOperation).with_detail(detail));
        }
        let deleting = retry(&self.core, Effect::Once, || call(&self.core, Call::new(Method::DELETE, path.as_str())));
        Ok(deleting.await.map(drop)?)
    }

    async fn settings(&self, path: &EntityPath) -> Result<EntitySettings, ManageError> {
        settings::read(&get(&self.core, &path.parent()).await?)
    }

    async fn list(&self) -> Result<Vec<Entity>, ManageError> {
        let core = &self.core;
        let unnamed = || Failure::new(ErrorKind::General, "the answer has an entity without a name").for_good();
        let mut all = Vec::new();
        for entry in list(core, "$Resources/queues").await? {
            let path = EntityPath::new(&entry.title.ok_or_else(unnamed)?)?;
            all.push(Entity::new(path, EntityKind::Queue));
        }
        for entry in list(core, "$Resources/topics").await? {
            let topic = entry.title.ok_or_else(unnamed)?;
            for subscription in list(core, &format!("{topic}/Subscriptions")).await? {
                let name = subscription.title.ok_or_else(unnamed)?;
                let path = EntityPath::new(&format!("{topic}/Subscriptions/{name}"))?;
                all.push(Entity::new(path, EntityKind::Subscription));
            }
            all.push(Entity::new(EntityPath::new(&topic)?, EntityKind::Topic));
        }
        all.sort_by(|one, other| one.path.as_str().cmp(other.path.as_str()));
        Ok(all)
    }

    /// The service does not count locked and deferred messages apart: they are among the active ones.
    async fn counts(&self, path: &EntityPath) -> Result<Counts, ManageError> {
        let (details, size) = match get(&self.core, &path.parent()).await? {
            Description::Queue(queue) => (queue.count_details, queue.size_in_bytes),
            Description::Topic(topic) => (topic.count_details, topic.size_in_bytes),
            Description::Subscription(subscription) => (subscription.count_details, None),
            _ => return Err(no_entity(path.as_str()).into()),
        };
        Ok(count(path, details.unwrap_or_default(), size.unwrap_or_default()))
    }
}

fn count(path: &EntityPath, details: CountDetails, size: u64) -> Counts {
    let number = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
    let mut counts = Counts::default();
    if path.is_transfer_dead_letter() {
        counts.active = number(details.transfer_dead_lettered);
    } else if path.is_dead_letter() {
        counts.active = number(details.dead_lettered);
    } else {
        counts.active = number(details.active);
        counts.scheduled = number(details.scheduled);
        counts.dead_lettered = number(details.dead_lettered);
        counts.transfer_dead_lettered = number(details.transfer_dead_lettered);
        counts.size = size;
    }
    counts
}

/// Over AMQP.
impl ManageRules for ServiceBus {
    async fn create_rule(&self, subscription: &EntityPath, rule: &Rule) -> Result<(), ManageError> {
        Self::create_rule(self, subscription, rule).await
    }

    async fn delete_rule(&self, subscription: &EntityPath, name: &str) -> Result<(), ManageError> {
        Self::delete_rule(self, subscription, name).await
    }

    async fn rules(&self, subscription: &EntityPath) -> Result<Vec<Rule>, ManageError> {
        Self::rules(self, subscription).await
    }
}
