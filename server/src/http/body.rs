//! The body of a request, within a limit and a time.

use std::time::Duration;

use axum::{body::Body, http::StatusCode};
use bytes::Bytes;

use super::refusal::Refusal;
use crate::body::{self, ReadError};

/// Reads a body. One that is too large is not read to its end, and is refused with a status.
pub(super) async fn read(body: Body, limit: usize, timeout: Duration, too_large: StatusCode) -> Result<Bytes, Refusal> {
    match tokio::time::timeout(timeout, body::read(body, limit)).await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(ReadError::TooLarge)) => {
            Err(Refusal::new(too_large, format!("The body is larger than the limit of {limit} bytes.")))
        }
        Ok(Err(ReadError::Broken)) => Err(Refusal::bad_request("The body could not be read.")),
        Err(_) => Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, "The body was not received in time.")),
    }
}
