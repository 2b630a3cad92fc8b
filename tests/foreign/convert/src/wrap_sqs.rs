//! Stacks around a plain client of Amazon SQS.
use aws_sdk_sqs::{Client, error::DisplayErrorContext, types};
use consign::middleware::encode::{EncodeLayer, OutboundMessage};
use consign::middleware::{catch_panic::CatchPanicLayer, dead_letter::DeadLetterLayer};
use consign::middleware::{delivery_limit::DeliveryLimitLayer, message_id::MessageIdLayer};
use consign::routing::{Body, Router};
use consign::time::{Clock, SystemClock};
use consign::transport::{ErrorKind, SendError, SendExt};
use consign::{Disposition, Message, codecs::Codecs, settlement::Transient};
use consign_convert_sqs::{Queue, Settlement, confirmed, from_sqs, settlement, to_sqs, with_attributes};
use tower::{BoxError, Service, ServiceBuilder, ServiceExt, service_fn};

async fn priced(Body((sku, cents)): Body<(String, u64)>) -> Result<(), Transient> {
    if cents == 0 { Err(Transient::new(format!("{sku} has no price"))) } else { Ok(()) }
}

pub(crate) async fn place(sqs: &Client, url: &str, order: (&str, u64)) -> Result<(), SendError> {
    let client = service_fn(async |message: Message| {
        let request = to_sqs(&message, Queue::Standard, SystemClock::new().now().utc)?;
        confirmed(request.queue_url(url).send_with(sqs).await)
    });
    let layers = ServiceBuilder::new().layer(MessageIdLayer::new()).layer(EncodeLayer::new(Codecs::json()));
    layers.service(client).send(OutboundMessage::new(order)).await
}

async fn settle(
    sqs: &Client,
    [url, dead]: [&str; 2],
    received: &types::Message,
    disposition: Disposition,
) -> Result<(), BoxError> {
    let handle = received.receipt_handle().unwrap_or_default();
    match settlement(received, disposition, Queue::Standard)? {
        Settlement::Complete => {}
        Settlement::DeadLetter(copy) => confirmed(copy.queue_url(dead).send_with(sqs).await)?,
        Settlement::Abandon { visibility_timeout } => {
            let change = sqs.change_message_visibility().queue_url(url).receipt_handle(handle);
            change.visibility_timeout(visibility_timeout).send().await?;
            return Ok(());
        }
    }
    sqs.delete_message().queue_url(url).receipt_handle(handle).send().await?;
    Ok(())
}

/// Whether the same call fails each time. A message that is too large for a reason concerns no other one.
fn is_permanent(error: &BoxError) -> bool {
    let of_send = error.downcast_ref::<SendError>();
    of_send.is_some_and(|error| !error.is_retryable() && error.kind() != ErrorKind::MessageSizeExceeded)
}

pub(crate) async fn consume(sqs: &Client, url: &str, dead: &str) -> Result<(), BoxError> {
    let layers = ServiceBuilder::new().layer(DeadLetterLayer::new()).layer(DeliveryLimitLayer::new(3));
    let mut stack = layers.layer(CatchPanicLayer::new()).service(Router::new(Codecs::json()).fallback(priced).build()?);
    loop {
        let receive = with_attributes(sqs.receive_message().queue_url(url).wait_time_seconds(20));
        let batch = match receive.send().await {
            Ok(batch) => batch,
            Err(error) if error.as_service_error().is_some_and(|error| error.is_queue_does_not_exist()) => {
                return Err(error.into());
            }
            Err(error) => {
                eprintln!("{}", DisplayErrorContext(error));
                tokio::time::sleep(std::time::Duration::from_secs(1)).await;
                continue;
            }
        };
        for received in batch.messages() {
            let disposition = match from_sqs(received) {
                Ok(message) => stack.ready().await?.call(message).await.unwrap_or(Disposition::ABANDON),
                Err(unreadable) => unreadable.into(),
            };
            match settle(sqs, [url, dead], received, disposition).await {
                Err(error) if is_permanent(&error) => return Err(error),
                // It is, after its visibility timeout.
                Err(error) => eprintln!("a message is delivered again: {error}"),
                Ok(()) => {}
            }
        }
    }
}
