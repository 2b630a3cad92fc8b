//! The sending stack around a client that you have: values go in, calls of the client come out.
use consign::middleware::encode::{EncodeLayer, OutboundMessage};
use consign::middleware::{in_flight::InFlightLayer, message_id::MessageIdLayer, size_limit::SizeLimitLayer};
use consign::middleware::{retry::Backoff, send_retry::SendRetryLayer};
use consign::transport::{ErrorKind, SendError, SendExt};
use consign::{Message, codecs::Codecs};
use std::{io, sync::Mutex, time::Duration};
use tower::{BoxError, ServiceBuilder, service_fn};

/// Your client. The first call of this one fails.
struct Client(Mutex<Vec<(String, Vec<u8>)>>);
static CLIENT: Client = Client(Mutex::new(Vec::new()));

impl Client {
    async fn publish(&self, id: &str, content_type: &str, body: &[u8]) -> io::Result<()> {
        tokio::task::yield_now().await;
        let mut calls = self.0.lock().expect("no call panics");
        calls.push((format!("{id} {content_type}"), body.to_vec()));
        if calls.len() == 1 { Err(io::ErrorKind::ConnectionReset.into()) } else { Ok(()) }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let mut sender = ServiceBuilder::new()
        .layer(MessageIdLayer::new()) // once, so that every attempt has the same id
        .timeout(Duration::from_secs(5))
        .layer(EncodeLayer::new(Codecs::json()))
        .layer(SendRetryLayer::new(Backoff::exponential(Duration::from_millis(1))).repeat_unknown_outcome())
        .layer(SizeLimitLayer::default())
        .layer(InFlightLayer::new(8))
        .service(service_fn(async |message: Message| {
            let (id, content_type) = (message.message_id().unwrap_or(""), message.content_type().unwrap_or(""));
            let sent = CLIENT.publish(id, content_type, message.payload().unwrap_or(b"")).await;
            sent.map_err(|error| SendError::new(ErrorKind::CommunicationProblem).with_source(error))
        }));
    sender.send(OutboundMessage::new(("sku-7", 3)).subject("order.created")).await?;
    let calls = CLIENT.0.lock().expect("no call panics");
    assert_eq!(calls[0], calls[1], "the same id and the same bytes, after the connection was reset");
    assert!(calls.len() == 2 && calls[0].0.ends_with(" application/json") && calls[0].1 == br#"["sku-7",3]"#);
    Ok(())
}

#[test]
fn the_example_runs() {
    main().unwrap();
}
