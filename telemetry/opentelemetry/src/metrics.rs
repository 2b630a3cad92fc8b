use opentelemetry::{
    KeyValue,
    metrics::{Counter, Histogram, Meter},
};

use crate::names::{attribute, metric};

/// The instruments, created once.
#[derive(Debug)]
pub(crate) struct Metrics {
    pub(crate) sent: Counter<u64>,
    pub(crate) consumed: Counter<u64>,
    pub(crate) operation: Histogram<f64>,
    pub(crate) process: Histogram<f64>,
    pub(crate) decoded: Counter<u64>,
    pub(crate) attempts: Counter<u64>,
    not_propagated: Counter<u64>,
    pub(crate) refused: Counter<u64>,
}

/// Why a trace was not propagated with a message.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lost {
    /// The received text is not a `traceparent`.
    MalformedParent,
    /// The received text is not a `tracestate`.
    MalformedState,
    /// It does not fit into the properties of a message.
    NoRoom,
}

impl Metrics {
    pub(crate) fn new(meter: &Meter) -> Self {
        // Those of the conventions.
        let bounds = vec![0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0];
        let messages = |name, about| meter.u64_counter(name).with_unit("{message}").with_description(about).build();
        let seconds = |name, about| {
            let bounds = bounds.clone();
            meter.f64_histogram(name).with_unit("s").with_description(about).with_boundaries(bounds).build()
        };
        Self {
            sent: messages(metric::SENT, "Messages that were sent, or should have been."),
            consumed: messages(metric::CONSUMED, "Messages that were given to the application."),
            operation: seconds(metric::OPERATION, "How long sends, receives, settlements and calls took."),
            process: seconds(metric::PROCESS, "How long messages were handled."),
            decoded: messages(metric::DECODED, "Bodies by the codec that read them and why it was chosen."),
            attempts: meter
                .u64_counter(metric::ATTEMPTS)
                .with_unit("{attempt}")
                .with_description("Attempts of codecs to read a body, by what came of them.")
                .build(),
            not_propagated: messages(metric::NOT_PROPAGATED, "Messages with which a trace did not go on."),
            refused: messages(metric::REFUSED, "Messages that were refused as forged or as leading elsewhere."),
        }
    }

    #[cold]
    pub(crate) fn lost(&self, lost: Lost) {
        let part = match lost {
            Lost::MalformedParent => "malformed_traceparent",
            Lost::MalformedState => "malformed_tracestate",
            Lost::NoRoom => "no_room",
        };
        self.not_propagated.add(1, &[KeyValue::new(attribute::PART, part)]);
    }
}
