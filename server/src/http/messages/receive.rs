//! `POST` and `DELETE /{path}/messages/head`.

use std::{convert::Infallible, future::ready, time::Duration};

use axum::{
    body::Body,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use consign_amqp::{
    codec,
    mapping::{self, Direction},
    message::Sections,
};
use consign_broker::QueueLease;
use consign_core::{
    Disposition, Message,
    message::{EntityPath, LockToken},
    time::Timestamp,
    transport::{Delivery, ErrorKind, Lease, ReceiverExt},
};
use consign_http::{EXACT_PROPERTIES, to_response};
use futures_util::stream;

use crate::{
    entities::{Creation, Entity, key},
    http::{Http, call::Call, refusal::Refusal},
    locks::Lock,
};

/// The ContentType of a body that is not data sections.
const AMQP: HeaderValue = HeaderValue::from_static("application/vnd.amqp");

/// What becomes of the message.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Mode {
    Lock,
    Delete,
}

pub(super) async fn run(
    http: &Http,
    path: &EntityPath,
    call: &Call,
    timeout: Duration,
    mode: Mode,
) -> Result<Response, Refusal> {
    let shared = http.server.shared();
    let create = shared.create_entities.then_some(Creation { sessions: false });
    let entity = Entity::find(&shared.broker, path, create).map_err(|failure| Refusal::from(failure).gone())?;
    let Entity::Queue(queue) = entity else {
        return Err(Refusal::bad_request("A topic has no messages to receive: receive from a subscription."));
    };
    if !path.is_sub_queue() && queue.settings().is_ok_and(|settings| settings.requires_session) {
        return Err(Refusal::new(StatusCode::NOT_IMPLEMENTED, "Sessions are not available over HTTP."));
    }
    let (mut receiver, stop) = (queue.receiver(), http.server.stop());
    let received = tokio::select! {
        received = receiver.receive_within(timeout) => received,
        () = stop.requested() => {
            return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "The server shuts down."));
        }
    };
    let Delivery { message, lease } = match received {
        Ok(delivery) => delivery,
        Err(error) if error.kind() == ErrorKind::ServiceTimeout => return Ok(StatusCode::NO_CONTENT.into_response()),
        Err(error) => return Err(Refusal::from(error).gone()),
    };
    let exact = call.headers.contains_key(EXACT_PROPERTIES);
    match mode {
        // A message whose client is gone before this is delivered again.
        Mode::Delete => {
            let response = response(&message, None, exact, StatusCode::OK)?;
            lease.settle(Disposition::Complete).await?;
            Ok(response)
        }
        Mode::Lock => {
            let token = lease.lock_token();
            let mut response = response(&message, token, exact, StatusCode::CREATED)?;
            if let Some(token) = token {
                let number = message.received().map(|received| received.sequence_number).unwrap_or_default();
                let location =
                    format!("{}/{}/messages/{number}/{token}", call.base, crate::http::path_in_url(&queue.path()));
                if let Ok(location) = HeaderValue::from_str(&location) {
                    response.headers_mut().insert(header::LOCATION, location);
                }
                hold(http, token, &message, lease, &queue.path());
            }
            Ok(response)
        }
    }
}

/// Keeps the lock until it is settled or has run out.
fn hold(http: &Http, token: LockToken, message: &Message, lease: QueueLease, path: &EntityPath) {
    let shared = http.server.shared();
    let until = message.received().and_then(|received| received.locked_until).unwrap_or(Timestamp::MAX);
    let now = shared.broker.now();
    http.locks.insert(token, message, until, now);
    shared.locks.insert_without_connection(token, Lock { lease, entity: key(path), session: None, until }, now);
}

fn response(message: &Message, token: Option<LockToken>, exact: bool, status: StatusCode) -> Result<Response, Refusal> {
    let (headers, body) = to_response(message, token, exact);
    let is_data = body.is_some();
    let body = body.map_or_else(|| section(message), Ok)?;
    // In chunks, as the service sends it: older clients take a `Content-Length` for a property of the message.
    let chunks = stream::once(ready(Ok::<_, Infallible>(body)));
    let mut response = (status, headers, Body::from_stream(chunks)).into_response();
    if !is_data {
        response.headers_mut().insert(header::CONTENT_TYPE, AMQP);
    } else if message.content_type().is_none() {
        response.headers_mut().remove(header::CONTENT_TYPE);
    }
    Ok(response)
}

/// The section of a body that is a value or a sequence, as AMQP has it.
fn section(message: &Message) -> Result<Bytes, Refusal> {
    let sections = mapping::to_sections(message, Direction::Deliver).ok();
    let body = sections.map(|sections| Sections { body: sections.body, ..Sections::default() });
    let encoded = body.and_then(|body| codec::encode(&body).ok());
    let refusal = || Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "The body of the message cannot be encoded.");
    encoded.ok_or_else(refusal)
}
