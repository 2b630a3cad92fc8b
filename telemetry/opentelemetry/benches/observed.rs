//! What it costs to observe a message: `cargo xtask bench --only layers` counts a stack with one layer, and takes away what the
//! same stack costs without it. The command line is that of `benches/scenario`.
#![allow(unsafe_code, reason = "a counting allocator")]

#[path = "../../../benches/counting/mod.rs"]
mod counting;
#[macro_use]
#[path = "../../../benches/scenario/mod.rs"]
mod scenario;

use std::{
    future::{Ready, ready},
    hint::black_box,
    time::Duration,
};

use consign::{
    Disposition, Message,
    message::{Received, SequenceNumber},
    time::{Clock, Moment, Timestamp},
    transport::{SendError, SendExt},
};
use consign_opentelemetry::{Telemetry, TelemetryBuilder};
use futures_util::FutureExt;
use opentelemetry::metrics::NoopMeterProvider;
use opentelemetry_sdk::{
    error::OTelSdkResult,
    metrics::{InMemoryMetricExporter, PeriodicReader, SdkMeterProvider},
    trace::{Sampler, SdkTracerProvider, SpanData, SpanExporter},
};
use scenario::counted;
use tower::{BoxError, Layer, Service, ServiceExt, service_fn};

scenarios! {
    "observed_receiving" => |messages| receive(messages, RECORDED, |handler| handler),
    "process" => |messages| receive(messages, RECORDED, |handler| sdk().process("orders").layer(handler)),
    "process_unsampled" => |messages| receive(messages, UNRECORDED, |handler| sdk().process("orders").layer(handler)),
    "process_always_off" => |messages| receive(messages, RECORDED, |handler| off().process("orders").layer(handler)),
    "process_without_provider" => |messages| {
        receive(messages, RECORDED, |handler| builder().build().process("orders").layer(handler));
    },
    "observed_sending" => |messages| send(messages, |transport| transport),
    "send" => |messages| send(messages, |transport| sdk().send("orders").layer(transport)),
    "send_always_off" => |messages| send(messages, |transport| off().send("orders").layer(transport)),
    "send_without_provider" => |messages| send(messages, |transport| builder().build().send("orders").layer(transport)),
}

const RECORDED: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const UNRECORDED: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";

const LONG: Duration = Duration::from_secs(3_600);

/// Takes no time to read.
struct Still;

impl Clock for Still {
    fn now(&self) -> Moment {
        Moment { elapsed: Duration::ZERO, utc: Timestamp::EPOCH }
    }
}

/// Drops what it gets.
#[derive(Debug)]
struct Dropping;

impl SpanExporter for Dropping {
    async fn export(&self, spans: Vec<SpanData>) -> OTelSdkResult {
        black_box(spans);
        Ok(())
    }
}

fn builder() -> TelemetryBuilder {
    Telemetry::builder("servicebus").clock(Still)
}

fn sdk() -> Telemetry {
    let tracers = SdkTracerProvider::builder().with_simple_exporter(Dropping).build();
    // It collects once an hour, which is after the run.
    let reader = PeriodicReader::builder(InMemoryMetricExporter::default()).with_interval(LONG).build();
    let meters = SdkMeterProvider::builder().with_reader(reader).build();
    let telemetry = builder().providers(&tracers, &meters).build();
    // They live as long as the process.
    std::mem::forget((tracers, meters));
    telemetry
}

/// Spans are not recorded, and there are no metrics.
fn off() -> Telemetry {
    let tracers = SdkTracerProvider::builder().with_sampler(Sampler::AlwaysOff).with_simple_exporter(Dropping).build();
    let telemetry = builder().providers(&tracers, &NoopMeterProvider::new()).build();
    std::mem::forget(tracers);
    telemetry
}

type Handler = tower::util::ServiceFn<fn(Message) -> Ready<Result<Disposition, BoxError>>>;
type Transport = tower::util::ServiceFn<fn(Message) -> Ready<Result<(), SendError>>>;

/// One call after the other, each with a message of its own.
fn receive<S>(count: u64, context: &str, stack: impl FnOnce(Handler) -> S)
where
    S: Service<Message, Response = Disposition, Error = BoxError>,
{
    let handler: Handler = service_fn(|message| {
        black_box(&message);
        ready(Ok(Disposition::Complete))
    });
    let mut stack = stack(handler);
    let message = |n: u64| {
        let message = Message::builder().message_id(format!("m-{n:09}")).property("traceparent", context.to_owned());
        let received = Received::new(SequenceNumber::new(n), Timestamp::EPOCH, 1);
        message.build("a body").expect("a valid message").with_received(received)
    };
    let kept: Vec<_> = (0..count).map(message).collect();
    let mut messages = Some(kept.clone());
    counted(&mut || {
        for message in messages.take().expect("one run") {
            let ready = stack.ready().now_or_never().expect("ready at once").expect("no failure");
            let answer = ready.call(message).now_or_never().expect("ready at once");
            assert_eq!(answer.expect("no failure"), Disposition::Complete);
        }
    });
    drop(kept);
}

/// One send after the other, each of a message that nobody else has.
fn send<S>(count: u64, stack: impl FnOnce(Transport) -> S)
where
    S: Service<Message, Response = (), Error = SendError>,
{
    let transport: Transport = service_fn(|message| {
        black_box(&message);
        ready(Ok(()))
    });
    let mut stack = stack(transport);
    let message = |n: u64| Message::builder().message_id(format!("m-{n:09}")).build("a body").expect("a valid message");
    let mut messages = Some((0..count).map(message).collect::<Vec<_>>());
    counted(&mut || {
        for message in messages.take().expect("one run") {
            stack.send(message).now_or_never().expect("ready at once").expect("accepted");
        }
    });
}
