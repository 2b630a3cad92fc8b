//! K-01 and K-02: the transport that a URL opens.

use consign::{
    administration::EntitySettings,
    transport::{ConnectError, ConnectErrorKind, DynTransport, TransportRegistry},
};

use super::prelude::*;

cases! {
    Acceptance:
        /// Rules: K-41.
        a_program_with_a_url_sends_and_receives;
    Rejection:
        /// Rules: K-41.
        an_option_that_a_url_does_not_have_is_named,
        /// Rules: K-41.
        a_scheme_that_is_not_registered_is_refused;
}

/// Returns the registry and the URL. Without a URL the case is not run.
fn url(bench: &Bench<'_>) -> Result<(TransportRegistry, String), Failure> {
    detail(bench.backend.url())
}

async fn a_program_with_a_url_sends_and_receives(bench: &Bench<'_>) -> Verdict {
    let (registry, url) = url(bench)?;
    let transport = registry.connect(&url).await.map_err(unexpected)?;
    let queue = bench.fresh_path()?;
    // If the case does not end, and the URL is that of the broker of the other cases.
    bench.delete_later(&queue).await;
    let done = send_and_receive(&transport, &queue).await;
    let deleted = transport.delete(&queue).await;
    transport.close().await?;
    done?;
    Ok(deleted?)
}

async fn send_and_receive(transport: &DynTransport, queue: &EntityPath) -> Verdict {
    transport.declare(queue, &EntitySettings::from(QueueSettings::default())).await?;
    transport.sender(queue).await?.send(Message::builder().message_id("m-1").build("one order")?).await?;
    let mut receiver = transport.receiver(queue, ReceiveMode::PeekLock).await?;
    let delivery = receiver.receive_within(Duration::from_secs(10)).await?;
    ensure_eq!((delivery.message.message_id(), text(&delivery.message).as_str()), (Some("m-1"), "one order"));
    delivery.complete().await?;
    Ok(())
}

/// Returns why a URL is refused.
async fn refusal(registry: &TransportRegistry, url: &str) -> Result<ConnectError, Failure> {
    match registry.connect(url).await {
        Ok(_) => Err(Failure::behaviour("the URL was accepted")),
        Err(error) => Ok(error),
    }
}

async fn an_option_that_a_url_does_not_have_is_named(bench: &Bench<'_>) -> Verdict {
    let (registry, url) = url(bench)?;
    let separator = if url.contains('?') { '&' } else { '?' };
    let error = refusal(&registry, &format!("{url}{separator}no-such-option=secret")).await?;
    ensure_eq!(error.kind(), ConnectErrorKind::UnknownParameter);
    let text = error.to_string();
    ensure!(text.contains("no-such-option") && !text.contains("secret"), "the error is {text}");
    Ok(())
}

async fn a_scheme_that_is_not_registered_is_refused(bench: &Bench<'_>) -> Verdict {
    let (registry, _) = url(bench)?;
    let error = refusal(&registry, "no-such-scheme://user:secret@127.0.0.1").await?;
    ensure_eq!(error.kind(), ConnectErrorKind::UnknownScheme);
    ensure!(!error.to_string().contains("secret"), "the error has the password");
    Ok(())
}
