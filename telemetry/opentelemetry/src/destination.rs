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
    names::{Names, OTHER_DESTINATION, Operation, attribute},
    series::Series,
    span_names,
};

/// The destinations that have a label of their own, up to a limit.
#[derive(Debug)]
pub(crate) struct Labels {
    limit: usize,
    known: Mutex<HashSet<Box<str>>>,
}

impl Labels {
    /// Creates the set: `known` have labels, and the first others up to `limit` of all.
    pub(crate) fn new(limit: usize, known: impl IntoIterator<Item = Box<str>>) -> Self {
        Self { limit, known: Mutex::new(known.into_iter().collect()) }
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
        let is_labelled = labels.admit(&escaped(path));
        Self { client, name, subscription, is_labelled }
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
        let label = |own: &Option<KeyValue>| match own {
            Some(own) if !self.is_labelled => Some(KeyValue::new(own.key.clone(), OTHER_DESTINATION)),
            own => own.clone(),
        };
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
            attributes: of(&[&first, &kind, &[destination, subscription], &last, &[id, own]]).into(),
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

    /// Rules: O-13.
    #[test]
    fn a_destination_without_a_label_stands_on_spans_only() {
        let (client, labels) = (client(), Labels::new(2, ["orders".into()]));
        let of = |path| Destination::new(&client, path, &labels).target(Operation::PROCESS);
        for (path, span, label) in [
            ("first", "process first", "first"),
            ("second", "process", "_other"),
            ("orders", "process orders", "orders"),
            ("first", "process first", "first"),
        ] {
            let target = of(path);
            let label = format!("messaging.destination.name={label}");
            assert_eq!(&*target.span, span);
            let has_label = |series: &Series| text(series.labels()).contains(&label);
            assert!(has_label(&target.durations) && has_label(&target.counts), "{target:?}");
            assert!(text(&target.attributes).contains(&format!("messaging.destination.name={path}")));
        }
    }

    /// Rules: O-10.
    #[test]
    fn a_subscription_is_named_beside_its_topic() {
        let (client, labels) = (client(), Labels::new(1, []));
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
        assert!(
            text(other.durations.labels()).contains(&"messaging.destination.subscription.name=_other".into()),
            "{other:?}"
        );
    }
}
