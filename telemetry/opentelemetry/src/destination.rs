//! The names of destinations, and the limit of their labels.

use std::{
    borrow::Cow,
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
};

use consign::message::EntityPath;
use opentelemetry::{KeyValue, StringValue};

use crate::{
    attributes::escaped,
    names::{Names, Operation, attribute},
    series::Series,
    span_names,
};

/// The destinations that have a label, up to a limit, and those that are temporary.
pub(crate) struct Labels {
    limit: usize,
    known: Mutex<HashSet<Box<str>>>,
    is_temporary: Option<IsTemporary>,
}

/// Returns whether the path of a destination is that of a temporary one.
pub(crate) type IsTemporary = Box<dyn Fn(&str) -> bool + Send + Sync>;

impl Labels {
    /// Creates the set: `known` have labels, and the first others up to `limit` of all.
    pub(crate) fn new(
        limit: usize,
        known: impl IntoIterator<Item = Box<str>>,
        is_temporary: Option<IsTemporary>,
    ) -> Self {
        Self { limit, known: Mutex::new(known.into_iter().collect()), is_temporary }
    }

    /// Returns whether a destination is temporary: one that a transport makes for replies, or that the application says is one.
    fn is_temporary(&self, path: &str) -> bool {
        is_reply_address(path) || self.is_temporary.as_ref().is_some_and(|is_temporary| is_temporary(path))
    }

    /// Returns whether `name` has a label, or gets one of the remaining ones.
    fn admit(&self, name: &str) -> bool {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.contains(name) {
            return true;
        }
        let is_room = known.len() < self.limit;
        if is_room {
            known.insert(name.into());
        }
        is_room
    }
}

/// Returns whether a path is one that a transport makes for replies. The addresses of AMQP 1.0 are names of the broker, which
/// have no form in common.
fn is_reply_address(path: &str) -> bool {
    // Inboxes of NATS, and reply queues and direct replies of RabbitMQ.
    let of_transport = ["_INBOX/", "consign.replies/", "amq.rabbitmq.reply-to/"];
    of_transport.iter().any(|prefix| path.starts_with(prefix)) || path.strip_prefix("replies/").is_some_and(is_uuid)
}

/// Returns whether a text is a UUID, as a reply queue of PostgreSQL has after its prefix.
fn is_uuid(text: &str) -> bool {
    let is_in_place = |(index, byte): (usize, u8)| match index {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    text.len() == 36 && text.bytes().enumerate().all(is_in_place)
}

/// What all operations of a client have in common.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) system: StringValue,
    pub(crate) names: Names,
    /// Host and port.
    pub(crate) server: Option<(StringValue, Option<u16>)>,
    pub(crate) id: Option<StringValue>,
    pub(crate) consumer_group: Option<StringValue>,
}

/// The attributes of a destination on spans and on metrics. Created once for each layer.
#[derive(Clone, Debug)]
pub(crate) struct Destination<'c> {
    client: &'c Client,
    /// The full name, escaped.
    name: StringValue,
    subscription: Option<StringValue>,
    is_temporary: bool,
    /// Whether the names are labels too. Otherwise they are on spans only, and not in their names.
    is_labelled: bool,
}

/// An operation on a destination: the name of its spans, and the attributes of all of them and of all of its metrics.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) span: Cow<'static, str>,
    pub(crate) attributes: Box<[KeyValue]>,
    /// With the type of the operation.
    pub(crate) durations: Series,
    /// Without it.
    pub(crate) counts: Series,
}

/// Shares a text by every span and every count.
pub(crate) fn shared(text: &str) -> StringValue {
    StringValue::from(Arc::<str>::from(escaped(text)))
}

impl<'c> Destination<'c> {
    pub(crate) fn new(client: &'c Client, path: &str, labels: &Labels) -> Self {
        let parsed = EntityPath::new(path).ok();
        let of_topic = parsed.as_ref().filter(|path| !path.is_sub_queue()).and_then(EntityPath::subscription);
        let (name, subscription) = of_topic.map_or((path, None), |(topic, name)| (topic, Some(name)));
        let (name, subscription) = (shared(name), subscription.map(shared));
        let is_temporary = labels.is_temporary(path);
        let is_labelled = !is_temporary && labels.admit(&escaped(path));
        Self { client, name, subscription, is_temporary, is_labelled }
    }

    pub(crate) fn target(&self, operation: Operation) -> Arc<Target> {
        self.target_with(operation, None)
    }

    /// Returns the target with an attribute of its own on spans.
    pub(crate) fn target_with(&self, operation: Operation, own: Option<KeyValue>) -> Arc<Target> {
        let client = self.client;
        let text = |name: &'static str, value: &StringValue| KeyValue::new(name, value.clone());
        let system = text(client.names.system, &client.system);
        let name = KeyValue::new(attribute::OPERATION_NAME, operation.name);
        let kind = operation.kind.map(|kind| KeyValue::new(attribute::OPERATION_TYPE, kind));
        let destination = Some(text(attribute::DESTINATION, &self.name));
        let subscription = self.subscription.as_ref().map(|name| text(attribute::SUBSCRIPTION, name));
        let temporary = self.is_temporary.then(|| KeyValue::new(attribute::TEMPORARY, true));
        let label = |own: &Option<KeyValue>| own.clone().filter(|_| self.is_labelled);
        let group = client.consumer_group.as_ref().filter(|_| operation.is_of_consumer());
        let group = group.map(|group| text(attribute::CONSUMER_GROUP, group));
        let address = client.server.as_ref().map(|(host, _)| text(attribute::SERVER_ADDRESS, host));
        let port = client.server.as_ref().and_then(|(_, port)| *port);
        let port = port.map(|port| KeyValue::new(attribute::SERVER_PORT, i64::from(port)));
        let id = client.id.as_ref().map(|id| text(attribute::CLIENT_ID, id));

        let first = [Some(system), Some(name)];
        let last = [group, address, port];
        let labels = [label(&destination), label(&subscription)];
        let of = |parts: &[&[Option<KeyValue>]]| parts.concat().into_iter().flatten().collect::<Vec<_>>();
        let kind = [kind];
        Arc::new(Target {
            span: if self.is_labelled {
                span_names::kept(format!("{} {}", operation.name, self.name))
            } else {
                operation.name.into()
            },
            counts: Series::new(of(&[&first, &labels, &last])),
            durations: Series::new(of(&[&first, &kind, &labels, &last])),
            attributes: of(&[&first, &kind, &[destination, subscription, temporary], &last, &[id, own]]).into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Conventions;

    fn client() -> Client {
        Client {
            system: "servicebus".into(),
            names: Conventions::V1_44.names("servicebus"),
            server: None,
            id: None,
            consumer_group: None,
        }
    }

    fn text(entries: &[KeyValue]) -> Vec<String> {
        entries.iter().map(|entry| format!("{}={}", entry.key, entry.value)).collect()
    }

    /// What the labels say of the destination.
    fn destination(series: &Series) -> Vec<String> {
        text(series.labels()).into_iter().filter(|label| label.starts_with("messaging.destination.")).collect()
    }

    /// Rules: O-36.
    #[test]
    fn a_temporary_destination_has_no_label_and_takes_none() {
        let client = client();
        let is_mine: IsTemporary = Box::new(|path| path.starts_with("mine-"));
        let labels = Labels::new(1, [], Some(is_mine));
        let of = |path| Destination::new(&client, path, &labels).target(Operation::SEND);
        for path in [
            "_INBOX/a/b",
            "consign.replies/a",
            "amq.rabbitmq.reply-to/a/b",
            "replies/0a1b2c3d-0a1b-4a1b-8a1b-0a1b2c3d4e5f",
            "mine-1",
        ] {
            let target = of(path);
            assert_eq!(&*target.span, "send", "{path}");
            assert_eq!((destination(&target.durations), destination(&target.counts)), (vec![], vec![]), "{path}");
            let attributes = text(&target.attributes);
            assert!(attributes.contains(&format!("messaging.destination.name={path}")), "{attributes:?}");
            assert!(attributes.contains(&"messaging.destination.temporary=true".into()), "{attributes:?}");
        }
        let lasting = of("replies/orders");
        assert_eq!((&*lasting.span, destination(&lasting.counts).len()), ("send replies/orders", 1));
        assert!(!text(&lasting.attributes).iter().any(|at| at.contains("temporary")), "{lasting:?}");
    }

    /// Rules: O-13.
    #[test]
    fn a_destination_without_a_label_stands_on_spans_only() {
        let (client, labels) = (client(), Labels::new(2, ["orders".into()], None));
        let of = |path| Destination::new(&client, path, &labels).target(Operation::PROCESS);
        for (path, span, label) in [
            ("first", "process first", Some("first")),
            ("second", "process", None),
            ("orders", "process orders", Some("orders")),
            ("first", "process first", Some("first")),
        ] {
            let target = of(path);
            let label: Vec<_> = label.iter().map(|label| format!("messaging.destination.name={label}")).collect();
            assert_eq!(&*target.span, span);
            assert_eq!((destination(&target.durations), destination(&target.counts)), (label.clone(), label));
            assert!(text(&target.attributes).contains(&format!("messaging.destination.name={path}")));
        }
    }

    /// Rules: O-10.
    #[test]
    fn a_subscription_is_named_beside_its_topic() {
        let (client, labels) = (client(), Labels::new(1, [], None));
        let target = Destination::new(&client, "prices/Subscriptions/audit", &labels).target(Operation::PROCESS);
        let expected = [
            "messaging.system=servicebus",
            "messaging.operation.name=process",
            "messaging.operation.type=process",
            "messaging.destination.name=prices",
            "messaging.destination.subscription.name=audit",
        ];
        assert_eq!((text(&target.attributes), &*target.span), (expected.map(String::from).into(), "process prices"));
        let other = Destination::new(&client, "prices/Subscriptions/other", &labels).target(Operation::PROCESS);
        assert_eq!(destination(&other.durations), [""; 0]);
    }
}
