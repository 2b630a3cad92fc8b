//! The names of destinations, and the limit of their labels.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
};

use consign::{message::EntityPath, transport::Escaped};
use opentelemetry::{KeyValue, StringValue};

use crate::names::{OTHER_DESTINATION, Operation, attribute};

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

/// The attributes of a destination on spans and on metrics. Created once for each layer.
#[derive(Clone, Debug)]
pub(crate) struct Destination {
    system: StringValue,
    /// The full name, escaped.
    name: StringValue,
    subscription: Option<StringValue>,
    /// Whether the names are labels too. Otherwise they are on spans only, and not in their names.
    is_labelled: bool,
}

/// An operation on a destination: the name of its spans, and the attributes of all of them and of all of its metrics.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) span: Box<str>,
    pub(crate) attributes: Box<[KeyValue]>,
    /// With the type of the operation.
    pub(crate) labels: Box<[KeyValue]>,
    /// Without it.
    pub(crate) counts: Box<[KeyValue]>,
}

impl Destination {
    pub(crate) fn new(system: StringValue, path: &str, labels: &Labels) -> Self {
        let parsed = EntityPath::new(path).ok();
        let of_topic = parsed.as_ref().filter(|path| !path.is_sub_queue()).and_then(EntityPath::subscription);
        let (name, subscription) = of_topic.map_or((path, None), |(topic, name)| (topic, Some(name)));
        // Shared by every span and every count.
        let escaped = |text| StringValue::from(Arc::<str>::from(Escaped(text).to_string()));
        let (name, subscription) = (escaped(name), subscription.map(escaped));
        let is_labelled = labels.admit(&Escaped(path).to_string());
        Self { system, name, subscription, is_labelled }
    }

    pub(crate) fn target(&self, operation: Operation) -> Arc<Target> {
        let system = KeyValue::new(attribute::SYSTEM, self.system.clone());
        let name = KeyValue::new(attribute::OPERATION_NAME, operation.name);
        let kind = operation.kind.map(|kind| KeyValue::new(attribute::OPERATION_TYPE, kind));
        let destination = KeyValue::new(attribute::DESTINATION, self.name.clone());
        let subscription = self.subscription.clone().map(|name| KeyValue::new(attribute::SUBSCRIPTION, name));
        let label = |own: Option<KeyValue>| match own {
            Some(own) if !self.is_labelled => Some(KeyValue::new(own.key, OTHER_DESTINATION)),
            own => own,
        };
        let labelled = [label(Some(destination.clone())), label(subscription.clone())];
        let of = |parts: [Option<KeyValue>; 5]| parts.into_iter().flatten().collect();
        let [destination_label, subscription_label] = labelled;
        Arc::new(Target {
            span: if self.is_labelled {
                format!("{} {}", operation.name, self.name).into()
            } else {
                operation.name.into()
            },
            counts: of([
                Some(system.clone()),
                Some(name.clone()),
                destination_label.clone(),
                subscription_label.clone(),
                None,
            ]),
            labels: of([Some(system.clone()), Some(name.clone()), kind.clone(), destination_label, subscription_label]),
            attributes: of([Some(system), Some(name), kind, Some(destination), subscription]),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(entries: &[KeyValue]) -> Vec<String> {
        entries.iter().map(|entry| format!("{}={}", entry.key, entry.value)).collect()
    }

    /// Rules: O-13.
    #[test]
    fn a_destination_without_a_label_stands_on_spans_only() {
        let labels = Labels::new(2, ["orders".into()]);
        let of = |path| Destination::new("servicebus".into(), path, &labels).target(Operation::PROCESS);
        for (path, span, label) in [
            ("first", "process first", "first"),
            ("second", "process", "_other"),
            ("orders", "process orders", "orders"),
            ("first", "process first", "first"),
        ] {
            let target = of(path);
            let label = format!("messaging.destination.name={label}");
            assert_eq!(&*target.span, span);
            assert!(text(&target.labels).contains(&label) && text(&target.counts).contains(&label), "{target:?}");
            assert!(text(&target.attributes).contains(&format!("messaging.destination.name={path}")));
        }
    }

    /// Rules: O-10.
    #[test]
    fn a_subscription_is_named_beside_its_topic() {
        let labels = Labels::new(1, []);
        let target =
            Destination::new("servicebus".into(), "prices/Subscriptions/audit", &labels).target(Operation::PROCESS);
        let expected = [
            "messaging.system=servicebus",
            "messaging.operation.name=process",
            "messaging.operation.type=process",
            "messaging.destination.name=prices",
            "messaging.destination.subscription.name=audit",
        ];
        assert_eq!((text(&target.attributes), &*target.span), (expected.map(String::from).into(), "process prices"));
        let other =
            Destination::new("servicebus".into(), "prices/Subscriptions/other", &labels).target(Operation::PROCESS);
        assert!(text(&other.labels).contains(&"messaging.destination.subscription.name=_other".into()), "{other:?}");
    }
}
