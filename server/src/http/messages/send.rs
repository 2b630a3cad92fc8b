//! `POST /{path}/messages`.

use std::time::Duration;

use axum::{
    body::Body,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use consign_core::{
    message::EntityPath,
    transport::{Batch, Sender},
};
use consign_http::{BATCH_CONTENT_TYPE, from_batch, from_request};

use crate::{
    entities::{Creation, Entity},
    http::{Http, body as request_body, call::Call, refusal::Refusal},
};

/// The most messages of a batch. In JSON a message may have two bytes.
const MAX_BATCH: usize = 4_096;

/// The most bytes of a batch as JSON. The broker has a limit for the messages.
const MAX_BATCH_SIZE: u64 = 8 << 20;

pub(super) async fn run(
    http: &Http,
    path: &EntityPath,
    call: &Call,
    body: Body,
    timeout: Duration,
) -> Result<Response, Refusal> {
    let shared = http.server.shared();
    let create = shared.create_entities.then_some(Creation { sessions: false });
    let entity = Entity::find(&shared.broker, path, create).map_err(|failure| Refusal::from(failure).gone())?;
    let sender = entity.sender().map_err(|error| Refusal::from(error).gone())?;

    let is_batch = is_batch(&call.headers);
    let limit = if is_batch { MAX_BATCH_SIZE } else { entity.max_message_size() };
    let limit = usize::try_from(limit.min(shared.limits.max_message_size)).unwrap_or(usize::MAX);
    let body = request_body::read(body, limit, http.options.body_timeout, StatusCode::FORBIDDEN).await?;
    let sending = if is_batch {
        let messages = from_batch(&body, MAX_BATCH)?;
        if messages.is_empty() {
            return Err(Refusal::bad_request("The batch has no message."));
        }
        sender.send_batch(Batch::from(messages))
    } else {
        sender.send(from_request(&call.headers, body)?)
    };
    let Ok(sent) = tokio::time::timeout(timeout, sending).await else {
        let text = "The message was not stored in time. It may be stored later.";
        return Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, text));
    };
    sent.map_err(|error| Refusal::from(error).gone())?;
    Ok(StatusCode::CREATED.into_response())
}

fn is_batch(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media_type = value.and_then(|value| value.split(';').next());
    media_type.is_some_and(|media_type| media_type.trim().eq_ignore_ascii_case(BATCH_CONTENT_TYPE))
}
