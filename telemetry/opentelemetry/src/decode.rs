use consign::codecs::{Attempt, Declared, Observe, Reading};
use opentelemetry::{Context, KeyValue, trace::TraceContextExt};

use crate::{
    Telemetry,
    names::{ATTEMPT_EVENT, attribute},
};

/// Counts how bodies were read, by codec, decision and outcome, and records it on the current span.
///
/// ```
/// use consign::codecs::{Codecs, Json, MessagePack};
/// use consign_opentelemetry::Telemetry;
///
/// let telemetry = Telemetry::builder("servicebus").build();
/// let codecs = Codecs::builder()
///     .with(Json::default())
///     .with(MessagePack)
///     .fallback(["json", "msgpack"])
///     .observe(telemetry.decodes())
///     .build()?;
/// # Ok::<(), consign::codecs::ConfigError>(())
/// ```
///
/// Each body counts once in `consign.decode.bodies`, with the codec that read it, or, if none could read it, the first that
/// tried. Each attempt counts in `consign.decode.attempts`. Each failed attempt is an event of the span with the place of the
/// failure in the body. All labels come from the set of codecs, none from a message. A compressed body, or one that is not
/// bytes, is not decoded: its dead letter is an `error.type` of its `process` span.
#[derive(Clone, Debug)]
pub struct DecodeObserver {
    telemetry: Telemetry,
}

impl DecodeObserver {
    pub(crate) fn new(telemetry: &Telemetry) -> Self {
        Self { telemetry: telemetry.clone() }
    }
}

/// The label of the codec if none tried.
const NO_CODEC: &str = "none";

impl Observe for DecodeObserver {
    fn decoded(&self, reading: &Reading<'_>) {
        let metrics = self.telemetry.metrics();
        let body = [
            KeyValue::new(attribute::CODEC, reading.codec.unwrap_or(NO_CODEC)),
            KeyValue::new(attribute::DECISION, reading.decision()),
            KeyValue::new(attribute::OUTCOME, reading.outcome()),
            KeyValue::new(attribute::DECLARED, name_of(reading.declared)),
        ];
        metrics.decoded.add(1, &body);
        for attempt in reading.attempts {
            metrics.attempts.add(1, &labels_of(attempt));
        }
        if reading.failure.is_none() {
            metrics.attempts.add(1, &body[..3]);
        }
        let context = Context::current();
        let span = context.span();
        if !span.is_recording() {
            return;
        }
        for attempt in reading.attempts {
            let position = attempt.error.position();
            let position = position.map(|position| KeyValue::new(attribute::POSITION, position.to_string()));
            span.add_event(ATTEMPT_EVENT, labels_of(attempt).into_iter().chain(position).collect());
        }
        span.set_attributes(body);
    }
}

fn labels_of(attempt: &Attempt) -> [KeyValue; 3] {
    [
        KeyValue::new(attribute::CODEC, attempt.codec),
        KeyValue::new(attribute::DECISION, attempt.chosen.code()),
        KeyValue::new(attribute::OUTCOME, attempt.error.kind().code()),
    ]
}

fn name_of(declared: Declared) -> &'static str {
    match declared {
        Declared::Missing => "missing",
        Declared::Malformed => "malformed",
        Declared::NotAllowed => "not_allowed",
        Declared::Unknown => "unknown",
        Declared::Known => "known",
    }
}
