//! The administration of entities: ATOM documents over HTTP.

mod authorization_rules;
mod entities;
mod lists;
mod rules;
mod show;

use axum::{
    body::Body,
    http::{Method, StatusCode, header},
    response::{IntoResponse, Response},
};
use consign_core::{administration::QueueSettings, message::EntityPath};
use consign_http::administration::{Description, Document, Entry, Feed, QueueDescription, read};

use super::{
    Http, authorization, body as request_body,
    call::Call,
    refusal::{Refusal, XML},
};
use crate::auth::Rights;

/// The versions that differ. Without one it is the first.
const VERSIONS: [&str; 3] = ["2017-04", "2021-05", "2024-05"];
/// The versions before it, which older clients name.
const EARLIER: [&str; 13] = [
    "2011-06", "2012-03", "2012-08", "2013-04", "2013-07", "2013-08", "2013-10", "2014-01", "2014-05", "2014-09",
    "2015-01", "2015-08", "2016-07",
];

/// The largest document of a request.
const MAX_DOCUMENT: usize = 256 * 1_024;

/// What a path names.
#[derive(Debug, PartialEq)]
enum Resource {
    Namespace,
    Queues,
    Topics,
    Subscriptions(EntityPath),
    Rules(EntityPath),
    Rule(EntityPath, String),
    /// A queue, a topic or a subscription.
    Entity(EntityPath),
}

impl Resource {
    fn parse(segments: &[String]) -> Result<Self, Refusal> {
        let is = |segment: &String, word: &str| segment.eq_ignore_ascii_case(word);
        let path = |segments: &[String]| {
            EntityPath::new(&segments.join("/")).map_err(|error| Refusal::bad_request(error.to_string()))
        };
        Ok(match segments {
            [one] if is(one, "$namespaceinfo") => Self::Namespace,
            [resources, kind] if is(resources, "$resources") && is(kind, "queues") => Self::Queues,
            [resources, kind] if is(resources, "$resources") && is(kind, "topics") => Self::Topics,
            [topic @ .., word] if is(word, "subscriptions") && !topic.is_empty() => Self::Subscriptions(path(topic)?),
            [topic @ .., word, _, rules] if is(word, "subscriptions") && is(rules, "rules") && !topic.is_empty() => {
                Self::Rules(path(&segments[..segments.len() - 1])?)
            }
            [topic @ .., word, _, rules, name]
                if is(word, "subscriptions") && is(rules, "rules") && !topic.is_empty() =>
            {
                Self::Rule(path(&segments[..segments.len() - 2])?, name.clone())
            }
            _ => Self::Entity(path(segments)?),
        })
    }
}

/// A request of the administration.
struct Request<'r> {
    http: &'r Http,
    call: &'r Call,
    /// Whether an entity is updated: there is `If-Match: *`.
    is_update: bool,
    /// The version has the sizes of messages.
    has_message_sizes: bool,
    /// The version has the counts of filters.
    has_filter_counts: bool,
}

/// Answers a request.
pub(super) async fn run(
    http: &Http,
    method: &Method,
    segments: &[String],
    call: Call,
    body: Body,
) -> Result<Response, Refusal> {
    let resource = Resource::parse(segments)?;
    authorization::authorize(http.server.shared(), &call, Rights::MANAGE)?;
    let version = call.query.get("api-version").filter(|version| !EARLIER.contains(version)).unwrap_or(VERSIONS[0]);
    if !VERSIONS.contains(&version) {
        let text = format!("The api-version is not one of {}, or an earlier one.", VERSIONS.join(", "));
        return Err(Refusal::bad_request(text));
    }
    let is_update = is_update(&call)?;
    let has_message_sizes = version != VERSIONS[0];
    let has_filter_counts = version == VERSIONS[2];
    let request = Request { http, call: &call, is_update, has_message_sizes, has_filter_counts };
    match *method {
        Method::GET => request.get(&resource),
        Method::PUT => {
            let (limit, timeout) = (MAX_DOCUMENT, http.options.body_timeout);
            let body = request_body::read(body, limit, timeout, StatusCode::PAYLOAD_TOO_LARGE).await?;
            let Document::Entry(Entry { description, .. }) = read(&body)? else {
                return Err(Refusal::bad_request("The document is not an entry."));
            };
            request.check_version(&description)?;
            let response = request.put(&resource, description)?;
            stored(http).await?;
            Ok(response)
        }
        Method::DELETE => {
            request.delete(&resource)?;
            stored(http).await?;
            Ok(StatusCode::OK.into_response())
        }
        _ => Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "The method is GET, PUT or DELETE.")),
    }
}

/// Whether an existing entity is updated. The service knows no other tag than `*`.
fn is_update(call: &Call) -> Result<bool, Refusal> {
    match call.headers.get(header::IF_MATCH) {
        None => Ok(false),
        Some(tag) if tag == "*" => Ok(true),
        Some(_) => Err(Refusal::new(StatusCode::PRECONDITION_FAILED, "The only tag of If-Match is '*'.")),
    }
}

/// Waits until a change is on the disk, if there is one.
#[cfg(feature = "durable")]
async fn stored(http: &Http) -> Result<(), Refusal> {
    let flushed = http.server.broker().flush().await;
    flushed.map_err(|_| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "The change could not be stored."))
}

#[cfg(not(feature = "durable"))]
#[expect(clippy::unused_async, reason = "it is with a disk")]
async fn stored(_: &Http) -> Result<(), Refusal> {
    Ok(())
}

impl Request<'_> {
    fn get(&self, resource: &Resource) -> Result<Response, Refusal> {
        match resource {
            Resource::Namespace => Ok(entry(StatusCode::OK, &self.namespace())),
            Resource::Queues => self.queues().map(|feed| list(&feed)),
            Resource::Topics => self.topics().map(|feed| list(&feed)),
            Resource::Subscriptions(topic) => self.subscriptions(topic).map(|feed| list(&feed)),
            Resource::Rules(subscription) => self.rules(subscription).map(|feed| list(&feed)),
            Resource::Rule(subscription, name) => {
                self.rule(subscription, name).map(|rule| entry(StatusCode::OK, &rule))
            }
            Resource::Entity(path) => self.entity(path).map(|found| entry(StatusCode::OK, &found)),
        }
    }

    /// A size of messages is refused in the first version, unless it is that of an entity without the field: a client may have read
    /// it in another version.
    fn check_version(&self, description: &Description) -> Result<(), Refusal> {
        let size = match description {
            Description::Queue(queue) => queue.max_message_size_in_kilobytes,
            Description::Topic(topic) => topic.max_message_size_in_kilobytes,
            _ => None,
        };
        let default = QueueDescription::from(&QueueSettings::default()).max_message_size_in_kilobytes;
        if self.has_message_sizes || size.is_none() || size == default {
            return Ok(());
        }
        let text = format!("The api-version {} has no MaxMessageSizeInKilobytes.", VERSIONS[0]);
        Err(Refusal::bad_request(text))
    }

    fn put(&self, resource: &Resource, description: Description) -> Result<Response, Refusal> {
        let written = match (resource, description) {
            (Resource::Entity(path), description) => self.put_entity(path, description)?,
            (Resource::Rule(subscription, name), Description::Rule(rule)) => {
                self.put_rule(subscription, name, &rule)?
            }
            // The Azure SDK for Go names its default rule in the document alone.
            (Resource::Rules(subscription), Description::Rule(rule)) => {
                let name = rule.name.as_deref().filter(|name| !name.is_empty());
                let name = name.ok_or_else(|| Refusal::bad_request("The rule has no name."))?;
                self.put_rule(subscription, name, &rule)?
            }
            _ => return Err(Refusal::bad_request("The path and the description are of different kinds.")),
        };
        Ok(entry(if self.is_update { StatusCode::OK } else { StatusCode::CREATED }, &written))
    }

    fn delete(&self, resource: &Resource) -> Result<(), Refusal> {
        match resource {
            Resource::Entity(path) => Ok(self
                .http
                .server
                .broker()
                .delete(path.as_str())
                .map_err(|error| Self::missing(error, path.as_str()))?),
            Resource::Rule(subscription, name) => self.delete_rule(subscription, name),
            _ => Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "A list cannot be deleted.")),
        }
    }
}

fn entry(status: StatusCode, entry: &Entry) -> Response {
    (status, [(header::CONTENT_TYPE, XML)], entry.to_xml()).into_response()
}

fn list(feed: &Feed) -> Response {
    (StatusCode::OK, [(header::CONTENT_TYPE, XML)], feed.to_xml()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_a_resource() {
        let parse = |path: &str| Resource::parse(&path.split('/').map(str::to_owned).collect::<Vec<_>>()).unwrap();
        let path = |path| EntityPath::new(path).unwrap();
        assert_eq!(parse("$NamespaceInfo"), Resource::Namespace);
        assert_eq!(parse("$Resources/Queues"), Resource::Queues);
        assert_eq!(parse("$resources/topics"), Resource::Topics);
        assert_eq!(parse("a/b"), Resource::Entity(path("a/b")));
        assert_eq!(parse("a/b/subscriptions"), Resource::Subscriptions(path("a/b")));
        let subscription = path("a/b/Subscriptions/s");
        assert_eq!(parse("a/b/Subscriptions/s"), Resource::Entity(subscription.clone()));
        assert_eq!(parse("a/b/subscriptions/s/rules"), Resource::Rules(subscription.clone()));
        assert_eq!(parse("a/b/Subscriptions/s/Rules/$Default"), Resource::Rule(subscription, "$Default".into()));
        assert_eq!(parse("subscriptions"), Resource::Entity(path("subscriptions")));
        for bad in ["$other", "a//b", "$resources/rules", "a/$management"] {
            let segments: Vec<_> = bad.split('/').map(str::to_owned).collect();
            assert_eq!(Resource::parse(&segments).unwrap_err().status, StatusCode::BAD_REQUEST, "{bad}");
        }
    }
}
