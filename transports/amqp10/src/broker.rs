//! What brokers do differently from AMQP 1.0, in one place.

use consign_amqp::{
    message::{Body, Sections},
    types::Open,
    value::Value,
};

/// What stands for the path in an address.
pub(crate) const PATH: &str = "{path}";

/// A broker whose deviations from the protocol are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Product {
    /// A broker of AMQP 1.0 without known deviations.
    Generic,
    /// RabbitMQ 3 with the plugin `rabbitmq_amqp1_0`. RabbitMQ 4 has another implementation, and is [`Product::Generic`].
    RabbitMq3,
}

impl Product {
    /// Reads it from the open of the broker.
    pub(crate) fn of(open: &Open) -> Self {
        let property = |name: &str| open.properties.as_ref()?.get(name)?.as_str();
        let is_version_3 = property("version").is_none_or(|version| version.starts_with("3."));
        match property("product") {
            Some("RabbitMQ") if is_version_3 => Self::RabbitMq3,
            _ => Self::Generic,
        }
    }

    const fn is_rabbitmq(self) -> bool {
        matches!(self, Self::RabbitMq3)
    }

    /// Whether `modified` with `delivery-failed` counts a delivery. RabbitMQ ends the session for it.
    pub(crate) const fn counts(self) -> bool {
        !self.is_rabbitmq()
    }

    /// Whether a receiving link can be drained. RabbitMQ ends the session for it.
    pub(crate) const fn drains(self) -> bool {
        !self.is_rabbitmq()
    }

    /// Whether links share a connection. RabbitMQ closes the connection of a receiver whose queue is deleted.
    pub(crate) const fn shares_connections(self) -> bool {
        !self.is_rabbitmq()
    }

    /// Whether a sender to an address without an entity is refused. RabbitMQ accepts it, accepts its messages and discards them; a
    /// receiver is refused.
    pub(crate) const fn refuses_senders(self) -> bool {
        !self.is_rabbitmq()
    }

    /// Whether messages of a lost connection are redelivered without a count. AMQP 1.0 leaves it open.
    pub(crate) const fn releases_uncounted(self) -> bool {
        self.is_rabbitmq()
    }

    /// The address of an entity, with `{path}` for its path.
    pub(crate) const fn address(self) -> &'static str {
        if self.is_rabbitmq() { "/amq/queue/{path}" } else { PATH }
    }

    /// The form of a path within an address. RabbitMQ reads `%2F` as a slash of the name, and no other escape.
    pub(crate) fn written(self, path: &str) -> String {
        if self.is_rabbitmq() { path.replace('/', "%2F") } else { path.to_owned() }
    }

    /// Whether a message has to be wrapped, as the broker would change it or close the connection for it.
    ///
    /// RabbitMQ closes the connection for described values and arrays, reorders the sections of a body, and compares a user id
    /// with the login.
    pub(crate) fn damages(self, sections: &Sections) -> bool {
        if !self.is_rabbitmq() {
            return false;
        }
        let annotations = sections.message_annotations.iter().flat_map(|section| &section.0.0).map(|(_, value)| value);
        let properties = sections.application_properties.iter().flat_map(|section| &section.0).map(|(_, value)| value);
        sections.footer.is_some()
            || sections.properties.as_ref().is_some_and(|properties| properties.user_id.is_some())
            || !match &sections.body {
                Body::Data(data) => data.len() == 1,
                Body::Value(value) => is_deeply_plain(value),
                Body::Sequence(_) => false,
            }
            || annotations.chain(properties).any(|value| !is_plain(value))
    }
}

/// Whether a value, and those inside it, pass RabbitMQ unchanged.
fn is_deeply_plain(value: &Value) -> bool {
    match value {
        Value::List(list) => list.0.iter().all(is_deeply_plain),
        Value::Map(map) => map.0.iter().all(|(key, value)| is_deeply_plain(key) && is_deeply_plain(value)),
        value => is_plain(value),
    }
}

/// Whether a value passes RabbitMQ unchanged.
pub(crate) fn is_plain(value: &Value) -> bool {
    matches!(
        value,
        Value::Boolean(_)
            | Value::Ubyte(_)
            | Value::Ushort(_)
            | Value::Uint(_)
            | Value::Ulong(_)
            | Value::Byte(_)
            | Value::Short(_)
            | Value::Int(_)
            | Value::Long(_)
            | Value::Timestamp(_)
            | Value::String(_)
            | Value::Symbol(_)
    )
}

#[cfg(test)]
mod tests {
    use consign_amqp::value::{Map, Symbol};

    use super::*;

    fn open(product: &'static str, version: &'static str) -> Open {
        let pair = |key: &'static str, value: &'static str| (Symbol::from_static(key).into(), Value::from(value));
        let properties: Map = [pair("product", product), pair("version", version)].into_iter().collect();
        Open { properties: Some(properties), ..Open::default() }
    }

    #[test]
    fn a_product_is_read_from_the_open_of_the_broker() {
        assert_eq!(Product::of(&open("RabbitMQ", "3.10.8")), Product::RabbitMq3);
        assert_eq!(Product::of(&open("RabbitMQ", "4.1.0")), Product::Generic);
        assert_eq!(Product::of(&open("apache-activemq-artemis", "3.0.0")), Product::Generic);
        assert_eq!(Product::of(&Open::default()), Product::Generic);
    }

    #[test]
    fn slashes_are_escaped_where_the_broker_reads_escapes() {
        let path = "shop/orders 1/$deadletterqueue";
        assert_eq!(Product::Generic.written(path), path);
        assert_eq!(Product::RabbitMq3.written(path), "shop%2Forders 1%2F$deadletterqueue");
    }
}
