//! OpenTelemetry in Python: one trace on both sides of a broker.

use consign::{
    Disposition, Message,
    middleware::encode::{EncodeLayer, OutboundMessage},
    transport::{SendExt, SendService, Sender},
};
use consign_opentelemetry::Telemetry;
use opentelemetry_sdk::{
    metrics::SdkMeterProvider,
    trace::{InMemorySpanExporter, SdkTracerProvider, SpanData},
};
use serde_json::{Value, json};
use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};

use crate::{
    environment::{Environment, codecs, same},
    nats, rabbitmq,
};

struct Observed {
    telemetry: Telemetry,
    spans: InMemorySpanExporter,
}

impl Observed {
    fn new(system: &'static str) -> Self {
        let spans = InMemorySpanExporter::default();
        let tracers = SdkTracerProvider::builder().with_simple_exporter(spans.clone()).build();
        let telemetry = Telemetry::builder(system).providers(&tracers, &SdkMeterProvider::builder().build()).build();
        Self { telemetry, spans }
    }

    fn span(&self) -> Result<SpanData, BoxError> {
        Ok(self.spans.get_finished_spans()?.into_iter().next().ok_or("no span")?)
    }

    /// Handles a message of Python: its span is in the trace of the one that has sent it, and linked to it.
    async fn handle(&self, message: Message, sent: &Value) -> Result<(), BoxError> {
        let handler = service_fn(async |_: Message| Ok::<_, BoxError>(Disposition::Complete));
        ServiceBuilder::new().layer(self.telemetry.process("orders")).service(handler).oneshot(message).await?;
        let span = self.span()?;
        let text = span.span_context.trace_id().to_string();
        same("the trace", text.as_str(), sent["trace"].as_str().unwrap_or_default())?;
        let parent = span.parent_span_id.to_string();
        same("the parent", parent.as_str(), sent["span"].as_str().unwrap_or_default())
    }

    /// Sends a message, whose span Python goes on with.
    async fn send<X: Sender>(&self, sender: X) -> Result<(), BoxError> {
        let mut service = ServiceBuilder::new()
            .layer(self.telemetry.send("orders"))
            .layer(EncodeLayer::new(codecs()?))
            .service(SendService::new(sender));
        Ok(service.send(OutboundMessage::new("an order")).await.map(drop)?)
    }

    fn check(&self, read: &Value) -> Result<(), BoxError> {
        let context = self.span()?.span_context;
        same("the trace", read["trace"].as_str(), Some(context.trace_id().to_string().as_str()))?;
        same("the parent", read["span"].as_str(), Some(context.span_id().to_string().as_str()))
    }
}

pub(crate) async fn from_python_by_rabbitmq(env: &Environment) -> Result<(), BoxError> {
    let (message, sent) = rabbitmq::from_python(env, "trace_rabbitmq_send", json!({})).await?;
    Observed::new("rabbitmq").handle(message, &sent).await
}

pub(crate) async fn to_python_by_rabbitmq(env: &Environment) -> Result<(), BoxError> {
    let (observed, queue) = (Observed::new("rabbitmq"), rabbitmq::queue(env).await?);
    observed.send(env.rabbit.sender(&queue)?).await?;
    let read = env.python("trace_rabbitmq_receive", json!({ "url": env.rabbit_url, "queue": queue })).await?;
    env.rabbit.delete(&queue).await?;
    observed.check(&read)
}

pub(crate) async fn from_python_by_nats(env: &Environment) -> Result<(), BoxError> {
    let (message, sent) = nats::by_step(env, "trace_nats_send").await?;
    Observed::new("nats").handle(message, &sent).await
}

pub(crate) async fn to_python_by_nats(env: &Environment) -> Result<(), BoxError> {
    let (observed, queue) = (Observed::new("nats"), nats::queue(env).await?);
    observed.send(env.nats.sender(&queue).await?).await?;
    let stream = format!("foreign_{queue}");
    let read = env.python("trace_nats_receive", json!({ "url": env.nats_url, "stream": stream })).await?;
    env.nats.delete(&queue).await?;
    observed.check(&read)
}
