//! Every name of OpenTelemetry's conventions for messaging that this crate writes, because they are not stable yet; and the
//! names of this crate.

/// Attributes of spans, and labels of metrics where bounded.
pub(crate) mod attribute {
    pub(crate) const SYSTEM: &str = "messaging.system";
    pub(crate) const OPERATION_NAME: &str = "messaging.operation.name";
    pub(crate) const OPERATION_TYPE: &str = "messaging.operation.type";
    pub(crate) const DESTINATION: &str = "messaging.destination.name";
    pub(crate) const SUBSCRIPTION: &str = "messaging.destination.subscription.name";
    pub(crate) const MESSAGE_ID: &str = "messaging.message.id";
    pub(crate) const CONVERSATION_ID: &str = "messaging.message.conversation_id";
    pub(crate) const BODY_SIZE: &str = "messaging.message.body.size";
    pub(crate) const BATCH_COUNT: &str = "messaging.batch.message_count";
    pub(crate) const DELIVERY_COUNT: &str = "messaging.servicebus.message.delivery_count";
    pub(crate) const ENQUEUED_TIME: &str = "messaging.servicebus.message.enqueued_time";
    pub(crate) const DISPOSITION_STATUS: &str = "messaging.servicebus.disposition_status";
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

/// The label of destinations without a label of their own.
pub(crate) const OTHER_DESTINATION: &str = "_other";
/// The error of a call that was dropped.
pub(crate) const CANCELLED: &str = "cancelled";

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
