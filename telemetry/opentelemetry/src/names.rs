//! Every name of OpenTelemetry's conventions for messaging that this crate writes, because they are not stable yet; and the
//! names of this crate.

/// The release of [OpenTelemetry's conventions for messaging](https://opentelemetry.io/docs/specs/semconv/messaging/) whose
/// names are written. They are not stable: 1.45 has other names for some attributes.
///
/// | `V1_44` | `V1_45` |
/// |---|---|
/// | `messaging.system` | `messaging.system.name` |
/// | `servicebus`, `eventhubs`, `eventgrid`, `gcp_pubsub`, `aws_sqs` as its value | `azure.servicebus`, `azure.eventhubs`, `azure.eventgrid`, `gcp.pubsub`, `aws.sqs` |
/// | `messaging.servicebus.*` | `azure.servicebus.*` |
/// | `messaging.rabbitmq.*` | `rabbitmq.*` |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Conventions {
    /// Release 1.44, whose names most backends read.
    #[default]
    V1_44,
    /// Release 1.45.
    V1_45,
}

impl Conventions {
    /// The URL of the schema, on the instrumentation scope of all spans and metrics.
    #[must_use]
    pub const fn schema_url(self) -> &'static str {
        match self {
            Self::V1_44 => "https://opentelemetry.io/schemas/1.44.0",
            Self::V1_45 => "https://opentelemetry.io/schemas/1.45.0",
        }
    }

    /// Returns the system by its name in this release.
    pub(crate) fn system(self, system: &str) -> Option<&'static str> {
        let names = [
            ("servicebus", "azure.servicebus"),
            ("eventhubs", "azure.eventhubs"),
            ("eventgrid", "azure.eventgrid"),
            ("gcp_pubsub", "gcp.pubsub"),
            ("aws_sqs", "aws.sqs"),
        ];
        let (old, new) = names.into_iter().find(|(old, new)| system == *old || system == *new)?;
        Some(if self == Self::V1_44 { old } else { new })
    }

    /// Returns the names of the attributes that depend on the release or on the system.
    pub(crate) fn names(self, system: &str) -> Names {
        let is_new = self != Self::V1_44;
        let of = |old, new| if is_new { new } else { old };
        let is_servicebus = self.system(system).is_some_and(|system| system.ends_with("servicebus"));
        let is_rabbitmq = system == "rabbitmq";
        let servicebus = |name, old, new| if is_servicebus { of(old, new) } else { name };
        Names {
            system: of("messaging.system", "messaging.system.name"),
            delivery_count: servicebus(
                "consign.message.delivery_count",
                "messaging.servicebus.message.delivery_count",
                "azure.servicebus.message.delivery_count",
            ),
            enqueued_time: servicebus(
                "consign.message.enqueued_time",
                "messaging.servicebus.message.enqueued_time",
                "azure.servicebus.message.enqueued_time",
            ),
            disposition_status: servicebus(
                attribute::DISPOSITION,
                "messaging.servicebus.disposition_status",
                "azure.servicebus.disposition_status",
            ),
            delivery_tag: is_rabbitmq
                .then(|| of("messaging.rabbitmq.message.delivery_tag", "rabbitmq.message.delivery_tag")),
            routing_key: is_rabbitmq
                .then(|| of("messaging.rabbitmq.destination.routing_key", "rabbitmq.destination.routing_key")),
        }
    }
}

/// The names of attributes that depend on the release of the conventions or on the system.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names {
    pub(crate) system: &'static str,
    pub(crate) delivery_count: &'static str,
    pub(crate) enqueued_time: &'static str,
    pub(crate) disposition_status: &'static str,
    /// Of RabbitMQ, as the next one.
    pub(crate) delivery_tag: Option<&'static str>,
    pub(crate) routing_key: Option<&'static str>,
}

/// Attributes of spans, and labels of metrics where bounded.
pub(crate) mod attribute {
    pub(crate) const OPERATION_NAME: &str = "messaging.operation.name";
    pub(crate) const OPERATION_TYPE: &str = "messaging.operation.type";
    pub(crate) const DESTINATION: &str = "messaging.destination.name";
    pub(crate) const TEMPORARY: &str = "messaging.destination.temporary";
    pub(crate) const SUBSCRIPTION: &str = "messaging.destination.subscription.name";
    pub(crate) const CONSUMER_GROUP: &str = "messaging.consumer.group.name";
    pub(crate) const CLIENT_ID: &str = "messaging.client.id";
    pub(crate) const SERVER_ADDRESS: &str = "server.address";
    pub(crate) const SERVER_PORT: &str = "server.port";
    pub(crate) const MESSAGE_ID: &str = "messaging.message.id";
    pub(crate) const CONVERSATION_ID: &str = "messaging.message.conversation_id";
    pub(crate) const BODY_SIZE: &str = "messaging.message.body.size";
    pub(crate) const BATCH_COUNT: &str = "messaging.batch.message_count";
    pub(crate) const ERROR_TYPE: &str = "error.type";

    pub(crate) const DISPOSITION: &str = "consign.disposition";
    pub(crate) const CODEC: &str = "consign.decode.codec";
    pub(crate) const DECISION: &str = "consign.decode.decision";
    pub(crate) const OUTCOME: &str = "consign.decode.outcome";
    pub(crate) const DECLARED: &str = "consign.decode.declared";
    pub(crate) const POSITION: &str = "consign.decode.position";
    pub(crate) const PART: &str = "consign.trace.part";
    pub(crate) const REASON: &str = "consign.security.reason";
}

/// Metrics.
pub(crate) mod metric {
    pub(crate) const SENT: &str = "messaging.client.sent.messages";
    pub(crate) const CONSUMED: &str = "messaging.client.consumed.messages";
    pub(crate) const OPERATION: &str = "messaging.client.operation.duration";
    pub(crate) const PROCESS: &str = "messaging.process.duration";
    pub(crate) const DECODED: &str = "consign.decode.bodies";
    pub(crate) const ATTEMPTS: &str = "consign.decode.attempts";
    pub(crate) const NOT_PROPAGATED: &str = "consign.trace.not_propagated";
    pub(crate) const REFUSED: &str = "consign.security.refused.messages";
}

/// The name of an event of a `process` span.
pub(crate) const ATTEMPT_EVENT: &str = "consign.decode.attempt";

/// The error of a call that was dropped.
pub(crate) const CANCELLED: &str = "cancelled";
/// The error of a handler that panicked.
pub(crate) const PANICKED: &str = "Panicked";

/// One operation on a destination: its name and its type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    pub(crate) name: &'static str,
    /// `None` if the conventions have no type for it.
    pub(crate) kind: Option<&'static str>,
}

impl Operation {
    const fn new(name: &'static str, kind: &'static str) -> Self {
        Self { name, kind: Some(kind) }
    }

    /// Returns whether a consumer does it.
    pub(crate) fn is_of_consumer(self) -> bool {
        matches!(self.kind, Some("process" | "receive" | "settle"))
    }

    pub(crate) const SEND: Self = Self::new("send", "send");
    pub(crate) const CREATE: Self = Self::new("create", "create");
    pub(crate) const PROCESS: Self = Self::new("process", "process");
    pub(crate) const RECEIVE: Self = Self::new("receive", "receive");
    pub(crate) const COMPLETE: Self = Self::new("complete", "settle");
    pub(crate) const ABANDON: Self = Self::new("abandon", "settle");
    pub(crate) const DEAD_LETTER: Self = Self::new("dead_letter", "settle");
    pub(crate) const DEFER: Self = Self::new("defer", "settle");
    pub(crate) const CALL: Self = Self { name: "call", kind: None };
}
