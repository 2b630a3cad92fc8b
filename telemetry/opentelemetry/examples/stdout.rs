//! A request that is answered, and one that is answered with a fault: their spans as lines on the standard output.
//!
//! ```sh
//! cargo run --package consign-opentelemetry --example stdout
//! ```

use consign::{
    administration::QueueSettings,
    broker::Broker,
    codecs::{Codecs, Json, MessagePack},
    consumer::Consumer,
    message::EntityPath,
    routing::Body,
    rpc::{Client, Fault, ReplyQueue, Requester, Responder},
    transport::SendService,
};
use consign_opentelemetry::Telemetry;
use opentelemetry_sdk::{
    error::OTelSdkResult,
    metrics::SdkMeterProvider,
    trace::{SdkTracerProvider, SpanData, SpanExporter},
};
use tower::{BoxError, ServiceBuilder};

/// Prints each span when it ends. An application takes one of OpenTelemetry's exporters.
#[derive(Debug)]
struct Lines;

impl SpanExporter for Lines {
    async fn export(&self, spans: Vec<SpanData>) -> OTelSdkResult {
        for span in spans {
            let context = &span.span_context;
            println!(
                "{:?} {}  trace {} span {} parent {}",
                span.span_kind,
                span.name,
                context.trace_id(),
                context.span_id(),
                span.parent_span_id
            );
            for attribute in &span.attributes {
                println!("    {} = {}", attribute.key, attribute.value);
            }
        }
        Ok(())
    }
}

async fn half(Body(number): Body<u32>) -> Result<u32, Fault> {
    if number % 2 == 0 { Ok(number / 2) } else { Err(Fault::application("Odd")) }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let tracers = SdkTracerProvider::builder().with_simple_exporter(Lines).build();
    let meters = SdkMeterProvider::default();
    let telemetry = Telemetry::builder("servicebus").providers(&tracers, &meters).build();
    let codecs = Codecs::builder()
        .with(Json::default())
        .with(MessagePack)
        .fallback(["json", "msgpack"])
        .observe(telemetry.decodes())
        .build()?;

    let broker = Broker::new();
    let requests = broker.create_queue("requests", QueueSettings::default())?;
    let replies = broker.create_queue("replies", QueueSettings::default())?;

    let (senders, reply_to) = (telemetry.clone(), broker.clone());
    let reply_to = move |to: &EntityPath| {
        let sender = SendService::new(reply_to.sender(to)?);
        Ok(ServiceBuilder::new().layer(senders.send(to.as_str())).service(sender))
    };
    let responder = Responder::builder(reply_to).codecs(codecs).answer("half", half).build()?;
    let stack = ServiceBuilder::new().layer(telemetry.process("requests")).service(responder);
    let receiver = telemetry.receiver("requests", requests.receiver());
    let (done, finished) = tokio::sync::oneshot::channel::<()>();
    let serving = tokio::spawn(Consumer::new(receiver, stack).run_until(finished));

    let sender = ServiceBuilder::new().layer(telemetry.send("requests")).service(SendService::new(requests.sender()?));
    let source = ReplyQueue::new(replies.path().as_str(), replies.receiver());
    let (requester, receiving) = Requester::builder(sender).build(source)?;
    tokio::spawn(receiving.run());
    let requester = ServiceBuilder::new().layer(telemetry.call("requests")).service(requester);
    let client = Client::new(requester, Codecs::json()).subject("half");
    println!("half of 42 is {}", client.call::<u32>(&42).await?);
    let odd = client.call::<u32>(&7).await;
    println!("half of 7: {}", odd.err().map(|error| error.to_string()).unwrap_or_default());

    drop(done);
    serving.await??;
    Ok(())
}

#[test]
fn the_example_runs() {
    main().unwrap();
}
