//! Available messages, without waiting for more.

use std::sync::Arc;

use async_nats::Request;
use bytes::Bytes;
use consign_core::transport::{Delivery, ErrorKind};
use futures_util::StreamExt;
use tokio::time::Instant;

use crate::{
    deliver::{self, Arrival},
    error::Fault,
    lease::NatsLease,
    receiver::delivery,
    settle,
    source::Source,
};

/// Locks up to `max` available messages of a consumer.
pub(crate) async fn fetch(source: &Arc<Source>, max: usize) -> Result<Vec<Delivery<NatsLease>>, Fault> {
    let inner = &source.inner;
    let inbox = inner.client.new_inbox();
    let (mut messages, mut until) = (Vec::new(), Instant::now());
    let asked = async {
        let subscribing = inner.client.subscribe(inbox.clone()).await;
        let mut subscriber = subscribing.map_err(|error| Fault::broken(&error))?;
        let payload = Bytes::from(format!(r#"{{"batch":{max},"no_wait":true}}"#));
        let request = Request::new().payload(payload).inbox(inbox);
        let sent = inner.context.send_request(source.next(), request).await;
        sent.map_err(|error| Fault::broken(&error))?;
        until = Instant::now() + source.settings.lock();
        while messages.len() < max
            && let Some(message) = subscriber.next().await
        {
            match message.status {
                None => messages.push(message),
                Some(async_nats::StatusCode::NO_RESPONDERS) => return Err(source.why_no_answer().await),
                Some(_) => break,
            }
        }
        Ok(())
    };
    let in_time = tokio::time::timeout(inner.timeout, asked).await;
    let mut outcome = in_time.unwrap_or_else(|_| Err(Fault::timed_out("a request for messages")));
    let mut held = Vec::with_capacity(messages.len());
    for message in messages {
        let place = inner.place();
        match deliver::arrive(source, message, until).await {
            Ok(Arrival::Buried) => {}
            Ok(Arrival::Held(arrived)) => match place {
                Some(place) if outcome.is_ok() => held.push(delivery(arrived, place)),
                place => {
                    if place.is_none() && outcome.is_ok() {
                        outcome = Err(Fault::new(ErrorKind::Throttled, "too many unsettled deliveries"));
                    }
                    // It is not dispatched, so it is neither locked nor counted.
                    let _ = settle::release(arrived, None).await;
                }
            },
            Err(fault) => outcome = outcome.and(Err(fault)),
        }
    }
    // After an error the messages are dropped here, unseen.
    outcome.map(|()| held)
}

/// Returns the subjects of a stream that match a filter.
pub(crate) async fn subjects(source: &Source, filter: &str) -> Result<Vec<String>, Fault> {
    #[derive(serde::Deserialize)]
    struct Info {
        state: State,
    }
    #[derive(serde::Deserialize)]
    struct State {
        #[serde(default)]
        subjects: Option<std::collections::HashMap<String, u64>>,
    }
    let subject = format!("STREAM.INFO.{}", source.beside.stream);
    let info = source.inner.request::<Info>(&subject, &serde_json::json!({ "subjects_filter": filter })).await?;
    Ok(info.state.subjects.unwrap_or_default().into_keys().collect())
}
