//! A broker, and exporters in memory.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use consign::{
    Disposition, Message,
    administration::QueueSettings,
    broker::{Broker, Queue},
    consumer::Consumer,
    transport::{Receiver, SendExt, SendService},
};
use consign_opentelemetry::{Telemetry, TelemetryBuilder};
use opentelemetry::{KeyValue, SpanId};
use opentelemetry_sdk::{
    metrics::{
        InMemoryMetricExporter, PeriodicReader, SdkMeterProvider,
        data::{AggregatedMetrics, Metric, MetricData, ResourceMetrics, ScopeMetrics},
    },
    trace::{InMemorySpanExporter, Sampler, SdkTracerProvider, ShouldSample, SpanData},
};
use tower::{BoxError, Layer, Service};

pub(crate) struct Bench {
    pub(crate) broker: Broker,
    pub(crate) telemetry: Telemetry,
    pub(crate) tracers: SdkTracerProvider,
    spans: InMemorySpanExporter,
    meters: SdkMeterProvider,
    metrics: InMemoryMetricExporter,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::with(|builder| builder)
    }

    pub(crate) fn with(options: impl FnOnce(TelemetryBuilder) -> TelemetryBuilder) -> Self {
        Self::of("servicebus", options)
    }

    pub(crate) fn of(system: &'static str, options: impl FnOnce(TelemetryBuilder) -> TelemetryBuilder) -> Self {
        Self::sampled(Sampler::AlwaysOn, system, options)
    }

    pub(crate) fn sampled(
        sampler: impl ShouldSample + 'static,
        system: &'static str,
        options: impl FnOnce(TelemetryBuilder) -> TelemetryBuilder,
    ) -> Self {
        let (spans, metrics) = (InMemorySpanExporter::default(), InMemoryMetricExporter::default());
        let tracers = SdkTracerProvider::builder().with_sampler(sampler).with_simple_exporter(spans.clone()).build();
        let reader = PeriodicReader::builder(metrics.clone()).with_interval(Duration::from_secs(3_600)).build();
        let meters = SdkMeterProvider::builder().with_reader(reader).build();
        let telemetry = options(Telemetry::builder(system).providers(&tracers, &meters)).build();
        Self { broker: Broker::new(), telemetry, tracers, spans, meters, metrics }
    }

    pub(crate) fn queue(&self, name: &str) -> Queue {
        self.broker.create_queue(name, QueueSettings::default()).unwrap()
    }

    /// Sends to a queue through the layer.
    pub(crate) async fn send(&self, queue: &Queue, message: Message) {
        let layer = self.telemetry.send(queue.path().as_str());
        layer.layer(SendService::new(queue.sender().unwrap())).send(message).await.unwrap();
    }

    /// Handles what comes to a queue through the layer, for a minute of virtual time.
    pub(crate) async fn handle<S>(&self, queue: &Queue, service: S)
    where
        S: Service<Message, Response = Disposition>,
        S::Error: Into<BoxError>,
    {
        consume(queue.receiver(), self.telemetry.process(queue.path().as_str()).layer(service)).await;
    }

    /// The spans that have ended since the last time.
    pub(crate) fn spans(&self) -> Spans {
        let spans = self.spans.get_finished_spans().unwrap();
        self.spans.reset();
        Spans(spans)
    }

    /// All series: the metric with its labels, and how often it was recorded or what was added.
    pub(crate) fn series(&self) -> BTreeMap<String, u64> {
        self.exported(points).into_iter().flatten().collect()
    }

    /// The names of all metrics, with their units.
    pub(crate) fn metrics(&self) -> BTreeSet<(String, String)> {
        self.exported(|metric| (metric.name().into(), metric.unit().into())).into_iter().collect()
    }

    /// The schemas of all metrics.
    pub(crate) fn schemas(&self) -> Vec<String> {
        self.metrics.reset();
        self.meters.force_flush().unwrap();
        let exported = self.metrics.get_finished_metrics().unwrap();
        let scopes = exported.iter().flat_map(ResourceMetrics::scope_metrics);
        scopes.filter_map(|scope| scope.scope().schema_url().map(String::from)).collect()
    }

    fn exported<T>(&self, f: impl Fn(&Metric) -> T) -> Vec<T> {
        self.metrics.reset();
        self.meters.force_flush().unwrap();
        let exported = self.metrics.get_finished_metrics().unwrap();
        let scopes = exported.iter().flat_map(ResourceMetrics::scope_metrics);
        scopes.flat_map(ScopeMetrics::metrics).map(f).collect()
    }
}

/// Runs a consumer for a minute of virtual time.
pub(crate) async fn consume<R, S>(receiver: R, service: S)
where
    R: Receiver,
    S: Service<Message, Response = Disposition>,
    S::Error: Into<BoxError>,
{
    let minute = tokio::time::sleep(Duration::from_secs(60));
    Consumer::without_clone(receiver, service).concurrency(1).run_until(minute).await.unwrap();
}

fn points(metric: &Metric) -> Vec<(String, u64)> {
    let series = |labels: Vec<String>| format!("{} {}", metric.name(), labels.join(" "));
    match metric.data() {
        AggregatedMetrics::U64(MetricData::Sum(sum)) => {
            sum.data_points().map(|point| (series(text(point.attributes())), point.value())).collect()
        }
        AggregatedMetrics::F64(MetricData::Histogram(histogram)) => {
            histogram.data_points().map(|point| (series(text(point.attributes())), point.count())).collect()
        }
        other => panic!("{other:?}"),
    }
}

/// `key=value`, in the order of the keys.
pub(crate) fn text<'a>(attributes: impl IntoIterator<Item = &'a KeyValue>) -> Vec<String> {
    let mut text: Vec<_> = attributes.into_iter().map(|entry| format!("{}={}", entry.key, entry.value)).collect();
    text.sort();
    text
}

pub(crate) struct Spans(pub(crate) Vec<SpanData>);

impl Spans {
    fn name_of(&self, id: SpanId) -> String {
        let found = self.0.iter().find(|span| span.span_context.span_id() == id);
        found.map_or_else(|| String::from("?"), |span| span.name.to_string())
    }

    /// One line a span, in the order in which they ended: kind, name, `<` parent, `~` links.
    pub(crate) fn tree(&self) -> Vec<String> {
        let line = |span: &SpanData| {
            let mut line = vec![format!("{:?} {}", span.span_kind, span.name)];
            if span.parent_span_id != SpanId::INVALID {
                line.extend([String::from("<"), self.name_of(span.parent_span_id)]);
            }
            for link in span.links.iter() {
                line.extend([String::from("~"), self.name_of(link.span_context.span_id())]);
            }
            line.join(" ")
        };
        self.0.iter().map(line).collect()
    }

    /// How many traces they are of.
    pub(crate) fn traces(&self) -> usize {
        self.0.iter().map(|span| span.span_context.trace_id().to_bytes()).collect::<BTreeSet<_>>().len()
    }

    /// All spans of a name.
    pub(crate) fn named(&self, name: &str) -> Vec<&SpanData> {
        self.0.iter().filter(|span| span.name == name).collect()
    }

    /// The attributes of the only span of a name.
    pub(crate) fn attributes(&self, name: &str) -> Vec<String> {
        let [span] = self.named(name)[..] else { panic!("one {name}: {:?}", self.tree()) };
        attributes(span)
    }
}

/// The attributes of a span. What the clock says is `*`.
pub(crate) fn attributes(span: &SpanData) -> Vec<String> {
    const TIME: &str = "messaging.servicebus.message.enqueued_time=";
    let mut all = text(&span.attributes);
    for attribute in &mut all {
        if attribute.strip_prefix(TIME).is_some_and(|seconds| seconds.parse::<i64>().is_ok()) {
            *attribute = format!("{TIME}*");
        }
    }
    all
}

/// Series as they are expected.
pub(crate) fn expected(series: &[(&str, u64)]) -> BTreeMap<String, u64> {
    series.iter().map(|(series, count)| ((*series).into(), *count)).collect()
}
