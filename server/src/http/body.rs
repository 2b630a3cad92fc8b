//! The body of a request, within a limit and a time.

use std::time::Duration;

use axum::{
    body::Body,
    http::{HeaderMap, StatusCode, header},
};
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};

use super::refusal::Refusal;

/// Reads a body. One that is too large is not read to its end, and is refused with a status.
pub(super) async fn read(
    headers: &HeaderMap,
    body: Body,
    limit: usize,
    timeout: Duration,
    too_large: StatusCode,
) -> Result<Bytes, Refusal> {
    let refusal = || Refusal::new(too_large, format!("The body is larger than the limit of {limit} bytes."));
    let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    if length.and_then(|length| length.parse::<u64>().ok()).is_some_and(|length| length > limit as u64) {
        return Err(refusal());
    }
    match tokio::time::timeout(timeout, Limited::new(body, limit).collect()).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(refusal()),
        Ok(Err(_)) => Err(Refusal::bad_request("The body could not be read.")),
        Err(_) => Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, "The body was not received in time.")),
    }
}
